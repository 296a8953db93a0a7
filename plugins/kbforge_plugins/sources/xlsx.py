"""The xlsx source: streams one sheet of a spreadsheet.

The first row that is not empty is the header. A formula has its value from when the file was last
saved; dates are ISO 8601, integers have no decimal point, and a spreadsheet's error (#N/A, #DIV/0!)
is a missing value.

A small file may decompress to terabytes. So all input to the parser is counted as it is
decompressed, regardless of the sizes stated in the file: bytes, rows, the content of a row or a
string, and the compression ratio. Entities are refused. Rows and strings are parsed one at a time;
even of a million rows memory holds only their strings.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import warnings
import zipfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from kbforge.contracts import Fragment, OnBad
from kbforge.errors import BadRecord, counted, option, quoted
from kbforge.files.io import called, require_openpyxl
from kbforge_plugins.sources.parquet import seekable
from kbforge_plugins.sources.rows import BLANK, TableName, TableSource, cause_of

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
        with seekable(path) as file:
            with _guarded(called(path)):
                book = _Book(file, called(path))
            with book.archive:
                yield from self._read_sheet(book, called(path), table, on_bad)

    def _read_sheet(
        self, book: _Book, name: str, table: TableName, on_bad: OnBad
    ) -> Iterator[Fragment]:
        title = _title(book, self.sheet, name)
        about = f'{quoted(name, 400)}: sheet "{quoted(title, 40)}"'
        if len(book.sheets) > 1:
            about = (
                f"{about} of {len(book.sheets)} ({option('source.sheet', 'NAME')} selects another)"
            )
        rows = _rows(book, book.sheets[title], name)
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
            last = row
            cells = [self._cell(cell) for cell in found]
            if len(cells) > len(reader.columns):
                reader.widen(len(cells))
            cells += [None] * (len(reader.columns) - len(cells))
            yield from self.read_row(reader, cells, number, f"{name}:{row}", on_bad, row)
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
    """A cell in the form of other tables."""
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


class _Book:
    """A workbook: its parts, whose sizes are counted, and shared data.

    Any exception means that the file is not a workbook; `_guarded` makes it a BadRecord.
    """

    def __init__(self, file: Any, name: str) -> None:
        from openpyxl.reader.excel import ExcelReader
        from openpyxl.styles.stylesheet import apply_stylesheet
        from openpyxl.xml.constants import SHARED_STRINGS

        reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
        reader.archive = self.archive = _CountedArchive(file, name)
        self.archive.count_sheets()
        reader.read_manifest()
        reader.read_workbook()
        apply_stylesheet(self.archive, reader.wb)
        self.strings, self.styled = _Strings(), reader.wb
        if (part := reader.package.find(SHARED_STRINGS)) is not None:
            with self.archive.open(part.PartName[1:]) as stream:
                for element in _elements(stream, "si"):
                    self.strings.append(_text(element))
        there = set(self.archive.namelist())
        self.sheets: dict[str, str] = {
            sheet.name: of.target
            for sheet, of in reader.parser.find_sheets()
            if of.target in there and "chartsheet" not in of.Type
        }


class _Strings:
    """The strings that cells share, in a quarter of the memory of a list."""

    def __init__(self) -> None:
        self._text, self._ends = bytearray(), array("I", (0,))

    def append(self, text: str) -> None:
        """Add a string."""
        self._text += text.encode(errors="surrogatepass")
        self._ends.append(len(self._text))

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self._ends) - 1:
            raise IndexError(f"there is no string {index}")
        text = self._text[self._ends[index] : self._ends[index + 1]]
        return text.decode(errors="surrogatepass")


_NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_INLINE, _VALUE = (f"{{{_NAMESPACE}}}{name}" for name in ("is", "v"))
_TEXTS = (f"{{{_NAMESPACE}}}t", f"{{{_NAMESPACE}}}r/{{{_NAMESPACE}}}t")


def _elements(part: _CountedPart, name: str) -> Iterator[Element]:
    """Each element of a name, a row or a string, alone; nothing of the others is kept."""
    wanted, depth, found = f"{_NAMESPACE}}}{name}", 0, list[Element]()
    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, builder
        if not depth:
            if tag != wanted:
                return
            builder = TreeBuilder()
            parser.CharacterDataHandler = builder.data
        depth += 1
        builder.start("{" + tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        if depth:
            builder.end("{" + tag)
            depth -= 1
            if not depth:
                parser.CharacterDataHandler = None
                found.append(builder.close())

    def refuse(*_: object) -> None:
        raise ValueError("EntitiesForbidden: a spreadsheet declares no types and entities")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    while data := part.read(_STEP):
        parser.Parse(data)
        yield from found
        found.clear()
    parser.Parse(b"", True)
    yield from found


def _text(element: Element) -> str:
    """The text of a string, plain or in pieces of several styles, without phonetic text."""
    return "".join(piece.text or "" for path in _TEXTS for piece in element.findall(path))


class _CountedArchive(zipfile.ZipFile):
    """A zip file whose parts decompress to no more than those of spreadsheets."""

    def __init__(self, file: Any, name: str) -> None:
        self.packed, self.name = _CountedFile(file), name
        super().__init__(self.packed)

    def open(self, name: Any, mode: Any = "r", pwd: Any = None, *, force_zip64: Any = False) -> Any:
        """A part; reading it raises a BadRecord if it is too large."""
        part = super().open(name, mode, pwd, force_zip64=force_zip64)
        return _CountedPart(part, self, str(name).lower().startswith(_SHEETS))

    def count_sheets(self) -> None:
        """Read the sheets to check sizes before parsing, which is slow."""
        for name in self.namelist():
            if name.lower().startswith(_SHEETS) and name.lower().endswith(".xml"):
                with self.open(name) as part:
                    while part.read(_STEP):
                        pass


class _CountedFile:
    """A file that counts the bytes read."""

    def __init__(self, file: Any) -> None:
        self._file, self.count = file, 0
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data: bytes = self._file.read(size)
        self.count += len(data)
        return data


class _CountedPart:
    """A part, counted as it is decompressed, because the size stated in the file may be wrong."""

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
        """Count rows and strings, each of which is finished when the next one begins."""
        text, last, at = self._tail + data, 0, 0
        for found in _MARKER.finditer(text):
            mark, last = found[0], found.end()
            if self._until:  # what is hidden may look like rows
                self._until = b"" if mark == self._until else self._until
            elif mark in _HIDING:
                self._until = _HIDING[mark]
            elif mark[:1] == b"<" and self._of in mark:
                self._rows += self._of == b"row"
                at = last
        if at:
            self._since, self._tags = len(text) - at, text.count(b"<", at)
        self._tail = text[max(last, len(text) - _LONGEST_MARKER) :]
        self._require(self._rows <= _MOST_ROWS, f"{_MOST_ROWS:,} rows")
        self._require(self._bytes <= self._most, f"{self._most >> 20:,} MiB of XML")
        packed = self._archive.packed.count - self._before
        dense = self._bytes > _FROM and self._bytes > _MOST_TIMES * packed
        self._require(not dense, f"{_MOST_TIMES} bytes of XML for each compressed one")

    def _require(self, is_so: bool, most: str) -> None:
        if not is_so:
            raise BadRecord(self._archive.name, f"a spreadsheet with at most {most}", "more")


@contextlib.contextmanager
def _guarded(where: str) -> Iterator[None]:
    """Turn the library's errors in this block into BadRecords, and ignore its warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MemoryError, BadRecord):
        raise
    # openpyxl lets through whatever a damaged part makes it meet: of zipfile, XML and its own
    except Exception as error:
        got = f"another or damaged file ({cause_of(error, 160)})"
        raise BadRecord(where, "a spreadsheet (.xlsx)", got) from error


