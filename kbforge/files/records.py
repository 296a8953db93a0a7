"""Strict readers of records: JSON without repeated keys, small TOML files, typed fields.

For a field that is missing, unknown, of the wrong type or contradictory, an error of one sentence
names the file, the field, the expected value and the actual one.
"""

from __future__ import annotations

import json
import math
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
import orjson

from kbforge.errors import BadRecord, KBForgeError, did_you_mean, quoted
from kbforge.files.io import called, read_small
from kbforge.files.kinds import KINDS, kind_of_bytes, toml_tables

T = TypeVar("T")

_ESCAPED = b"\\u003"  # how an escaped colon begins; what else begins so only costs a closer look

Option = str | int | float | bool
"""The possible values of a plugin's option."""

Wrong: TypeAlias = Callable[[str, str, str], KBForgeError]
"""Makes an error from a field's name, the expected and the actual value."""

_MAX_BYTES = 1 << 20
_WHOLE = 1 << 63
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG = b"0" * 19  # so many digits in a row may be a whole number that 64 bits do not hold
_SHALLOW = "objects and arrays nested at most 254 deep"
_EXPECTED = {dict: "an object", Mapping: "an object", list: "a list", tuple: "a list"}
_KIND = {str: "a string", int: "a whole number", dict: "a table", list: "an array"}


def convert(value: Any, kind: type[T], where: str, field: str = "", expected: str = "") -> T:
    """A parsed JSON value as a record of a msgspec type.

    The BadRecord is about the innermost field at fault; `where` is `file:line`, `field` the value's
    path in the line. The type's fields may describe what is expected.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise _broken(value, kind, where, field, expected) from None


def _broken(value: Any, kind: Any, where: str, field: str, expected: str = "") -> BadRecord:
    if msgspec.UnsetType in typing.get_args(kind):
        kind = next(one for one in typing.get_args(kind) if one is not msgspec.UnsetType)
    if typing.get_origin(kind) is typing.Annotated:
        kind, *notes = typing.get_args(kind)
        expected = next((n.description for n in notes if n.description), expected)
    origin, inner = typing.get_origin(kind) or kind, field + "." if field else ""
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        known = {one.encode_name: one for one in msgspec.structs.fields(origin)}
        keys = value.keys() if isinstance(value, dict) else set()
        missing = [name for name, one in known.items() if one.required and name not in keys]
        unknown = sorted(keys - known.keys())
        expected = expected or f"an object of {', '.join(known)}"
        if (missing or unknown) and (field or not keys):
            return BadRecord(where, expected, _shown(value), field)
        if missing:
            return BadRecord(where, expected, "no such key", missing[0])
        if unknown:
            return BadRecord(where, f"only the keys {', '.join(known)}", quoted(unknown[0]))
        parts = [(value[name], known[name].type, inner + name) for name in keys]
    elif isinstance(value, dict) and origin in (dict, Mapping):
        of_value = typing.get_args(kind)[-1]
        parts = [(one, of_value, inner + quoted(key, 40)) for key, one in value.items()]
    elif isinstance(value, list) and origin in (list, tuple):
        parts = [(one, typing.get_args(kind)[0], field) for one in value]
    for part, of_part, name in parts:
        try:
            msgspec.convert(part, of_part)
        except msgspec.ValidationError:
            return _broken(part, of_part, where, name)
    got = "[]" if value == [] and origin in (list, tuple) else _shown(value)
    return BadRecord(where, expected or _EXPECTED.get(origin, "another value"), got, field)


def _shown(value: object) -> str:
    """A value for an error's `got`: an object's keys or the value, shortened."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        keys = quoted(", ".join(map(str, value)), 60)
        return f"an object of {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return "a list"
    return f'"{quoted(value, 40)}"' if isinstance(value, str) else quoted(value, 40).lower()


def json_value(content: bytes, where: str) -> Any:
    """One JSON value, whose objects have distinct keys, and whose integers have 64 bits.

    Raises:
        orjson.JSONDecodeError: not UTF-8, or not JSON.
        BadRecord: a repeated key; a longer number, whose last digits a parser would round; objects
            and arrays nested too deep.
    """
    value = orjson.loads(content)
    if _LONG in content.translate(_DIGITS):
        _read_closely(content, where)
    # the parser keeps the last of two equal keys. Each key has a colon; if there are no more colons
    # than keys in the outer two levels, none went missing
    colons = content.count(b":")
    if type(value) is dict:
        keys = len(value)
        for part in value.values():
            if type(part) is dict:
                keys += len(part)
        if colons == keys:
            return value
    # texts have colons, too: writing what was kept shows whether one went missing. One that was
    # escaped in a text comes back plain, and hides nothing if it is looked for
    try:
        kept = orjson.dumps(value).count(b":")
    except orjson.JSONEncodeError:
        raise BadRecord(where, _SHALLOW, "deeper ones") from None
    if kept != colons or _ESCAPED in content:
        _read_closely(content, where)
    return value


