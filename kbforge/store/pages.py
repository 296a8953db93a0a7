"""Subproblems in a store: read on demand, and converted from and to bytes.

All bytes are little-endian. A page is seven arrays preceded by their lengths; a model's learned
state is a line of JSON, followed by the bytes of its arrays.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import (
    Constraints,
    Decision,
    Fragment,
    IntArray,
    KeyFamilies,
    LearnedState,
    Pages,
    SubproblemData,
    Subproblems,
    Totals,
)
from kbforge.contracts.clusterer import RuleSet
from kbforge.contracts.fragment import Shared
from kbforge.errors import StoreError, quoted
from kbforge.files.columns import FragmentColumns
from kbforge.files.lines import columns_of
from kbforge.numerics import starts_of
from kbforge.store.tables import ask, damaged, row_of, rows_of

_INT, _FLOAT = np.dtype("<i8"), np.dtype("<f8")
_KINDS = "biuf"  # of arrays that may be kept
_ALIGNED = 8  # bytes: an array begins where its numbers can be read in place
_FEW = 32  # numbers that are packed sooner one by one than by way of an array
_FIELDS = ("slots", "lengths", "members", "scores", "rows", "cells", "weights")
_DTYPES = tuple(_FLOAT if name in ("scores", "weights") else _INT for name in _FIELDS)
_HEAD = f"<{len(_FIELDS)}q"


def numbers_to_bytes(numbers: Sequence[int] | IntArray) -> bytes:
    """Integers as bytes."""
    if len(numbers) < _FEW:
        return struct.pack(f"<{len(numbers)}q", *numbers)
    return np.asarray(numbers, dtype=_INT).tobytes()


def numbers_from_bytes(content: bytes) -> IntArray:
    """The inverse of `numbers_to_bytes`."""
    return np.frombuffer(content, dtype=_INT).astype(np.int64)


def few_from_bytes(content: bytes) -> tuple[int, ...]:
    """The same, sooner where they are few."""
    return struct.unpack(f"<{len(content) // 8}q", content)


def page_to_bytes(page: SubproblemData) -> bytes:
    """A page, without its name."""
    # most pages are short, and then each call into NumPy costs more than what it does
    arrays = [
        found if found.dtype == kind else found.astype(kind)
        for found, kind in zip((getattr(page, name) for name in _FIELDS), _DTYPES, strict=True)
    ]
    lengths = struct.pack(_HEAD, *map(len, arrays))
    return b"".join([lengths, *(array.tobytes() for array in arrays)])


def page_from_bytes(name: int, content: bytes) -> SubproblemData:
    """The inverse of `page_to_bytes`; a damaged page raises a StoreError."""
    head = _INT.itemsize * len(_FIELDS)
    lengths = np.frombuffer(content[:head], dtype=_INT) if len(content) >= head else np.zeros(0)
    if len(lengths) < len(_FIELDS) or head + 8 * int(lengths.sum()) != len(content):
        raise StoreError(f"the store is damaged: subproblem {name} is damaged")
    at, arrays = head, list[Any]()
    for dtype, length in zip(_DTYPES, lengths.tolist(), strict=True):
        found = np.frombuffer(content, dtype, length, at)
        arrays.append(found.astype(dtype.newbyteorder("=")))
        at += 8 * length
    return SubproblemData(name, *arrays)


def kept_to_bytes(kept: LearnedState) -> bytes:
    """A model's learned state."""
    described, parts = [], []
    for name, array in sorted(kept.arrays.items()):
        array = np.ascontiguousarray(array)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        assert array.dtype.kind in _KINDS, f"{name}: only numbers can be kept"
        described.append([name, array.dtype.str, list(array.shape)])
        parts.append(array.tobytes())
        parts.append(bytes(-array.nbytes % _ALIGNED))
    head = orjson.dumps({"values": dict(kept.values), "arrays": described})
    head += b" " * (-len(head) % _ALIGNED)
    return b"".join([len(head).to_bytes(8, "little"), head, *parts])


