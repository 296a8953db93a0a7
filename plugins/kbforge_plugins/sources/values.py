"""Streams the JSON values of a file, and reads their fields.

A file whose text begins with `[`, or whose first line is only `{`, is read as a stream of values:
the elements of arrays, and other values. An array in the form of `[`, one element per line, and
`]`, as in dumps, is read line by line, which is faster; so are JSON lines, the format of every
other file. Memory holds one value and a window of text, whatever the file's size and layout.

An invalid value loses only itself if values begin on separate lines with the same indentation, as
all programs write multi-line arrays; otherwise it loses the rest of the file.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord, quoted
from kbforge.files.fragments import json_lines_of, parse_json, read_each, shown
from kbforge.files.io import MAX_LINE_BYTES, MOST_SKIPPED, called, damage_of, lines_of
from kbforge_plugins.sources.csv import (
    UTF8,
    EndlessRecord,
    as_utf8,
    sampled,
    settled,
    undecodable,
    with_hint,
)

_STEP = 1 << 16
_NEAR_END = 16  # characters that may be the beginning of an escape or a literal
_BYTES = "surrogateescape"  # bytes that are no UTF-8 come out as they went in
_BETWEEN = re.compile(r"[ \t\r\n,]*")
# whole numbers are read as floats because Python refuses to read long ones; only the end counts
_DECODER = json.JSONDecoder(parse_int=float, strict=False)


_Read = TypeVar("_Read")


class JsonValue(NamedTuple):
    """One value of a file."""

    number: int  # of its line, if values have one each, else of the value
    where: str  # `file:line`, for errors
    raw: bytes
    value: Any
    outer: int  # number of the array that it is an element of, else its own


def json_values(path: str, on_bad: OnBad, encoding: str = UTF8) -> Iterator[JsonValue]:
    """The values of a file; bad values and damaged or truncated files are passed to `on_bad`.

    KBForgeError: the file cannot be opened.
    """
    with sampled(path, _STEP) as (sample, raw):
        encoding = settled(encoding, sample, called(path))
        stream = as_utf8(raw, encoding)
        # a stream whose first bytes are damaged says so when it is read below
        head = cast(Any, stream).peek() if sample else b""
        head = head.removeprefix(codecs.BOM_UTF8).lstrip()
        first, _, rest = head.partition(b"\n")
        by_line = first.rstrip() == b"[" and rest.startswith((b'{"', b"[{"))
        if not by_line and (head.startswith(b"[") or first.rstrip() == b"{"):
            yield from _streamed(_Window(stream, called(path)), encoding, on_bad)
            return

        def decide(error: BadRecord, line: bytes) -> None:
            on_bad(_explained(error, line, encoding), line)

        lines = lines_of(stream, called(path), decide)
        if by_line:
            lines = _elements(lines, called(path), decide)
        for number, where, line, value in json_lines_of(lines, path, decide):
            yield JsonValue(number, where, line, value, 1 if by_line else number)


def read_values(
    values: Iterable[JsonValue], read: Callable[[JsonValue], _Read], on_bad: OnBad
) -> Iterator[_Read]:
    """`read_each` of the values of a file."""
    return read_each(values, read, lambda value: value.raw, on_bad)


def object_of(value: object, where: str, field: str) -> Mapping[str, Any]:
    """A value that must be an object; `field` is its path, for the BadRecord."""
    if not isinstance(value, dict):
        raise BadRecord(where, "a JSON object", shown(value), field)
    return value


def list_in(fields: Mapping[str, Any], key: str, where: str) -> list[object]:
    """A field that must be a list."""
    value = fields.get(key)
    if not isinstance(value, list):
        raise BadRecord(where, "a list", shown(value), key)
    return value


def text_in(
    fields: Mapping[str, Any], key: str, where: str, parent: str, default: str | None = None
) -> str:
    """A field that must be a string; without a default it is required."""
    value = fields.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        path = f"{parent}.{key}" if parent else key
        raise BadRecord(where, "a string", shown(value), path)
    return value


def _elements(
    lines: Iterator[tuple[int, bytes]], name: str, on_bad: OnBad
) -> Iterator[tuple[int, bytes]]:
    """The lines between an array's brackets, without the commas."""
    number, is_open = 0, False
    for number, line in lines:
        text = line.strip()
        if text in (b"[", b"]"):
            is_open = text == b"["
            continue
        yield number, text.removesuffix(b",").rstrip()
    if is_open:
        on_bad(_unclosed(name, number), b"")


def _unclosed(name: str, line: int) -> BadRecord:
    return BadRecord(f"{name}:{line}", "] at the end of the array", "the end of the file")


def _explained(error: BadRecord, raw: bytes, encoding: str) -> BadRecord:
    """An error which, if it is about a byte, suggests an encoding."""
    if error.expected != "UTF-8 text" or encoding == UTF8:
        return with_hint(error, raw)
    return undecodable(raw, encoding, error.where)


