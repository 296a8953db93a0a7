"""Canonical fragments as JSON lines: the format that every verb reads and writes.

The REBEL/KeBAB shape is read too (see `Fragment.from_json`). Lines are independent: a bad one is
handed to `on_bad` and hurts no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from kbforge.contracts.fragment import Fragment, Shared
from kbforge.contracts.source import OnBad
from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.io import called, read_lines
from kbforge.files.kinds import KINDS, kind_of
from kbforge.files.records import json_value

_UNKNOWN = ("text", "binary", "empty", "toml")  # no more is known than the error says
_LINES = ("entities", "fragments", "answers", "quarantine", "changes", "objects")
WANTED = {
    "fragments": "fragments, one JSON object a line",
    "entities": "entities, as kbforge cluster writes",
    "answers": "answers, as kbforge review writes",
}
"""What errors call a kind of JSON lines that is expected."""


def stop(error: BadRecord, raw: bytes) -> None:
    """The `on_bad` that ends the run at the first bad record."""
    raise error


def parse_json(line: bytes, where: str) -> Any:
    """One JSON value, whose objects have distinct keys.

    Raises:
        BadRecord: not UTF-8, or not JSON, with the place in the line; a key that is there twice;
            objects and arrays too deep in each other.

    """
    try:
        return json_value(line, where)
    except orjson.JSONDecodeError as error:
        try:
            line.decode()
        except UnicodeDecodeError as undecodable:
            got = f"the byte 0x{line[undecodable.start]:02x} at byte {undecodable.start + 1}"
            raise BadRecord(where, "UTF-8 text", got) from None
        got = f"invalid JSON at column {error.colno} ({error.msg})"
        raise BadRecord(where, "a JSON object", got) from None


def read_json_lines(path: str, on_bad: OnBad) -> Iterator[tuple[str, bytes, Any]]:
    """(`file:line`, the raw line, its JSON value) for every line that holds JSON.

    Raises:
        KBForgeError: the file cannot be opened.

    """
    first = True
    for number, line in read_lines(path, on_bad):
        where = f"{called(path)}:{number}"
        try:
            value = parse_json(line, where)
        except BadRecord as error:
            on_bad(mistaken(error, path, line) if first else error, line)
            first = False
            continue
        first = False
        yield where, line, value


def mistaken(error: BadRecord, path: str, line: bytes, wanted: str = "") -> BadRecord:
    """The error of a file's first line, which says what the file is if it is of another kind.

    Args:
        error: of the line.
        path: of the file; of "-" only the line is looked at.
        line: the first one.
        wanted: the kind that the file should be, as `kbforge.files.kinds` calls it.

    """
    kind = kind_of(path, line)
    if kind in (wanted, *_UNKNOWN) or (kind in _LINES and not wanted):
        return error
    if kind == "objects" and wanted != "fragments":  # the error says what they lack
        return error
    expected = WANTED.get(wanted, "JSON lines")
    return BadRecord(error.where, expected, KINDS[kind].said(path))


def read_located(path: str, on_bad: OnBad) -> Iterator[tuple[str, Fragment]]:
    """(`file:line`, fragment) for every good line; ids are not compared, equal values are shared.

    Raises:
        KBForgeError: the file cannot be opened.

    """
    shared = Shared()
    first = True
    for where, line, value in read_json_lines(path, on_bad):
        try:
            fragment = Fragment.from_json(value, where, shared)
        except BadRecord as error:
            on_bad(mistaken(error, path, line, "fragments") if first else error, line)
            first = False
            continue
        first = False
        yield where, fragment


def shown(value: object) -> str:
    """A JSON value for an error's `got`: as JSON, cut short; "nothing" for a missing one."""
    return "nothing" if value is None else quoted(orjson.dumps(value).decode(), 40)


def to_line(fragment: Fragment) -> bytes:
    """The fragment's JSON line, newline included.

    Raises:
        KBForgeError: a source made it of what JSON cannot hold.

    """
    try:
        return orjson.dumps(fragment.to_json(), option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as error:
        raise KBForgeError(
            f'the fragment "{quoted(fragment.id)}" cannot be written as JSON: {quoted(str(error))}'
        ) from None