def kept_from_bytes(content: bytes) -> LearnedState:
    """The inverse of `kept_to_bytes`; a damaged state raises a StoreError."""
    try:
        end = 8 + int.from_bytes(content[:8], "little")
        head: dict[str, Any] = orjson.loads(content[8:end])
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind, shape in head["arrays"]:
            dtype = np.dtype(kind)
            if dtype.kind not in _KINDS:
                raise ValueError(f"an array of {quoted(kind)}")
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(content, dtype, count, end).reshape(shape)
            end += count * dtype.itemsize
            end += -end % _ALIGNED
        if end != len(content):
            raise ValueError("its length")
        return LearnedState(head["values"], arrays)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"the store is damaged: the state of a model is damaged ({quoted(error)})"
        ) from None


class StoredPages(Pages):
    """The pages after the last transaction; see `kbforge.contracts.Pages`."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @property
    def totals(self) -> Totals:
        row = row_of(self._database, "meta", "totals")
        if row is None:
            raise StoreError("the store is damaged: it lacks the totals of its session")
        return totals_from_bytes(row[1])

    def page(self, name: int) -> SubproblemData:
        """One subproblem; a KeyError if none has that name."""
        return self.pages([name])[0]

    def pages(self, names: Sequence[int]) -> list[SubproblemData]:
        rows = rows_of(self._database, "page", "name", names)
        found = {name: page_from_bytes(name, content) for name, _, content in rows}
        return [found[name] for name in names]

    def names(self) -> Sequence[int]:
        return [name for (name,) in ask(self._database, "SELECT name FROM page ORDER BY name")]

    def fragments(self, numbers: Sequence[int]) -> Mapping[int, Fragment]:
        shared = Shared()  # those near each other say the same
        rows = rows_of(self._database, "fragment", "number", numbers, all_there=True)
        return {number: fragment_from_bytes(line, shared) for number, *_, line in rows}

    def numbers(self, ids: Sequence[str]) -> Mapping[str, int]:
        return {id: n for n, id, *_ in rows_of(self._database, "fragment", "id", ids)}

    def homes(self, numbers: Sequence[int]) -> Mapping[int, int]:
        rows = rows_of(self._database, "fragment", "number", numbers)
        return {number: subproblem for number, _, _, subproblem, *_ in rows}

    def postings(self, keys: Sequence[int]) -> Mapping[int, KeyFamilies]:
        return {
            key: KeyFamilies(few_from_bytes(families), bool(closed))
            for key, closed, families in rows_of(self._database, "led", "key", keys)
        }

    def keys(self) -> Sequence[int]:
        return [key for (key,) in ask(self._database, "SELECT key FROM led ORDER BY key")]


def columns_of_pages(
    database: sqlite3.Connection, pages: Sequence[SubproblemData]
) -> tuple[IntArray, FragmentColumns, Subproblems]:
    """The numbers of the pages' fragments by place, and their content; and `subproblems_of`."""
    held = np.unique(np.concatenate([page.members for page in pages])).tolist()
    rows = rows_of(database, "fragment", "number", held, all_there=True)
    lines = sorted((place, number, line) for number, _, place, _, _, line in rows)
    numbers = np.array([number for _, number, _ in lines], np.int64)
    fragments = columns_of([line for _, _, line in lines], fragment_from_bytes)
    return numbers, fragments, subproblems_of(database, pages, numbers)


