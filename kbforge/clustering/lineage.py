"""Lineage: how the clusters of a run grew, so that a live table can be rebuilt the same way.

A cluster grew by its fragments in order of arrival, and clusters with the same beginning share it.
This makes a tree: each node is a current or former cluster, and its parent is the cluster without
the newest fragment. A table that is extended along the tree makes the same additions in the same
order as the run, so it holds the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kbforge.contracts import Cluster, FloatArray, Fragment, LiveClusters, Observation


class Lineage:
    """The tree of some clusters; `slots` is the number of slots in the run."""

    def __init__(self, members: Mapping[int, Cluster], slots: int) -> None:
        self._slots = slots
        self._parent: list[int] = []
        self._fragment: list[int] = []
        self._node: dict[int, int] = {}
        known: dict[tuple[int, int], int] = {}
        for slot, cluster in members.items():
            node = -1
            for fragment in cluster:
                at = known.get((node, fragment))
                if at is None:
                    at = known[node, fragment] = len(self._parent)
                    self._parent.append(node)
                    self._fragment.append(fragment)
                node = at
            self._node[slot] = node

    def replay(
        self, table: LiveClusters, fragments: Mapping[int, Fragment], known: float, scored: bool
    ) -> dict[int, float]:
        """Extend a table along the tree, fragment by fragment.

        The table holds no cluster in the tree's slots and knows of `known` slots: 0 if it is empty,
        infinitely many if it allows gaps. It keeps its clusters, whether or not an error is raised.
        If `scored`, it returns L(C) by slot, nats, as the sum of each fragment's contribution.
        """
        scores = [0.0] * len(self._parent)
        born: dict[int, list[int]] = {}
        for node, fragment in enumerate(self._fragment):
            born.setdefault(fragment, []).append(node)
        slot_of, ended, needed = self._places(born)
        if not born:
            return {}
        if needed > known:
            # a caller numbers slots without gaps: let all of them be there before they are used
            first = table.encode(fragments[min(born)])
            room = np.arange(int(known), needed)
            table.extend(first, np.full(len(room), -1), room)
            table.release(room)
        held: set[int] = set()
        try:
            for index in sorted(born):
                nodes = born[index]
                x = table.encode(fragments[index])
                parents = [self._parent[node] for node in nodes]
                places = np.array([slot_of[p] if p >= 0 else -1 for p in parents])
                children = [slot_of[node] for node in nodes]
                if scored:
                    gains = _gains(table, x, places).tolist()
                    for node, parent, gain in zip(nodes, parents, gains, strict=True):
                        scores[node] = gain + (scores[parent] if parent >= 0 else 0.0)
                table.extend(x, places, np.array(children))
                held.update(children)
                if ended[index]:
                    table.release(np.array(ended[index]))
                    held.difference_update(ended[index])
        except BaseException:
            table.release(np.array(sorted(held), dtype=np.int64))
            raise
        return {slot: scores[node] for slot, node in self._node.items()} if scored else {}

    def _places(
        self, born: Mapping[int, Sequence[int]]
    ) -> tuple[list[int], dict[int, list[int]], int]:
        """The slot of every node; the slots that end with each fragment; the number of slots used.

        A former cluster has a slot of no live cluster until its last child is made.
        """
        slot_of = [-1] * len(self._parent)
        for slot, node in self._node.items():
            slot_of[node] = slot
        stays = [slot >= 0 for slot in slot_of]
        children = np.bincount([p for p in self._parent if p >= 0], minlength=len(slot_of)).tolist()
        free: list[int] = []
        needed = self._slots
        ended: dict[int, list[int]] = {}
        for fragment in sorted(born):
            for node in born[fragment]:
                if not stays[node]:
                    if not free:
                        free.append(needed)
                        needed += 1
                    slot_of[node] = free.pop()
            ended[fragment] = []
            for node in born[fragment]:
                parent = self._parent[node]
                if parent >= 0:
                    children[parent] -= 1
                    if not children[parent] and not stays[parent]:
                        ended[fragment].append(slot_of[parent])
            free += ended[fragment]
        return slot_of, ended, needed


def _gains(table: LiveClusters, x: Observation, parents: np.ndarray) -> FloatArray:
    """L(C + x) - L(C) of the clusters in these slots, L({x}) where a slot is -1."""
    out = np.empty(len(parents))
    opened = parents < 0
    if opened.any():
        out[opened] = table.log_predictive_new(x)
    if not opened.all():
        out[~opened] = table.log_predictive_of(x, parents[~opened])
    return out
