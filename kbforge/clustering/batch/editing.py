"""Tables that fragments can leave, whatever the table: what a sampler asks of a likelihood.

A table that is not `editable` can only grow clusters. `RebuiltClusters` makes do with
that: a cluster that loses a fragment is made anew from the others, at a cost of one `extend` for
each of them.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import (
    FloatArray,
    Fragment,
    IntArray,
    LiveClusters,
    Observation,
)


def editable(table: LiveClusters) -> LiveClusters:
    """The table itself if fragments can leave its clusters, else one around it that rebuilds."""
    return table if table.editable else RebuiltClusters(table)


class RebuiltClusters(LiveClusters):
    """Editable clusters on top of any table. Its slots are not the table's: a changed cluster
    gets a new slot there.
    """

    editable = True

    def __init__(self, table: LiveClusters) -> None:
        self._table = table
        self._held: dict[int, list[Observation]] = {}
        self._place: IntArray = np.zeros(0, dtype=np.int64)
        self._free: list[int] = []
        self._n_places = 0

    def encode(self, fragment: Fragment) -> Observation:
        return self._table.encode(fragment)

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        everywhere = self._table.log_predictive(x, self._n_places)
        out = np.zeros(slots)
        known = self._place[:slots]
        out[: len(known)] = everywhere[known]
        return out

    def log_predictive_new(self, x: Observation) -> float:
        return self._table.log_predictive_new(x)

    def log_predictive_held(self, x: Observation, slot: int) -> float:
        rest = self._without(x, slot)
        if not rest:
            return self.log_predictive_new(x)
        place = self._build(rest)
        gain = float(self._table.log_predictive(x, self._n_places)[place])
        self._vacate(place)
        return gain

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            held = self._held[parent] if parent >= 0 else []
            self._settle(child, [*held, x], self._grow(x, int(self._place[parent]) if held else -1))

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._held[slot]
            self._vacate(int(self._place[slot]))

    def add(self, x: Observation, slot: int) -> None:
        old = int(self._place[slot])
        self._settle(slot, [*self._held[slot], x], self._grow(x, old))
        self._vacate(old)

    def remove(self, x: Observation, slot: int) -> None:
        rest = self._without(x, slot)
        self._vacate(int(self._place[slot]))
        self._settle(slot, rest, self._build(rest))

    def _without(self, x: Observation, slot: int) -> list[Observation]:
        # by identity: an observation may be an array, of which equality says nothing
        held = self._held[slot]
        at = next(i for i, other in enumerate(held) if other is x)
        return [*held[:at], *held[at + 1 :]]

    def _build(self, held: list[Observation]) -> int:
        place = -1
        for x in held:
            old, place = place, self._grow(x, place)
            if old >= 0:
                self._vacate(old)
        return place

    def _grow(self, x: Observation, parent: int) -> int:
        """A new place with the parent's cluster and x; a parent of -1 is the empty cluster."""
        if self._free:
            place = self._free.pop()
        else:
            place, self._n_places = self._n_places, self._n_places + 1
        self._table.extend(x, np.array([parent]), np.array([place]))
        return place

    def _vacate(self, place: int) -> None:
        self._table.release(np.array([place]))
        self._free.append(place)

    def _settle(self, slot: int, held: list[Observation], place: int) -> None:
        if slot >= len(self._place):
            extra = np.zeros(max(64, slot), dtype=np.int64)
            self._place = np.concatenate([self._place, extra])
        self._held[slot], self._place[slot] = held, place