def _read_closely(content: bytes, where: str) -> None:
    """Refuse repeated keys and long integers, with a slower parser that finds both."""

    def distinct(pairs: list[tuple[str, Any]]) -> None:
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                raise BadRecord(where, "distinct keys", f'"{quoted(key)}" {count} times')

    def whole(digits: str) -> None:
        if len(digits) > 20 or not -_WHOLE <= int(digits) < 2 * _WHOLE:
            got = f"{quoted(digits, 40)} (in quotes it is a text, and keeps its digits)"
            raise BadRecord(where, "whole numbers of 64 bits", got)

    try:
        json.loads(content, object_pairs_hook=distinct, parse_int=whole)
    except RecursionError:
        raise BadRecord(where, _SHALLOW, "deeper ones") from None


class Record:
    """A JSON object or a TOML table, read field by field; every failure names the field.

    `wrong` makes the error from a field's name, the expected and the actual value; `prefix` has the
    names of the enclosing records, each followed by a dot.
    """

    def __init__(self, fields: Mapping[str, Any], wrong: Wrong, prefix: str = "") -> None:
        self._table, self._wrong, self._prefix = fields, wrong, prefix

    def wrong(self, key: str, expected: str, got: object) -> KBForgeError:
        """The error about a field."""
        said = "nothing" if got is None else quoted(got)
        return self._wrong(self._prefix + key, expected, said)

    def only(self, *keys: str) -> Record:
        """This record, after checking that it has no other fields."""
        for key in self._table:
            if key not in keys:
                meant = did_you_mean(key, keys)
                raise self.wrong(key, f"one of {', '.join(keys)}", f"an unknown field{meant}")
        return self

    def version(self, *known: int) -> int:
        """The format version, which must precede all other fields."""
        value = self._table.get("format")
        if type(value) is not int or value not in known:
            raise self.wrong("format", " or ".join(map(str, known)), value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def get(self, key: str, kind: type, expected: str = "") -> Any:
        """A field of a type; `expected` describes it more precisely than the type."""
        value = self._table.get(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, expected or _KIND[kind], value)
        return value

    def count(self, key: str) -> int:
        """An integer above 0."""
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

    def within(self, key: str, low: float, high: float) -> float:
        """A number in a range, both ends included."""
        value = self._table.get(key)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is None or not number or not low <= value <= high:
            raise self.wrong(key, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of some strings."""
        value = self._table.get(key)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(key, f"one of {', '.join(choices)}", value)
        return value

    def strings(self) -> dict[str, str]:
        """The whole record, whose fields have any names and are strings."""
        return {key: self.get(key, str) for key in self._table}

    def texts(self, key: str) -> tuple[str, ...]:
        """An array of strings."""
        values = self.get(key, list)
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self.wrong(f"{key}[{number}]", "a string", value)
        return tuple(values)

    def is_null(self, key: str) -> bool:
        """Whether a field is present and null."""
        return key in self._table and self._table[key] is None

    def numbers(self, key: str) -> tuple[float, ...]:
        """An array of finite numbers."""
        return tuple(self._finite(key, value) for value in self.get(key, list))

    def table(self, key: str, expected: str = "") -> Record:
        """A record within this one."""
        return self._inner(self.get(key, dict, expected), key)

    def tables(self, key: str) -> Iterator[Record]:
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

    def _inner(self, table: Mapping[str, Any], key: str) -> Record:
        return Record(table, self._wrong, f"{self._prefix}{key}.")

    def _finite(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number", quoted(value))
        if not math.isfinite(value):
            raise self.wrong(key, "a finite number", quoted(value))
        return float(value)


def read_table(path: str, kind: str, writer: str) -> Record:
    """Read a TOML file; "-" is standard input; `writer` is the command that writes such files."""
    content = read_small(path, KINDS[kind].name, _MAX_BYTES)
    toml_of(content, path, kind, KBForgeError)
    return toml_record(content, quoted(called(path), 400), hint=f" ({writer} writes this file)")


def toml_record(
    content: bytes, where: str, error: type[KBForgeError] = KBForgeError, hint: str = ""
) -> Record:
    """The top table of a TOML document; `where` and `hint` are for errors about its fields."""

    def wrong(field: str, expected: str, got: str) -> KBForgeError:
        return error(f"{where}: {quoted(field)}: expected {expected}, got {got}{hint}")

    return Record(parse_toml(content, where, error), wrong)


def toml_of(content: bytes, path: str, kind: str, error: type[KBForgeError]) -> dict[str, Any]:
    """As `parse_toml`; the error about a file of another kind names the kind."""
    where = quoted(called(path), 400)
    found = kind_of_bytes(content)
    if found not in (kind, "toml", "text", "binary", "empty"):
        raise error(f"{where}: expected {KINDS[kind].name}, got {KINDS[found].said(path)}")
    return parse_toml(content, where, error)


def parse_toml(
    content: bytes, where: str, error: type[KBForgeError] = KBForgeError
) -> dict[str, Any]:
    """The top table of a TOML document, whose integers have 64 bits; `where` is quoted."""
    try:
        table = toml_tables(content)
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
