"""The jsonl source: one JSON object a line.

A line is a canonical fragment or has the REBEL/KeBAB shape; or, where an option names a key, any
flat object: its keys are columns, as those of the other tables, and a key that a line lacks is a
missing value. Values are texts, numbers, truth values and lists of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad, Source
from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.fragments import parse_json, read_json_lines, read_located
from kbforge.files.io import called
from kbforge_plugins.sources.encoded import (
    UTF8,
    encoded_lines,
    encoding_named,
    undecodable,
    with_hint,
)
from kbforge_plugins.sources.rows import NULL, RowMapping, RowReader, TableName, TableNames

_MOST_SHAPES = 256


class JsonlSource(Source):
    """JSON lines, plain, gzip or zstd; flat objects if an option names a key.

    Args:
        id: key of the fragment's id; without it ids are minted: file name and line number.
        label: key of the gold entity.
        name: key that becomes the attribute `name`.
        map: `key=attribute` pairs; an empty attribute leaves the key out. Every other key is an
            attribute of its own name.
        vector: keys of numbers that make up the fragment's vector.
        separator: splits a text into several values.
        null: as for csv, in flat objects.
        prefix: put the file's name before the ids of a key, in flat objects.
        serial_dates: as for csv, in flat objects.
        encoding: of the text, such as cp1252, latin-1 or utf-16.

    """

    endings: ClassVar = (".jsonl", ".ndjson", ".json")

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
        encoding: str = UTF8,
    ) -> None:
        self._mapping = RowMapping(
            id, label, name, map or (), vector or (), separator, null, prefix, serial_dates or ()
        )
        self._flat = bool(self._mapping.named or separator)
        self._encoding = encoding_named(encoding)
        self.where = ""
        self.counts: Counter[str] = Counter()

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment a line.

        Raises:
            KBForgeError: no line of any input has a key that an option names.

        """

        def decide(error: BadRecord, line: bytes) -> None:
            on_bad(_advised(with_hint(error, line), line), line)

        self.counts.clear()
        tables = TableNames()
        unseen = dict.fromkeys(self._mapping.named)
        lines = 0
        for path in inputs:
            if not self._flat and self._encoding == UTF8:
                for self.where, fragment in read_located(path, decide):
                    yield fragment
                continue
            shapes = _Shapes(self._mapping, self.counts)
            table = tables.at(path)
            for where, line, value in self._values(path, decide):
                self.where = where
                try:
                    fragment = self._fragment(value, shapes, table, unseen)
                except BadRecord as error:
                    decide(error, line)
                    continue
                lines += 1
                yield fragment
        if lines and unseen:
            read = ", ".join(quoted(called(path), 400) for path in inputs[:3])
            raise KBForgeError(f'{read}: expected the key "{quoted(next(iter(unseen)))}", got none')

    def _fragment(
        self, value: Any, shapes: _Shapes, table: TableName, unseen: dict[str, None]
    ) -> Fragment:
        if not (self._flat and isinstance(value, dict)):
            return Fragment.from_json(value, self.where)
        for key in [key for key in unseen if key in value]:
            del unseen[key]
        reader, cells = shapes.fitting(value, self.where)
        return reader.fragment(cells, table, int(self.where.rpartition(":")[2]), self.where)

    def _values(self, path: str, on_bad: OnBad) -> Iterator[tuple[str, bytes, Any]]:
        """(`file:line`, the line, its JSON value) for every line that holds JSON."""
        if self._encoding == UTF8:
            yield from read_json_lines(path, on_bad)
            return
        for number, line in encoded_lines(path, self._encoding, on_bad):
            where = f"{called(path)}:{number}"
            try:
                line.decode()
                value = parse_json(line, where)
            except UnicodeDecodeError:
                on_bad(undecodable(line, self._encoding, where), line)
                continue
            except BadRecord as error:
                on_bad(error, line)
                continue
            yield where, line, value


def _advised(error: BadRecord, line: bytes) -> BadRecord:
    """An error of a fragment's reader; if the line is a flat object, it says how to read it."""
    if not error.expected.startswith("only the keys") or b'"properties"' in line:
        return error
    got = f"{error.got} (--id KEY, --name KEY or --map KEY=ATTRIBUTE reads flat objects)"
    return BadRecord(error.where, error.expected, got)


class _Shapes:
    """The readers of one file's objects, one for each list of keys."""

    def __init__(self, mapping: RowMapping, counts: Counter[str]) -> None:
        self._mapping, self._counts = mapping, counts
        self._readers: dict[tuple[str, ...], RowReader] = {}

    def fitting(self, record: Mapping[str, Any], where: str) -> tuple[RowReader, list[Any]]:
        """The reader of this record, and its cells.

        Raises:
            BadRecord: a key is empty, or one that is read holds what no attribute takes.

        """
        keys = tuple(record)
        reader = self._readers.get(keys)
        if reader is None:
            if len(self._readers) >= _MOST_SHAPES:
                self._readers.clear()
            columns = [*keys, *(key for key in self._mapping.named if key not in record)]
            reader = self._readers[keys] = self._mapping.over(columns, where, self._counts)
        cells = [*record.values(), *[None] * (len(reader.columns) - len(keys))]
        for index in reader.read:
            _check_flat(reader.columns[index], cells[index], where)
        return reader, cells


def _check_flat(key: str, cell: Any, where: str) -> None:
    nested = [cell] if isinstance(cell, dict) else cell if isinstance(cell, list) else []
    for item in nested:
        if isinstance(item, dict | list):
            kind = "an object" if isinstance(item, dict) else "a list in a list"
            got = f"{kind} (--map {quoted(key, 40)}= leaves the key out)"
            raise BadRecord(where, "text, a number or a list of these", got, key)
