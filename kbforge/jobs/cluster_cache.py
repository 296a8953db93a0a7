"""Caches the live clusters of a store for matching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ctypes import CDLL
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from kbforge.clustering.compiled import EncodedBatch, not_told
from kbforge.contracts import (
    Cluster,
    CompiledClusters,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    LiveClusters,
    Observation,
)
from kbforge.kernel.binding import address, kernel_library
from kbforge.store.store import Store

_MOST_HELD = 1 << 14
"""Clusters in a table."""

ScoredCluster: TypeAlias = tuple[Cluster, float]
"""The numbers of a cluster's fragments, and its L in nats."""


def fragments_in(store: Store, clusters: Iterable[Cluster]) -> Mapping[int, Fragment]:
    """The fragments of clusters, by number."""
    return store.pages.fragments(sorted({number for cluster in clusters for number in cluster}))


class ClusterCache:
    """Clusters of a store in live tables, reused by matches with the same models.

    A fragment keeps its number, so a cluster with these numbers and this L is always the same. The
    cache keeps the last used clusters, at most `most`, until the likelihood forgets what it has
    read.
    """

    def __init__(self, most: int = _MOST_HELD) -> None:
        self._most = most
        self._tables: dict[ConjugateLikelihood, _Table] = {}

    def gains(
        self,
        store: Store,
        likelihood: ConjugateLikelihood,
        clusters: Sequence[ScoredCluster],
        x: Fragment,
    ) -> tuple[FloatArray, float]:
        """L(C + x) - L(C) of clusters, shape [clusters], and L({x}), nats."""
        table = self._tables.get(likelihood)
        if table is None:
            table = self._tables[likelihood] = _Table(
                likelihood, next(store.fragments(), x), self._most
            )
        slots = table.slots_of(store, clusters)
        return table.predictive(x, slots)


class _KernelClusters:
    """Clusters in a table of the kernel, which encodes a fragment as a record."""

    def __init__(self, kernel: CDLL, table: CompiledClusters) -> None:
        self._kernel, self._table = kernel, table

    def encode_all(self, fragments: Sequence[Fragment]) -> list[tuple[EncodedBatch, int]]:
        """The records of fragments."""
        encoded = self._table.encode(fragments)
        self._table.tell(encoded)
        records = EncodedBatch(
            encoded, np.zeros(len(fragments) + 1, np.int64), np.zeros(0, np.int64)
        )
        return [(records, k) for k in range(len(fragments))]

    def extend(self, x: tuple[EncodedBatch, int], parents: IntArray, children: IntArray) -> None:
        """See `LiveClusters`."""
        told = len(parents), address(parents), address(children)
        self._kernel.kb_extend(self._table.handle, *x[0].at(x[1])[:3], *told)

    def log_predictive_new(self, x: tuple[EncodedBatch, int]) -> float:
        """See `LiveClusters`."""
        return float(self._predictive(x, np.zeros(0, np.int64))[0])

    def log_predictive_of(self, x: tuple[EncodedBatch, int], slots: IntArray) -> FloatArray:
        """See `LiveClusters`."""
        return self._predictive(x, slots)

    def release(self, slots: IntArray) -> None:
        """See `LiveClusters`."""
        self._kernel.kb_release(self._table.handle, len(slots), address(slots))

    def _predictive(self, x: tuple[EncodedBatch, int], slots: IntArray) -> FloatArray:
        out = np.empty(max(len(slots), 1))
        asked = len(slots), address(slots), address(out)
        if not self._kernel.kb_log_predictive(self._table.handle, *x[0].at(x[1])[:3], *asked):
            raise not_told()
        return out


class _PythonClusters:
    """Clusters in a table in Python."""

    def __init__(self, live: LiveClusters) -> None:
        self._live = live
        self.extend, self.release = live.extend, live.release
        self.log_predictive_new = live.log_predictive_new
        self.log_predictive_of = live.log_predictive_of

    def encode_all(self, fragments: Sequence[Fragment]) -> list[Observation]:
        """The features of fragments."""
        return [self._live.encode(fragment) for fragment in fragments]


class _Table:
    """A live table with the last used clusters."""

    def __init__(self, likelihood: ConjugateLikelihood, first: Fragment, most: int) -> None:
        self._most = most
        kernel = kernel_library()
        compiled = likelihood.compiled_clusters(kernel)
        self._live: Any = (
            _PythonClusters(likelihood.live_clusters())
            if compiled is None
            else _KernelClusters(kernel, compiled)
        )
        self._live.encode_all([first])  # which settles what the table reads
        self._slots: dict[ScoredCluster, int] = {}  # the one asked for last is last
        self._free: list[int] = []
        self._n = 0

    def predictive(self, x: Fragment, slots: IntArray) -> tuple[FloatArray, float]:
        """L(C + x) - L(C) of the clusters in these slots, shape [slots], and L({x}), nats."""
        (read,) = self._live.encode_all([x])
        alone = float(self._live.log_predictive_new(read))
        gains = self._live.log_predictive_of(read, slots) if len(slots) else ()
        return np.array(gains, dtype=np.float64), alone

    def slots_of(self, store: Store, asked: Sequence[ScoredCluster]) -> IntArray:
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
