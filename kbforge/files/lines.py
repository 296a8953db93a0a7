"""Reads JSON lines and tables into columns, by the kernel and on several threads.

The kernel (`kbforge/kernel/src/columns.hpp`) leaves lines of which it is not certain to the reader
of `kbforge.files.fragments`, and rows to their source. So one reader decides what is refused, and
with which sentence.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_int32,
    c_int64,
    c_void_p,
    py_object,
    pythonapi,
    string_at,
)
from ctypes import addressof as address_of
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge import registry
from kbforge.contracts import Fragment, OnBad
from kbforge.contracts.fragment import (
    MAX_ATTRIBUTES,
    MAX_DIMENSIONS,
    MAX_ID_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    MAX_VALUES,
    ROW,
)
from kbforge.errors import BadRecord, KBForgeError
from kbforge.files.columns import FragmentColumns, OptionalTexts, Statements, Texts
from kbforge.files.fragments import (
    accounts,
    advising,
    located,
    read_fragments,
    repeated,
    source_named,
    source_of,
    stop,
)
from kbforge.files.io import MAX_LINE_BYTES, called, lines_of, open_input
from kbforge.kernel.binding import copied, kernel_library, structure, workers

_BATCH = 1 << 22  # bytes of lines that the kernel gets at a time
_FIRST = 1 << 18  # of a table, after a doubt
_STEP = 1 << 16  # bytes to ask a stream for, at which a damaged one tells the same lines as always
_LIMITS = (
    *(MAX_ID_CHARACTERS, MAX_VALUE_CHARACTERS, MAX_ATTRIBUTES, MAX_VALUES),
    MAX_DIMENSIONS,
)  # in bytes, for the kernel; it leaves what is longer to be counted in characters
# Reached and Put of columns.hpp, and the columns by their numbers in api.hpp
_END, _DOUBT, _BLANK, _LIMIT, _FULL, _AGAIN = range(6)
_REPEATED, _ADDED, _LAST = range(3)
_LABELS, _SOURCES, _RESTS, _IDS, _NAMES, _VALUES = range(6)


def read_columns(
    path: str,
    limit: int | None = None,
    options: Mapping[str, object] | None = None,
    tell: Any = None,
) -> Sequence[Fragment]:
    """All fragments of a file at once; arguments and errors as those of `read_fragments`."""
    if (name := source_named(path, options or {})) is not None:
        if limit is None and (Path(path).is_file() or registry.is_address(path)):
            with contextlib.suppress(KBForgeError):  # the reader of fragments says what is wrong
                return _hastily(name, path, options or {}, tell)
        rows = ColumnReader(limit)
        for one in read_fragments(path, limit, options, tell):
            rows.put(one)
        return rows.columns()
    on_bad, reader = advising(path), ColumnReader(limit)
    with open_input(path) as stream:
        for where, fragment in located(reader.lines(stream, called(path), on_bad), path, on_bad):
            put = reader.put(fragment)
            if put == _REPEATED:
                on_bad(repeated(where, fragment), b"")
            if put == _LAST:
                break
    return reader.columns()


def _hastily(
    name: str, path: str, options: Mapping[str, object], tell: Callable[[str], None] | None
) -> FragmentColumns:
    """The fragments of a source, if it has no bad record and no two ids are equal.

    Otherwise a KBForgeError, which is not for users.
    """
    source, reader = source_of(name, options), ColumnReader(None)
    source.into = reader
    for fragment in source.read([path], stop):
        if reader.put(fragment) == _REPEATED:
            raise repeated(source.where, fragment)
    if tell is not None:
        for sentence in accounts(source, path):
            tell(sentence)
    return reader.columns()


def columns_of(lines: Sequence[bytes], read: Callable[[bytes], Fragment]) -> FragmentColumns:
    """The fragments of checked lines with distinct ids; `read` takes what the kernel leaves."""
    reader = ColumnReader(None)
    for _, line in reader.lines(BytesIO(b"\n".join(lines)), "", stop):
        reader.put(read(line))
    return reader.columns()


class ColumnReader:
    """Fills columns by the kernel, which reads lines, and by fragments that were read here."""

    def __init__(self, limit: int | None) -> None:
        self._kernel = kernel_library()
        limits, seed = (c_int64 * len(_LIMITS))(*_LIMITS), int.from_bytes(os.urandom(7), "little")
        most = (1 << 62) if limit is None else limit
        self._handle = self._kernel.kb_columns_new(workers(), seed, limits, most)
        weakref.finalize(self, self._kernel.kb_columns_free, self._handle)

    def put(self, fragment: Fragment) -> int:
        """Add a fragment; returns a Put of columns.hpp."""
        record = fragment.to_json()
        beside = b""
        if fragment.vector is not None or fragment.metadata not in (None, {ROW: fragment.row}):
            rest = [record.pop("vector", None), record.pop("metadata", None)]
            beside = orjson.dumps(rest)
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        put: int = self._kernel.kb_columns_put(self._handle, line, len(line), beside, len(beside))
        assert put in (_REPEATED, _ADDED, _LAST), "the kernel does not read what was checked"
        return put

    def lines(self, stream: BinaryIO, name: str, on_bad: OnBad) -> Iterator[tuple[int, bytes]]:
        """Have the kernel read a stream; yield the numbered lines that it leaves.

        Each is to be `put` before the next one is asked for. The first line with content is one of
        them, as errors about it name the kind of the file.
        """
        for number, line in lines_of(stream, name, on_bad):
            yield number, line
            break
        else:
            return
        lines, place, reached = LineBuffer(stream), structure("kb_place"), _END
        while reached == _END and (size := lines.fill(_BATCH)):
            self._kernel.kb_columns_parse(self._handle, lines.address, size)
            while (reached := self._take(place)) == _DOUBT:
                yield number + place.lines + 1, lines.line(place)
            if reached == _LIMIT:
                return
            lines.drop(size if reached == _END else place.at - lines.address)
        rest = cast(BinaryIO, lines)
        yield from lines_of(rest, name, on_bad, number + place.lines, place.blank)

    def plan(self, numbers: Sequence[int], texts: Sequence[bytes]) -> None:
        """What the rows of a table mean, as in `kb_columns_plan` of api.hpp."""
        starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        given = (np.array(numbers, dtype=np.int64).ctypes.data, starts.ctypes.data)
        self._kernel.kb_columns_plan(self._handle, *given, b"".join(texts))

    def take_text(self, lines: LineBuffer, line: int, row: int) -> tuple[int, int]:
        """Take over the records of a text, after so many lines and rows, up to a doubt.

        Returns how many lines and rows they are.
        """
        most, before, place = _FIRST, (line, row), structure("kb_place")
        while size := lines.fill(most):
            self._kernel.kb_columns_text(self._handle, lines.address, size, line, row)
            reached = self._take(place)
            lines.drop(place.at - lines.address)
            line, row, most = line + place.lines, row + place.rows, min(2 * most, _BATCH)
            if reached != _END:
                break
        return line - before[0], row - before[1]

    def take_batch(self, batch: Any, begin: int, row: int) -> int:
        """Take over rows of a record batch of texts (with Arrow's C interface), up to a doubt.

        Args:
            batch: all columns of the table, whose types are texts or dictionaries of texts.
            begin: the first row.
            row: the rows of the table before it.

        Returns:
            how many rows.

        """
        schema, array = batch.__arrow_c_array__()
        given = (_pointer(schema, b"arrow_schema"), _pointer(array, b"arrow_array"))
        end, place = batch.num_rows, structure("kb_place")
        read = self._kernel.kb_columns_batch(self._handle, *given, begin, end, row)
        if not read:
            return 0
        self._take(place)
        return int(place.rows)

    def nulls(self) -> list[int]:
        """How many values meant that there is none, by the texts of the plan that mean it."""
        n = self._kernel.kb_columns_nulls(self._handle, byref(found := POINTER(c_int64)()))
        return list(map(int, copied(found, n)))

    def _take(self, place: Structure) -> int:
        """Take over lines up to a doubt; returns a Reached of columns.hpp."""
        reached: int = self._kernel.kb_columns_take(self._handle, byref(place))
        if reached == _FULL:
            raise MemoryError
        if reached == _AGAIN:
            raise BadRecord("", "a unique id", "an id again")
        return reached

    def columns(self) -> FragmentColumns:
        """The columns, which this reader has no longer."""
        n = self._kernel.kb_columns_starts(self._handle, byref(starts := POINTER(c_int64)()))
        names = list(self._texts(_NAMES))
        values: list[Sequence[str]] = [self._texts(_VALUES, k) for k in range(len(names))]
        attribute, value = map(self._numbers, (3, 4))
        statements = Statements(names, values, copied(starts, n), attribute, value)
        labels, sources, rests = (OptionalTexts(self._texts(k), self._numbers(k)) for k in range(3))
        return FragmentColumns(self._texts(_IDS), statements, labels, sources, rests)

    def _texts(self, which: int, attribute: int = 0) -> Texts:
        found = structure("kb_texts")
        self._kernel.kb_columns_texts(self._handle, which, attribute, byref(found))
        starts = copied(found.starts, found.n + 1)
        return Texts(starts, string_at(found.bytes, int(starts[-1])) if found.n else b"")

    def _numbers(self, which: int) -> NDArray[np.int32]:
        found = POINTER(c_int32)()
        n = self._kernel.kb_columns_numbers(self._handle, which, byref(found))
        numbers = np.ctypeslib.as_array(found, (n,)) if n else np.zeros(0, dtype=np.int32)
        if which < _IDS and n and (numbers == numbers[0]).all():  # one source, no labels
            return np.broadcast_to(numbers[0].copy(), n)
        return numbers.copy()


_POINTER_OF = pythonapi.PyCapsule_GetPointer
_POINTER_OF.restype, _POINTER_OF.argtypes = c_void_p, (py_object, c_char_p)


def _pointer(capsule: object, name: bytes) -> int:
    """Where the structure of a capsule is."""
    found: int = _POINTER_OF(capsule, name)
    return found


class LineBuffer:
    """The bytes of a stream that are being read: whole lines, and the beginning of another one.

    `lines_of` can read them, too.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: Any = stream
        self._bytes = mmap.mmap(-1, MAX_LINE_BYTES + 2)  # memory is used where it is written to
        self._address = address_of(c_char.from_buffer(self._bytes))
        self._begin = self._end = 0
        self._ended = False
        self._damage: Exception | None = None  # that ended it

    @property
    def address(self) -> int:
        """Where the bytes are."""
        return self._address + self._begin

    def fill(self, most: int) -> int:
        """Read about so many bytes; those of whole lines, 0 if no other line is short enough."""
        for size in (most, MAX_LINE_BYTES + 1):
            self._read(size)
            stop = min(self._begin + size, self._end)
            if whole := self._bytes.rfind(b"\n", self._begin, stop) + 1:
                return whole - self._begin
        left = self._end - self._begin
        if not self._ended or not 0 < left <= MAX_LINE_BYTES:
            return 0
        self._bytes[self._end] = ord("\n")
        self._end += 1
        return left + 1

    def line(self, place: Structure) -> bytes:
        """The line at a place, without its newline."""
        begin = place.at - self._address
        return self._bytes[begin : begin + place.size].rstrip(b"\r\n")

    def drop(self, size: int) -> None:
        """Forget bytes that have been read."""
        self._begin += size

    def readline(self, most: int) -> bytes:
        """The next line, or so many bytes of it; what ended a damaged stream is raised there."""
        known = 0
        while True:
            stop = min(self._begin + most, self._end)
            end = self._bytes.find(b"\n", self._begin + known, stop) + 1
            known = self._end - self._begin
            if end or self._ended or known >= most:
                break
            if self._damage is not None:
                raise self._damage
            self._read(min(known + _STEP, most))
        line = self._bytes[self._begin : end or stop]
        self._begin += len(line)
        return line

    def _read(self, most: int) -> None:
        if self._begin + most > 2 * _BATCH:
            self._bytes.move(0, self._begin, self._end - self._begin)
            self._begin, self._end = 0, self._end - self._begin
        try:
            while self._end < self._begin + most and not self._ended and self._damage is None:
                stop = min(self._end + _STEP, self._begin + most)
                got = self._stream.readinto1(memoryview(self._bytes)[self._end : stop])
                self._ended = not got
                self._end += got
        except (OSError, EOFError, zlib.error) as error:
            self._damage = error
