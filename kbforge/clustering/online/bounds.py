"""Bounds: the clusters that constraints allow or forbid a new fragment to join."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kbforge.clustering.online.pool import PutativeScores
from kbforge.clustering.state import State
from kbforge.contracts import IntArray

Tags: TypeAlias = frozenset[tuple[bool, str]]
"""What constraints speak of; see `kbforge.clustering.constraints.bindings`."""

_FREE: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a fragment may go.

    Attributes:
        only: slots of the clusters of which it must join one, ascending; None leaves it free to
            join any, or to open one.
        barred: it must not join a cluster with one of these tags.
        of_slot: by slot, the tags of clusters that have any.
        apart: slots of clusters with barred tags, those of linking values left out.

    """

    only: IntArray | None
    barred: Tags
    of_slot: Mapping[int, Tags]
    apart: Sequence[Collection[int]] = ()

    @classmethod
    def of(cls, slots: IntArray) -> Bounds:
        """The fragment may join these clusters, ascending, and no others."""
        return cls(slots, _FREE, {})

    def within(self, state: State, scores: PutativeScores) -> PutativeScores:
        """The scores of the clusters that are not barred."""
        barred = self.barred
        if not barred:
            return scores
        slots = scores.slots
        if slots is None:
            # all there are: fewer are apart than are not
            allowed = state.reach[: state.n_slots] > -np.inf
            for held in self.apart:
                allowed[np.fromiter(held, dtype=np.int64, count=len(held))] = False
            slots = np.flatnonzero(allowed)
            barred = frozenset(tag for tag in barred if not tag[0])
        if barred:
            of = self.of_slot
            left = [slot for slot in slots.tolist() if of.get(slot, _FREE).isdisjoint(barred)]
            slots = np.array(left, dtype=np.int64)
        return PutativeScores(scores.log_predictive, slots)
