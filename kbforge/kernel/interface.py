"""Reads the kernel's interface from its C++ sources, for ctypes.

The sources alone say what a function takes and gives (`KB_API`) and what a structure of `api.hpp`
holds. A pointer that a function takes or gives is an address; one in a structure has the type of
the numbers that it leads to, and that to characters is an address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_uint8, c_void_p
from functools import cache
from typing import Any, TypeAlias

from kbforge.kernel.build import SOURCES

Prototype: TypeAlias = tuple[Any, tuple[Any, ...]]
"""The result and argument types of a function, as ctypes types."""

_NUMBERS: dict[str, Any] = {
    "void": None,
    "double": c_double,
    "std::uint8_t": c_uint8,
    "std::int32_t": c_int32,
    "std::int64_t": c_int64,
}
_INNER = re.compile(r"\([^()]*\)")  # parts of a pointer to a function
_PARAMETERS = re.compile(rf"\(((?:[^()]|{_INNER.pattern})*)\)")
_STRUCTURE = re.compile(r"^struct (kb_\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
_FIELDS = re.compile(r"(?:const )?([\w:]+)([^;]*);")


def read_prototypes() -> dict[str, Prototype]:
    """The functions of the kernel, by name."""
    found: dict[str, Prototype] = {}
    for path in sorted(SOURCES.iterdir()):
        for declared in path.read_text(encoding="utf-8").split("\nKB_API ")[1:]:
            parameters = _PARAMETERS.search(declared)
            assert parameters is not None, f"{path.name} has a function without parameters"
            result, name = declared[: parameters.start()].rsplit(maxsplit=1)
            takes = _INNER.sub("*", parameters[1]).split(",")
            takes = [one for one in takes if one not in ("", "void")]
            found[name] = _type_of(result), tuple(map(_type_of, takes))
    return found


def _type_of(declared: str) -> Any:
    """The type of a result or a parameter."""
    return c_void_p if "*" in declared else _NUMBERS[declared.split()[0]]


@cache
def structures() -> Mapping[str, type[Structure]]:
    """The structures of the interface, by name."""
    known: dict[str, type[Structure]] = {}
    content = (SOURCES / "api.hpp").read_text(encoding="utf-8")
    for name, body in _STRUCTURE.findall(content):
        fields = [
            (one.strip(" *"), _field_of(known.get(kind) or _NUMBERS.get(kind), "*" in one))
            for kind, declared in _FIELDS.findall(re.sub("//.*", "", body))
            for one in declared.split(",")
        ]
        known[name] = type(name, (Structure,), {"_fields_": fields})
    return known


def _field_of(kind: Any, is_pointer: bool) -> Any:
    """The type of a field; that of characters is unknown."""
    return kind if not is_pointer else c_void_p if kind is None else POINTER(kind)
