"""Finds, checks and loads the compiled kernel on first use.

*Live clusters* are in the kernel, and Python asks for them (`KernelClusters`, see
`kbforge.contracts.likelihood`). A likelihood whose live clusters these are is scored by the kernel
wherever it is scored: the step takes the table itself, everything else asks it by slot.
"""

from __future__ import annotations

import math
import os
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_void_p,
    cast,
)
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray, LearnedState, LiveClusters
from kbforge.errors import KBForgeError, LikelihoodError, UsageError, quoted
from kbforge.kernel.build import AGAIN, HERE, LIBRARY, about_library
from kbforge.kernel.interface import Prototype as Prototype
from kbforge.kernel.interface import read_prototypes, structures
from kbforge.numerics import capacity_for, grown, starts_of

FOLDER = "KBFORGE_KERNEL_FOLDER"
"""Variable that names the folder of another library, such as one with sanitizers."""
WORKERS = "KBFORGE_WORKERS"
"""Variable with the number of threads of the kernel."""
_MOST_WORKERS = 8
_LARGEST_WORKERS = 256
_FEW = 256
"""Fewer numbers than this are copied faster as a list than as an array."""
FACTORS = CFUNCTYPE(None, c_int32, c_int64, c_int64, POINTER(c_double))
"""Factors of a row: its number, the first count, the number of counts, the target."""
DRAW = CFUNCTYPE(c_int64, c_int64, *3 * (c_void_p,))
"""Resamples log weights: their number, the weights, targets of kept places and weights."""
SAMPLE = CFUNCTYPE(c_int64, c_int64, c_void_p, c_int64, c_void_p)
"""Draws with replacement: number of log weights, the weights, number of draws, target."""
VERSION = 27
"""Version of the interface; a library of a different version is not used."""


def structure(name: str, **fields: Any) -> Structure:
    """A structure of `api.hpp`, which keeps the arrays that its fields lead to."""
    made = structures()[name]()
    for field, value in fields.items():
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous
            value = value.ctypes.data_as(POINTER(np.ctypeslib.as_ctypes_type(value.dtype)))
        setattr(made, field, value)
    made.owner = fields
    return made


def declare(library: CDLL, prototypes: Mapping[str, Prototype]) -> None:
    """Set the types of the functions; AttributeError if the library lacks one."""
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def copied(pointer: Any, n: int) -> NDArray[Any]:
    """A copy of the kernel's numbers at a pointer, shape [n]."""
    if n < _FEW:
        dtype = np.float64 if pointer._type_ is c_double else np.int64
        return np.array(pointer[:n], dtype=dtype)
    return np.ctypeslib.as_array(pointer, (n,)).copy()


def lent(pointer: Any, n: int, owner: object = None) -> NDArray[Any]:
    """The kernel's numbers at a pointer, shape [n], not copied.

    They lie there as long as the owner, which the array keeps; without one the caller sees to it.
    """
    if n == 0:
        return np.zeros(0, np.dtype(pointer._type_))
    numbers = cast(pointer, POINTER(pointer._type_ * n)).contents
    numbers.owner = owner
    return np.frombuffer(numbers, pointer._type_)


def address(array: NDArray[Any]) -> int:
    """The address of an array's contiguous numbers."""
    assert array.flags.c_contiguous
    return array.ctypes.data


def as_address(content: bytes) -> c_void_p:
    """Where bytes lie, for a structure."""
    return cast(c_char_p(content), c_void_p)


def kernel_library() -> CDLL:
    """The kernel.

    Raises:
        KBForgeError: no kernel can be used; the message says why, and what to do.
    """
    library, said = _loaded(_folder())
    if library is None:
        raise KBForgeError(said)
    return library


def kernel_status() -> str:
    """The kernel's version, or why there is none, in one line."""
    compiler = about_library(_folder()).get("compiler", "of an unknown compiler")
    return _loaded(_folder())[1] or f"compiled kernel ({compiler})"


def workers() -> int:
    """The number of threads of the kernel; the result does not depend on it."""
    said = os.environ.get(WORKERS)
    return min(cores(), _MOST_WORKERS) if said is None else _checked(said)


def _checked(said: str) -> int:
    if said.isascii() and said.isdigit() and 1 <= int(said) <= _LARGEST_WORKERS:
        return int(said)
    raise UsageError(
        f"{WORKERS}: expected a number of workers from 1 to {_LARGEST_WORKERS}, got {quoted(said)}"
    )


