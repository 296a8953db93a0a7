"""The csv source: tables as text, streamed.

The first record is the header. Fields may be quoted and then may hold line breaks; a doubled quote
stands for one. A record that cannot be parsed (an unclosed quote swallows the rest of a file)
costs its first line only: reading goes on with the next one.
"""

from __future__ import annotations

import csv
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad, Source
from kbforge.errors import BadRecord, UsageError, quoted
from kbforge.files.io import called
from kbforge_plugins.sources.encoded import UTF8, encoded_lines, encoding_named, undecodable
from kbforge_plugins.sources.rows import NULL, RowMapping, Table, Tables

_DELIMITERS = ";\t|,"
_MOST_CHARACTERS = 131_072
_TABBED = (".tsv", ".tab", ".tsv.gz", ".tab.gz", ".tsv.zst", ".tab.zst")


class CsvSource(Source):
    """Comma- or tab-separated files.

    Args:
        id: column of the fragment's id; without it ids are minted: file name and row number.
        label: column of the gold entity.
        name: column that becomes the attribute `name`.
        map: `column=attribute` pairs; an empty attribute leaves the column out. Every other
            column is an attribute of its own name.
        vector: columns of numbers that make up the fragment's vector.
        separator: splits a cell into several values.
        null: texts that mean a missing value, with commas between; none at all if empty. By
            default what most programs write: unknown, none, null, nan, n/a, undefined, ? - -- in
            their usual spellings (NA and Nan are names too, and not among them).
        prefix: put the file's name before the ids of a column: for files that number alike.
        serial_dates: columns where a whole number of five digits (10000 is 18 May 1927) is a
            spreadsheet's date.
        delimiter: one character, or `tab`; by default a tab for .tsv and .tab, else a comma. A
            header of one column with another delimiter in it is an error unless this is given.
        encoding: of the text, such as cp1252 (spreadsheets), latin-1 or utf-16. A byte order mark
            of UTF-8 wins.

    """

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
        encoding: str = UTF8,
    ) -> None:
        self._mapping = RowMapping(
            id, label, name, map or (), vector or (), separator, null, prefix, serial_dates or ()
        )
        self._delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
        if self._delimiter is not None and (
            len(self._delimiter) != 1 or self._delimiter in '"\r\n\0'
        ):
            raise UsageError(f'delimiter: expected one character or tab, got "{quoted(delimiter)}"')
        self._encoding = encoding_named(encoding)
        self.where = ""
        self.counts: Counter[str] = Counter()

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment a row."""
        self.counts.clear()
        tables = Tables()
        for path in inputs:
            yield from self._read_table(path, tables.at(path), on_bad)

    def _read_table(self, path: str, table: Table, on_bad: OnBad) -> Iterator[Fragment]:
        delimiter = self._delimiter or ("\t" if path.lower().endswith(_TABBED) else ",")
        lines = _Lines(path, self._encoding, on_bad)
        header = _header(lines, delimiter)
        if self._delimiter is None:
            _check_delimiter(header, lines.where)
        row = self._mapping.over(header, lines.where, self.counts)
        number = 0
        while True:
            try:
                cells = _parse_next(lines, delimiter)
                if cells is None:
                    return
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


def _header(lines: _Lines, delimiter: str) -> list[str]:
    """The first record; without it nothing can be read, so nothing can be set aside."""
    try:
        header = _parse_next(lines, delimiter)
    except _Unparsable as unparsable:
        raise unparsable.error from None
    if header is None:
        raise BadRecord(lines.where, "a header line", "an empty file")
    return header


def _check_delimiter(header: Sequence[str], where: str) -> None:
    """A lone column with another file's delimiter in its name would pass for one attribute."""
    found = [mark for mark in _DELIMITERS if len(header) == 1 and mark in header[0]]
    if found:
        mark = "tab" if found[0] == "\t" else found[0]
        got = f"the one column {quoted(header[0])} (--set source.delimiter='{mark}' splits it)"
        raise BadRecord(where, "columns", got)


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

    def __init__(self, path: str, encoding: str, on_bad: OnBad) -> None:
        self._path, self.encoding = called(path), encoding
        self._file = encoded_lines(path, encoding, on_bad)
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
