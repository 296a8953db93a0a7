"""Small TOML files that the program writes and reads back strictly.

A field that is missing, unknown, of the wrong type or contradictory is one sentence that names the
file, the field, what was expected and what was got.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

from kbforge.errors import KBForgeError, quoted
from kbforge.files.io import called, read_small
from kbforge.files.kinds import KINDS, kind_of_bytes
from kbforge.files.records import Option, Record

_MAX_BYTES = 1 << 20
_WHOLE = 1 << 63


def read_table(path: str, kind: str, writer: str) -> Record:
    """Read a whole file; "-" is standard input.

    Args:
        path: the file.
        kind: what it should be, as `kbforge.files.kinds` calls it.
        writer: the command that writes such files, for errors.

    Raises:
        KBForgeError: unreadable, damaged, too large or not TOML.

    """
    content = read_small(path, KINDS[kind].name, _MAX_BYTES)
    toml_of(content, path, kind, KBForgeError)
    return table_of(content, quoted(called(path), 400), writer)


def table_of(content: bytes, name: str, writer: str) -> Record:
    """The top table of a file that was read.

    Args:
        content: of the file.
        name: of the file, quoted.
        writer: as of `read_table`.

    Raises:
        KBForgeError: not TOML.

    """

    def wrong(field: str, expected: str, got: str) -> KBForgeError:
        return KBForgeError(
            f"{name}: {quoted(field)}: expected {expected}, got {got} ({writer} writes this file)"
        )

    return Record(parse_toml(content, name), wrong)


def toml_of(content: bytes, path: str, kind: str, error: type[KBForgeError]) -> dict[str, Any]:
    """As `parse_toml`; a file of another kind is named.

    Args:
        content: of the file.
        path: of the file.
        kind: what it should be, as `kbforge.files.kinds` calls it.
        error: what to raise.

    """
    where = quoted(called(path), 400)
    found = kind_of_bytes(content)
    if found not in (kind, "toml", "text", "binary", "empty"):
        raise error(f"{where}: expected {KINDS[kind].name}, got {KINDS[found].said(path)}")
    return parse_toml(content, where, error)


def parse_toml(
    content: bytes, where: str, error: type[KBForgeError] = KBForgeError
) -> dict[str, Any]:
    """The top table of a TOML document.

    Args:
        content: of the file.
        where: how the error names it, already quoted.
        error: what to raise.

    Raises:
        error: not TOML, whose whole numbers have 64 bits.

    """
    try:
        table = tomllib.loads(content.decode())
        longer = next(_longer_than_64_bits(table, ""), None)
    except (ValueError, RecursionError) as problem:
        raise error(f"{where}: expected TOML, got {quoted(str(problem), 200)}") from None
    if longer is not None:
        said = "expected a whole number of 64 bits, got a longer one"
        raise error(f"{where}: {quoted(longer)}: {said}")
    return table


def _longer_than_64_bits(value: object, field: str) -> Iterator[str]:
    # Python reads any number, and fails to write one of thousands of digits into an error
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _longer_than_64_bits(part, f"{field}.{key}" if field else key)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _longer_than_64_bits(part, f"{field}[{number}]")
    elif isinstance(value, int) and not -_WHOLE <= value < _WHOLE:
        yield field


def toml_value(value: Option) -> str:
    """A TOML value; its basic strings are JSON's, except that DEL must be escaped."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value) if isinstance(value, bool | int) else repr(value)
