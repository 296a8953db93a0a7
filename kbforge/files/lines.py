"""Reads JSON lines into columns, by the kernel and on several threads.

The kernel (`kbforge/kernel/src/columns.hpp`) leaves lines of which it is not certain to the reader
of `kbforge.files.fragments`. So one reader decides what is refused, and with which sentence.
"""

from __future__ import annotations

import mmap
import os
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, byref, c_char, c_int32, c_int64, string_at
from ctypes import addressof as address_of
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import Fragment, OnBad
from kbforge.contracts.fragment import (
    MAX_ATTRIBUTES,
    MAX_DIMENSIONS,
    MAX_ID_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    MAX_VALUES,
)
from kbforge.files.columns import FragmentColumns, OptionalTexts, Statements, Texts
from kbforge.files.fragments import advising, held, located, read_fragments, repeated, source_named
from kbforge.files.io import MAX_LINE_BYTES, called, lines_of, open_input, stream_of
from kbforge.kernel.binding import CPlace, CTexts, ints, kernel_library, workers

_BATCH = 1 << 22  # bytes of lines that the kernel gets at a time
_STEP = 1 << 16  # bytes to ask a stream for, at which a damaged one tells the same lines as always
_LIMITS = (
    *(MAX_ID_CHARACTERS, MAX_VALUE_CHARACTERS, MAX_ATTRIBUTES, MAX_VALUES),
    MAX_DIMENSIONS,
)  # in bytes, for the kernel; it leaves what is longer to be counted in characters
# Reached and Put of columns.hpp, and the columns by their numbers in api.hpp
_END, _DOUBT, _BLANK, _LIMIT, _FULL = range(5)
_REPEATED, _ADDED, _LAST = range(3)
_LABELS, _SOURCES, _RESTS, _IDS, _NAMES, _VALUES = range(6)


def read_columns(
    path: str,
    limit: int | None = None,
    options: Mapping[str, object] | None = None,
    tell: Any = None,
) -> Sequence[Fragment]:
    """All fragments of a file at once; arguments and errors as those of `read_fragments`."""
    if source_named(path, options or {}) is not None:
        return held(read_fragments(path, limit, options, tell))
    on_bad, reader = advising(path), _ColumnReader(limit)
    with open_input(path) as stream:
        for where, fragment in located(reader.lines(stream, called(path), on_bad), path, on_bad):
            put = reader.put(fragment)
            if put == _REPEATED:
                on_bad(repeated(where, fragment), b"")
            if put == _LAST:
                break
    return reader.columns()


class _ColumnReader:
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
        rest = [record.pop("vector", None), record.pop("metadata", None)]
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        beside = b"" if rest == [None, None] else orjson.dumps(rest)
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
        lines, place, reached = _LineBuffer(stream), CPlace(), _END
        while reached == _END and lines.fill():
            self._kernel.kb_columns_parse(self._handle, lines.address, lines.whole)
            while (reached := self._take(place)) == _DOUBT:
                yield number + place.lines + 1, lines.line(place)
            if reached == _LIMIT:
                return
            lines.drop(lines.whole if reached == _END else place.at - lines.address)
        yield from lines_of(lines.rest(), name, on_bad, number + place.lines, place.blank)

    def _take(self, place: CPlace) -> int:
        """Take over lines up to a doubt; returns a Reached of columns.hpp."""
        reached: int = self._kernel.kb_columns_take(self._handle, byref(place))
        if reached == _FULL:
            raise MemoryError
        return reached

    def columns(self) -> FragmentColumns:
        """The columns, which this reader has no longer."""
        n = self._kernel.kb_columns_starts(self._handle, byref(starts := POINTER(c_int64)()))
        names = list(self._texts(_NAMES))
        values: list[Sequence[str]] = [self._texts(_VALUES, k) for k in range(len(names))]
        attribute, value = map(self._numbers, (3, 4))
        statements = Statements(names, values, ints(starts, n), attribute, value)
        optional = (OptionalTexts(self._texts(k), self._numbers(k)) for k in range(3))
        return FragmentColumns(self._texts(_IDS), statements, *optional)

    def _texts(self, which: int, attribute: int = 0) -> Texts:
        found = CTexts()
        self._kernel.kb_columns_texts(self._handle, which, attribute, byref(found))
        starts = ints(found.starts, found.n + 1)
        return Texts(starts, string_at(found.bytes, int(starts[-1])) if found.n else b"")

    def _numbers(self, which: int) -> NDArray[np.int32]:
        found = POINTER(c_int32)()
        n = self._kernel.kb_columns_numbers(self._handle, which, byref(found))
        return np.ctypeslib.as_array(found, (n,)).copy() if n else np.zeros(0, dtype=np.int32)


class _LineBuffer:
    """The bytes of a stream that are being read: whole lines, and the beginning of another one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: Any = stream
        self._bytes = mmap.mmap(-1, MAX_LINE_BYTES + 2)  # memory is used where it is written to
        self.address = address_of(c_char.from_buffer(self._bytes))
        self.whole = self._used = 0
        self._ended = False
        self._damage: Exception | None = None  # that ended it

    def fill(self) -> bool:
        """Read on; False if there is no other whole line that is short enough."""
        for most in (_BATCH, MAX_LINE_BYTES + 1):
            self._read(most)
            self.whole = self._bytes.rfind(b"\n", 0, self._used) + 1
            if self.whole:
                return True
        if not self._ended or not self._used or self._used > MAX_LINE_BYTES:
            return False
        self._bytes[self._used] = ord("\n")
        self.whole = self._used = self._used + 1
        return True

    def line(self, place: CPlace) -> bytes:
        """The line at a place, without its newline."""
        begin = place.at - self.address
        return self._bytes[begin : begin + place.size].rstrip(b"\r\n")

    def drop(self, size: int) -> None:
        """Forget bytes that have been read."""
        self._used -= size
        self._bytes.move(0, size, self._used)

    def rest(self) -> BinaryIO:
        """All that has not been forgotten, as a stream."""

        def chunks() -> Iterator[bytes]:
            yield self._bytes[: self._used]
            self._used = 0
            while not self._ended:
                self._read(_STEP)
                if self._damage is not None:
                    raise self._damage
                yield self._bytes[: self._used]
                self._used = 0

        return stream_of(chunks())

    def _read(self, most: int) -> None:
        try:
            while self._used < most and not self._ended and self._damage is None:
                stop = min(self._used + _STEP, most)
                got = self._stream.readinto1(memoryview(self._bytes)[self._used : stop])
                self._ended = not got
                self._used += got
        except (OSError, EOFError, zlib.error) as error:
            self._damage = error
