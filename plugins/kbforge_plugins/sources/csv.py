"""The csv source: streams tables of text in any encoding.

The first record is the header. Fields may be quoted and then may hold line breaks; a doubled quote
stands for one. A record that cannot be parsed (an unclosed quote would include the rest of a file)
loses only its first line: reading continues with the next one.

Encoding and delimiter are guessed from a bounded sample, which is the same for a file and for a
pipe, so the same bytes always give the same result. UTF-8 is used if the sample allows it. Text
that is neither UTF-8 nor UTF-16 is read as cp1252, which includes Latin-1, unless its bytes cannot
be Western text. Language statistics are not used, because they are unreliable on short tables of
names. A byte order mark of UTF-8 has precedence over a named encoding.

A byte that is invalid in the encoding affects only its own line: it becomes a character that UTF-8
cannot represent, and the reader that decodes the line reports it.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, cast

from kbforge.contracts import Fragment, OnBad
from kbforge.errors import BadRecord, UsageError, counted, option, quoted
from kbforge.files.fragments import decoded
from kbforge.files.io import called, lines_of, open_input, stream_of
from kbforge.files.kinds import require_readable_as
from kbforge.registry import ending_of
from kbforge_plugins.sources.rows import BLANK, TableName, TableSource

if TYPE_CHECKING:
    from kbforge.files.lines import ColumnReader

_RECORDS = 64  # that Python reads where the kernel is in doubt about one
_MOST_CHARACTERS = 131_072
_MOST_BLANK = 1_048_576  # rows, of which a spreadsheet may write so many below the last one
_TABBED = (".tsv", ".tab")


@dataclass(eq=False)
class CsvSource(TableSource):
    """Comma- or tab-separated files.

    Args:
        delimiter: one character, or `tab`; the default is the one of , ; | and tab that divides the
            first records evenly.
        encoding: encoding of the text, such as cp1252, latin-1 or utf-16; the default is UTF-8 or
            UTF-16 if the text is in one of them, else cp1252. A byte order mark of UTF-8 overrides
            this.
        columns: names of the columns of a file without a header line.

    """

    endings: ClassVar = (".csv", ".tsv", ".tab", ".psv")
    finds_ids: ClassVar = True

    delimiter: str | None = None
    encoding: str | None = None
    columns: list[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        mark = {"tab": "\t", "\\t": "\t"}.get(self.delimiter or "", self.delimiter)
        if mark is not None and (len(mark) != 1 or mark in '"\r\n\0'):
            got = quoted(self.delimiter)
            raise UsageError(f'delimiter: expected one character or tab, got "{got}"')
        self._delimiter = mark
        self._encoding = None if self.encoding is None else encoding_named(self.encoding)

    def read_table(self, path: str, table: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        # text of any encoding is read below, and packed tables are named there
        passed = ("table", "utf-16", "utf-16-le", "utf-16-be", "zip", "spreadsheet")
        require_readable_as(path, "a table of comma-separated values", *passed)
        with sampled(path) as (sample, stream):
            if self._encoding is None:
                encoding = guess_encoding(sample, called(path))
            else:
                encoding = settled(self._encoding, sample, called(path))
            usual = "\t" if ending_of(path) in _TABBED else ","
            delimiter = self._delimiter or guess_delimiter(sample, encoding, usual)
            self.taken.append("")
            as_what = described(delimiter, encoding, self._encoding is None)
            about = f"{quoted(called(path), 400)}: {as_what}"
            text: Any = as_utf8(stream, encoding)
            if self.into is not None:
                from kbforge.files.lines import LineBuffer  # the kernel takes time to import

                text = LineBuffer(text)
            lines = _Lines(called(path), text, on_bad, encoding, delimiter, self.counts)
            yield from self._read_rows(lines, delimiter, table, on_bad, about)

    def _read_rows(
        self, lines: _Lines, delimiter: str, table: TableName, on_bad: OnBad, about: str
    ) -> Iterator[Fragment]:
        # without it nothing can be read, so it may raise
        header = self.columns or _parse_next(lines, delimiter)
        if header is None:
            raise BadRecord(lines.where, "a header line", "an empty file")
        reader = self.reader(header, lines.where, table, has_header=not self.columns)
        number = 0
        if self.separator == delimiter:
            about = f"{about}; separator splits the text within a cell, delimiter the columns"
        self.taken[-1] = f"{about}, {self.summary(header)}"
        by_kernel = self.into is not None and reader.plan(self.into, delimiter)
        while True:
            if by_kernel:
                number += lines.taken(self.into, number)
            try:
                cells = _parse_next(lines, delimiter)
                if cells is None:
                    break
                number += 1
                wide = any(map(str.strip, cells[len(header) :]))
                if wide or len(cells) < len(header):
                    expected = f"{len(header)} fields, as the header has"
                    raise BadRecord(lines.where, expected, f"{len(cells)}")
                self.where = lines.where
                place = number + lines.passed
                fragment = reader.fragment(cells[: len(header)], place, self.where, lines.first)
            except BadRecord as error:
                if isinstance(error, EndlessRecord):
                    number += 1
                    lines.give_back_all_but_first()
                on_bad(error, lines.raw)
                continue
            if fragment is not None:
                yield fragment
        if by_kernel:
            reader.account_for(self.into)
        if not number:
            named = option("source.columns", "a,b")
            how = f"{named} names the columns of a file without a header line"
            got = "none" if self.columns else f"none ({how})"
            raise BadRecord(lines.where, "rows below the header", got)
        self.taken[-1] = f"{about}, {counted(number, 'row')}, {self.summary(header)}"


class EndlessRecord(BadRecord):
    """A record whose end is unknown."""


def _parse_next(lines: _Lines, delimiter: str) -> list[str] | None:
    """The fields of the next record, None at the end; an EndlessRecord if it cannot be parsed."""
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
            bad = undecodable(error.object, lines.encoding, lines.where)
            raise EndlessRecord(bad.where, bad.expected, bad.got) from None
        except csv.Error as error:
            raise EndlessRecord(lines.where, "a CSV record", _reason(error)) from None
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


@dataclass(eq=False)
class _Lines:
    """The lines of a file for `csv.reader`; lines of a broken record can be read again.

    `passed` counts the rows with only delimiters, `counts` also the blank lines.
    """

    name: str
    stream: BinaryIO
    on_bad: OnBad
    encoding: str
    delimiter: str
    counts: Counter[str]

    def __post_init__(self) -> None:
        self._file = lines_of(self.stream, self.name, self.on_bad)
        self._left = 0  # records until the kernel reads on
        self._blank = self.delimiter.encode() + b" \t"
        self._ahead: deque[tuple[int, bytes]] = deque()
        self._number = self.passed = 0
        self._record: list[tuple[int, bytes]] = []

    def taken(self, into: ColumnReader, number: int) -> int:
        """How many records the kernel takes here, after so many others.

        The few after them, of which the first is in doubt, are not for it; nor is the first line.
        """
        self._left -= 1
        if self._left >= 0 or not self._number:
            return 0
        self._left = _RECORDS - 1
        lines, rows = into.take_text(cast(Any, self.stream), self._number, number + self.passed)
        self._number += lines
        self._file = lines_of(self.stream, self.name, self.on_bad, self._number)
        return rows

    def begin(self) -> None:
        """Go to the line that starts the next record."""
        self._record = []
        last = self.passed + _MOST_BLANK
        while self._ahead or self._read():
            number, line = self._ahead[0]
            blank = max(0, number - self._number - 1)
            if is_blank := not line.strip(self._blank):
                self._ahead.popleft()
                self._number, self.passed = number, self.passed + bool(line)
            if blank + is_blank:
                self.counts[BLANK] += blank + is_blank
            if not is_blank:
                return
            if self.passed > last:
                self._file = iter(())  # nobody waits for the end
                raise BadRecord(self.where, f"text within {_MOST_BLANK:,} rows", "only blank ones")

    def _read(self) -> bool:
        """Read a line ahead; False at the end."""
        self._ahead.extend(itertools.islice(self._file, 1))
        return bool(self._ahead)

    @property
    def first(self) -> int:
        """The number of the record's first line."""
        return self._record[0][0] if self._record else self._number + 1

    @property
    def where(self) -> str:
        """`file:line` of the record's first line."""
        return f"{self.name}:{self.first}"

    @property
    def raw(self) -> bytes:
        """The record as it stands in the file."""
        return b"\n".join(line for _, line in self._record)

    def give_back_all_but_first(self) -> None:
        """Let the lines inside a broken record be read again."""
        self._ahead.extendleft(reversed(self._record[1:]))
        del self._record[1:]

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        number, line = self._take()
        self._record.append((number, line))
        return line.decode() + "\n"

    def _take(self) -> tuple[int, bytes]:
        if not (self._ahead or self._read()):
            raise StopIteration
        number = self._ahead[0][0]
        # blank lines matter inside quotes, and the file's reader leaves them out
        if self._record and number > self._record[-1][0] + 1:
            return self._record[-1][0] + 1, b""
        self._number = max(number, self._number)
        return self._ahead.popleft()


