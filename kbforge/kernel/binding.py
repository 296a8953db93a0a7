"""Finds, checks and loads the compiled kernel on first use.

The ctypes signatures of its functions match `src/api.hpp`, line by line.

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
    c_uint8,
    c_void_p,
    cast,
)
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray, LearnedState, LiveClusters
from kbforge.errors import KBForgeError, LikelihoodError, UsageError, quoted
from kbforge.kernel.build import AGAIN, HERE, LIBRARY, about_library
from kbforge.numerics import capacity_for, grown, starts_of

FOLDER = "KBFORGE_KERNEL_FOLDER"
"""Variable that names the folder of another library, such as one with sanitizers."""
WORKERS = "KBFORGE_WORKERS"
"""Variable with the number of threads of the kernel."""
_MOST_WORKERS = 8
_LARGEST_WORKERS = 256
_FEW = 256
"""Fewer numbers than this are copied faster as a list than as an array."""
_INTS, _DOUBLES = POINTER(c_int64), POINTER(c_double)
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


class CApart(Structure):
    """kb_apart: what keeps fragments apart."""

    _fields_ = (
        ("component", c_void_p),
        ("value_start", c_void_p),
        ("values", c_void_p),
        ("components", c_int64),
        ("apart_start", c_void_p),
        ("apart", c_void_p),
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
    """kb_totals: what a run knows besides its subproblems."""

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


class CPlace(Structure):
    """kb_place: a place among the lines of a file."""

    _fields_ = (
        *(("lines", c_int64), ("blank", c_int64), ("at", c_void_p), ("size", c_int64)),
        ("rows", c_int64),
    )


class CTexts(Structure):
    """kb_texts: texts, one after another."""

    _fields_ = (("n", c_int64), ("starts", _INTS), ("bytes", c_void_p))


class CGroupings(Structure):
    """kb_groupings: subproblems as arrays."""

    _fields_ = tuple(
        (name, c_void_p)
        for name in (
            *("clusters", "lengths", "members", "particles", "weights", "rows", "cells"),
            *("estimates", "estimate", "numbers"),
        )
    )


class CSaid(Structure):
    """kb_said: what fragments state."""

    _fields_ = (
        *((name, c_void_p) for name in ("starts", "attribute", "value", "place", "naming")),
        ("unnaming", c_int32),
        ("texts", POINTER(CTexts)),
        ("names", CTexts),
        ("ids", CTexts),
        *(("words", c_void_p), ("n_words", c_int64)),
    )


class CEntities(Structure):
    """kb_entities: what entities state, and how probable they are."""

    _fields_ = (
        *((name, c_int64) for name in ("n", "n_cells", "n_rivals", "n_undecided")),
        *((name, _INTS) for name in ("member_start", "cell_start", "value_start", "holder_start")),
        *((name, POINTER(c_int32)) for name in ("members", "attribute", "value", "holder", "best")),
        ("undecided", _INTS),
        *((name, _DOUBLES) for name in ("reported", "probability")),
    )


_ENTITIES = POINTER(CEntities)


class CStatedEntities(Structure):
    """kb_stated_entities: what lines of entities have besides."""

    _fields_ = (
        *((name, CTexts) for name in ("ids", "names", "more")),
        *((name, c_char_p) for name in ("confidence", "reported", "rivals")),
    )


VERSION = 24
"""Version of the interface; a library of a different version is not used."""

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
    "kb_hold_each": (None, (c_void_p, *2 * (c_int64,), *3 * (c_void_p,))),
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
    "kb_own_slot": (c_int64, (c_void_p, c_int64)),
    "kb_elsewhere": (c_int64, (c_void_p, c_void_p, c_int64, c_int32, POINTER(_INTS))),
    "kb_rivals": (
        c_int64,
        (*2 * (c_void_p,), c_int64, c_int32, *5 * (c_void_p,), POINTER(Rival)),
    ),
    "kb_rounds_new": (
        c_void_p,
        (c_void_p, c_int64, *4 * (c_void_p,), c_int64, c_void_p, *2 * (c_double,), c_int64),
    ),
    "kb_rounds_free": (None, (c_void_p,)),
    "kb_rounds_units": (c_int64, (c_void_p, c_void_p)),
    "kb_rounds_written": (None, 4 * (c_void_p,)),
    "kb_rounds_resume": (c_int32, (c_void_p, *4 * (c_int64, c_void_p))),
    "kb_written_ratios": (
        c_int32,
        (c_void_p, c_int64, *2 * (c_void_p,), c_int64, *3 * (c_void_p,)),
    ),
    "kb_rounds_keys": (None, (c_void_p, *2 * (c_int64,), *2 * (c_void_p,), *2 * (c_int32,))),
    "kb_rounds_connect": (c_int64, (c_void_p, c_int64, *3 * (c_int32,))),
    "kb_rounds_above": (None, (c_void_p, c_double)),
    "kb_rounds_merge": (c_int64, (c_void_p, c_void_p)),
    "kb_sharing": (c_int64, (c_int64, *2 * (c_void_p,), c_int64, *2 * (c_void_p,))),
    "kb_rounds_labels": (None, 2 * (c_void_p,)),
    "kb_local_new": (
        c_void_p,
        (c_void_p, c_int32, c_double, c_double, c_int64, c_void_p, POINTER(CPages), c_void_p),
    ),
    "kb_local_free": (None, (c_void_p,)),
    "kb_keys_new": (c_void_p, (c_int64,)),
    "kb_keys_free": (None, (c_void_p,)),
    "kb_keys_values": (None, (c_void_p, c_int64, *4 * (c_void_p,))),
    "kb_keys_of": (
        c_int64,
        (c_void_p, c_int64, *4 * (c_void_p,), c_int64, POINTER(_INTS), POINTER(_INTS)),
    ),
    "kb_keys_holders": (
        c_int64,
        (
            *(c_void_p, c_int64, *2 * (c_void_p,), c_int64, c_void_p),
            *(c_int64, c_int64, POINTER(_INTS), POINTER(_INTS)),
        ),
    ),
    "kb_digests": (None, (c_int64, *3 * (c_void_p,))),
    "kb_text_features": (
        c_int64,
        (c_int64, *2 * (c_void_p,), c_int64, *3 * (c_void_p,), c_int64, *3 * (c_void_p,)),
    ),
    "kb_numbered": (c_int64, (c_int64, *3 * (c_void_p,))),
    "kb_spelled": (
        None,
        (c_int64, *2 * (c_void_p,), c_int64, *2 * (c_void_p,), *3 * (c_double,), c_void_p),
    ),
    "kb_first_rows": (None, (c_int64, *3 * (c_void_p,))),
    "kb_columns_new": (c_void_p, (c_int32, c_int64, c_void_p, c_int64)),
    "kb_columns_free": (None, (c_void_p,)),
    "kb_columns_parse": (None, (*2 * (c_void_p,), c_int64)),
    "kb_columns_take": (c_int32, (c_void_p, POINTER(CPlace))),
    "kb_columns_plan": (None, 4 * (c_void_p,)),
    "kb_columns_text": (None, (*2 * (c_void_p,), *3 * (c_int64,))),
    "kb_columns_batch": (c_int32, (*3 * (c_void_p,), *3 * (c_int64,))),
    "kb_columns_nulls": (c_int64, (c_void_p, POINTER(_INTS))),
    "kb_columns_put": (c_int32, (c_void_p, c_char_p, c_int64, c_char_p, c_int64)),
    "kb_columns_texts": (None, (c_void_p, c_int32, c_int64, POINTER(CTexts))),
    "kb_columns_numbers": (c_int64, (c_void_p, c_int32, POINTER(POINTER(c_int32)))),
    "kb_columns_starts": (c_int64, (c_void_p, POINTER(_INTS))),
    "kb_entities_new": (
        c_void_p,
        (
            *map(POINTER, (CGroupings, CSaid)),
            c_int64,
            c_double,
            c_int64,
            c_int64,
            POINTER(CEntities),
        ),
    ),
    "kb_entities_free": (None, (c_void_p,)),
    "kb_entities_lines": (c_int64, (c_void_p, POINTER(CStatedEntities), POINTER(c_void_p))),
    "kb_attributes_new": (c_void_p, ()),
    "kb_table_free": (None, (c_void_p,)),
    "kb_attributes_begin": (
        None,
        (c_void_p, *2 * (c_double,), c_int64, c_void_p, c_int32, *2 * (c_int64,), c_void_p),
    ),
    "kb_attributes_titles": (
        None,
        (*2 * (c_void_p, c_int64), *2 * (c_void_p,), c_int64, c_void_p),
    ),
    "kb_attributes_values": (c_int32, (c_void_p, c_int32, c_int64, c_int64, *8 * (c_void_p,))),
    "kb_attributes_draw": (c_double, (c_void_p, c_int32, c_int32, c_int32)),
    "kb_attributes_evidence": (c_double, (c_void_p, c_int32, c_int32, c_int32)),
    "kb_counts_new": (c_void_p, (FACTORS,)),
    "kb_counts_rows": (c_int32, (c_void_p, c_int64, c_int64, c_int64, c_void_p)),
    "kb_pairs_new": (c_void_p, (c_int64, *7 * (c_void_p,), c_int64, c_double)),
    "kb_pairs_rows": (c_int32, (c_void_p, c_int64, c_int64, *3 * (c_void_p,))),
    "kb_words_count": (None, (c_int64, *7 * (c_void_p,))),
    "kb_words_places": (c_int64, (POINTER(CTexts), c_void_p, c_void_p)),
    "kb_names_parts": (c_int64, (c_int64, *5 * (c_void_p,))),
    "kb_names_nearest": (None, (c_int64, *5 * (c_void_p,), *3 * (c_int64,), c_int32, c_void_p)),
    "kb_names_products": (None, (c_int64, *4 * (c_void_p,), c_int64, *4 * (c_void_p,))),
    "kb_trees_new": (
        c_void_p,
        (*2 * (c_int64,), *5 * (c_void_p,), c_int64, c_void_p, c_int64, c_void_p, c_double),
    ),
    "kb_trees_free": (None, (c_void_p,)),
    "kb_trees_sums": (None, (c_void_p, c_int64, c_void_p, c_int32, c_void_p)),
    "kb_known_new": (c_void_p, (*3 * (c_int64, *2 * (c_void_p,)), *2 * (c_void_p,))),
    "kb_rows_new": (c_void_p, (*2 * (c_void_p,),)),
    "kb_rows_free": (None, (c_void_p,)),
    "kb_rows_describe": (
        None,
        (*3 * (c_void_p,), c_int64, c_void_p, c_int64, c_int32, c_void_p),
    ),
    "kb_rows_odds": (
        None,
        (*4 * (c_void_p,), c_int64, c_void_p, c_double, c_int32, c_void_p),
    ),
    "kb_rows_evidence": (None, (*3 * (c_void_p,), c_int64, *2 * (c_void_p,))),
    "kb_column_bins": (None, (c_void_p, c_int64, *2 * (c_void_p,))),
    "kb_table_odds": (None, (c_void_p, c_int64, c_void_p, c_int32, c_void_p)),
    "kb_tops_of_pairs": (None, (c_int64, *3 * (c_void_p,))),
    "kb_bags_cosines": (None, (c_void_p, c_int64, *2 * (c_void_p,))),
    "kb_bags_tidy": (None, (c_int64, *2 * (c_void_p,))),
    "kb_bags_sums": (None, (c_int64, *5 * (c_void_p,))),
    "kb_links_back": (None, (c_int64, *5 * (c_void_p,))),
    "kb_links_leading": (None, (c_int64, *6 * (c_void_p,), *2 * (c_int64,), c_void_p)),
    "kb_near_new": (
        c_void_p,
        (c_int64, c_void_p, c_int64, c_double, c_void_p, c_int64),
    ),
    "kb_near_free": (None, (c_void_p,)),
    "kb_near_rows": (
        None,
        (
            *(*2 * (c_void_p,), c_int64, *3 * (c_void_p,), c_int32, c_int32, c_int64, c_double),
            *(c_int32, *2 * (c_void_p,)),
        ),
    ),
    "kb_candidates_new": (c_void_p, (c_int64,)),
    "kb_candidates_free": (None, (c_void_p,)),
    "kb_candidates_near": (None, (c_void_p, *2 * (c_int64,), *2 * (c_void_p,))),
    "kb_candidates_equal": (
        None,
        (c_void_p, c_int64, *2 * (c_void_p,), c_int64, *2 * (c_void_p,), c_int64),
    ),
    "kb_candidates_count": (c_int64, (*3 * (c_void_p,), c_int32)),
    "kb_candidates_pairs": (None, (c_void_p, c_int32, c_void_p)),
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
