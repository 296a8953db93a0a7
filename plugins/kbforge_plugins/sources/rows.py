"""From a row of a table to a fragment: what the csv, parquet and hf sources share.

Every column is an attribute of its own name, except the columns of the id, the label and the
vector; `column=attribute` renames one, and `column=` leaves it out. Cells may be text, numbers,
dates or lists of them; empty cells, null and NaN are missing values, and so are the texts of `NULL`
in attributes and labels. A row without any value is a bad record.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import orjson

from kbforge.contracts.fragment import ROW, Fragment
from kbforge.errors import BadRecord, UsageError, quoted
from kbforge.files.io import called
from kbforge.words import counted

_PACKED = (".gz", ".zst", ".zstd")
NULL = (
    *("unknown", "Unknown", "UNKNOWN", "none", "None", "null", "NULL", "(null)"),
    *("nan", "NaN", "n/a", "N/A", "#N/A", "undefined", "?", "-", "--"),
)
"""What programs and people write where they know nothing.

The spelling counts, since names come near: Nan is a province of Thailand, Null a surname, NA the
code of Namibia (41 of its 42 occurrences in the data that the project is measured on, the other
one being an institute) and also what R writes: whoever has it there adds it.
"""
_SERIAL = re.compile(r"[1-9]\d{4}(\.\d{1,15})?", re.ASCII)
_BEFORE_ALL = datetime.datetime(1899, 12, 30)
_NAMES_A_DATE = re.compile(r"(?:\b|_)(?:(?:birth)?date|dob|born|birthday|died)(?:\b|_)", re.I)


@dataclass(frozen=True)
class RowMapping:
    """Which column becomes what.

    Attributes:
        id: column of the fragment's id; None mints ids from the file's name and the row number.
        label: column of the gold entity.
        name: column that becomes the attribute `name`.
        map: `column=attribute` pairs; an empty attribute leaves the column out.
        vector: columns of numbers, in order, that make up the vector.
        separator: splits the text of a cell into several values.
        null: texts that say nothing, in attributes and labels.
        prefix: put the file's name before the ids of a column, as before those that are minted.
        serial_dates: columns where whole numbers of five digits are a spreadsheet's dates.

    """

    id: str | None = None
    label: str | None = None
    name: str | None = None
    map: Sequence[str] = ()
    vector: Sequence[str] = ()
    separator: str | None = None
    null: Sequence[str] = NULL
    prefix: bool = False
    serial_dates: Sequence[str] = ()
    renamed: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        renamed = {}
        for pair in self.map:
            column, equals, attribute = pair.rpartition("=")
            if not (equals and column):
                raise UsageError(f'map: expected column=attribute, got "{quoted(pair)}"')
            renamed[column] = attribute
        if self.name is not None:
            renamed[self.name] = "name"
        object.__setattr__(self, "renamed", renamed)

    @property
    def named(self) -> list[str]:
        """The columns that the mapping names, each once."""
        columns = [self.id, self.label, *self.vector, *self.renamed, *self.serial_dates]
        return list(dict.fromkeys(column for column in columns if column is not None))

    def told(self, columns: Sequence[str]) -> str:
        """How many columns there are, and where the ids come from."""
        if self.id is not None:
            ids = f'ids from the column "{quoted(self.id, 40)}"'
        else:
            likely = next((c for c in columns if c.lower() in ("id", "_id")), None)
            column = "COLUMN" if likely is None else quoted(likely, 40)
            ids = f"ids made of file name and row (--id {column} takes those of the column)"
        return f"{counted(len(columns), 'column')}; {ids}"

    def over(self, columns: Sequence[str], where: str, counts: Counter[str]) -> RowReader:
        """The reader of a table with these columns.

        Args:
            columns: of the table.
            where: the header is.
            counts: of the load report; the reader adds what it took for missing or for a date.

        Raises:
            BadRecord: a column that the mapping names is missing, or a column's name is empty or
                there twice.

        """
        _check_header(columns, where)
        place = {column: i for i, column in enumerate(columns)}
        for column in self.named:
            if column not in place:
                got = "the columns " + ", ".join(quoted(c, 40) for c in columns[:20])
                got += ", …" if len(columns) > 20 else ""
                raise BadRecord(where, f'a column "{quoted(column)}"', got)
        special = {self.id, self.label, *self.vector}
        attributes = [
            (place[column], self.renamed.get(column, column))
            for column in columns
            if column in self.renamed or column not in special
        ]
        return RowReader(
            columns=tuple(columns),
            id=None if self.id is None else place[self.id],
            label=None if self.label is None else place[self.label],
            vector=tuple(place[column] for column in self.vector),
            attributes=tuple(pair for pair in attributes if pair[1]),
            separator=self.separator,
            null=frozenset(filter(None, self.null)),
            prefix=self.prefix,
            serial_dates=frozenset(place[column] for column in self.serial_dates),
            named_date=frozenset(i for i, c in enumerate(columns) if _NAMES_A_DATE.search(c)),
            counts=counts,
        )


@dataclass(frozen=True)
class RowReader:
    """A mapping applied to one table: columns are known by their index."""

    columns: tuple[str, ...]
    id: int | None
    label: int | None
    vector: tuple[int, ...]
    attributes: tuple[tuple[int, str], ...]
    separator: str | None
    null: frozenset[str]
    prefix: bool
    serial_dates: frozenset[int]
    named_date: frozenset[int]
    counts: Counter[str]

    @property
    def read(self) -> list[int]:
        """The columns that are read as texts."""
        ids = [index for index in (self.id, self.label) if index is not None]
        return ids + [index for index, _ in self.attributes]

    def fragment(
        self,
        cells: Sequence[object],
        table: TableName,
        number: int,
        where: str,
        row: int | None = None,
    ) -> Fragment:
        """The fragment of one row.

        Args:
            cells: one value a column.
            table: the row's; its name is the fragment's source.
            number: of the row; with the table's stem it is the id if no column holds one.
            where: `file:line` or `file:row`, for errors.
            row: where the row begins in the file, if that is not its number.

        Raises:
            BadRecord: the row breaks a law of `Fragment`, or holds what no text can show.

        """
        properties: dict[str, list[str]] = {}
        for index, attribute in self.attributes:
            values = list(self._texts(cells[index], index, where))
            if values:
                held = properties.get(attribute, [])
                properties[attribute] = list(dict.fromkeys(held + values))
        record: dict[str, Any] = {"properties": properties, "source": table.name}
        record["metadata"] = {ROW: number if row is None else row}
        record["id"] = f"{table.stem}-{number}"
        if self.id is not None:
            own = self._single(cells, self.id, where)
            record["id"] = f"{table.stem}-{own}" if own and self.prefix else own or None
        if self.label is not None:
            label = self._single(cells, self.label, where)
            record["label"] = None if self._says_nothing(label) else label or None
        if self.vector:
            record["vector"] = [x for i in self.vector for x in self._numbers(cells[i], i, where)]
        return Fragment.from_json(record, where)

    def _single(self, cells: Sequence[object], index: int, where: str) -> str:
        values = list(_texts_of(cells[index], None, where, self.columns[index]))
        if len(values) > 1:
            raise BadRecord(where, "one value", f"{len(values)}", self.columns[index])
        return values[0] if values else ""

    def _texts(self, cell: object, index: int, where: str) -> Iterator[str]:
        for text in _texts_of(cell, self.separator, where, self.columns[index]):
            if not self._says_nothing(text):
                yield self._date(text, index)

    def _says_nothing(self, text: str) -> bool:
        if text not in self.null:
            return False
        self.counts[f'values "{quoted(text)}" read as missing (see --set source.null)'] += 1
        return True

    def _date(self, text: str, index: int) -> str:
        """The date that a spreadsheet's number means, if the column has such dates."""
        if index in self.serial_dates:
            if _SERIAL.fullmatch(text):
                self.counts["serial numbers of spreadsheets read as dates"] += 1
                return _serial_date(float(text))
        elif index in self.named_date and _SERIAL.fullmatch(text):
            column = quoted(self.columns[index], 40)
            rule = f"numbers in {column} that look like a spreadsheet's dates"
            self.counts[f"{rule} (--set source.serial_dates={column} reads them)"] += 1
        return text

    def _numbers(self, cell: object, index: int, where: str) -> list[float]:
        items = cell if isinstance(cell, list | tuple) else [cell]
        return [_number(item, where, self.columns[index]) for item in items]


