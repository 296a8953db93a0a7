"""Lines of files in any text encoding, as UTF-8.

A byte that the encoding does not know spoils its own line and no other: it arrives as what no UTF-8
text can hold, and whoever decodes the line finds it there. A byte order mark of UTF-8 wins against
the encoding that was named.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from kbforge.contracts.source import OnBad
from kbforge.errors import BadRecord, UsageError, quoted
from kbforge.files.io import called, lines_of, open_input

UTF8 = "utf-8"
_STEP = 1 << 16
_NO_TEXT = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
"""Python's codecs of protocols and source code, which no file is in."""
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BASE = 0xDC00


def encoding_named(name: str) -> str:
    """The encoding's usual name.

    Raises:
        UsageError: there is no such text encoding.

    """
    expected = "expected a text encoding such as cp1252, latin-1 or utf-16"
    try:
        found = codecs.lookup(name).name
        "".encode(found)
    except (LookupError, ValueError):
        found = ""
    if not found or found.replace("_", "-") in _NO_TEXT:
        raise UsageError(f'encoding: {expected}, got "{quoted(name)}"')
    return UTF8 if found == "utf-8-sig" else found


def encoded_lines(path: str, encoding: str, on_bad: OnBad) -> Iterator[tuple[int, bytes]]:
    """`read_lines` of a file in an encoding: (line number, line as UTF-8)."""
    with open_input(path) as stream:
        yield from lines_in(stream, called(path), encoding, on_bad)


def lines_in(
    stream: BinaryIO, name: str, encoding: str, on_bad: OnBad
) -> Iterator[tuple[int, bytes]]:
    """`lines_of` a stream in an encoding: (line number, line as UTF-8)."""
    if encoding != UTF8:
        stream = cast(BinaryIO, io.BufferedReader(cast(Any, _Recoded(stream, encoding)), _STEP))
    yield from lines_of(stream, name, on_bad)


def undecodable(line: bytes, encoding: str, where: str) -> BadRecord:
    """What is wrong with a line that is no UTF-8, as `encoded_lines` gave it."""
    if encoding == UTF8:
        try:
            line.decode()
        except UnicodeDecodeError as error:
            got = f"the byte 0x{line[error.start]:02x} at byte {error.start + 1}"
            return BadRecord(where, "UTF-8 text", f"{got} ({_hint(line)})")
    text = line.decode(errors="surrogatepass")
    place, byte = next((i, ord(c) - _BASE) for i, c in enumerate(text, 1) if _is_mark(c))
    return BadRecord(where, f"{encoding} text", f"the byte 0x{byte:02x} at character {place}")


def with_hint(error: BadRecord, line: bytes) -> BadRecord:
    """An error of the reader of JSON lines; if the text is not UTF-8, it says what to try."""
    if error.expected != "UTF-8 text":
        return error
    return BadRecord(error.where, error.expected, f"{error.got} ({_hint(line)})")


def _hint(line: bytes) -> str:
    if line.startswith(_UTF16_MARKS):
        return "it looks like UTF-16: try --encoding utf-16"
    return "if the file comes from a spreadsheet, try --encoding cp1252"


def _is_mark(character: str) -> bool:
    return _BASE <= ord(character) <= _BASE + 0xFF


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Each byte that cannot be decoded as a lone surrogate."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(_BASE + b) for b in error.object[error.start : error.end]), error.end


codecs.register_error("kbforge-undecodable", _mark)


class _Recoded(io.RawIOBase):
    """A stream of bytes in an encoding, as a stream of UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream, self._encoding = stream, encoding
        self._decoder: codecs.IncrementalDecoder | None = None
        self._ready = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            self._ready = self._more()
        given = self._ready[: len(buffer)]
        buffer[: len(given)] = given
        self._ready = self._ready[len(given) :]
        return len(given)

    def _more(self) -> bytes:
        data: bytes = cast(Any, self._stream).read1(_STEP)
        self._ended = not data
        if self._decoder is None:
            encoding = UTF8 if data.startswith(codecs.BOM_UTF8) else self._encoding
            self._decoder = codecs.getincrementaldecoder(encoding)("kbforge-undecodable")
        text = self._decoder.decode(data, final=self._ended)
        return text.encode(errors="surrogatepass")