def subproblems_of(
    database: sqlite3.Connection, pages: Sequence[SubproblemData], numbers: IntArray
) -> Subproblems:
    """The subproblems of pages; fragments are called by their places among all `numbers`.

    Raises a StoreError if the parts of a page contradict each other.
    """
    arrays = {name: [getattr(page, name) for page in pages] for name in _FIELDS}
    whole = {name: np.concatenate(parts) for name, parts in arrays.items()}
    counts = {name: np.array(list(map(len, parts)), np.int64) for name, parts in arrays.items()}
    if not _is_consistent(whole, counts):
        damaged(database, "the table of subproblems")
    members, sizes, order = whole["members"], whole["lengths"], np.argsort(numbers)
    places = order[np.searchsorted(numbers, members, sorter=order)]
    ascending = np.lexsort((places, np.repeat(np.arange(len(sizes)), sizes)))
    found = Subproblems(
        *(counts["lengths"], sizes, places[ascending], counts["rows"]),
        *(whole["weights"], whole["rows"], whole["cells"]),
    )
    estimate, home = found.estimate(), np.zeros(len(numbers), np.int64)
    home[estimate.members] = np.repeat(estimate.subproblem, estimate.lengths)
    if len(estimate.members) != len(numbers) or not np.array_equal(
        home[places], np.repeat(np.arange(len(pages)), counts["members"])
    ):
        damaged(database, "the table of subproblems")
    return found


def _is_consistent(whole: Mapping[str, NDArray[Any]], counts: Mapping[str, IntArray]) -> bool:
    """Whether the arrays of pages have the lengths that others state, and refer to clusters."""

    def adds_up(sizes: str, parts: str) -> bool:
        ends = starts_of(whole[sizes])[starts_of(counts[sizes])]
        return bool((whole[sizes] > 0).all()) and np.array_equal(ends, starts_of(counts[parts]))

    clusters = np.repeat(counts["lengths"], counts["cells"])
    return (
        bool((counts["rows"] > 0).all())
        and np.array_equal(counts["rows"], counts["weights"])
        and adds_up("lengths", "members")
        and adds_up("rows", "cells")
        and bool(((whole["cells"] >= 0) & (whole["cells"] < clusters)).all())
    )


def fragment_from_bytes(line: bytes, shared: Shared | None = None) -> Fragment:
    """The fragment of a line; `shared` as in `Fragment.from_json`."""
    return Fragment.from_json(orjson.loads(line), "the store", shared)


def totals_to_bytes(totals: Totals) -> bytes:
    """Totals as a line of JSON, followed by the free slots."""
    head = orjson.dumps(
        {
            "settings": dict(totals.settings),
            "link": totals.constraints.link,
            "known": totals.constraints.known,
            "rules": list(totals.constraints.rules),
            "decisions": [
                [each.same, each.first, each.second, each.name]
                for each in totals.constraints.decisions
            ],
            "n_fragments": totals.n_fragments,
            "n_numbers": totals.n_numbers,
            "n_slots": totals.n_slots,
            "n_subproblems": totals.n_subproblems,
            "log10_effective_particles": totals.log10_effective_particles,
            "evaluations": totals.evaluations,
            "rng": _plain(totals.rng),
        }
    )
    return head + b"\n" + numbers_to_bytes(totals.free)


def totals_from_bytes(content: bytes) -> Totals:
    """The inverse of `totals_to_bytes`; damaged totals raise a StoreError."""
    head, _, free = content.partition(b"\n")
    try:
        told = orjson.loads(head)
        link, known = told.pop("link"), told.pop("known", False)
        decided = tuple(Decision(*each) for each in told.pop("decisions"))
        never, always = map(tuple, told.pop("rules", RuleSet()))
        constraints = Constraints(decided, link, known, never, always)
        rng = _unplain(told.pop("rng"))
        return Totals(constraints=constraints, rng=rng, free=numbers_from_bytes(free), **told)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"the store is damaged: the totals of its session are damaged ({quoted(error)})"
        ) from None


def _plain(value: Any) -> Any:
    """Numbers of any size as text, because those of a bit generator exceed JSON's."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return str(value) if isinstance(value, int) else [value]


def _unplain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unplain(one) for key, one in value.items()}
    return int(value) if isinstance(value, str) else value[0]