def row_json(columns: Sequence[str], cells: Sequence[object]) -> bytes:
    """A row as JSON, for the quarantine file."""
    row = dict(zip(columns, cells, strict=False))
    return orjson.dumps(row, default=repr, option=orjson.OPT_NON_STR_KEYS)


@dataclass(frozen=True, slots=True)
class TableName:
    """What a table is called.

    Attributes:
        name: of the file; the source of its fragments.
        stem: of the ids that are minted for its rows.

    """

    name: str
    stem: str


class TableNames:
    """Names for the tables of one reading; of equal names, later ones get `~2`, `~3`."""

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()
        self._stems: Counter[str] = Counter()

    def at(self, path: str) -> TableName:
        """What the next file is called."""
        name = called(path) if path == "-" else PurePath(path).name or path
        plain = "stdin" if path == "-" else name
        for suffix in _PACKED:
            plain = plain.removesuffix(suffix)
        stem = PurePath(plain).stem or "rows"
        return TableName(_distinct(self._names, name), _distinct(self._stems, stem))


def _distinct(seen: Counter[str], name: str) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}~{seen[name]}"


def _check_header(columns: Sequence[str], where: str) -> None:
    for number, (column, count) in enumerate(Counter(columns).items(), 1):
        if not column.strip():
            raise BadRecord(where, "a name for every column", f"none for column {number}")
        if count > 1:
            raise BadRecord(where, "distinct column names", f'"{quoted(column)}" {count} times')


