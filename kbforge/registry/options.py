"""Options of plugins: `--set kind.option=value` and TOML tables, typed by constructors.

A plugin documents and types its options once, in its constructor's signature. Text from the
command line and values from TOML are converted to the annotated type here.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import re
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbforge.errors import UsageError, did_you_mean, quoted

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_ENTRY = re.compile(r"(?P<name>\w+)(?: \([^)]*\))?: (?P<text>.*)")


def parse_settings(
    settings: Iterable[str], kinds: Iterable[str], names: Collection[str] = ()
) -> dict[str, dict[str, str]]:
    """`["likelihood.a=2", ...]` as {kind: {option: text}}; kinds are in the singular.

    `names` are settings without a kind, such as `seed=2`; their kind is "". Raises a UsageError for
    a text that is not `kind.option=value`, or an unknown kind or name.
    """
    out: dict[str, dict[str, str]] = {kind: {} for kind in (*kinds, *[""] * bool(names))}
    form = "name=value or kind.option=value" if names else "kind.option=value"
    for setting in settings:
        target, equals, value = setting.partition("=")
        kind, option = target.split(".", 1) if "." in target else ("", target)
        if not (equals and option and (kind or names)):
            raise UsageError(f'--set: expected {form}, got "{quoted(setting)}"')
        if kind not in out:
            raise _unknown(setting, "kind", kind, filter(None, out))
        if not kind and option.replace("_", "-") not in names:
            raise _unknown(setting, "name", option, names)
        out[kind][option.replace("-", "_")] = value
    return out


def _unknown(setting: str, what: str, word: str, known: Iterable[str]) -> UsageError:
    known = sorted(known)
    return UsageError(
        f'--set {quoted(setting)}: unknown {what} "{quoted(word)}"{did_you_mean(word, known)}, '
        f"expected one of {', '.join(known)}"
    )


def bind_options(factory: Any, called: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Check options (text or TOML values) against a constructor, and convert them to its types.

    `called` is its name in errors, such as "likelihood gaussian". Raises a UsageError for an
    unknown option, or a value of the wrong type.
    """
    parameters = option_parameters(factory)
    bound = {}
    for option, value in options.items():
        if option not in parameters:
            known = ", ".join(parameters) or "none"
            meant = did_you_mean(option, parameters)
            raise UsageError(f'{called} has no option "{quoted(option)}"{meant}; options: {known}')
        bound[option] = _convert(value, parameters[option].annotation, f"{called}: {option}")
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and name not in bound
    ]
    if missing:
        raise UsageError(f"{called} needs the option {missing[0]}")
    return bound


def option_parameters(factory: Any) -> dict[str, inspect.Parameter]:
    """The options of a plugin: its constructor's named parameters, annotations resolved.

    A constructor with `**options` also accepts those of its base class.
    """
    constructors = [factory]
    if inspect.isclass(factory):
        own = (vars(base).get("__init__") for base in inspect.getmro(factory)[:-1])
        constructors = [function for function in own if function is not None]
    wanted = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    options: dict[str, inspect.Parameter] = {}
    for function in constructors:
        parameters = inspect.signature(function, eval_str=True).parameters
        named = {n: p for n, p in parameters.items() if n != "self" and p.kind in wanted}
        options = {**named, **options}
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            break
    return options


def _convert(value: object, annotation: Any, called: str) -> Any:
    if annotation is inspect.Parameter.empty or annotation is Any:
        return value
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(value, arguments, called)
    if origin is typing.Literal:
        return _convert_choice(value, arguments, called)
    if origin in (tuple, list):
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise UsageError(f"{called}: expected a list, got {quoted(value)}")
        return origin(_convert_items(items, arguments, called))
    return _convert_scalar(value, annotation, called)


def _convert_items(
    items: Sequence[object], arguments: tuple[Any, ...], called: str
) -> Iterator[Any]:
    elements = arguments or (str,)
    if len(elements) == 1 or elements[-1] is Ellipsis:
        elements = elements[:1] * len(items)
    if len(elements) != len(items):
        raise UsageError(f"{called}: expected {len(elements)} values, got {len(items)}")
    for item, element in zip(items, elements, strict=True):
        yield _convert(item, element, called)


def _convert_union(value: object, members: tuple[Any, ...], called: str) -> Any:
    if type(None) in members and (value is None or value in ("none", "")):
        return None
    problems = []
    for member in (m for m in members if m is not type(None)):
        try:
            return _convert(value, member, called)
        except UsageError as error:
            problems.append(error)
    raise problems[0]


def _convert_choice(value: object, choices: tuple[Any, ...], called: str) -> Any:
    for choice in choices:
        if value == choice or value == str(choice):
            return choice
    listed = ", ".join(str(choice) for choice in choices)
    raise UsageError(f"{called}: expected one of {listed}, got {quoted(value)}")


def _convert_scalar(value: object, kind: Any, called: str) -> Any:
    if kind is bool:
        text = str(value).lower()
        if text in _TRUE | _FALSE:
            return text in _TRUE
        raise UsageError(f"{called}: expected true or false, got {quoted(value)}")
    if kind in (int, float):
        taken = str | int | (float if kind is float else int)
        with contextlib.suppress(ValueError, OverflowError):
            if isinstance(value, taken) and not isinstance(value, bool):
                number = kind(value)
                if not math.isnan(number):
                    return number
        wanted = "a whole number" if kind is int else "a number"
        raise UsageError(f"{called}: expected {wanted}, got {quoted(value)}")
    if kind in (str, Path) and isinstance(value, str | Path | int | float):
        return kind(str(value))
    raise UsageError(f"{called}: expected {getattr(kind, '__name__', kind)}, got {quoted(value)}")


@dataclass(frozen=True, slots=True)
class PluginOption:
    """One option of a plugin for `--set`; without a default it is required."""

    name: str
    type: str
    default: str | None
    help: str


def describe(factory: Any) -> tuple[str, list[PluginOption]]:
    """The first paragraph of the docstring of a plugin's class (or function), and its options."""
    documentation = inspect.getdoc(factory) or ""
    texts: dict[str, str] = {}
    for base in reversed(inspect.getmro(factory)) if inspect.isclass(factory) else (factory,):
        for documented in (base, vars(base).get("__init__")):
            texts |= _documented_arguments(inspect.getdoc(documented) or "")
    return " ".join(documentation.split("\n\n")[0].split()), [
        PluginOption(name, _type_text(p.annotation), _default_text(p), texts.get(name, ""))
        for name, p in option_parameters(factory).items()
    ]


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
    """The default in the form of `--set`."""
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
