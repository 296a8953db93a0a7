"""Finds, checks and loads the compiled kernel on first use.

The ctypes signatures of its functions match `src/api.hpp`, line by line.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    c_double,
    c_int32,
    c_int64,
    c_uint8,
    c_void_p,
)
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.kernel.build import AGAIN, HERE, LIBRARY, about_library

FOLDER = "KBFORGE_KERNEL_FOLDER"
"""Variable that names the folder of another library, such as one with sanitizers."""
WORKERS = "KBFORGE_WORKERS"
"""Variable with the number of threads of the kernel."""
_MOST_WORKERS = 8
_LARGEST_WORKERS = 256
_FEW = 256
"""Fewer numbers than this are copied faster as a list than as an array."""
_INTS, _DOUBLES = POINTER(c_int64), POINTER(c_double)
BY_WORDS = CFUNCTYPE(None, c_int32, c_int32, c_int32, _DOUBLES)
"""The weights of noise and of shared words: of u given v, of v given u."""
FACTORS = CFUNCTYPE(None, c_int32, c_int64, c_int64, _DOUBLES)
"""Factors of a row: its number, the first count, the number of counts, the target."""
DRAW = CFUNCTYPE(c_int64, c_int64, *3 * (c_void_p,))
"""Resamples log weights: their number, the weights, targets of kept places and weights."""
SAMPLE = CFUNCTYPE(c_int64, c_int64, c_void_p, c_int64, c_void_p)
"""Draws with replacement: number of log weights, the weights, number of draws, target."""


class Done(Structure):
    """kb_done: the results of adding fragments."""

    _fields_ = (
        ("taken", c_int64),
        ("outcome", c_int32),
        ("evaluations", c_int64),
        ("subproblems", c_int64),
        ("log10_effective", c_double),
        ("parents", _INTS),
        ("children", _INTS),
        ("dropped", _INTS),
        ("n_children", c_int64),
        ("n_dropped", c_int64),
        ("before", _INTS),
        ("after", _INTS),
        ("before_start", _INTS),
        ("after_start", _INTS),
        ("subproblems_after", _INTS),
        ("evaluations_after", _INTS),
        ("log10_after", _DOUBLES),
    )


class CPages(Structure):
    """kb_pages: some subproblems, one after another."""

    _fields_ = (
        ("clusters", _INTS),
        ("particles", _INTS),
        ("slots", _INTS),
        ("lengths", _INTS),
        ("members", _INTS),
        ("rows", _INTS),
        ("cells", _INTS),
        ("scores", _DOUBLES),
        ("weights", _DOUBLES),
        ("n_slots", c_int64),
        ("n_members", c_int64),
        ("n_rows", c_int64),
        ("n_cells", c_int64),
    )


class CTotals(Structure):
    """kb_totals: what a run knows beside its subproblems."""

    _fields_ = (
        ("fragments", c_int64),
        ("slots", c_int64),
        ("subproblems", c_int64),
        ("evaluations", c_int64),
        ("n_free", c_int64),
        ("free", _INTS),
        ("log10_effective", c_double),
    )


class CKeyFamilies(Structure):
    """kb_led: the families of index keys."""

    _fields_ = (
        ("n_keys", c_int64),
        ("n_families", c_int64),
        ("keys", _INTS),
        ("counts", _INTS),
        ("families", _INTS),
        ("closed", POINTER(c_uint8)),
    )


class Rival(Structure):
    """kb_rival: other clusters that a fragment could belong to."""

    _fields_ = (("slots", _INTS), ("weights", _DOUBLES), ("alone", c_double))


VERSION = 13
"""Version of the interface; a library of another version is not used."""

Prototype: TypeAlias = tuple[Any, tuple[Any, ...]]
"""The result and argument types of a function, as ctypes types."""

_PROTOTYPES: dict[str, Prototype] = {
    "kb_version": (c_int32, ()),
    "kb_functions": (None, (c_int64, c_void_p, c_void_p)),
    "kb_run_new": (
        c_void_p,
        (c_int32, c_double, c_int32, c_int32, c_double, DRAW, SAMPLE, *4 * (c_int32,)),
    ),
    "kb_run_free": (None, (c_void_p,)),
    "kb_run_workers": (None, (c_void_p, c_int32)),
    "kb_run_largest": (c_int64, (c_void_p,)),
    "kb_run_sizes": (None, (c_void_p, c_int64, c_void_p, c_void_p)),
    "kb_bind": (None, (c_void_p, c_int64, *2 * (c_void_p,))),
    "kb_tag": (None, (c_void_p, c_int64, *4 * (c_void_p,))),
    "kb_tag_clusters": (None, (c_void_p,)),
    "kb_look_up": (c_int64, (c_void_p, c_int64, c_void_p, c_int64, POINTER(_INTS))),
    "kb_open_keys": (c_int64, (c_void_p, POINTER(_INTS))),
    "kb_propose": (c_int64, (c_void_p, c_void_p, c_int64, POINTER(_INTS), POINTER(c_int64))),
    "kb_take_in": (
        None,
        (*3 * (c_void_p,), c_double, c_int32, c_int64, POINTER(Done)),
    ),
    "kb_owners": (None, (c_void_p, c_int64, *2 * (c_void_p,))),
    "kb_members": (None, (c_void_p, c_int64, c_void_p, POINTER(CPages))),
    "kb_log_predictive": (c_int32, (*4 * (c_void_p,), c_int64, *2 * (c_void_p,))),
    "kb_extend": (None, (*4 * (c_void_p,), c_int64, *2 * (c_void_p,), c_int32)),
    "kb_log_marginals": (None, (c_void_p, c_int64, c_void_p)),
    "kb_merge_ratios": (None, (c_void_p, c_int64, c_int64, *2 * (c_void_p,))),
    "kb_merge": (None, (c_void_p, c_int64, c_int64)),
    "kb_add": (
        None,
        (c_void_p, c_void_p, c_int64, *5 * (c_void_p,), POINTER(Done)),
    ),
    "kb_names": (c_int64, (c_void_p, POINTER(_INTS))),
    "kb_export_pages": (None, (c_void_p, c_int64, c_void_p, POINTER(CPages))),
    "kb_export_totals": (None, (c_void_p, POINTER(CTotals))),
    "kb_export_heaviest": (c_int32, (c_void_p, c_int64, POINTER(CPages))),
    "kb_export_led": (None, (c_void_p, POINTER(CKeyFamilies))),
    "kb_changed_led": (None, (c_void_p, POINTER(CKeyFamilies))),
    "kb_led_of": (None, (c_void_p, c_int64, c_void_p, POINTER(CKeyFamilies))),
    "kb_put_led": (None, (c_void_p, c_int64, *4 * (c_void_p,), c_int32)),
    "kb_resume": (None, (c_void_p, POINTER(CTotals), c_int32)),
    "kb_count": (None, (c_void_p, c_int64)),
    "kb_hold": (None, (c_void_p, c_int64, c_void_p, POINTER(CPages))),
    "kb_drop": (None, (c_void_p, c_int64, c_void_p)),
    "kb_replay": (
        None,
        (*2 * (c_void_p,), c_int64, *3 * (c_void_p,), c_int64, *5 * (c_void_p,)),
    ),
    "kb_release": (None, (c_void_p, c_int64, c_void_p)),
    "kb_absent": (None, (c_void_p, c_int64, c_void_p)),
    "kb_homes": (None, (c_void_p, c_int64, *2 * (c_void_p,))),
    "kb_elsewhere": (c_int64, (c_void_p, c_void_p, c_int64, c_int32, POINTER(_INTS))),
    "kb_rivals": (
        c_int64,
        (*2 * (c_void_p,), c_int64, c_int32, *5 * (c_void_p,), POINTER(Rival)),
    ),
    "kb_keys_new": (c_void_p, (c_int64,)),
    "kb_keys_free": (None, (c_void_p,)),
    "kb_keys_values": (None, (c_void_p, c_int64, *4 * (c_void_p,))),
    "kb_keys_of": (
        c_int64,
        (c_void_p, c_int64, *4 * (c_void_p,), POINTER(_INTS), POINTER(_INTS)),
    ),
    "kb_attributes_new": (c_void_p, ()),
    "kb_table_free": (None, (c_void_p,)),
    "kb_attributes_begin": (
        None,
        (
            c_void_p,
            c_double,
            c_double,
            c_int64,
            c_void_p,
            c_int32,
            c_int64,
            c_int64,
            c_void_p,
            BY_WORDS,
        ),
    ),
    "kb_attributes_values": (c_int32, (c_void_p, c_int32, c_int64, c_int64, *8 * (c_void_p,))),
    "kb_attributes_draw": (c_double, (c_void_p, c_int32, c_int32, c_int32)),
    "kb_attributes_evidence": (c_double, (c_void_p, c_int32, c_int32, c_int32)),
    "kb_counts_new": (c_void_p, (FACTORS,)),
    "kb_counts_rows": (c_int32, (c_void_p, c_int64, c_int64, c_int64, c_void_p)),
    "kb_pairs_new": (c_void_p, (c_int64, *7 * (c_void_p,), c_int64, c_double)),
    "kb_pairs_rows": (c_int32, (c_void_p, c_int64, c_int64, *3 * (c_void_p,))),
    "kb_trees_add": (None, (*2 * (c_int64,), *7 * (c_void_p,), c_int64, *2 * (c_void_p,))),
    "kb_gaussian_new": (c_void_p, ()),
    "kb_gaussian_begin": (None, (c_void_p, c_int64, c_int64, *5 * (c_void_p,))),
    "kb_gaussian_sizes": (None, (c_void_p, c_int64, c_void_p)),
    "kb_gaussian_points": (c_int32, (c_void_p, c_int64, c_int64, c_void_p)),
}


def declare(library: CDLL, prototypes: Mapping[str, Prototype] = _PROTOTYPES) -> None:
    """Set the types of the functions; AttributeError if the library lacks one."""
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def ints(pointer: Any, n: int) -> IntArray:
    """A copy of the kernel's numbers at a pointer, shape [n]."""
    if n < _FEW:
        return np.array(pointer[:n], dtype=np.int64)
    return np.ctypeslib.as_array(pointer, (n,)).copy()


def floats(pointer: Any, n: int) -> FloatArray:
    """A copy of the kernel's numbers at a pointer, shape [n]."""
    if n < _FEW:
        return np.array(pointer[:n], dtype=np.float64)
    return np.ctypeslib.as_array(pointer, (n,)).copy()


def address(array: NDArray[Any]) -> int:
    """The address of an array's contiguous numbers."""
    assert array.flags.c_contiguous
    return array.ctypes.data


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
    return Path(os.environ.get(FOLDER, HERE))


@lru_cache(maxsize=4)
def _loaded(folder: Path) -> tuple[CDLL | None, str]:
    """The library of a folder, or why it cannot be used."""
    if not (folder / LIBRARY).is_file():
        reason = about_library(folder).get("none", "it was not built")
        return None, f"no kernel: {reason}; {AGAIN}"
    other = "no kernel: it belongs to another version; install KBForge again"
    try:
        library = CDLL(str(folder / LIBRARY))
        declare(library)
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
