"""The xlsx source: one sheet of a spreadsheet, streamed.

The first row that is not empty is the header. A formula is what it gave when the file was last
saved; dates are ISO 8601, whole numbers have no point, and a spreadsheet's error (#N/A, #DIV/0!)
is a missing value. What the file unpacks to is bounded before any of it is read, and defusedxml
refuses entities, so that no small file becomes a large one.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from kbforge.contracts import Fragment, OnBad
from kbforge.errors import BadRecord, quoted
from kbforge.files.io import called, require_openpyxl
from kbforge.words import counted
from kbforge_plugins.sources.parquet import seekable
from kbforge_plugins.sources.rows import RowReader, TableName, TableSource, row_json

_ERRORS = frozenset(("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A"))
_MOST_ROWS = 1_048_576
_AT_ONCE = 256  # rows
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_LARGEST = 1e15  # of the numbers that are surely whole
_MOST_BYTES = {"sheets": 1 << 32, "strings": 1 << 28, "everything else": 1 << 26}
"""Unpacked. Sheets are streamed; the strings that they share are held; the rest is a tree."""


@dataclass(eq=False)
class XlsxSource(TableSource):
    """Spreadsheets of Excel and of programs that write its format.

    Args:
        sheet: name of the sheet; the default is the first. A named sheet is part of the fragments'
            source.

    """

    endings: ClassVar = (".xlsx", ".xlsm")

    sheet: str | None = None

    def __post_init__(self) -> None:
        require_openpyxl()
        super().__post_init__()

    def read_table(self, path: str, table: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        if self.sheet is not None:
            table = TableName(f"{table.name}/{self.sheet}", table.stem)
        with seekable(path) as file, _opened(file, called(path)) as book:
            yield from self._read_sheet(book, called(path), table, on_bad)

    def _read_sheet(
        self, book: Any, name: str, table: TableName, on_bad: OnBad
    ) -> Iterator[Fragment]:
        sheet = _sheet(book, self.sheet, name)
        about = f'{quoted(name, 400)}: sheet "{quoted(sheet.title, 40)}"'
        if len(book.worksheets) > 1:
            about = f"{about} of {len(book.worksheets)} (--sheet takes another)"
        rows = _rows(sheet, name)
        first, cells = next(rows, (0, []))
        if not cells:
            raise BadRecord(name, "a header row", "an empty sheet")
        header = [_column(cell) for cell in cells]
        reader = RowReader(self, header, f"{name}:{first}", table)
        self.taken.append(f"{about}, {self.summary(header)}")
        number = 0
        for row, found in rows:
            number += 1
            self.where = f"{name}:{row}"
            cells = [self._cell(cell) for cell in found]
            try:
                if len(cells) > len(header):
                    expected = f"{len(header)} cells, as the header has"
                    raise BadRecord(self.where, expected, str(len(cells)))
                cells += [None] * (len(header) - len(cells))
                fragment = reader.fragment(cells, number, self.where, row)
            except BadRecord as error:
                on_bad(error, row_json(header, cells))
                continue
            yield fragment
        if not number:
            raise BadRecord(name, "rows below the header", "none")
        self.taken[-1] = f"{about}, {counted(number, 'row')}, {self.summary(header)}"

    def _cell(self, value: object) -> object:
        if isinstance(value, str) and value in _ERRORS:
            self.counts["errors of a spreadsheet read as missing"] += 1
            return None
        return _plain(value)


def _plain(value: object) -> object:
    """A cell as other tables have it."""
    match value:
        case str():
            return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), value)
        case float() if value.is_integer() and abs(value) < _LARGEST:
            return int(value)
        case datetime.datetime() if value.time() == datetime.time():
            return value.date()
        case datetime.timedelta():
            return str(value)
    return value


def _column(cell: object) -> str:
    """The name of a column; none for an empty cell."""
    plain = _plain(cell)
    return "" if plain is None else plain.strip() if isinstance(plain, str) else str(plain)


@contextlib.contextmanager
def _opened(file: Any, name: str) -> Iterator[Any]:
    """The workbook in a file; BadRecord if it is none, or unpacks to too much."""
    from openpyxl import load_workbook

    _require_bounded(file, name)
    file.seek(0)
    with _guarded(name):
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
    try:
        yield book
    finally:
        book.close()


@contextlib.contextmanager
def _guarded(where: str) -> Iterator[None]:
    """What the library raises in this block becomes a BadRecord; its warnings are of no use."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MemoryError, BadRecord):
        raise
    # openpyxl lets through whatever a damaged part makes it meet: of zipfile, XML and its own
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None or cause.__context__ is not None:
            cause = cause.__cause__ or cause.__context__ or cause
        said = str(cause).splitlines()
        why = quoted(f"{type(cause).__name__}: {said[0] if said else 'no reason'}", 160)
        got = f"another or damaged file ({why})"
        raise BadRecord(where, "a spreadsheet (.xlsx)", got) from error


def _require_bounded(file: Any, name: str) -> None:
    with _guarded(name), zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
    sizes: Counter[str] = Counter()
    for part in parts:
        lower = part.filename.lower()
        if lower.endswith((".xml", ".rels")):
            of_sheet = lower.startswith("xl/worksheets/sheet")
            strings = lower == "xl/sharedstrings.xml"
            kind = "sheets" if of_sheet else "strings" if strings else "everything else"
            sizes[kind] += part.file_size
    for kind, most in _MOST_BYTES.items():
        if sizes[kind] > most:
            expected = f"a spreadsheet with at most {most >> 20:,} MiB of XML for {kind}"
            raise BadRecord(name, expected, f"{sizes[kind] >> 20:,} MiB")


def _sheet(book: Any, wanted: str | None, name: str) -> Any:
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if not sheets:
        raise BadRecord(name, "a sheet with cells", "none")
    if wanted is None:
        return next(iter(sheets.values()))
    if wanted not in sheets:
        got = ", ".join(quoted(title, 40) for title in list(sheets)[:20])
        raise BadRecord(name, f'a sheet "{quoted(wanted, 40)}"', f"the sheets {got}")
    return sheets[wanted]


def _rows(sheet: Any, name: str) -> Iterator[tuple[int, list[object]]]:
    """(row number, cells up to the last that is not empty) for every row that is not empty."""
    sheet.reset_dimensions()  # what the file says of its size may be anything
    rows = iter(sheet.iter_rows(values_only=True))
    first = 1
    while True:
        with _guarded(f"{name}:{first}"):
            some = list(islice(rows, _AT_ONCE))
        if not some:
            return
        for number, row in enumerate(some, first):
            filled = next((k for k in range(len(row), 0, -1) if row[k - 1] is not None), 0)
            if filled:
                yield number, list(row[:filled])
        first += len(some)
        if first > _MOST_ROWS + _AT_ONCE:
            raise BadRecord(name, f"at most {_MOST_ROWS:,} rows", "more")