UTF8 = "utf-8"
DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}
WESTERN = "cp1252"
_SAMPLE = 1 << 18
_FOR_RECORDS = 1 << 15
_STEP = 1 << 16
_MOST_RECORDS = 100
_MARKS = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_IN_CP1252 = frozenset(b"\x81\x8d\x8f\x90\x9d")
_ZIP = b"PK\x03\x04"
_ENOUGH = 8  # high bytes, before their neighbours say anything


@contextlib.contextmanager
def sampled(path: str, most: int = _SAMPLE) -> Iterator[tuple[bytes, BinaryIO]]:
    """The first bytes of a file, uncompressed, and all of it as a stream; "-" is standard input."""
    with open_input(path) as stream:
        first, damage = bytearray(), None
        try:
            while len(first) < most and (data := cast(Any, stream).read1(_STEP)):
                first += data
        except (OSError, EOFError, zlib.error) as error:
            damage = error  # whoever reads on meets it behind the sample
        sample = bytes(first)
        del first
        yield sample[:most], stream_of(_replayed(sample, stream, damage), _STEP)


def guess_encoding(sample: bytes, where: str) -> str:
    """The encoding that the first bytes of a file imply; a BadRecord if they are not text."""
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding
    if sample.startswith(_ZIP):
        got = "a zip file, such as a spreadsheet (kbforge load xlsx reads those)"
        raise BadRecord(where, "a table as text", got)
    if b"\0" in sample and (wide := _utf16(sample)):
        return wide
    text = sample.decode(UTF8, "surrogateescape")
    bad = sum("\udc80" <= c <= "\udcff" for c in text)
    if bad <= sum(c > "\x7f" for c in text) - bad or (len(sample) - bad < 4 and bad < 4):
        return UTF8
    if b"\0" in sample or not _is_western(sample):
        named = option("source.encoding", "NAME")
        got = f"bytes of another one ({named} names it: cp1251, gb18030, shift_jis, ...)"
        raise BadRecord(where, "text in UTF-8, UTF-16 or a Western encoding", got)
    return WESTERN


