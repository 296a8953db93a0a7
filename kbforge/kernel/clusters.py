"""Live clusters in the kernel, as Python asks for them (see `kbforge.contracts.likelihood`).

A likelihood whose live clusters these are is scored by the kernel wherever it is scored: the step
takes the table itself, everything else asks it by slot.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray, LiveClusters
from kbforge.errors import LikelihoodError
from kbforge.kernel.binding import address, kernel_library
from kbforge.numerics import capacity_for, grown

NOT_TOLD = "an interrupt left the session incomplete; open another one from the fragments"
"""Why a fragment is not scored: the kernel lacks what it states."""
_SLOTS: IntArray = np.array([0, 1, -1])


class EncodedFragments(NamedTuple):
    """Fragments as the kernel reads them.

    Attributes:
        starts: where each record begins, shape [fragments + 1].
        attributes: indexes of the attributes of a record, ascending; int32.
        values: numbers of their values; int32.
        new: values that the kernel does not know yet, for `KernelClusters.tell`.

    """

    starts: IntArray
    attributes: NDArray[np.int32]
    values: NDArray[np.int32]
    new: Any


class KernelRecord:
    """One of some encoded fragments: addresses of its start, attributes and values."""

    __slots__ = ("_encoded", "_k", "at")

    def __init__(self, encoded: EncodedFragments, k: int) -> None:
        self._encoded, self._k = encoded, k  # which live as long as the addresses are used
        self.at = address(encoded.starts) + 8 * k, *map(address, encoded[1:3])

    @property
    def empty(self) -> bool:
        """Whether nothing is read of the fragment."""
        return bool(self._encoded.starts[self._k] == self._encoded.starts[self._k + 1])


class KernelClusters(LiveClusters):
    """The clusters of a table of the kernel; subclasses say what it reads of fragments.

    Args:
        handle: address of the kernel's table; it is freed with this object.

    """

    def __init__(self, handle: int) -> None:
        self.kernel, self.handle = kernel_library(), handle
        self._finalizer = weakref.finalize(self, self.kernel.kb_table_free, handle)
        self._live: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)  # by slot
        self._out: FloatArray = np.zeros(0)

    @abstractmethod
    def read(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        """What the table reads of fragments; it may run while the kernel adds others.

        Raises:
            LikelihoodError: as `LiveClusters.encode`.

        """

    @abstractmethod
    def tell(self, encoded: EncodedFragments) -> None:
        """Give the kernel the new values, in the order of `read`, before fragments are used."""

    def encode(self, fragment: Fragment) -> KernelRecord:
        return self.encode_all((fragment,))[0]

    def encode_all(self, fragments: Sequence[Fragment]) -> list[KernelRecord]:
        encoded = self.read(fragments)
        self.tell(encoded)
        return [KernelRecord(encoded, k) for k in range(len(fragments))]

    def log_predictive(self, x: KernelRecord, slots: int) -> FloatArray:
        if len(self._out) < slots:
            self._out = np.zeros(capacity_for(slots, len(self._out)))
        live = self._live[:slots].nonzero()[0]
        self._out[live] = self.log_predictive_of(x, live)
        return self._out[:slots]

    def log_predictive_of(self, x: KernelRecord, slots: IntArray) -> FloatArray:
        return self._predictive(x, slots) if len(slots) else np.zeros(0)

    def log_predictive_new(self, x: KernelRecord) -> float:
        return float(self._predictive(x, np.zeros(0, np.int64))[0])

    def _predictive(self, x: KernelRecord, slots: IntArray) -> FloatArray:
        """Of no clusters, L({x}), shape [1]."""
        out, slots = np.empty(max(len(slots), 1)), np.ascontiguousarray(slots, dtype=np.int64)
        asked = len(slots), address(slots), address(out)
        if not self.kernel.kb_log_predictive(self.handle, *x.at, *asked):
            raise LikelihoodError(NOT_TOLD)
        return out

    def extend(self, x: KernelRecord, parents: IntArray, children: IntArray) -> None:
        if not len(children):
            return
        needed = int(children.max()) + 1
        if needed > len(self._live):
            self._live = grown(self._live, capacity_for(needed, len(self._live)))
        self._live[children] = True
        told = (np.ascontiguousarray(slots, dtype=np.int64) for slots in (parents, children))
        self.kernel.kb_extend(self.handle, *x.at, len(children), *map(address, told), 0)

    def release(self, slots: IntArray) -> None:
        if len(slots):
            self._live[slots] = False
            released = np.ascontiguousarray(slots, dtype=np.int64)
            self.kernel.kb_release(self.handle, len(released), address(released))


class MergingClusters(KernelClusters):
    """Clusters that the kernel can also merge, and of which it knows L."""

    mergeable = True

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        out, live = np.zeros(slots), self._live[:slots].nonzero()[0]
        out[live] = self.log_merge_ratio_of(slot, live)
        return out

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        others, out = np.ascontiguousarray(slots, dtype=np.int64), np.empty(len(slots))
        asked = len(others), address(others), address(out)
        self.kernel.kb_merge_ratios(self.handle, slot, *asked)
        return out

    def merge(self, slot: int, into: int) -> None:
        self._live[slot] = False
        self.kernel.kb_merge(self.handle, slot, into)

    def encode_sets(self, clusters: Sequence[Sequence[Fragment]]) -> list[Sequence[KernelRecord]]:
        """The records of the fragments of sets."""
        records = iter(self.encode_all(list(chain.from_iterable(clusters))))
        return [list(islice(records, len(cluster))) for cluster in clusters]

    def log_marginals(
        self, clusters: Sequence[Sequence[KernelRecord]], parts: int = 1
    ) -> FloatArray:
        """The terms of L of sets, shape [sets, parts]; 0 of none. Only of a table without slots.

        A term is NaN where a set states nothing of a part (see `kb_log_marginals`).
        """
        out = np.zeros((len(clusters), parts))
        for terms, slot in zip(out, self._held_in_turn(clusters), strict=True):
            if slot >= 0:
                self.kernel.kb_log_marginals(self.handle, slot, address(terms))
        return out

    def log_gains(self, x: KernelRecord, clusters: Sequence[Sequence[KernelRecord]]) -> list[float]:
        """L(C + x) - L(C) of sets, L({x}) of none. Only of a table without slots."""
        held = self._held_in_turn(clusters)
        return [float(self._predictive(x, _SLOTS[max(slot, 0) : slot + 1])[0]) for slot in held]

    def _held_in_turn(self, clusters: Sequence[Sequence[KernelRecord]]) -> Iterator[int]:
        """Where each set is held while it is asked about; -1 if it is empty."""
        kernel, handle = self.kernel, self.handle
        none, first, second = (address(_SLOTS) + 8 * k for k in (2, 0, 1))
        for cluster in clusters:
            here, other = none, first
            for x in cluster:
                kernel.kb_extend(handle, *x.at, 1, here, other, 1)
                if here != none:
                    kernel.kb_release(handle, 1, here)
                here, other = other, second if other == first else first
            yield -1 if here == none else int(here == second)
            if here != none:
                kernel.kb_release(handle, 1, here)
