"""Bounds: which clusters a new fragment may join, as far as constraints say anything of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.clustering.online.pool import Scores
from kbforge.clustering.state import State
from kbforge.contracts import IntArray


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a fragment may go.

    Attributes:
        only: slots of the clusters of which it must join one, ascending; None leaves it free to
            join any, or to open one.
        barred: sets of slots of clusters that it must not join.

    """

    only: IntArray | None
    barred: Sequence[Collection[int]]

    def within(self, state: State, scores: Scores) -> Scores:
        """The scores of the clusters that are not barred."""
        if not self.barred:
            return scores
        if scores.slots is not None:
            left = [s for s in scores.slots.tolist() if not any(s in b for b in self.barred)]
            return Scores(scores.log_predictive, np.array(left, dtype=np.int64))
        allowed = state.reach[: state.n_slots] > -np.inf
        for slots in self.barred:
            allowed[np.fromiter(slots, dtype=np.int64, count=len(slots))] = False
        return Scores(scores.log_predictive, np.flatnonzero(allowed))
