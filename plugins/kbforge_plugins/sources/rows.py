"""Turns rows of a table into fragments; the shared code of table sources.

Every column is an attribute with its name, except the columns of the id, the label and the vector;
`column=attribute` renames a column, and `column=` leaves it out. Cells may be text, numbers, dates
or lists of these; empty cells, null, NaN and, in attributes and labels, the texts in `NULL` are
missing values. A row with only an id is a bad record.

Irregular tables are accepted: a repeated column name gets a number, a column without a name is
named by its position, and blank rows are left out; counts report all of these. Ids come from a
column called id if that is safe, which requires reading the files twice.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
import re
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import orjson

from kbforge.contracts import Fragment, OnBad, Source
from kbforge.contracts.fragment import MAX_ATTRIBUTES, MAX_ID_CHARACTERS, ROW
from kbforge.errors import BadRecord, UsageError, counted, did_you_mean, listed, option, quoted
from kbforge.files.fragments import DigestSet
from kbforge.files.io import called
from kbforge.registry import unpacked

if TYPE_CHECKING:
    from kbforge.files.lines import ColumnReader

NULL = (
    *("unknown", "Unknown", "UNKNOWN", "none", "None", "null", "NULL", "(null)"),
    *("nan", "NaN", "n/a", "N/A", "#N/A", "undefined", "?", "-", "--"),
)
"""Common spellings of missing values.

