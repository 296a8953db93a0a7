"""What Spark's workers compute, batch by batch of Arrow: candidates of clusters, and gains.

The functions are those of `mapInArrow`. They get the models as bytes, and make a table of the
kernel of them, once a worker.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import FloatArray, IntArray, LearnedState
from kbforge.errors import LikelihoodError
from kbforge.kernel.binding import address, kernel_library
from kbforge.models.bundle import KeptReader
from kbforge.store.pages import kept_from_bytes
from kbforge_plugins.likelihoods.attributes.urn import VALUES, begin_attribute
from kbforge_plugins.likelihoods.pairs.likelihood import SENT as OF_PAIRS

if TYPE_CHECKING:
    from pyspark import Broadcast

GAIN_UNITS = 65536.0
"""Units of a gain in one nat, as in the kernel (`rounds.hpp`)."""
BARRED = -(1 << 31)
_MOST_GAIN = 1 << 30
TOGETHER = (-1).to_bytes(4, "little", signed=True)
"""What has the last two clusters of a written one go together (`written.cpp`)."""
_AT_ONCE = 1 << 14  # pairs scored at once


class Blocking(NamedTuple):
    """See `blocks.hpp`."""

    most: int
    shared: int
    top: int


class Scoring(NamedTuple):
    """What a worker needs to score merges."""

    name: str  # of the run, by which a worker remembers the table
    table: Broadcast[bytes]  # bytes of what the table needs
    alpha: float  # of the prior, as the exponent
    exponent: float


def mixed(numbers: IntArray) -> NDArray[np.uint64]:
    """The kernel's fixed random-looking numbers (`numbers.hpp`)."""
    x = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def key_numbers(keys: IntArray) -> IntArray:
    """The forty bits by which keys are told apart."""
    return (mixed(keys) >> np.uint64(24)).astype(np.int64)


def nearest(blocking: Blocking, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pairs of clusters to compare, from clusters (`unit`) and those of their blocks (`near`)."""
    for batch in batches:
        near = batch.column("near")
        units = batch.column("unit").to_numpy().astype(np.int64)
        lengths = np.diff(near.offsets.to_numpy())
        owner, other = units.repeat(lengths), near.flatten().to_numpy().astype(np.int64)
        apart = owner != other
        both, keys = np.unique(owner[apart] << 32 | other[apart], return_counts=True)
        owner, other = both >> 32, both & 0xFFFFFFFF
        kept = _kept(owner, other, keys, blocking)
        one, two = np.minimum(owner, other)[kept], np.maximum(owner, other)[kept]
        columns = [pa.array(side.astype(np.int32)) for side in (one, two)]
        yield pa.RecordBatch.from_arrays(columns, names=["one", "other"])


def _kept(
    owner: IntArray, other: IntArray, keys: IntArray, blocking: Blocking
) -> NDArray[np.bool_]:
    """Those with enough keys in common, of each the first by keys; `owner` ascends."""
    begin = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]])[: len(owner)])
    if not len(begin):
        return np.zeros(0, np.bool_)
    lengths = np.diff(begin, append=len(owner))
    least = np.minimum(blocking.shared, np.maximum.reduceat(keys, begin)).clip(1).repeat(lengths)
    order = np.lexsort((other, -keys, owner))
    rank = np.empty(len(owner), np.int64)
    rank[order] = np.arange(len(owner)) - begin.repeat(lengths)
    out: NDArray[np.bool_] = (keys >= least) & (rank < blocking.top)
    return out


_WHOSE = "the table that the driver sent"


class SentTable:
    """A table that holds the clusters it is asked about, and no others."""

    def __init__(self, kept: LearnedState) -> None:
        self._kernel, self._kept = kernel_library(), kept
        self._handle = self._of_pairs() if "rows" in kept.values else self._of_attributes()
        self._finalizer = weakref.finalize(self, self._kernel.kb_table_free, self._handle)

    def ratios(
        self, starts: IntArray, written: NDArray[np.int32], one: IntArray, other: IntArray
    ) -> FloatArray:
        """L(C + D) - L(C) - L(D) of pairs of written clusters, by their places, nats."""
        out = np.empty(len(one))
        first, second = one.astype(np.int32), np.ascontiguousarray(other, np.int64)
        told = len(starts) - 1, address(starts), address(written)
        pairs = len(out), address(first), address(second), address(out)
        if not self._kernel.kb_written_ratios(self._handle, *told, *pairs):
            raise LikelihoodError("a cluster from another worker cannot be read")
        return out

    def _of_pairs(self) -> int:
        values = self._kept.values
        links = [self._kept.arrays[name] for name in OF_PAIRS]
        new = self._kernel.kb_pairs_new
        handle: int = new(values["rows"], *map(address, links), values["apart"], values["units"])
        return handle

    def _of_attributes(self) -> int:
        handle: int = self._kernel.kb_attributes_new()
        read = KeptReader(self._kept, _WHOSE)
        for index in range(len(self._kept.values)):
            part = read.part(str(index))
            begin_attribute(handle, part)
            arrays = [part.arrays[name] for name in VALUES]
            n = len(arrays[0])
            self._kernel.kb_attributes_values(handle, index, 0, n, *map(address, arrays))
        return handle


_tables: dict[str, SentTable] = {}  # of this worker, by run


def gains(scoring: Scoring, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The gain of each pair of written clusters, in units; other columns pass through."""
    if scoring.name not in _tables:
        _tables.clear()
        _tables[scoring.name] = SentTable(kept_from_bytes(scoring.table.value))
    prior = DirichletProcess(scoring.alpha, scoring.exponent)
    for batch in batches:
        for begin in range(0, batch.num_rows, _AT_ONCE):
            some = batch.slice(begin, _AT_ONCE)
            found = _gains(_tables[scoring.name], prior, some)
            passed = [n for n in some.schema.names if not n.startswith(("size_", "written_"))]
            columns = [*map(some.column, passed), pa.array(found)]
            yield pa.RecordBatch.from_arrays(columns, names=[*passed, "gain"])


def _gains(table: SentTable, prior: DirichletProcess, some: pa.RecordBatch) -> IntArray:
    one, other = (some.column(name).to_numpy().astype(np.int64) for name in ("one", "other"))
    clusters, first = np.unique(np.concatenate([one, other]), return_index=True)
    starts, written = _laid_out(some, first)
    places = [np.searchsorted(clusters, side) for side in (one, other)]
    order = np.lexsort(places[::-1])
    ratios = np.empty(len(one))
    ratios[order] = table.ratios(starts, written, *(side[order] for side in places))
    sizes = [some.column(f"size_{name}").to_numpy() for name in ("one", "other")]
    log_cluster = prior.log_cluster_by_size(int(sum(map(np.max, sizes))))
    gain = ratios + (log_cluster[sum(sizes)] - (log_cluster[sizes[0]] + log_cluster[sizes[1]]))
    units = np.rint(np.nan_to_num(gain) * GAIN_UNITS).clip(-_MOST_GAIN, _MOST_GAIN)
    return np.where(np.isnan(gain), BARRED, units).astype(np.int32)


def _laid_out(some: pa.RecordBatch, first: IntArray) -> tuple[IntArray, Any]:
    """Where written clusters begin, and all; by their first places among both columns."""
    columns = [some.column(f"written_{name}") for name in ("one", "other")]
    both = pa.concat_arrays(columns).take(pa.array(first))
    offsets = np.frombuffer(both.buffers()[1], np.int32)[both.offset : both.offset + len(both) + 1]
    written = np.frombuffer(both.buffers()[2], np.int32, int(offsets[-1]) // 4)
    return offsets.astype(np.int64) // 4, written
