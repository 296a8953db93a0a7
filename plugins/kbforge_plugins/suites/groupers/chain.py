"""A chain of clustering with the Dirichlet process, supervised or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from kbforge.clustering.supervised.references import references
from kbforge.clustering.supervised.run import run
from kbforge.clustering.supervised.sampler import Scdp, start
from kbforge.contracts import Fragment, IntArray
from kbforge.contracts.suite import Grouped
from kbforge_plugins.suites.groupers.vectors import labels_of, rows_of

Start: TypeAlias = Literal["together", "apart", "twenty", "turns"]
"""The first grouping: one cluster, every fragment by itself, twenty clusters at random, or these in
turns, so that chains which look alike have met."""

_TURNS: tuple[Start, ...] = ("together", "apart", "twenty")
_KEPT = 20


@dataclass(frozen=True)
class Chain:
    """The second half of a chain.

    Attributes:
        model: see `kbforge.clustering.supervised.sampler`.
        first: where it starts.
        sweeps: how long it is.
        trained: whether it sees the examples.

    """

    model: Scdp
    first: Start
    sweeps: int
    trained: bool = True

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> Grouped:
        """See `kbforge.contracts.suite`."""
        used = len(examples) if self.trained else 0
        data = references(rows_of(examples)[:used], labels_of(examples)[:used], rows_of(fragments))
        rng = np.random.default_rng(seed)
        first = _TURNS[seed % len(_TURNS)] if self.first == "turns" else self.first
        begun = start(data, first_grouping(first, len(fragments), rng))
        _, trace = run(self.model, data, begun, self.sweeps, _KEPT, rng)
        return Grouped(trace.groupings.tolist(), trace.log_joint.tolist())


def first_grouping(first: Start, n: int, rng: np.random.Generator) -> IntArray:
    """Clusters 0, 1, ..., none empty, shape [n]."""
    if first == "together":
        return np.zeros(n, dtype=np.int64)
    if first == "apart":
        return np.arange(n)
    return np.unique(rng.integers(0, 20, n), return_inverse=True)[1].reshape(-1)