Case matters, because some names are similar: Nan is a province of Thailand, Null a surname, NA the
code of Namibia (41 of its 42 occurrences in the project's test data, the other one being an
institute) and also what R writes: add it if your data use it.
"""
_SERIAL = re.compile(r"[1-9]\d{4}(\.\d{1,15})?", re.ASCII)
BLANK = "blank rows left out"
"""The name in counts for rows without any text."""
_RENAMED = {
    True: "columns numbered, whose names are there already",
    False: "columns without a name called by their position",
}
_BEFORE_ALL = datetime.datetime(1899, 12, 30)
_NAMES_A_DATE = re.compile(r"(?:\b|_)(?:(?:birth)?date|dob|born|birthday|died)(?:\b|_)", re.I)


@dataclass(eq=False)
class TableSource(Source):
    """Rows with named columns; subclasses read the rows of a format, and may add options.

    Args:
        id: column of the fragment's id, or none: the id then consists of file name and row number.
            The default is a column called id or _id if its values are unique and complete,
            otherwise none.
        label: column of the gold entity.
        name: column that becomes the attribute `name`.
        map: `column=attribute` pairs; an empty attribute leaves the column out. Every other column
            is an attribute of the same name.
        vector: columns of numbers that make up the fragment's vector.
        separator: text that separates several values within a cell.
        null: texts that mean a missing value, separated by commas; empty for none. The default is
            what most programs write: unknown, none, null, nan, n/a, undefined, ?, - and --, in
            their usual spellings (but not NA and Nan, which are names too).
        prefix: prefix each id of a column with the file's name, for files that share ids.
        serial_dates: columns whose five-digit numbers are spreadsheet dates (10000 is
            18 May 1927).

    """

    finds_ids: ClassVar = False  # whether the default of `id` looks for the column: files only

    id: str | None = ""
    label: str | None = None
    name: str | None = None
    map: list[str] | None = None
    vector: list[str] | None = None
    separator: str | None = None
    null: tuple[str, ...] = NULL
    prefix: bool = False
    serial_dates: list[str] | None = None

    def __post_init__(self) -> None:
        self.ids = self.id or None  # the column of ids
        self.seen: DigestSet | None = None  # the ids met while that column is looked for
        self._no_ids = ""  # why there is none
        self.renamed: dict[str, str] = {}
        for pair in self.map or ():
            column, equals, attribute = pair.rpartition("=")
            if not (equals and column):
                raise UsageError(f'map: expected column=attribute, got "{quoted(pair)}"')
            self.renamed[column] = attribute
        if self.name is not None:
            self.renamed[self.name] = "name"

    @property
    def named(self) -> list[str]:
        """The columns named by options, each once."""
        ids = [column for column in (self.id, self.label) if column]
        others = (*(self.vector or ()), *self.renamed, *(self.serial_dates or ()))
        return list(dict.fromkeys((*ids, *others)))

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment per row."""
        if self.finds_ids and self.id == "" and self.into is None:
            self._find_ids(inputs)
        yield from self._read_tables(inputs, on_bad)

    def _read_tables(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        self.counts.clear()
        self.taken.clear()
        names, stems = Counter[str](), Counter[str]()
        for path in inputs:
            yield from self.read_table(path, table_name(path, names, stems), on_bad)

    def _find_ids(self, inputs: Sequence[str]) -> None:
        """Use the ids of a column called id if they are unique and complete in the files."""
        self.ids, self._no_ids = None, ""
        if not all(path != "-" and Path(path).is_file() for path in inputs):
            return  # they cannot be read twice
        self.seen = DigestSet()
        try:
            deque(self._read_tables(inputs, lambda error, raw: None), maxlen=0)
        except _NoIds as reason:
            self.ids, self._no_ids = None, str(reason)
        finally:
            self.seen = None

    def reader(
        self, columns: Sequence[str], where: str, table: TableName, has_header: bool = False
    ) -> RowReader:
        """The converter of a table's rows; `has_header`: the first row has the column names."""
        if self.seen is not None or (self.into is not None and self.finds_ids and self.id == ""):
            likely = [c for c in columns if _is_id(c) and c not in self.named]
            is_one = len(likely) == 1 and self.ids in (None, likely[0])
            if self.seen is not None and not is_one:
                raise _NoIds
            self.ids = likely[0] if is_one else None
        return RowReader(self, columns, where, table, has_header)

    def read_rows(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        where: str,
        source: str | None,
        on_bad: OnBad,
    ) -> Iterator[Fragment]:
        """Yield one fragment per row of a table in memory; errors name the table `where`."""
        self.counts.clear()
        self.taken.clear()
        reader = self.reader(columns, where, TableName(source, "row"))
        for number, cells in enumerate(rows, 1):
            yield from self.read_row(reader, cells, number, f"{where}:{number}", on_bad)

    @abstractmethod
    def read_table(self, path: str, table: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment per row of an input."""

    def read_row(
        self,
        reader: RowReader,
        cells: Sequence[object],
        number: int,
        where: str,
        on_bad: OnBad,
        row: int | None = None,
    ) -> Iterator[Fragment]:
        """Yield the fragment of a row; none if the row is bad and `on_bad` returns."""
        self.where = where
        try:
            fragment = reader.fragment(cells, number, where, row)
        except BadRecord as error:
            on_bad(error, row_json(reader.columns, cells))
            return
        if fragment is not None:
            yield fragment

    def summary(self, columns: Sequence[str]) -> str:
        """The number of columns, and the origin of the ids."""
        if self.ids is not None:
            ids = f'ids from the column "{quoted(self.ids, 40)}"'
            if not self.id:
                ids += ", where no two are equal"
        else:
            why = f", because {self._no_ids}" if self._no_ids else ""
            likely = next(filter(_is_id, columns), None)
            column = "COLUMN" if likely is None else quoted(likely, 40)
            ids = f"ids made of file name and row{why} ({option('id', column)} takes those of the "
            ids += "column)"
        return f"{counted(len(columns), 'column')}; {ids}"


class _NoIds(Exception):
    """Why no column is used for the ids."""


def _is_id(column: str) -> bool:
    return column.lower() in ("id", "_id")


class TableName(NamedTuple):
    """The name of a table."""

    name: str | None  # of the file: the source of its fragments; a table in memory may have none
    stem: str  # of the ids that are minted


def table_name(path: str, names: Counter[str], stems: Counter[str]) -> TableName:
    """The name of a file; repeated names get `~2`, `~3`."""
    name = called(path) if path == "-" else PurePath(path).name or path
    plain = unpacked("stdin" if path == "-" else name)
    return TableName(_distinct(names, name), _distinct(stems, PurePath(plain).stem or "rows"))


def _distinct(seen: Counter[str], name: str) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}~{seen[name]}"


class RowReader:
    """A source's options applied to one table, whose columns are known by their index.

    The source's counts record what was left out, renamed, or read as missing or as a date; `where`
    is the header, which is the table's first row with `has_header`. BadRecord: a column named by an
    option is missing.
    """

    def __init__(
        self,
        source: TableSource,
        columns: Sequence[str],
        where: str,
        table: TableName,
        has_header: bool = False,
    ) -> None:
        self._header = [column.strip() for column in columns] if has_header else None
        columns = _distinct_names(columns, source.counts)
        place = {column: i for i, column in enumerate(columns)}
        for column in source.named:
            if column not in place:
                got = "the columns " + ", ".join(quoted(c, 40) for c in columns[:20])
                got += ", …" if len(columns) > 20 else ""
                meant = did_you_mean(column, columns)
                raise BadRecord(where, f'a column "{quoted(column)}"{meant}', got)
        self.columns, self._table, self._counts = tuple(columns), table, source.counts
        self._separator, self._prefix = source.separator, source.prefix
        self._id, self._seen = None if source.ids is None else place[source.ids], source.seen
        self._label = None if source.label is None else place[source.label]
        self.vector = [place[column] for column in source.vector or ()]
        special = {source.ids, source.label, *(source.vector or ())}
        attributes = (
            (place[column], source.renamed.get(column, column))
            for column in columns
            if column in source.renamed or column not in special
        )
        self._attributes = [pair for pair in attributes if pair[1]]
        ids = [index for index in (self._id, self._label) if index is not None]
        self.texts = ids + [index for index, _ in self._attributes]
        self._null = frozenset(filter(None, source.null))
        self._serial_dates = {place[column] for column in source.serial_dates or ()}
        self._named_date = {i for i, c in enumerate(columns) if _NAMES_A_DATE.search(c)}

    def fragment(
        self, cells: Sequence[object], number: int, where: str, row: int | None = None
    ) -> Fragment | None:
        """The fragment of a row with one value per column; None for a blank row or a repeated
        header.

        While the id column is being checked, there are no fragments. BadRecord: the row breaks a
        law of `Fragment`. _NoIds: the checked column cannot have the ids.

        Args:
            number: of the row; with the table's stem it forms the id if no column has one.
            where: `file:line` or `file:row`, for errors.
            row: where the row begins in the file, if it differs from its number.
        """
        if self._is_left_out(cells):
            return None
        if self._seen is not None:
            self._require_own_id(cells, where, self._seen)
            return None
        properties: dict[str, list[str]] = {}
        for index, attribute in self._attributes:
            values = list(self._texts(cells[index], index, where))
            if values:
                held = properties.get(attribute, [])
                properties[attribute] = list(dict.fromkeys(held + values))
        record: dict[str, Any] = {"properties": properties, "source": self._table.name}
        record["metadata"] = {ROW: number if row is None else row}
        own = self._own_id(cells, where)
        record["id"] = f"{self._table.stem}-{number}" if self._id is None else own or None
        if self._label is not None:
            label = self._single(cells, self._label, where)
            record["label"] = None if self._says_nothing(label) else label or None
        if self.vector:
            record["vector"] = [x for i in self.vector for x in self._numbers(cells[i], i, where)]
        return Fragment.from_json(record, where)

    def plan(self, into: ColumnReader, delimiter: str = ",") -> bool:
        """Have a reader of columns read rows as this one does; False if it cannot."""
        attributes = list(dict.fromkeys(attribute for _, attribute in self._attributes))
        prefix = f"{self._table.stem}-" if self._id is None or self._prefix else ""
        texts = [*attributes, *self._null, prefix, self._separator or "", self._table.name or ""]
        texts.append("" if self._header is None else self._header[0])
        if self.vector or not 0 < len(attributes) <= MAX_ATTRIBUTES or not delimiter.isascii():
            return False
        if max(map(len, (*attributes, prefix))) > MAX_ID_CHARACTERS // 2 or "\0" in "".join(texts):
            return False
        if texts[-3] != texts[-3].strip():  # it may be at the end of a cell, where there are blanks
            return False
        numbers = [len(self.columns), len(attributes), len(self._null)]
        numbers += [-1 if at is None else at for at in (self._id, self._label)]
        numbers += [ord(delimiter), self._table.name is not None, self._header is not None]
        place = {index: attributes.index(attribute) for index, attribute in self._attributes}
        dated = self._serial_dates | self._named_date
        for index in range(len(self.columns)):
            numbers += [place.get(index, -1), index in dated]
        try:
            into.plan(numbers, [text.encode() for text in texts])
        except UnicodeEncodeError:
            return False
        return True

    def account_for(self, into: ColumnReader) -> None:
        """Count the values that a reader of columns has read as missing."""
        for text, count in zip(self._null, into.nulls(), strict=True):
            if count:
                self._counts[_missing(text)] += count

    def widen(self, width: int) -> None:
        """Extend the columns to a row's cells; columns beyond the header have no names."""
        beyond = [""] * (width - len(self.columns))
        names = _distinct_names([*self.columns, *beyond], Counter())
        first = len(self.columns)
        self._attributes += enumerate(names[first:], first)
        self.texts += range(first, width)
        self.columns = tuple(names)
        self._header = None if self._header is None else [*self._header, *beyond]
        self._counts["columns beyond the header called by their position"] += len(beyond)

    def _is_left_out(self, cells: Sequence[object]) -> bool:
        if not any(map(_is_there, cells)):
            self._counts[BLANK] += 1
            return True
        if self._header is None or str(cells[0] or "").strip() != self._header[0]:
            return False
        if [str("" if cell is None else cell).strip() for cell in cells] != self._header:
            return False
        self._counts["repeated header rows left out"] += 1
        return True

    def _require_own_id(self, cells: Sequence[object], where: str, seen: DigestSet) -> None:
        own = self._own_id(cells, where)
        column = f'the column "{quoted(self.columns[self._id or 0], 40)}"'
        if not own:
            raise _NoIds(f"{column} is empty at {quoted(where, 200)}")
        if not seen.add(own.encode(errors="surrogatepass")):
            raise _NoIds(f'{column} has "{quoted(own, 40)}" twice')

    def _own_id(self, cells: Sequence[object], where: str) -> str:
        """The id in the row, "" if it has none."""
        own = "" if self._id is None else self._single(cells, self._id, where)
        return f"{self._table.stem}-{own}" if own and self._prefix else own

    def _single(self, cells: Sequence[object], index: int, where: str) -> str:
        values = list(texts_of(cells[index], None, where, self.columns[index]))
        if len(values) > 1:
            raise BadRecord(where, "one value", f"{len(values)}", self.columns[index])
        return values[0] if values else ""

    def _texts(self, cell: object, index: int, where: str) -> Iterator[str]:
        for text in texts_of(cell, self._separator, where, self.columns[index]):
            if not self._says_nothing(text):
                yield self._date(text, index)

    def _says_nothing(self, text: str) -> bool:
        if text not in self._null:
            return False
        self._counts[_missing(text)] += 1
        return True

    def _date(self, text: str, index: int) -> str:
        """The date of a spreadsheet's number, if the column has such dates."""
        if index in self._serial_dates:
            if _SERIAL.fullmatch(text):
                self._counts["serial numbers of spreadsheets read as dates"] += 1
                return _serial_date(float(text))
        elif index in self._named_date and _SERIAL.fullmatch(text):
            column = quoted(self.columns[index], 40)
            rule = f"numbers in {column} that look like a spreadsheet's dates"
            named = option("source.serial_dates", column)
            self._counts[f"{rule} ({named} reads them)"] += 1
        return text

    def _numbers(self, cell: object, index: int, where: str) -> list[float]:
        items = cell if isinstance(cell, list | tuple) else [cell]
        return [_number(item, where, self.columns[index]) for item in items]


def _missing(text: str) -> str:
    """The name in counts for values that are a text of `null`."""
    return f'values "{quoted(text)}" read as missing (see {option("source.null")})'


def row_json(columns: Sequence[str], cells: Sequence[object]) -> bytes:
    """A row as JSON, for the quarantine file."""
    row = dict(zip(columns, cells, strict=False))
    return orjson.dumps(row, default=repr, option=orjson.OPT_NON_STR_KEYS)


def cause_of(error: BaseException, most: int) -> str:
    """The innermost cause of a library's error, on one line of so many characters."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    lines = str(error).strip().splitlines()
    return quoted(f"{type(error).__name__}: {lines[0] if lines else 'no reason'}", most)


def _distinct_names(given: Sequence[str], counts: Counter[str]) -> list[str]:
    """The names of columns: an empty name becomes its position, a repeated name gets a number."""
    names: list[str] = []
    seen, taken, repeats = set[str](), set(given), Counter[str]()
    changed: dict[bool, list[str]] = {True: [], False: []}
    for place, name in enumerate(given, 1):
        found = plain = name if name.strip() else f"column_{place}"
        while found in seen or (found != name and found in taken):
            repeats[plain] += 1
            found = f"{plain}_{repeats[plain] + 1}"
        seen.add(found)
        names.append(found)
        if found != name:
            changed[plain == name].append(quoted(found, 40))
    for is_repeated, rule in _RENAMED.items():
        if changed[is_repeated]:
            counts[f"{rule} ({listed(changed[is_repeated], 3)})"] += len(changed[is_repeated])
    return names


def _is_there(cell: object) -> bool:
    """Whether a cell has a value."""
    if isinstance(cell, str):
        return bool(cell.strip())
    return cell is not None and cell != [] and cell == cell  # NaN is not itself


@dataclass(frozen=True, slots=True)
class UnreadableValue:
    """A value that Python cannot represent, such as a timestamp of the year 146,138,514,283."""

    text: str


def _require_readable(cell: object, where: str, column: str) -> None:
    if isinstance(cell, UnreadableValue):
        expected = "a date from year 1 to 9999, or any other value"
        raise BadRecord(where, expected, quoted(cell.text), column)


def texts_of(cell: object, separator: str | None, where: str, column: str) -> Iterator[str]:
    """The values of a cell as texts, stripped; empty for a missing one."""
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
        case UnreadableValue():
            _require_readable(cell, where, column)
        case list() | tuple():
            for item in cell:
                yield from texts_of(item, separator, where, column)
        case _:
            kind = type(cell).__name__
            raise BadRecord(where, "text, a number, a date or a list of these", kind, column)


def _serial_date(days: float) -> str:
    """The date this many days after the spreadsheets' origin, with a time if it has one."""
    moment = _BEFORE_ALL + datetime.timedelta(seconds=round(days * 86_400))
    is_date = days == int(days)
    return moment.date().isoformat() if is_date else moment.isoformat()


def _number(cell: object, where: str, column: str) -> float:
    _require_readable(cell, where, column)
    number = math.nan
    # Python reads True and 1_000 as numbers; no table means that
    if isinstance(cell, str | int | float | decimal.Decimal) and not isinstance(cell, bool):
        with contextlib.suppress(ValueError, OverflowError):
            number = math.nan if isinstance(cell, str) and "_" in cell else float(cell)
    if not math.isfinite(number):
        missing = cell is None or (isinstance(cell, str) and not cell.strip())
        raise BadRecord(where, "a finite number", "nothing" if missing else quoted(cell), column)
    return number
