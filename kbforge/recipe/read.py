"""The pipeline file: a list of steps, each a verb with its arguments and options.

    [[step]]
    verb = "cluster"                    # any verb, a plugin's too; or "plugins list"
    name = "group"                      # the verb if left out; names are unique
    args = ["out/fragments.jsonl"]      # the verb's arguments, in order
    inputs = ["extra.txt"]              # other files that it reads (rare)
    [step.options]                      # the verb's long options without their dashes
    output = "out/kb.jsonl"
    alpha = 20
    json = true                         # a switch
    particles = 50                      # what the verb takes as --set particles=50
    set = ["clusterer.weights=marginal"]   # an option that may be repeated takes a list

A step has the arguments and options that `kbforge VERB --help` lists, and no others. Relative
paths are relative to the pipeline file. Steps run in the order of the file.

A step writes its `--output` (the verb's default if it is left out), or its store (`--into`). It
reads every other file or folder that an argument, an option or the value of a `key=value` setting
names.

A pipeline knows no command line: whoever runs it passes a function that finds verbs. `kbforge run`
finds the installed verbs; a test may find toys.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.io import read_small, require_apart
from kbforge.files.records import toml_of

_MAX_BYTES = 1 << 20
_MAX_NAME = 100
_KEYS = ("name", "verb", "args", "inputs", "options")
_WRITTEN = ("quarantine", "animate", "tree")  # options that name outputs, besides --output
_NOT_IN_A_PIPELINE = frozenset({"run"})

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a verb."""

    flag: str  # such as "--alpha", or "--set=particles"
    is_switch: bool = False  # it takes no value
    off: str = ""  # the argument that turns the switch off, if there is one
    repeats: bool = False
    is_output: bool = False  # its value is the file or folder that the verb writes
    default: Callable[[Sequence[str]], str] | None = None  # of an output, for these arguments

    @property
    def name(self) -> str:
        """Its name in a pipeline file."""
        return self.flag.lstrip("-").removeprefix("set=")


class Verb(Protocol):
    """Something that a step can run."""

    @property
    def program(self) -> str:
        """Name and version of the distribution; another version runs the step again."""
        ...

    @property
    def options(self) -> Mapping[str, Option]:
        """Its options by name."""
        ...

    def run(self, arguments: Sequence[str]) -> int:
        """Run it with the arguments of a command line, and return the exit code.

        Raises `KBForgeError` with its sentence and exit code, or `OSError` where a file fails.
        """
        ...


