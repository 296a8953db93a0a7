"""A chain of clustering with the Dirichlet process, supervised or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from kbforge.contracts import Fragment, IntArray
from kbforge_lab.contracts.suite import Grouped
from kbforge_lab.scdp.annealing import warmed_up
from kbforge_lab.scdp.references import References, references
from kbforge_lab.scdp.run import Trace, run
from kbforge_lab.scdp.sampler import Scdp, start
from kbforge_lab.suites.groupers.vectors import labels_of, rows_of

Start: TypeAlias = Literal["together", "apart", "twenty", "turns"]
"""The first grouping: one cluster, every fragment by itself, twenty clusters at random, or these in
turns, so that chains which look alike have met."""

_TURNS: tuple[Start, ...] = ("together", "apart", "twenty")
_KEPT = 20


@dataclass(frozen=True)
class Chain:
    """The end of a chain: the second half of what follows the warm-up.

    Attributes:
        model: see `kbforge_lab.scdp.sampler`.
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
        """See `kbforge_lab.contracts.suite`."""
        used = len(examples) if self.trained else 0
        data = references(rows_of(examples)[:used], labels_of(examples)[:used], rows_of(fragments))
        rng = np.random.default_rng(seed)
        first = _TURNS[seed % len(_TURNS)] if self.first == "turns" else self.first
        trace = visited(self.model, data, first, self.sweeps, rng)
        return Grouped(trace.groupings.tolist(), trace.log_joint.tolist())


def visited(
    model: Scdp, data: References, first: Start, sweeps: int, rng: np.random.Generator
) -> Trace:
    """What a chain visits in the end; a quarter of the sweeps are a warm-up.

    Args:
        model: any.
        data: all references.
        first: where it starts, but not `turns`.
        sweeps: all in all, at least 4.
        rng: of all draws.

    """
    state = start(data, first_grouping(first, len(data.test), rng))
    state = warmed_up(model, data, state, sweeps // 4, rng)
    return run(model, data, state, sweeps - sweeps // 4, _KEPT, rng)[1]


def first_grouping(first: Start, n: int, rng: np.random.Generator) -> IntArray:
    """Clusters 0, 1, ..., none empty, shape [n]."""
    if first == "together":
        return np.zeros(n, dtype=np.int64)
    if first == "apart":
        return np.arange(n)
    return np.unique(rng.integers(0, 20, n), return_inverse=True)[1].reshape(-1)