def _title(book: _Book, wanted: str | None, name: str) -> str:
    """The name of the sheet to read."""
    if not book.sheets:
        raise BadRecord(name, "a sheet with cells", "none")
    if wanted is None:
        return next(iter(book.sheets))
    if wanted not in book.sheets:
        got = ", ".join(quoted(title, 40) for title in list(book.sheets)[:20])
        raise BadRecord(name, f'a sheet "{quoted(wanted, 40)}"', f"the sheets {got}")
    return wanted


def _rows(book: _Book, part: str, name: str) -> Iterator[tuple[int, list[object]]]:
    """(row number, cells up to the last that is not empty) for every row that is not empty."""
    last = 0
    with _guarded(f"{name}:1"):
        stream = book.archive.open(part)
    with stream:
        rows = _parsed(book, stream)
        while True:
            with _guarded(f"{name}:{last + 1}"):
                some = list(islice(rows, _AT_ONCE))
            if not some:
                return
            for number, cells in some:
                if not last < number <= _MOST_ROWS:
                    expected = f"row numbers that grow to at most {_MOST_ROWS:,}"
                    raise BadRecord(f"{name}:{last + 1}", expected, f"{number} after {last}")
                last = number
                if cells:
                    yield number, cells


def _parsed(book: _Book, stream: _CountedPart) -> Iterator[tuple[int, list[object]]]:
    """(row number, cells up to the last that is not empty) of every row in a sheet's XML."""
    from openpyxl.worksheet._reader import WorkSheetParser

    styled = book.styled
    formats = (styled.epoch, styled._date_formats, styled._timedelta_formats)
    parser = WorkSheetParser(stream, book.strings, True, *formats)
    for row in _elements(stream, "row"):
        for cell in row:  # the library is slow on a text that is in its cell
            if cell.get("t") == "inlineStr" and (inline := cell.find(_INLINE)) is not None:
                cell.set("t", "str")
                inline.tag, inline.text = _VALUE, _text(inline)
        number, found = parser.parse_row(row)
        parser.row_dimensions.clear()  # the heights of a million rows
        filled = [cell for cell in found if cell["value"] is not None]
        cells: list[object] = [None] * max((cell["column"] for cell in filled), default=0)
        for cell in filled:
            cells[cell["column"] - 1] = cell["value"]
        yield number, cells
