"""The jsonl source: JSON objects, one per line or in one array.

An object is a canonical fragment or has the REBEL/KeBAB shape. If an option names a key, it may be
any flat object: its keys are columns, like those of the other tables, and a missing key is a
missing value. Values are texts, numbers, truth values and lists of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kbforge.contracts import Fragment, OnBad
from kbforge.contracts.fragment import Shared
from kbforge.errors import BadRecord, KBForgeError, option, quoted
from kbforge.files.fragments import mistaken
from kbforge.files.io import called
from kbforge_plugins.sources.csv import UTF8, encoding_named
from kbforge_plugins.sources.rows import RowReader, TableName, TableSource
from kbforge_plugins.sources.values import json_values

_MOST_SHAPES = 256


@dataclass(eq=False)
class JsonlSource(TableSource):
    """JSON lines or a JSON array; flat objects if an option names a key.

    Args:
        id: key of the fragment's id; without it the id consists of the file's name and the line
            number or, in an array, the object's number.
        label: key of the gold entity.
        name: key that becomes the attribute `name`.
        map: `key=attribute` pairs; an empty attribute leaves the key out. Every other key is an
            attribute of the same name.
        vector: keys of numbers that make up the fragment's vector.
        separator: text that separates several values within a string.
        prefix: prefix each id of a key with the file's name, for files that share ids.
        serial_dates: keys whose five-digit numbers are spreadsheet dates (10000 is 18
            May 1927).
        encoding: encoding of the text, such as cp1252, latin-1 or utf-16.

    """

    endings: ClassVar = (".jsonl", ".ndjson", ".json")

    encoding: str = UTF8

    def __post_init__(self) -> None:
        super().__post_init__()
        self._flat = bool(self.named or self.separator)
        self._encoding = encoding_named(self.encoding)
        self._unseen: dict[str, None] = {}
        self._records = 0

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment per object; a KBForgeError if none has a key that an option names."""

        def decide(error: BadRecord, line: bytes) -> None:
            on_bad(_advised(error, line), line)

        self._unseen, self._records = dict.fromkeys(self.named), 0
        yield from super().read(inputs, decide)
        if self._records and self._unseen:
            missing = quoted(next(iter(self._unseen)))
            read = ", ".join(quoted(called(path), 400) for path in inputs[:3])
            raise KBForgeError(f'{read}: expected the key "{missing}", got none')

    def read_table(self, path: str, table: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        readers: dict[tuple[str, ...], RowReader] = {}
        shared, first = Shared(), True
        for value in json_values(path, on_bad, self._encoding):
            self.where = value.where
            try:
                if self._flat and isinstance(value.value, dict):
                    fragment = self._flat_fragment(value.value, value.number, readers, table)
                else:
                    fragment = Fragment.from_json(value.value, self.where, shared)
            except BadRecord as error:
                wrong_file = first and not self._flat
                said = mistaken(error, path, value.raw, "fragments") if wrong_file else error
                on_bad(said, value.raw)
                first = False
                continue
            first = False
            self._records += 1
            if fragment is not None:
                yield fragment

    def _flat_fragment(
        self,
        record: Mapping[str, Any],
        number: int,
        readers: dict[tuple[str, ...], RowReader],
        table: TableName,
    ) -> Fragment | None:
        """The fragment of a flat object, None for a blank one; each list of keys has a reader."""
        for key in [key for key in self._unseen if key in record]:
            del self._unseen[key]
        keys = tuple(record)
        reader = readers.get(keys)
        if reader is None:
            if not all(map(str.strip, keys)):  # the place of a key says nothing
                raise BadRecord(self.where, "a name for every key", "an empty one")
            if len(readers) >= _MOST_SHAPES:
                readers.clear()
            columns = [*keys, *(key for key in self.named if key not in record)]
            reader = readers[keys] = self.reader(columns, self.where, table)
        cells = [*record.values(), *[None] * (len(reader.columns) - len(keys))]
        for index in reader.texts:
            _check_flat(reader.columns[index], cells[index], self.where)
        return reader.fragment(cells, number, self.where)


def _advised(error: BadRecord, line: bytes) -> BadRecord:
    """An error of a fragment's reader; if the line is a flat object, it names the options to read
    it."""
    if not error.expected.startswith("only the keys") or b'"properties"' in line:
        return error
    named = f"{option('id', 'KEY')} or {option('source.name', 'KEY')}"
    got = f"{error.got} ({named} reads flat objects)"
    return BadRecord(error.where, error.expected, got)


def _check_flat(key: str, cell: Any, where: str) -> None:
    nested = [cell] if isinstance(cell, dict) else cell if isinstance(cell, list) else []
    for item in nested:
        if isinstance(item, dict | list):
            kind = "an object" if isinstance(item, dict) else "a list in a list"
            named = option("source.map", f"{quoted(key, 40)}=")
            got = f"{kind} ({named} leaves the key out)"
            raise BadRecord(where, "text, a number or a list of these", got, key)
