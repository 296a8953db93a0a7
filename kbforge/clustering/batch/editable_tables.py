"""Live tables whose clusters fragments can leave, made of any live table.

Samplers take fragments out of clusters. A table that is not `editable` can only grow them.
`RebuiltClusters` makes do with that: a cluster that loses a fragment is made anew from the others,
at a cost of one `extend` for each of them. `GrownClusters` finds the slots for that.
"""

from __future__ import annotations

from collections.abc import Sequence

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


class GrownClusters:
    """A live table in which clusters grow by fragments, and that finds the slots for them.

    Attributes:
        table: the table itself.
        n_slots: slots 0..n_slots-1 are in use or free.

    """

    def __init__(self, table: LiveClusters) -> None:
        self.table = table
        self.n_slots = 0
        self._free: list[int] = []

    def add(self, x: Observation, parent: int) -> int:
        """The slot of parent + x; the parent stays. A parent of -1 is the empty cluster."""
        if self._free:
            child = self._free.pop()
        else:
            child, self.n_slots = self.n_slots, self.n_slots + 1
        self.table.extend(x, np.array([parent]), np.array([child]))
        return child

    def add_all(self, xs: Sequence[Observation], parent: int) -> int:
        """The slot of parent + all of xs; the parent stays, what lies between is released."""
        slot = parent
        for x in xs:
            child = self.add(x, slot)
            if slot != parent:
                self.release(slot)
            slot = child
        return slot

    def release(self, slot: int) -> None:
        """Forget a cluster; its slot is free."""
        self.table.release(np.array([slot]))
        self._free.append(slot)


class RebuiltClusters(LiveClusters):
    """Editable clusters on top of any table. Its slots are not the table's: a changed cluster
    gets a new slot there.
    """

    editable = True

    def __init__(self, table: LiveClusters) -> None:
        self._grown = GrownClusters(table)
        self._held: dict[int, list[Observation]] = {}
        self._place: IntArray = np.zeros(0, dtype=np.int64)

    def encode(self, fragment: Fragment) -> Observation:
        return self._grown.table.encode(fragment)

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        everywhere = self._grown.table.log_predictive(x, self._grown.n_slots)
        out = np.zeros(slots)
        known = self._place[:slots]
        out[: len(known)] = everywhere[known]
        return out

    def log_predictive_new(self, x: Observation) -> float:
        return self._grown.table.log_predictive_new(x)

    def log_predictive_held(self, x: Observation, slot: int) -> float:
        rest = self._without(x, slot)
        if not rest:
            return self.log_predictive_new(x)
        place = self._grown.add_all(rest, -1)
        gain = float(self._grown.table.log_predictive(x, self._grown.n_slots)[place])
        self._grown.release(place)
        return gain

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            held = self._held[parent] if parent >= 0 else []
            place = int(self._place[parent]) if held else -1
            self._settle(child, [*held, x], self._grown.add(x, place))

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._held[slot]
            self._grown.release(int(self._place[slot]))

    def add(self, x: Observation, slot: int) -> None:
        old = int(self._place[slot])
        self._settle(slot, [*self._held[slot], x], self._grown.add(x, old))
        self._grown.release(old)

    def remove(self, x: Observation, slot: int) -> None:
        rest = self._without(x, slot)
        self._grown.release(int(self._place[slot]))
        self._settle(slot, rest, self._grown.add_all(rest, -1))

    def _without(self, x: Observation, slot: int) -> list[Observation]:
        # by identity: an observation may be an array, of which equality says nothing
        held = self._held[slot]
        at = next(i for i, other in enumerate(held) if other is x)
        return [*held[:at], *held[at + 1 :]]

    def _settle(self, slot: int, held: list[Observation], place: int) -> None:
        if slot >= len(self._place):
            extra = np.zeros(max(64, slot), dtype=np.int64)
            self._place = np.concatenate([self._place, extra])
        self._held[slot], self._place[slot] = held, place
