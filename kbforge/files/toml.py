"""Small TOML files that the program writes and reads back strictly.

A field that is missing, unknown, of the wrong type or contradictory is one sentence that names the
file, the field, what was expected and what was got.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from kbforge.errors import KBForgeError, quoted
from kbforge.files.io import called, read_small

_MAX_BYTES = 1 << 20
_WHOLE = 1 << 63

Option = str | int | float | bool

_KIND = {str: "a string", int: "a whole number", dict: "a table", list: "an array"}


def read_table(path: str, what: str, writer: str) -> TableReader:
    """Read a whole file; "-" is standard input.

    Args:
        path: the file.
        what: it should be, such as "a calibration file".
        writer: the command that writes such files, for errors.

    Raises:
        KBForgeError: unreadable, damaged, too large or not TOML.

    """
    name = quoted(called(path), 400)
    return TableReader(name, parse_toml(read_small(path, what, _MAX_BYTES), name), writer)


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


class TableReader:
    """One TOML table; every failure names the file and the field.

    Args:
        where: the file's name.
        table: as parsed.
        writer: the command that writes such files.
        prefix: the names of the tables that this one is in, with a dot behind each.

    """

    def __init__(self, where: str, table: Mapping[str, Any], writer: str, prefix: str = "") -> None:
        self._where, self._table, self._writer, self._prefix = where, table, writer, prefix

    def wrong(self, key: str, expected: str, got: str) -> KBForgeError:
        """The error about a field."""
        return KBForgeError(
            f"{self._where}: {quoted(self._prefix + key)}: expected {expected}, got {got} "
            f"({self._writer} writes this file)"
        )

    def only(self, *keys: str) -> TableReader:
        """This table, which has no other fields than these."""
        for key in self._table:
            if key not in keys:
                raise self.wrong(key, f"one of {', '.join(keys)}", "an unknown field")
        return self

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def get(self, key: str, kind: type) -> Any:
        """A field of a type."""
        if key not in self._table:
            raise self.wrong(key, _KIND[kind], "nothing")
        value = self._table[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, _KIND[kind], quoted(value))
        return value

    def count(self, key: str) -> int:
        """A whole number above 0."""
        value: int = self.get(key, int)
        if value < 1:
            raise self.wrong(key, "a whole number above 0", str(value))
        return value

    def number(self, key: str) -> float:
        """A finite number."""
        value = self._table.get(key)
        if value is None:
            raise self.wrong(key, "a number", "nothing")
        return self._finite(key, value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """An array of finite numbers."""
        return tuple(self._finite(key, value) for value in self.get(key, list))

    def table(self, key: str) -> TableReader:
        """A table within this one."""
        return self._inner(self.get(key, dict), key)

    def tables(self, key: str) -> Iterator[TableReader]:
        """The tables of an array."""
        for number, value in enumerate(self.get(key, list)):
            if not isinstance(value, dict):
                raise self.wrong(f"{key}[{number}]", "a table", quoted(value))
            yield self._inner(value, f"{key}[{number}]")

    def options(self) -> dict[str, Option]:
        """The whole table, whose fields have any names and plain values."""
        for key, value in self._table.items():
            if not isinstance(value, Option):
                raise self.wrong(key, "a string, number or boolean", quoted(value))
        return dict(self._table)

    def _inner(self, table: Mapping[str, Any], key: str) -> TableReader:
        return TableReader(self._where, table, self._writer, f"{self._prefix}{key}.")

    def _finite(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number", quoted(value))
        if not math.isfinite(value):
            raise self.wrong(key, "a finite number", quoted(value))
        return float(value)


def toml_value(value: Option) -> str:
    """A TOML value; its basic strings are JSON's, except that DEL must be escaped."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value) if isinstance(value, bool | int) else repr(value)
