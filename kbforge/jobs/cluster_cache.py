"""Caches the live clusters of a store for matching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np

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
        self._live = likelihood.live_clusters()
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
        """Build clusters; those with a common lineage share their beginnings."""
        fragments = fragments_in(store, [cluster for cluster, _ in keys])
        read = dict(zip(fragments, self._live.encode_all(list(fragments.values())), strict=True))
        made: dict[Cluster, int] = {(): -1}
        for cluster, score in keys:
            known = len(cluster)
            while cluster[:known] not in made:
                known -= 1
            for size in range(known, len(cluster)):
                slot, parent = self._slot(), made[cluster[:size]]
                self._live.extend(read[cluster[size]], np.array([parent]), np.array([slot]))
                made[cluster[: size + 1]] = slot
            self._slots[cluster, score] = made[cluster]
        wanted = {cluster for cluster, _ in keys}
        self._release([slot for part, slot in made.items() if part and part not in wanted])

    def _slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._n += 1
        return self._n - 1

    def _release(self, slots: Sequence[int]) -> None:
        if slots:
            self._live.release(np.array(slots, dtype=np.int64))
            self._free += slots