def _texts_of(cell: object, separator: str | None, where: str, column: str) -> Iterator[str]:
    """The values of a cell as texts, stripped; none for a missing one."""
    match cell:
        case None:
            return
        case str():
            parts = cell.split(separator) if separator else [cell]
            yield from filter(None, (part.strip() for part in parts))
        case bool():
            yield str(cell).lower()
        case float():
            if not math.isnan(cell):
                yield repr(cell)
        case int() | decimal.Decimal():
            yield str(cell)
        case datetime.date() | datetime.time():  # a datetime is a date
            yield cell.isoformat()
        case list() | tuple():
            for item in cell:
                yield from _texts_of(item, separator, where, column)
        case _:
            kind = type(cell).__name__
            raise BadRecord(where, "text, a number, a date or a list of these", kind, column)


def _serial_date(days: float) -> str:
    """The date that is so many days behind the spreadsheets' origin, with a time if it has one."""
    moment = _BEFORE_ALL + datetime.timedelta(seconds=round(days * 86_400))
    is_date = days == int(days)
    return moment.date().isoformat() if is_date else moment.isoformat()


def _number(cell: object, where: str, column: str) -> float:
    number = math.nan
    # Python reads True and 1_000 as numbers; no table means that
    if isinstance(cell, str | int | float | decimal.Decimal) and not isinstance(cell, bool):
        with contextlib.suppress(ValueError, OverflowError):
            number = math.nan if isinstance(cell, str) and "_" in cell else float(cell)
    if not math.isfinite(number):
        missing = cell is None or (isinstance(cell, str) and not cell.strip())
        raise BadRecord(where, "a finite number", "nothing" if missing else quoted(cell), column)
    return number
