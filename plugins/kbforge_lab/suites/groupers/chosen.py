"""A chain whose model is chosen by labelled examples that are hidden from it in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kbforge.contracts import Fragment, IntArray
from kbforge.evaluation.scores import compare
from kbforge_lab.contracts.suite import Grouped
from kbforge_lab.scdp.choosing import scored
from kbforge_lab.scdp.references import References
from kbforge_lab.scdp.sampler import Scdp
from kbforge_lab.scdp.separation import Near
from kbforge_lab.suites.groupers.chain import Chain, Start, visited
from kbforge_lab.suites.groupers.vectors import labels_of, rows_of

_TRIAL = 4
"""Of the sweeps of a chain, one in so many are those of a trial."""


@dataclass(frozen=True)
class Chosen:
    """The end of a chain of the model that finds hidden examples best.

    The score is the adjusted Rand index. Chains of one problem choose alike, whatever their seeds.

    Attributes:
        models: those to choose from.
        first: where chains start.
        sweeps: how long they are.
        hidden: labels that are hidden at a time.

    """

    models: tuple[Scdp, ...]
    first: Start
    sweeps: int
    hidden: int = 3

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> Grouped:
        """See `kbforge_lab.contracts.suite`."""
        rows, labels = rows_of(examples), labels_of(examples)
        model = _best(self, rows.tobytes(), labels.tobytes(), rows.shape[1])
        return Chain(model, self.first, self.sweeps).group(examples, fragments, seed)


@lru_cache(maxsize=8)
def _best(of: Chosen, rows: bytes, labels: bytes, features: int) -> Scdp:
    """The model for these examples."""
    train = np.frombuffer(rows).reshape(-1, features)
    known = np.frombuffer(labels, dtype=np.int64)
    sweeps = max(4, of.sweeps // _TRIAL)

    def trial(model: Scdp, data: References) -> IntArray:
        rng = np.random.default_rng(0)
        return visited(model, data, "together", sweeps, rng).groupings

    found = scored(of.models, train, known, of.hidden, trial, _adjusted_rand)
    return _in_earnest(of.models[int(found.argmax())], of.hidden, len(np.unique(known)))


def _in_earnest(model: Scdp, hidden: int, labelled: int) -> Scdp:
    """The model with all the labels back.

    A new publication pays model 3's rate for each other one, of which there are more than where
    the rate was chosen: it is divided by how many times as many are labelled.
    """
    if not isinstance(model.separation, Near):
        return model
    rate = model.separation.rate * (labelled - hidden) / labelled
    return replace(model, separation=Near(rate))


def _adjusted_rand(grouping: IntArray, gold: IntArray) -> float:
    return compare(grouping.tolist(), gold.tolist()).adjusted_rand
