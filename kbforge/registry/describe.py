"""What a plugin says of itself: the summary of its docstring and its constructor's options."""

from __future__ import annotations

import inspect
import re
import types
import typing
from dataclasses import dataclass
from typing import Any

from kbforge.registry.options import option_parameters

_ENTRY = re.compile(r"(?P<name>\w+)(?: \([^)]*\))?: (?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a plugin, as `--set kind.name=value` takes it.

    `default` is the default's text, None if the option must be given.
    """

    name: str
    type: str
    default: str | None
    help: str


@dataclass(frozen=True, slots=True)
class Description:
    """The first paragraph of a plugin's docstring, and its options in the order declared."""

    summary: str
    options: tuple[Option, ...]


def describe(factory: Any) -> Description:
    """Describe a plugin's class (or function)."""
    documentation = inspect.getdoc(factory) or ""
    constructor = inspect.getdoc(factory.__init__) if inspect.isclass(factory) else None
    texts = _documented_arguments(documentation) | _documented_arguments(constructor or "")
    return Description(
        summary=" ".join(documentation.split("\n\n")[0].split()),
        options=tuple(
            Option(name, _type_text(p.annotation), _default_text(p), texts.get(name, ""))
            for name, p in option_parameters(factory).items()
        ),
    )


def _type_text(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "any"
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return " | ".join(map(str, arguments))
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " | ".join(map(_type_text, arguments))
    if annotation is types.NoneType:
        return "none"
    if inspect.isclass(annotation) and not arguments:
        return annotation.__name__
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(annotation))


def _default_text(parameter: inspect.Parameter) -> str | None:
    """The default as `--set` would take it."""
    default = parameter.default
    if default is inspect.Parameter.empty:
        return None
    if isinstance(default, tuple | list):
        return ",".join(map(str, default))
    return str(default).lower() if default is None or isinstance(default, bool) else str(default)


def _documented_arguments(documentation: str) -> dict[str, str]:
    """Argument -> text, from a docstring's `Args:` section in Google's style."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", documentation, re.MULTILINE)
    if section is None:
        return {}
    lines = section.group(1).splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    out: dict[str, str] = {}
    name = ""
    for line in lines:
        entry = _ENTRY.fullmatch(line[indent:])
        if entry:
            name = entry["name"]
            out[name] = entry["text"].strip()
        elif name and line.strip():
            out[name] += " " + line.strip()
    return out
