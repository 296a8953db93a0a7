"""The xlsx source: one sheet of a spreadsheet, streamed.

The first row that is not empty is the header. A formula is what it gave when the file was last
saved; dates are ISO 8601, whole numbers have no point, and a spreadsheet's error (#N/A, #DIV/0!)
is a missing value.

A small file may unpack to terabytes. So everything that the parser gets is counted as it is
unpacked, whatever the file says of its sizes: bytes, rows, what one row or one string has, and how
much smaller the packed file is. defusedxml refuses entities.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from kbforge.contracts import Fragment, OnBad
from kbforge.errors import BadRecord, quoted
from kbforge.files.io import called, require_openpyxl
from kbforge.words import counted
from kbforge_plugins.sources.parquet import seekable
from kbforge_plugins.sources.rows import BLANK, TableName, TableSource, row_json

_ERRORS = frozenset(("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A"))
_MOST_ROWS = 1_048_576
_AT_ONCE = 256  # rows
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_LARGEST = 1e15  # of the numbers that are surely whole
_MOST_SHEET = 1 << 32  # bytes of XML; a sheet is streamed
_MOST_STRINGS = 1 << 28  # the strings that sheets share are held
_MOST_AT_ONCE = 1 << 24  # a row, a string, or a part that is a tree in memory
_MOST_TAGS = 400_000  # of these
_MOST_TIMES = 200  # how often larger XML is than what it was packed to
_FROM = 1 << 20  # bytes from which that counts
_SHEETS = "xl/worksheets/"  # the folder that every program puts them into
_STEP = 1 << 12  # bytes, which is what the unpacking reads
_MARKER = re.compile(rb"<!\[CDATA\[|\]\]>|<!--|-->|<(?:\w{1,16}:)?(?:row|si)[\s/>]")
_LONGEST_MARKER = 32
_HIDING = {b"<![CDATA[": b"]]>", b"<!--": b"-->"}


@dataclass(eq=False)
class XlsxSource(TableSource):
    """Spreadsheets of Excel and of programs that write its format.

    Args:
        sheet: name of the sheet; the default is the first. A named sheet is part of the fragments'
            source.

    """

    endings: ClassVar = (".xlsx", ".xlsm")
    finds_ids: ClassVar = True

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
        reader = self.reader(header, f"{name}:{first}", table, has_header=True)
        self.taken.append(f"{about}, {self.summary(header)}")
        number, last = 0, first
        for row, found in rows:
            number += 1
            if row > last + 1:
                self.counts[BLANK] += row - last - 1
            last, self.where = row, f"{name}:{row}"
            cells = [self._cell(cell) for cell in found]
            if len(cells) > len(reader.columns):
                reader.widen(len(cells))
            cells += [None] * (len(reader.columns) - len(cells))
            try:
                fragment = reader.fragment(cells, number, self.where, row)
            except BadRecord as error:
                on_bad(error, row_json(reader.columns, cells))
                continue
            if fragment is not None:
                yield fragment
        if not number:
            raise BadRecord(name, "rows below the header", "none")
        about = f"{about}, {counted(number, 'row')}"
        self.taken[-1] = f"{about}, {self.summary(reader.columns)}"

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
    from openpyxl.reader.excel import ExcelReader

    with _guarded(name):
        reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
        reader.archive = archive = _CountedArchive(file, name)
        archive.count_sheets()
        reader.read()
    try:
        yield reader.wb
    finally:
        archive.close()


class _CountedArchive(zipfile.ZipFile):
    """A zip file whose parts unpack to no more than those of spreadsheets do."""

    def __init__(self, file: Any, name: str) -> None:
        self.packed, self.name = _CountedFile(file), name
        super().__init__(self.packed)

    def open(self, name: Any, mode: Any = "r", pwd: Any = None, *, force_zip64: Any = False) -> Any:
        """A part; reading it raises a BadRecord where it is too large."""
        part = super().open(name, mode, pwd, force_zip64=force_zip64)
        return _CountedPart(part, self, str(name).lower().startswith(_SHEETS))

    def count_sheets(self) -> None:
        """Read the sheets, to find out what is too large before it is parsed, which is slow."""
        for name in self.namelist():
            if name.lower().startswith(_SHEETS) and name.lower().endswith(".xml"):
                with self.open(name) as part:
                    while part.read(_STEP):
                        pass


class _CountedFile:
    """A file that counts the bytes that are read."""

    def __init__(self, file: Any) -> None:
        self._file, self.count = file, 0
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data: bytes = self._file.read(size)
        self.count += len(data)
        return data


class _CountedPart:
    """A part that is counted as it is unpacked, because what the file says of it may be a lie."""

    def __init__(self, stream: Any, archive: _CountedArchive, is_sheet: bool) -> None:
        self._stream, self._archive, self._before = stream, archive, archive.packed.count
        self._most, self._of = (_MOST_SHEET, b"row") if is_sheet else (_MOST_STRINGS, b"si")
        self._bytes = self._rows = 0
        self._since = self._tags = 0  # bytes and tags of the row or string that is read
        self._tail = self._until = b""

    def __enter__(self) -> _CountedPart:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reading."""
        self._stream.close()

    def read(self, size: int = -1) -> bytes:
        """The next bytes; without a size all of them, which become a tree in memory."""
        pieces: list[bytes] = []
        while data := self._stream.read(_STEP if size < 0 else min(size, _STEP)):
            self._bytes += len(data)
            self._since += len(data)
            self._tags += data.count(b"<")
            self._require(self._since <= _MOST_AT_ONCE, f"{_MOST_AT_ONCE >> 20} MiB of XML at once")
            self._require(self._tags <= _MOST_TAGS, f"{_MOST_TAGS:,} tags at once")
            if size >= 0:
                self._count_rows(data)
                return bytes(data)
            pieces.append(data)
        return b"".join(pieces)

    def _count_rows(self, data: bytes) -> None:
        """Count rows and strings, each of which is done with when the next one begins."""
        text, last = self._tail + data, 0
        for found in _MARKER.finditer(text):
            mark, last = found[0], found.end()
            if self._until:  # what is hidden may look like rows
                self._until = b"" if mark == self._until else self._until
            elif mark in _HIDING:
                self._until = _HIDING[mark]
            elif mark[:1] == b"<" and self._of in mark:
                self._rows += self._of == b"row"
                self._since, self._tags = len(text) - last, text.count(b"<", last)
        self._tail = text[max(last, len(text) - _LONGEST_MARKER) :]
        self._require(self._rows <= _MOST_ROWS, f"{_MOST_ROWS:,} rows")
        self._require(self._bytes <= self._most, f"{self._most >> 20:,} MiB of XML")
        packed = self._archive.packed.count - self._before
        dense = self._bytes > _FROM and self._bytes > _MOST_TIMES * packed
        self._require(not dense, f"{_MOST_TIMES} bytes of XML for each packed one")

    def _require(self, is_so: bool, most: str) -> None:
        if not is_so:
            raise BadRecord(self._archive.name, f"a spreadsheet with at most {most}", "more")


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
            if row.count(None) == len(row):
                continue
            filled = next((k for k in range(len(row), 0, -1) if row[k - 1] is not None), 0)
            yield number, list(row[:filled])
        first += len(some)
        if first > _MOST_ROWS + _AT_ONCE:
            raise BadRecord(name, f"at most {_MOST_ROWS:,} rows", "more")