def guess_delimiter(sample: bytes, encoding: str, usual: str) -> str:
    """The delimiter, inferred from the first records; `usual` is the one for the file extension.

    It is the character that gives most records as many fields as the header. Ties go to the one
    without a space after it, then the one with more columns, then the usual one.
    """
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample[:_FOR_RECORDS])
    text = text.lstrip("\ufeff")
    if len(sample) > _FOR_RECORDS:
        text = text[: text.rfind("\n") + 1] or text
    found: dict[str, tuple[float, int, int]] = {}
    for mark in sorted(DELIMITERS, key=lambda mark: mark != usual):
        records = list(_records(text, mark))
        if records and (width := len(records[0])) > 1:
            alike = sum(len(record) == width for record in records) / len(records)
            spaced = sum(cell.startswith(" ") for cell in records[0][1:])
            found[mark] = (round(alike, 1), -spaced, width)
    return max(found, key=lambda mark: found[mark], default=usual)


def _records(text: str, mark: str) -> Iterator[list[str]]:
    with contextlib.suppress(csv.Error):  # a broken record ends the sample
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
        yield from itertools.islice(filter(None, reader), _MOST_RECORDS)


def _utf16(sample: bytes) -> str:
    """The UTF-16 variant of a text without a byte order mark; "" for none."""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return ""
    lines = "\n" in text or "\r" in text
    return encoding if lines and min(even, odd) * 8 <= max(even, odd) else ""


def _is_western(sample: bytes) -> bool:
    """Whether the bytes above ASCII may be accented letters, which are seldom adjacent."""
    if not _NOT_IN_CP1252.isdisjoint(sample):
        return False
    high = [byte > 0x7F for byte in sample]
    beside = sum(a and b for a, b in itertools.pairwise(high))
    return sum(high) < _ENOUGH or 2 * beside < sum(high)