FindVerb: TypeAlias = Callable[[Sequence[str]], Verb]
"""Finds the verb with these words, such as ("lab", "sample"); raises KBForgeError if none has."""


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One step of a pipeline, checked against the options of its verb; paths are normalised."""

    name: str
    verb: tuple[str, ...]  # with its sub-commands
    arguments: tuple[str, ...]  # with the options
    settings: Mapping[str, tuple[str, ...]]  # options, "args" and "verb"; they tell what changed
    output: str  # "" if it only prints
    named: tuple[str, ...]  # what it may read, whether it exists or not
    declared: tuple[str, ...]  # those of them that the file lists as inputs; they must exist


def read_pipeline(path: str, find_verb: FindVerb) -> list[PipelineStep]:
    """Read and check a pipeline file, without running it; all paths are relative to its folder.

    Raises:
        KBForgeError: the file cannot be read.
        UsageError: not TOML, or a step that cannot run as written; names file and step.

    """
    tables = _read_tables(path)
    steps: list[PipelineStep] = []
    for number, table in enumerate(tables, 1):
        where = f"{quoted(path, 400)}: step {number}"
        name = _name(table, where)
        if name in (step.name for step in steps):
            raise UsageError(f'{where}: expected a unique name, got "{quoted(name)}" again')
        where = f'{quoted(path, 400)}: step "{quoted(name)}"'
        steps.append(_step(name, table, find_verb, where))
        _require_not_this_file(steps[-1], path, where)
    _check_order(steps, quoted(path, 400))
    return steps


# --- reading --------------------------------------------------------------------------------------


def _read_tables(path: str) -> list[dict[str, Any]]:
    if path == "-":
        raise UsageError("a pipeline is read from a file: its paths are relative to it")
    where = quoted(path, 400)
    content = read_small(path, "a pipeline file", _MAX_BYTES, UsageError)
    top = toml_of(content, path, "pipeline", UsageError)
    for key in top:
        if key != "step":
            raise UsageError(f'{where}: expected only [[step]] tables, got "{quoted(key)}"')
    tables = top.get("step")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(
            f"{where}: expected [[step]] tables, got {'none' if not top else 'others'}"
        )
    if not tables:
        raise UsageError(f"{where}: expected at least one [[step]]")
    return tables


def _name(table: Mapping[str, Any], where: str) -> str:
    for key in table:
        if key not in _KEYS:
            raise UsageError(
                f'{where}: expected only {", ".join(_KEYS)}, got "{quoted(key)}" '
                f"(options of the verb belong in [step.options])"
            )
    verb = table.get("verb")
    if not isinstance(verb, str) or not verb.split():
        got = "nothing" if verb is None else quoted(verb)
        raise UsageError(f"{where}: verb: expected a verb of kbforge, got {got}")
    name = table.get("name", verb)
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
        raise UsageError(f"{where}: name: expected a short text, got {quoted(name)}")
    return name


def _step(name: str, table: Mapping[str, Any], find_verb: FindVerb, where: str) -> PipelineStep:
    words = tuple(table["verb"].split())
    if words[0] in _NOT_IN_A_PIPELINE:
        raise UsageError(f'{where}: a pipeline cannot hold the verb "{words[0]}"')
    try:
        verb = find_verb(words)
    except KBForgeError as error:
        raise UsageError(f"{where}: {error}") from error
    args = _texts(table.get("args", []), f"{where}: args")
    declared = _texts(table.get("inputs", []), f"{where}: inputs")
    options = table.get("options", {})
    if not isinstance(options, dict):
        raise UsageError(f"{where}: options: expected a table, got {quoted(options)}")
    settings: dict[str, tuple[str, ...]] = {}
    arguments: list[str] = []
    default = next((option.default for option in verb.options.values() if option.is_output), None)
    output = default(args) if default is not None else ""
    may_read = [*args, *declared]
    for key, value in options.items():
        option = _option(verb, key, words, where)
        texts = _values(option, value, f"{where}: option {quoted(key)}")
        arguments += _arguments(option, texts)
        settings[option.name] = texts
        if option.is_output:
            output = texts[0]
        else:
            may_read += texts
    written = "" if output in ("", "-") else os.path.normpath(output)
    named = _paths(may_read)
    if written in named:
        raise UsageError(
            f"{where}: expected an output that differs from its input {quoted(written)}"
        )
    return PipelineStep(
        name=name,
        verb=words,
        arguments=(*arguments, *(("--", *args) if args else ())),
        settings={**settings, "verb": words, "args": args},
        output=written,
        named=named,
        declared=tuple(os.path.normpath(text) for text in declared),
    )


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(_is_scalar(v) for v in value):
        raise UsageError(f"{where}: expected a list of texts or numbers, got {quoted(value)}")
    return tuple(_text(item, where) for item in value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, Scalar)


def _text(value: Scalar, where: str) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\0" in text:
        raise UsageError(f"{where}: expected text without NUL, got {quoted(text)}")
    return text


# --- a verb's options -----------------------------------------------------------------------------


def _option(verb: Verb, key: str, words: Sequence[str], where: str) -> Option:
    found = verb.options.get(key.replace("_", "-"))
    if found is None:
        raise UsageError(
            f'{where}: kbforge {" ".join(words)} has no option "{quoted(key)}"; '
            f"options: {', '.join(sorted(verb.options)) or 'none'}"
        )
    return found


def _values(option: Option, value: object, where: str) -> tuple[str, ...]:
    """The option's values as texts."""
    if option.is_switch and not isinstance(value, bool):
        raise UsageError(f"{where}: expected true or false, got {quoted(value)}")
    if option.repeats and isinstance(value, list):
        return _texts(value, where)
    if not _is_scalar(value):
        raise UsageError(f"{where}: expected a text or number, got {quoted(value)}")
    return _texts([value], where)


def _arguments(option: Option, texts: Sequence[str]) -> list[str]:
    """The option on the command line."""
    if not option.is_switch:
        return [f"{option.flag}={text}" for text in texts]
    if texts == ("true",):
        return [option.flag]
    return [option.off] if option.off else []  # a switch without it is left out


# --- what a step reads and writes -----------------------------------------------------------------


def _require_not_this_file(step: PipelineStep, path: str, where: str) -> None:
    """Refuse a step that would replace the pipeline file or one of its inputs."""
    folder = Path(path).resolve().parent
    written = [step.output, *(t for key in _WRITTEN for t in step.settings.get(key, ()))]
    for place in (folder / name for name in written if name not in ("", "-")):
        try:
            require_apart(place, [path, *(folder / name for name in step.declared)])
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None


def _paths(texts: Sequence[str]) -> tuple[str, ...]:
    """The distinct paths that the texts may name, normalised."""
    return tuple(dict.fromkeys(os.path.normpath(p) for text in texts for p in _candidates(text)))


def _candidates(text: str) -> Iterator[str]:
    """The parts of a value that may be paths: all of it, and the value of a setting `key=path`."""
    yield from (part for part in (text, text.partition("=")[2]) if part not in ("", "-"))


def _check_order(steps: Sequence[PipelineStep], where: str) -> None:
    """Refuse a step that reads the output of a later step, or writes that of an earlier one."""
    writer = {step.output: number for number, step in reversed(list(enumerate(steps)))}
    for number, step in enumerate(steps):
        if step.output and writer[step.output] < number:
            raise UsageError(
                f'{where}: step "{quoted(step.name)}" writes {quoted(step.output)}, which step '
                f'"{quoted(steps[writer[step.output]].name)}" has written'
            )
        for path in step.named:
            if writer.get(path, -1) > number:
                raise UsageError(
                    f'{where}: step "{quoted(step.name)}" reads {quoted(path)}, which only the '
                    f'later step "{quoted(steps[writer[path]].name)}" writes; change their order'
                )
