"""One grouping of all fragments, changed move by move, for offline clusterers.

Clusters are addressed by slot. The lowest free slot is used first, so that the slots in use stay
few and every table that is indexed by them short.

| attribute | indexed by | meaning |
|---|---|---|
| slot_of | fragment | its cluster, -1 while it has none |
| members | slot | the cluster's fragments; empty if the slot is free |
| log_size | slot | log |C|, -inf if the slot is free |
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Cluster, FloatArray, IntArray

NEW = -1
"""The place that is a new cluster; every other place is a slot."""

_START_CAPACITY = 64


class Grouping:
    """A partition of some of the fragments 0..n-1; to start with, of none."""

    def __init__(self, n_fragments: int) -> None:
        self.slot_of = [-1] * n_fragments
        self.members: list[set[int]] = []
        self.log_size: FloatArray = np.full(_START_CAPACITY, -np.inf)
        # log of 0, 1, 2, ...: the prior's term of every size
        self.log_of = np.log(np.arange(1, n_fragments + 1)).tolist()
        self.log_of.insert(0, -np.inf)
        self._free: list[int] = []

    @property
    def n_fragments(self) -> int:
        """How many fragments there are, in a cluster or not."""
        return len(self.slot_of)

    @property
    def n_slots(self) -> int:
        """Slots 0..n_slots-1 are in use or free; the others have never been."""
        return len(self.members)

    @property
    def n_clusters(self) -> int:
        """How many clusters there are."""
        return len(self.members) - len(self._free)

    def begin(self, clusters: Sequence[Cluster]) -> None:
        """Make these the clusters, in slots 0, 1, ...; there were none."""
        for cluster in clusters:
            slot = self._new_slot()
            self.members[slot].update(cluster)
            self.log_size[slot] = self.log_of[len(cluster)]
            for fragment in cluster:
                self.slot_of[fragment] = slot

    def move(self, fragments: Sequence[int], to: int) -> int:
        """Put fragments into the cluster of a slot, or with NEW into a new one; returns its slot.

        They are all of one other cluster, which frees its slot when it is empty, or of none.
        """
        old = self.slot_of[fragments[0]]
        if to < 0:
            to = self._new_slot()
        joined = self.members[to]
        joined.update(fragments)
        self.log_size[to] = self.log_of[len(joined)]
        for fragment in fragments:
            self.slot_of[fragment] = to
        if old >= 0:
            held = self.members[old]
            held.difference_update(fragments)
            self.log_size[old] = self.log_of[len(held)]
            if not held:
                heapq.heappush(self._free, old)
        return to

    def _new_slot(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        slot = len(self.members)
        self.members.append(set())
        if slot >= len(self.log_size):
            self.log_size = np.concatenate([self.log_size, np.full(slot, -np.inf)])
        return slot

    def compact(self) -> None:
        """Number the clusters 0, 1, ... in the order of their slots; no slot is free then."""
        held = [members for members in self.members if members]
        self.members, self._free = held, []
        self.log_size[:] = -np.inf
        for slot, members in enumerate(held):
            self.log_size[slot] = self.log_of[len(members)]
            for fragment in members:
                self.slot_of[fragment] = slot

    def cluster(self, slot: int) -> Cluster:
        """The fragments of a slot, ascending."""
        return tuple(sorted(self.members[slot]))

    def slots(self) -> list[int]:
        """The slots in use, ascending."""
        return [slot for slot, members in enumerate(self.members) if members]

    def in_use(self) -> NDArray[np.bool_]:
        """Whether a slot is in use, shape [n_slots]."""
        return np.asarray(self.log_size[: self.n_slots] > -np.inf)


def clusters_of(labels: IntArray) -> list[Cluster]:
    """A grouping as clusters, by their smallest fragment.

    Args:
        labels: of each fragment, shape [n].

    """
    held: dict[int, list[int]] = {}
    for fragment, label in enumerate(labels.tolist()):
        held.setdefault(label, []).append(fragment)
    return [tuple(cluster) for cluster in held.values()]


def leaders(labels: Sequence[int]) -> IntArray:
    """A grouping as the smallest fragment of each fragment's cluster, shape [n].

    That is the same however clusters are numbered, and for some of the fragments the same
    whatever the others do, as long as no cluster has both.
    """
    _, first, member = np.unique(labels, return_index=True, return_inverse=True)
    return first[member]