def described(delimiter: str, encoding: str, guessed: bool) -> str:
    """The two in words."""
    mark = DELIMITERS.get(delimiter, f'"{quoted(delimiter)}"')
    shown = encoding.upper() if encoding.startswith("utf") else encoding
    named = option("source.encoding", "NAME")
    doubt = f" (a guess, because it is not UTF-8; {named} selects another)"
    return f"{mark}-separated, {shown}{doubt if guessed and encoding == WESTERN else ''}"


def _replayed(sample: bytes, stream: BinaryIO, damage: Exception | None) -> Iterator[bytes]:
    """The first bytes of a stream, any damage found in them, and the rest."""
    yield sample
    if damage is not None:
        raise damage
    yield from iter(partial(cast(Any, stream).read1, _STEP), b"")


_NO_TEXT = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
"""Python's codecs for protocols and source code, which are not encodings of files."""
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BASE = 0xDC00


def encoding_named(name: str) -> str:
    """The encoding's usual name; a UsageError if there is no such text encoding."""
    expected = "expected a text encoding such as cp1252, latin-1 or utf-16"
    try:
        found = codecs.lookup(name).name
        "".encode(found)
    except (LookupError, ValueError):
        found = ""
    if not found or found.replace("_", "-") in _NO_TEXT:
        raise UsageError(f'encoding: {expected}, got "{quoted(name)}"')
    return UTF8 if found == "utf-8-sig" else found


def settled(encoding: str, sample: bytes, where: str) -> str:
    """The actual encoding for a named one in a file that begins with these bytes.

    A byte order mark of UTF-8 overrides it. UTF-16 and UTF-32 without a mark get a byte order: a
    BadRecord if none is certain.
    """
    if encoding == UTF8 or sample.startswith(codecs.BOM_UTF8):
        return UTF8
    marks = {mark for mark, marked in _MARKS if marked == encoding}
    if not marks or not sample or sample.startswith(tuple(marks)):
        return encoding
    if encoding == "utf-16" and (wide := _utf16(sample)):
        return wide
    named = option("source.encoding", f"{encoding}-le")
    got = f"no byte order mark ({named} and {encoding}-be need none)"
    if b"\0" not in sample:
        with contextlib.suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder(UTF8)().decode(sample)
            got = "UTF-8 (leave the encoding out)"
    raise BadRecord(where, f"text in {encoding.upper()}", got)


def as_utf8(stream: BinaryIO, encoding: str) -> BinaryIO:
    """A stream of text in a `settled` encoding, as UTF-8; undecodable bytes stay invalid."""
    return stream if encoding == UTF8 else stream_of(_transcoded(stream, encoding), _STEP)


def undecodable(line: bytes, encoding: str, where: str) -> BadRecord:
    """The error in a line of `as_utf8` that is not valid UTF-8."""
    if encoding == UTF8:
        try:
            decoded(line, where)
        except BadRecord as error:
            return with_hint(error, line)
    text = line.decode(errors="surrogatepass")
    codes = ((place, ord(c) - _BASE) for place, c in enumerate(text, 1))
    place, byte = next((place, byte) for place, byte in codes if 0 <= byte <= 0xFF)
    return BadRecord(where, f"{encoding} text", f"the byte 0x{byte:02x} at character {place}")


def with_hint(error: BadRecord, line: bytes) -> BadRecord:
    """An error of the reader of JSON lines; if the text is not UTF-8, it suggests what to try."""
    if error.expected != "UTF-8 text":
        return error
    seems, encoding = "if the file comes from a spreadsheet,", "cp1252"
    if line.startswith(_UTF16_MARKS):
        seems, encoding = "it looks like UTF-16:", "utf-16"
    hint = f"{seems} try {option('source.encoding', encoding)}"
    return BadRecord(error.where, error.expected, f"{error.got} ({hint})")


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Turns each byte that cannot be decoded into a lone surrogate."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(_BASE + b) for b in error.object[error.start : error.end]), error.end


codecs.register_error("kbforge-undecodable", _mark)


def _transcoded(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    """A stream of bytes in an encoding, as UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)("kbforge-undecodable")
    while data := cast(Any, stream).read1(_STEP):
        yield decoder.decode(data).encode(errors="surrogatepass")
    yield decoder.decode(b"", final=True).encode(errors="surrogatepass")