def _streamed(window: _Window, encoding: str, on_bad: OnBad) -> Iterator[JsonValue]:
    number, outer, is_inside, line, is_whole = 0, 0, False, 0, True
    while True:
        character = window.next_character()
        if not character:
            break
        if character in "[]" and (character == "]") == is_inside:
            is_inside = not is_inside
            outer += is_inside
            window.advance(window.at + 1)
            continue
        number += 1
        outer += not is_inside
        same_line, line = window.line == line, window.line
        where = f"{window.name}:{line}" + (f", record {number}" if same_line else "")
        try:
            raw = window.value(where)
            value = parse_json(raw, where)
        except EndlessRecord as error:
            skipped, is_whole = window.skip_broken()
            on_bad(error, skipped)
        except BadRecord as error:
            on_bad(_explained(error, raw, encoding), raw)
        else:
            yield JsonValue(number, where, raw, value, outer)
    if is_whole and window.damage is not None:
        on_bad(window.cut(f"{window.name}:{window.line}"), b"")
    elif is_whole and is_inside:
        on_bad(_unclosed(window.name, window.line), b"")


class _Window:
    """The part of a file's text that is being read; `at` is the position in `text`."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self.name = stream, name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(_BYTES)
        self.text, self.at, self.line = "", 0, 1
        self.damage: Exception | None = None
        self._has_ended = False
        self._indent = ""  # of the lines on which values begin

    def advance(self, to: int) -> None:
        """Skip text."""
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def next_character(self) -> str:
        """The character after blanks and commas; "" at the end."""
        passed = 0
        while True:
            match = _BETWEEN.match(self.text, self.at)
            assert match is not None
            if match.end() < len(self.text):
                break
            if match.end() - self.at > _STEP:
                passed += match.end() - self.at
                self.advance(match.end())
            if passed > MAX_LINE_BYTES:
                self.damage = OSError(f"more than {MAX_LINE_BYTES:,} blanks")
                return ""
            if not self._more():
                self.advance(len(self.text))
                return ""
        _, newline, indent = match.group().rpartition("\n")
        if newline:
            self._indent = indent
        self.advance(match.end())
        return self.text[self.at]

    def value(self, where: str) -> bytes:
        """The text of the value that begins here, which is then skipped; or an EndlessRecord."""
        end = self._end_of_value(where)
        raw = self.text[self.at : end].encode(errors=_BYTES)
        self.advance(end)
        return raw

    def _end_of_value(self, where: str) -> int:
        while True:
            try:
                _, end = _DECODER.raw_decode(self.text, self.at)
                if end < len(self.text) or not self._more():
                    return end
                continue
            except json.JSONDecodeError as error:
                if not self._may_go_on(error):
                    raise EndlessRecord(where, "a JSON value", self._said(error)) from None
            except RecursionError:
                expected = "objects and arrays nested at most 254 deep"
                raise EndlessRecord(where, expected, "deeper ones") from None
            if len(self.text) - self.at > MAX_LINE_BYTES:
                expected = f"a value of at most {MAX_LINE_BYTES:,} characters"
                raise EndlessRecord(where, expected, "a longer one")
            if not self._more():
                raise self.cut(where)

    def cut(self, where: str) -> EndlessRecord:
        """The error about a value that is truncated by the end of the file."""
        if self.damage is None:
            return EndlessRecord(where, "a whole JSON value", "the end of the file")
        return EndlessRecord(where, "a whole file", damage_of(self.damage))

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        """Whether an error may be caused by truncated text rather than its content."""
        if error.msg.startswith("Unterminated string"):
            return True
        near = 0 if self._has_ended and self.damage is None else _NEAR_END
        return len(self.text) - error.pos <= near

    def _said(self, error: json.JSONDecodeError) -> str:
        line = self.line + self.text.count("\n", self.at, error.pos)
        return f"invalid JSON on line {line} ({quoted(error.msg).lower()})"

    def skip_broken(self) -> tuple[bytes, bool]:
        """Continue with the next line that begins like lines with values.

        Returns the skipped text, and whether there is such a line.
        """
        skipped, length, passed = [], 0, 0
        begins = re.compile(f"\n(?={re.escape(self._indent)}[{{\\[])")
        while True:
            match = begins.search(self.text, self.at + 1)
            # the rest of such a line may be in the text that is read next
            to = match.end() if match else len(self.text) - len(self._indent) - 1
            if to > self.at and length < MAX_LINE_BYTES:
                skipped.append(self.text[self.at : to])
                length += to - self.at
            passed += max(0, to - self.at)
            self.advance(max(self.at, to))
            self._has_ended = self._has_ended or passed > MOST_SKIPPED
            if match or not self._more():
                break
        if not match:
            skipped.append(self.text[self.at :])
            self.advance(len(self.text))
        raw = "".join(skipped).rstrip(", \r\n").encode(errors=_BYTES)
        return raw, match is not None

    def _more(self) -> bool:
        """Read as much again as is in memory; False at the end."""
        if self._has_ended:
            return False
        held = self.text[self.at :]
        data = b""
        try:
            data = self._stream.read(max(_STEP, len(held)))
        except (OSError, EOFError, zlib.error) as error:
            self.damage = error
        self._has_ended = not data
        self.text, self.at = held + self._decoder.decode(data, final=not data), 0
        return True
