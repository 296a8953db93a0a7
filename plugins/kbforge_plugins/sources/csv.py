"""The csv source: tables as text, streamed.

The first record is the header. Fields may be quoted and then may hold line breaks; a doubled quote
stands for one. A record that cannot be parsed (an unclosed quote swallows the rest of a file)
costs its first line only: reading goes on with the next one.
"""

from __future__ import annotations

import csv
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import ClassVar

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad, Source
from kbforge.errors import BadRecord, UsageError, quoted
from kbforge.files.io import called
from kbforge.files.kinds import require_readable_as
from kbforge.registry import ending_of
from kbforge.words import counted
from kbforge_plugins.sources.encoded import (
    described,
    encoding_named,
    guess_delimiter,
    guess_encoding,
    lines_in,
    sampled,
    undecodable,
)
from kbforge_plugins.sources.rows import NULL, RowMapping, TableName, TableNames

_MOST_CHARACTERS = 131_072
_TABBED = (".tsv", ".tab")


class CsvSource(Source):
    """Comma- or tab-separated files.

    Args:
        id: column of the fragment's id; without it ids are minted: file name and row number.
        label: column of the gold entity.
        name: column that becomes the attribute `name`.
        map: `column=attribute` pairs; an empty attribute leaves the column out. Every other
            column is an attribute of its own name.
        vector: columns of numbers that make up the fragment's vector.
        separator: splits the text within a cell into several values.
        null: texts that mean a missing value, with commas between; none at all if empty. By
            default what most programs write: unknown, none, null, nan, n/a, undefined, ? - -- in
            their usual spellings (NA and Nan are names too, and not among them).
        prefix: put the file's name before the ids of a column: for files that number alike.
        serial_dates: columns where a whole number of five digits (10000 is 18 May 1927) is a
            spreadsheet's date.
        delimiter: one character, or `tab`; by default the one of , ; | and tab that divides the
            first records evenly.
        encoding: of the text, such as cp1252, latin-1 or utf-16; by default UTF-8 or UTF-16 if it
            is one of them, else cp1252. A byte order mark of UTF-8 wins.

    """

    endings: ClassVar = (".csv", ".tsv", ".tab", ".psv")

    def __init__(
        self,
        id: str | None = None,
        label: str | None = None,
        name: str | None = None,
        map: list[str] | None = None,
        vector: list[str] | None = None,
        separator: str | None = None,
        null: tuple[str, ...] = NULL,
        prefix: bool = False,
        serial_dates: list[str] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> None:
        self._mapping = RowMapping(
            id, label, name, map or (), vector or (), separator, null, prefix, serial_dates or ()
        )
        self._delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
        if self._delimiter is not None and (
            len(self._delimiter) != 1 or self._delimiter in '"\r\n\0'
        ):
            raise UsageError(f'delimiter: expected one character or tab, got "{quoted(delimiter)}"')
        self._encoding = None if encoding is None else encoding_named(encoding)
        self.where = ""
        self.counts: Counter[str] = Counter()
        self.taken: list[str] = []

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment a row."""
        self.counts.clear()
        self.taken.clear()
        tables = TableNames()
        for path in inputs:
            yield from self._read_table(path, tables.at(path), on_bad)

    def _read_table(self, path: str, table: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        # text of any encoding is read below, and packed tables are named there
        passed = ("table", "utf-16", "utf-16-le", "utf-16-be", "zip", "spreadsheet")
        require_readable_as(path, "a table of comma-separated values", *passed)
        with sampled(path) as (sample, stream):
            encoding = self._encoding or guess_encoding(sample, called(path))
            usual = "\t" if ending_of(path) in _TABBED else ","
            delimiter = self._delimiter or guess_delimiter(sample, encoding, usual)
            self.taken.append("")
            as_what = described(delimiter, encoding, self._encoding is None)
            about = f"{quoted(called(path), 400)}: {as_what}"
            lines = _Lines(called(path), lines_in(stream, called(path), encoding, on_bad), encoding)
            yield from self._read_rows(lines, delimiter, table, on_bad, about)

    def _read_rows(
        self, lines: _Lines, delimiter: str, table: TableName, on_bad: OnBad, about: str
    ) -> Iterator[Fragment]:
        header = _header(lines, delimiter)
        row = self._mapping.over(header, lines.where, self.counts)
        number = 0
        if self._mapping.separator == delimiter:
            about = f"{about}; --separator splits the text within a cell, --delimiter the columns"
        self.taken[-1] = f"{about}, {self._mapping.told(header)}"
        while True:
            try:
                cells = _parse_next(lines, delimiter)
                if cells is None:
                    break
                number += 1
                if len(cells) != len(header):
                    expected = f"{len(header)} fields, as the header has"
                    raise BadRecord(lines.where, expected, f"{len(cells)}")
                self.where = lines.where
                fragment = row.fragment(cells, table, number, self.where, lines.first)
            except _Unparsable as unparsable:
                number += 1
                lines.give_back_all_but_first()
                on_bad(unparsable.error, lines.raw)
                continue
            except BadRecord as error:
                on_bad(error, lines.raw)
                continue
            yield fragment
        if not number:
            raise BadRecord(lines.where, "rows below the header", "none")
        self.taken[-1] = f"{about}, {counted(number, 'row')}, {self._mapping.told(header)}"


def _header(lines: _Lines, delimiter: str) -> list[str]:
    """The first record; without it nothing can be read, so nothing can be set aside."""
    try:
        header = _parse_next(lines, delimiter)
    except _Unparsable as unparsable:
        raise unparsable.error from None
    if header is None:
        raise BadRecord(lines.where, "a header line", "an empty file")
    return header


class _Unparsable(Exception):
    """A record whose end is unknown."""

    def __init__(self, error: BadRecord) -> None:
        super().__init__(str(error))
        self.error = error


def _parse_next(lines: _Lines, delimiter: str) -> list[str] | None:
    """The fields of the next record, None at the end."""
    csv.field_size_limit(_MOST_CHARACTERS)  # another library may have changed it for the process
    # a reader of its own for each record: after an error nothing of the old state may remain
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.begin()
        try:
            cells = next(reader)
        except StopIteration:
            return None
        except UnicodeDecodeError as error:
            raise _Unparsable(undecodable(error.object, lines.encoding, lines.where)) from None
        except csv.Error as error:
            raise _Unparsable(BadRecord(lines.where, "a CSV record", _reason(error))) from None
        if cells:  # a blank line is no record
            return cells


def _reason(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end of data" in text:
        return "a quote that is never closed"
    if "field larger" in text:
        return f"a field of more than {csv.field_size_limit():,} characters (an unclosed quote?)"
    if "new-line character" in text:
        return "a carriage return outside quotes"
    return quoted(text)


class _Lines:
    """The lines of a file for `csv.reader`, able to take back those of a broken record."""

    def __init__(self, name: str, lines: Iterator[tuple[int, bytes]], encoding: str) -> None:
        self._path, self.encoding, self._file = name, encoding, lines
        self._ahead: deque[tuple[int, bytes]] = deque()
        self._number = 0
        self._record: list[tuple[int, bytes]] = []

    def begin(self) -> None:
        """The next line starts a record."""
        self._record = []

    @property
    def first(self) -> int:
        """The number of the record's first line."""
        return self._record[0][0] if self._record else self._number + 1

    @property
    def where(self) -> str:
        """`file:line` of the record's first line."""
        return f"{self._path}:{self.first}"

    @property
    def raw(self) -> bytes:
        """The record as it stands in the file."""
        return b"\n".join(line for _, line in self._record)

    def give_back_all_but_first(self) -> None:
        """Let the lines that a broken record swallowed be read again."""
        self._ahead.extendleft(reversed(self._record[1:]))
        del self._record[1:]

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        number, line = self._take()
        self._record.append((number, line))
        return line.decode() + "\n"

    def _take(self) -> tuple[int, bytes]:
        if not self._ahead:
            self._ahead.append(next(self._file))
        number = self._ahead[0][0]
        # blank lines matter inside quotes, and the file's reader leaves them out
        if self._record and number > self._record[-1][0] + 1:
            return self._record[-1][0] + 1, b""
        self._number = number
        return self._ahead.popleft()
