"""Files of recipes: TOML, read strictly into dataclasses.

Recipes that ship are known by name, the others by path.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from kbforge.errors import UsageError, quoted
from kbforge.files.records import parse_toml

RECIPES = "recipes"  # the folder of the package that has those of language models
_MAX_BYTES = 1 << 20
_Section = TypeVar("_Section")


def shipped(folder: str = RECIPES) -> list[str]:
    """Names of the recipes that ship in a folder of the package."""
    inside = files("kbforge_training").joinpath(folder)
    return sorted(
        file.name.removesuffix(".toml") for file in inside.iterdir() if file.name.endswith(".toml")
    )


def read_table(name_or_path: str, folder: str = RECIPES) -> tuple[dict[str, Any], str]:
    """A recipe as TOML has it, and how to call it in errors.

    Args:
        name_or_path: a recipe that ships, by name, or a file.
        folder: of the package, where those that ship are.

    Raises:
        UsageError: there is none of that name, or the file is not TOML.

    """
    where = f"recipe {quoted(name_or_path, 400)}"
    if name_or_path in shipped(folder):
        content = files("kbforge_training").joinpath(f"{folder}/{name_or_path}.toml").read_bytes()
    elif Path(name_or_path).is_file():
        content = _read(Path(name_or_path), where)
    else:
        raise UsageError(
            f'there is no recipe "{quoted(name_or_path)}": expected one of '
            f"{', '.join(shipped(folder))}, or a TOML file"
        )
    return parse_toml(content, where, UsageError), where


def _read(path: Path, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{where}: {(error.strerror or str(error)).lower()}") from error
    if len(content) > _MAX_BYTES:
        raise UsageError(f"{where}: expected at most {_MAX_BYTES:,} bytes, got more")
    return content


def from_table(
    kind: type[_Section],
    table: Mapping[str, Any],
    sections: Mapping[str, type[Any]],
    where: str,
) -> _Section:
    """A dataclass from a table and its sections, every key and type checked.

    Args:
        kind: the dataclass.
        table: what TOML has.
        sections: those of its keys that are tables, and their dataclasses.
        where: how to call it in errors.

    Raises:
        UsageError: a key is unknown, missing or of another type.

    """
    plain = dict(table)
    for name, inner in sections.items():
        if not isinstance(plain.get(name), dict):
            raise UsageError(f"{where}: expected a table [{name}]")
        plain[name] = _section(inner, plain[name], f"{where}: [{name}]")
    return _section(kind, plain, where)


def _section(kind: type[_Section], table: Mapping[str, Any], where: str) -> _Section:
    fields: Any = dataclasses.fields(kind)  # type: ignore[arg-type]
    types = {field.name: field.type for field in fields}
    for name in table:
        if name not in types:
            raise UsageError(
                f'{where}: unknown key "{quoted(name)}", expected {", ".join(sorted(types))}'
            )
    for field in fields:
        if field.name not in table:
            if field.default is field.default_factory is dataclasses.MISSING:
                raise UsageError(f'{where}: the key "{field.name}" is missing')
            continue
        wanted: Any = {"int": int, "float": (int, float), "str": str}.get(str(field.type), object)
        value = table[field.name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise UsageError(
                f"{where}: {field.name}: expected {field.type}, got {quoted(repr(value))}"
            )
    return kind(**table)


def require_finite(numbers: Mapping[str, float], where: str) -> None:
    """Find out whether numbers are finite and not negative.

    Raises:
        UsageError: one is not, by name.

    """
    for name, number in numbers.items():
        if not 0 <= number < math.inf:
            raise UsageError(f"{where}: {name}: expected 0 or more, got {number}")
