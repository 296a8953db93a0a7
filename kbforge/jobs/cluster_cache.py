"""Caches the live clusters of a store for matching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np

from kbforge.clustering.tables import CompactTable, replay
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
)
from kbforge.store.store import Store

_MOST_HELD = 1 << 14
"""Clusters in a table."""

ScoredCluster: TypeAlias = tuple[Cluster, float]
"""The numbers of a cluster's fragments, and its L in nats."""


def fragments_in(store: Store, clusters: Iterable[Cluster]) -> Mapping[int, Fragment]:
    """The fragments of clusters, by number."""
    return store.pages.fragments(sorted({number for cluster in clusters for number in cluster}))


class ClusterCache:
    """Clusters of a store in a live table, reused by matches with the same models.

    A fragment keeps its number, so a cluster with these numbers and this L is always the same. The
    cache keeps the last used clusters, at most `most`, until another likelihood asks.
    """

    def __init__(self, most: int = _MOST_HELD) -> None:
        self._most = most
        self._likelihood: ConjugateLikelihood | None = None

    def _begin(self, likelihood: ConjugateLikelihood, first: Fragment) -> None:
        """Begin an empty table; its first fragment settles what it reads."""
        self._likelihood = likelihood
        self._live = CompactTable(likelihood.live_clusters())
        self._live.encode(first)
        self._slots: dict[ScoredCluster, int] = {}  # the one asked for last is last
        self._free: list[int] = []
        self._n = 0

    def gains(
        self,
        store: Store,
        likelihood: ConjugateLikelihood,
        clusters: Sequence[ScoredCluster],
        x: Fragment,
    ) -> tuple[FloatArray, float]:
        """L(C + x) - L(C) of clusters, shape [clusters], and L({x}), nats."""
        if likelihood is not self._likelihood:
            self._begin(likelihood, next(store.fragments(), x))
        slots = self._slots_of(store, clusters)
        read = self._live.encode(x)
        alone = float(self._live.log_predictive_new(read))
        gains = self._live.log_predictive_of(read, slots) if len(slots) else ()
        return np.array(gains, dtype=np.float64), alone

    def _slots_of(self, store: Store, asked: Sequence[ScoredCluster]) -> IntArray:
        """The slots of clusters; missing ones are built."""
        known = self._slots
        for key in asked:
            if key in known:
                known[key] = known.pop(key)
        self._make(store, [key for key in asked if key not in known])
        slots = np.array([known[key] for key in asked], dtype=np.int64)
        weary = list(islice(known, max(len(known) - max(self._most, len(asked)), 0)))
        self._release([known.pop(key) for key in weary])
        return slots

    def _make(self, store: Store, keys: Sequence[ScoredCluster]) -> None:
        """Build clusters."""
        slots = {cluster: self._slot() for cluster in dict.fromkeys(cluster for cluster, _ in keys)}
        fragments = fragments_in(store, slots)
        replay(self._live, {slot: c for c, slot in slots.items()}, fragments, self._n)
        self._slots.update({key: slots[key[0]] for key in keys})

    def _slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._n += 1
        return self._n - 1

    def _release(self, slots: Sequence[int]) -> None:
        if slots:
            self._live.release(np.array(slots, dtype=np.int64))
            self._free += slots