def cores() -> int:
    """The number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _folder() -> Path:
    return _path(os.environ.get(FOLDER))


@lru_cache(maxsize=4)
def _path(named: str | None) -> Path:
    return HERE if named is None else Path(named)


@lru_cache(maxsize=4)
def _loaded(folder: Path) -> tuple[CDLL | None, str]:
    """The library of a folder, or why it cannot be used."""
    if not (folder / LIBRARY).is_file():
        reason = about_library(folder).get("none", "it was not built")
        return None, f"no kernel: {reason}; {AGAIN}"
    other = "no kernel: it belongs to a different version; install KBForge again"
    try:
        library = CDLL(str(folder / LIBRARY))
        declare(library, read_prototypes())
    except OSError as error:
        return None, f"no kernel: the library cannot be loaded ({error}); {AGAIN}"
    except AttributeError:
        return None, other
    if library.kb_version() != VERSION:
        return None, other
    if not _says_the_same(library):
        return None, f"no kernel: its exp and log are not those of this Python; {AGAIN}"
    return library, ""


def _says_the_same(library: CDLL) -> bool:
    """Whether exp, log and powers equal those of Python, to the last bit."""
    x = np.random.default_rng(0).uniform(0.0, 30.0, 200)
    out = np.empty((4, len(x)))
    library.kb_functions(len(x), x.ctypes.data, out.ctypes.data)
    values = x.tolist()
    expected = [
        [math.exp(-value) for value in values],
        [math.log(value) for value in values],
        [math.log10(value) for value in values],
        [value**0.7 for value in values],
    ]
    return bool(out.tolist() == expected)


NOT_TOLD = "an interrupt left the session incomplete; open a new one from the fragments"
"""Why a fragment is not scored: the kernel lacks what it states."""
_SLOTS: IntArray = np.array([0, 1, -1])
_READ_AT_ONCE = 1 << 14  # fragments


class EncodedFragments(NamedTuple):
    """Fragments as the kernel reads them."""

    starts: IntArray  # where each record begins, shape [fragments + 1]
    attributes: NDArray[np.int32]  # indexes of the attributes of a record, ascending; int32
    values: NDArray[np.int32]  # numbers of their values; int32
    new: Any  # values that the kernel does not know yet, for `KernelClusters.tell`


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
        return self.predictive_at(x.at, slots) if len(slots) else np.zeros(0)

    def log_predictive_new(self, x: KernelRecord) -> float:
        return float(self.predictive_at(x.at, np.zeros(0, np.int64))[0])

    def predictive_at(self, record: tuple[int, ...], slots: IntArray) -> FloatArray:
        """L(C + x) - L(C) of clusters and the record at these addresses, nats.

        Of no clusters, L({x}), shape [1].
        """
        out, slots = np.empty(max(len(slots), 1)), np.ascontiguousarray(slots, dtype=np.int64)
        asked = len(slots), address(slots), address(out)
        if not self.kernel.kb_log_predictive(self.handle, *record, *asked):
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

    def read_all(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        """What the table reads of many fragments, whose values the kernel is told."""
        read = []
        for begin in range(0, len(fragments), _READ_AT_ONCE):
            read.append(self.read(fragments[begin : begin + _READ_AT_ONCE]))
            self.tell(read[-1])
        lengths = np.concatenate([_SLOTS[:0], *(np.diff(one.starts) for one in read)])
        nothing = np.zeros(0, np.int32)
        attributes = np.concatenate([nothing, *(one.attributes for one in read)])
        values = np.concatenate([nothing, *(one.values for one in read)])
        return EncodedFragments(starts_of(lengths), attributes, values, None)

    def sent(self) -> LearnedState | None:
        """What a table elsewhere needs to have the same clusters by the same numbers, if it can."""
        return None

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        """L(C + D) - L(C) - L(D) of C in `slot` and D in these live slots, nats, shape [slots]."""
        others, out = np.ascontiguousarray(slots, dtype=np.int64), np.empty(len(slots))
        asked = len(others), address(others), address(out)
        self.kernel.kb_merge_ratios(self.handle, slot, *asked)
        return out

    def merge(self, slot: int, into: int) -> None:
        """D := D + C, in place; C is in `slot`, which is released, and D in `into`."""
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
        return [
            float(self.predictive_at(x.at, _SLOTS[max(slot, 0) : slot + 1])[0]) for slot in held
        ]

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
