"""A grouping of all fragments, and moves that change it.

Clusters are addressed by slot. The lowest free slot is used first, which keeps every table that is
indexed by slots short.

| attribute | indexed by | meaning |
|---|---|---|
| slot_of | fragment | its cluster, -1 while it has none |
| members | slot | the cluster's fragments; empty if the slot is free |
| log_size | slot | log |C|, -inf if the slot is free |

*Moves.* A move takes fragments out of one cluster and puts them all into one place: another
cluster, or a new one.

| move | fragments | place |
|---|---|---|
| `put` | one, perhaps in no cluster yet | a slot, or NEW |
| `split` | some of a cluster, the fewer of the two parts | NEW |
| `merge` | all of a cluster, the smaller of the two | the other's slot |
| `STAY` | none | |

Proposing a move only reads; `apply` is the one place that makes a move.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Cluster, FloatArray, Fragment, IntArray

NEW = -1
"""The place that is a new cluster; every other place is a slot."""

_START_CAPACITY = 64


class Grouping:
    """A partition of some of the fragments 0..n-1, at first of none."""

    def __init__(self, n_fragments: int) -> None:
        self.n_fragments = n_fragments
        self.slot_of = [-1] * n_fragments
        self.members: list[set[int]] = []
        self.log_size: FloatArray = np.full(_START_CAPACITY, -np.inf)
        # log of 0, 1, 2, ...: the prior's term of every size
        self.log_of = [-np.inf, *np.log(np.arange(1, n_fragments + 1)).tolist()]
        self._free: list[int] = []

    @property
    def n_slots(self) -> int:
        """Slots 0..n_slots-1 are in use or free; no other slot has ever been used."""
        return len(self.members)

    @property
    def n_clusters(self) -> int:
        return len(self.members) - len(self._free)

    def begin(self, clusters: Sequence[Cluster]) -> None:
        """Make these the clusters, in slots 0, 1, ..., of a grouping without clusters."""
        for cluster in clusters:
            slot = self._new_slot()
            self.members[slot].update(cluster)
            self.log_size[slot] = self.log_of[len(cluster)]
            for fragment in cluster:
                self.slot_of[fragment] = slot

    def move(self, fragments: Sequence[int], to: int) -> int:
        """Put fragments of one cluster, or of none, into a slot or a NEW cluster; returns its slot.

        The cluster that they leave frees its slot if it is empty then.
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
            left = self.members[old]
            left.difference_update(fragments)
            self.log_size[old] = self.log_of[len(left)]
            if not left:
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
        """Number the clusters 0, 1, ... in the order of their slots, without free slots."""
        self.members, self._free = [members for members in self.members if members], []
        self.log_size[:] = -np.inf
        for slot, members in enumerate(self.members):
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
    """The clusters of a grouping, by smallest fragment, from one label a fragment, shape [n]."""
    clusters: dict[int, list[int]] = {}
    for fragment, label in enumerate(labels.tolist()):
        clusters.setdefault(label, []).append(fragment)
    return [tuple(cluster) for cluster in clusters.values()]


def leaders(labels: Sequence[int]) -> IntArray:
    """The smallest fragment of each fragment's cluster, shape [n]: clusters without numbers."""
    _, first, member = np.unique(labels, return_index=True, return_inverse=True)
    return first[member]


class Follower(ABC):
    """Follows a grouping, move after move. All values are in nats.

    Questions may raise and change no later answer. `moved` and `regrouped` ask no likelihood, so
    they cannot fail.
    """

    fragments: Sequence[Fragment]

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Number of distinct sets scored, or of clusters that a live table made."""

    @abstractmethod
    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L of any clusters, shape [len(clusters)]."""

    @abstractmethod
    def read(self, fragments: range) -> None:
        """Read the next fragments, in one batch, before anything is asked of them."""

    @abstractmethod
    def moved(self, fragments: Sequence[int], old: int, new: int) -> None:
        """The grouping has moved fragments from a slot (-1: none) to another."""

    @abstractmethod
    def regrouped(self, old: Sequence[int]) -> None:
        """The grouping has begun or been compacted; `old` are the slots it had."""


class Move(NamedTuple):
    """A move of fragments of one cluster, or of one fragment that has none yet."""

    fragments: Sequence[int]  # empty if nothing moves
    place: int  # the slot of a cluster, or NEW
    gain: float  # of the log posterior, nats


STAY = Move((), NEW, 0.0)
"""Nothing moves."""


def put(fragment: int, place: int, gain: float) -> Move:
    """One fragment goes to a slot, or with NEW into a cluster of its own."""
    return Move((fragment,), place, gain)


def split(grouping: Grouping, slot: int, part: Collection[int], gain: float) -> Move:
    """A cluster becomes two: a part of it, and the rest. The fewer of them move."""
    members = grouping.members[slot]
    if 2 * len(part) <= len(members):
        return Move(tuple(part), NEW, gain)
    return Move(tuple(members.difference(part)), NEW, gain)


def merge(grouping: Grouping, a: int, b: int, gain: float) -> Move:
    """The clusters of two slots become one. The smaller moves, of equals the second."""
    if len(grouping.members[a]) < len(grouping.members[b]):
        a, b = b, a
    return Move(tuple(grouping.members[b]), a, gain)


def apply(move: Move, grouping: Grouping, models: Sequence[Follower]) -> bool:
    """Make a move; returns whether anything changed.

    What is no move of this grouping is a `ValueError`, before anything has changed. A fragment that
    goes where it is and a whole cluster that goes into a new one stay.
    """
    fragments, place = move.fragments, move.place
    if not fragments:
        return False
    old = grouping.slot_of[fragments[0]]
    if len(fragments) > 1:
        _require_part(grouping, fragments, old)
    if old >= 0 and place == old:
        return False
    if old >= 0 and place == NEW and len(fragments) == len(grouping.members[old]):
        return False
    if place != NEW and not grouping.members[place]:
        raise ValueError(f"there is no cluster in slot {place}")
    new = grouping.move(fragments, place)
    for model in models:
        model.moved(fragments, old, new)
    return True


def _require_part(grouping: Grouping, fragments: Sequence[int], slot: int) -> None:
    part = set(fragments)
    if slot < 0 or len(part) < len(fragments) or not part <= grouping.members[slot]:
        raise ValueError("a move takes one fragment, or different ones of one cluster")
