"""Pipeline files: reads them, runs their steps, and records them so that none runs twice.

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

A step has the arguments and options that `kbforge VERB --help` lists, and no others. Relative paths
are relative to the pipeline file. Steps run in the order of the file, in this process.

A step writes its `--output` (the verb's default if it is left out), or its store (`--into`). It
reads every other file or folder that an argument, an option or the value of a `key=value` setting
names. A file that it names and creates is an output, too, such as a quarantine file. A step that
reads a database always runs; one that writes to a database runs if what it reads has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import orjson
from typer.core import TyperGroup

from kbforge import interrupts, registry
from kbforge.cli import options
from kbforge.cli.main import UsageMistake, verb_called
from kbforge.errors import KBForgeError, UsageError, did_you_mean, quoted, without_password
from kbforge.files.io import bytes_of, open_output, read_small, reason_of, require_apart
from kbforge.files.records import Option, Record, toml_of
from kbforge.version import DISTRIBUTION, __version__

FILE_NAME = "pipeline.toml"
_FORMAT = 1
_MAX_BYTES = 1 << 20
_MAX_NAME = 100
_MAX_FILES = 10_000
_MAX_PRINTED = 1 << 18  # bytes of a step's standard output that are kept to be repeated
_OUTPUTS = ("output", "into")
_WRITTEN = ("quarantine", "animate", "tree")  # options that name other outputs


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One step of a pipeline, runnable as written; paths are normalised."""

    name: str
    where: str  # file and step, for errors
    verb: tuple[str, ...]  # with its sub-commands
    command: Any
    arguments: tuple[str, ...]  # with the options
    settings: Mapping[str, tuple[str, ...]]  # options, "args" and "verb"; they tell what changed
    output: str  # "" if it only prints
    named: tuple[str, ...]  # what it may read, whether it exists or not
    declared: tuple[str, ...]  # those of them that the file lists as inputs; they must exist

    @property
    def program(self) -> str:
        """Name and version of the distribution; the step runs again if the version changes."""
        plugin, ours = registry.find("commands", self.verb[0]), f"kbforge {__version__}"
        if plugin.distribution == DISTRIBUTION:
            return ours
        return f"{plugin.distribution} {plugin.version} on {ours}"

    @property
    def files(self) -> dict[str, str]:
        """The fingerprints of the files and folders that it reads and writes, if they exist."""
        paths = (*self.named, *filter(None, [self.output]))
        return {path: fingerprint(path) for path in paths if _is_readable(path)}


@dataclass(frozen=True, slots=True)
class StepReport:
    """The result of one step."""

    step: str
    number: int
    status: str  # "runs" (before it does), "ran", "skipped", or "would run" in a dry run
    why: str  # it runs, or is skipped
    seconds: float = 0.0
    printed: str = ""  # the standard output of a skipped step, from when it ran


# --- reading --------------------------------------------------------------------------------------


def read_pipeline(path: str) -> list[PipelineStep]:
    """Read and check a pipeline file, without running it; all paths are relative to its folder.

    Raises:
        KBForgeError: the file cannot be read.
        UsageError: the file is not TOML, or a step cannot run as written; names file and step.

    """
    if path == "-":
        raise UsageError("a pipeline is read from a file: its paths are relative to it")
    file = quoted(path, 400)
    content = read_small(path, "a pipeline file", _MAX_BYTES, UsageError)
    top = toml_of(content, path, "pipeline", UsageError)
    tables = top.get("step")
    if not isinstance(tables, list) or len(top) > 1 or not tables:
        got = ", ".join(map(quoted, top)) or "nothing"
        raise UsageError(f"{file}: expected [[step]] tables and nothing else, got {got}")
    steps = [_step(table, file, number) for number, table in enumerate(tables, 1)]
    for step in steps:
        _require_not_this_file(step, path)
    _check_order(steps, file)
    return steps


def _step(table: object, file: str, number: int) -> PipelineStep:
    """One step of the file, runnable as written."""
    where = f"{file}: step {number}"

    def wrong(field: str, expected: str, got: str) -> UsageError:
        return UsageError(f"{where}: {field}: expected {expected}, got {got}")

    if not isinstance(table, dict):
        raise UsageError(f"{where}: expected a table, got {quoted(table)}")
    given = Record({"args": [], "inputs": [], "options": {}, **table}, wrong)
    verb = given.get("verb", str, "a verb of kbforge")
    name = given.get("name", str, "a short text") if "name" in given else verb
    if not verb.split() or not 0 < len(name) <= _MAX_NAME:
        raise given.wrong("name" if verb.split() else "verb", "a short text", name)
    where = f'{file}: step "{quoted(name)}"'
    given.only("name", "verb", "args", "inputs", "options")
    words = tuple(verb.split())
    args = _texts(given.get("args", list), f"{where}: args")
    declared = _texts(given.get("inputs", list), f"{where}: inputs")
    command = _command_of(words, where)
    settings = {"verb": words, "args": tuple(map(without_password, args))}
    arguments: list[str] = []
    may_read = [*args, *declared]
    for key, value in given.get("options", dict).items():
        option = key.replace("_", "-")
        values = value if isinstance(value, list) else [value]
        texts = _texts(values, f"{where}: option {quoted(key)}")
        settings[option] = tuple(map(without_password, texts))
        arguments += _on_the_command_line(command, option, value, texts)
        may_read += texts if option not in _OUTPUTS else ()
    arguments += ["--", *args] if args else []
    output = _output(command, words, arguments, args, where)
    named = _paths(may_read)
    if output in named:
        raise UsageError(
            f"{where}: expected an output that differs from its input {quoted(output)}"
        )
    return PipelineStep(
        name=name,
        where=where,
        verb=words,
        command=command,
        arguments=tuple(arguments),
        settings=settings,
        output=output,
        named=named,
        declared=tuple(os.path.normpath(text) for text in declared),
    )


def _texts(values: Sequence[object], where: str) -> tuple[str, ...]:
    """Values in the form of command-line arguments."""
    for value in values:
        if not isinstance(value, Option) or "\0" in str(value):
            raise UsageError(f"{where}: expected strings or numbers, got {quoted(value)}")
    return tuple(str(v).lower() if isinstance(v, bool) else str(v) for v in values)


def _command_of(words: Sequence[str], where: str) -> Any:
    """The command of a verb and its sub-commands."""
    if words[0] == "run":
        raise UsageError(f'{where}: a pipeline cannot contain the verb "run"')
    try:
        command = verb_called(words[0])
    except KBForgeError as error:
        raise UsageError(f"{where}: {error}") from error
    for word in words[1:]:
        members = getattr(command, "commands", {})
        if word not in members:
            raise UsageError(
                f'{where}: no sub-command "{quoted(word)}"{did_you_mean(word, members)}; '
                f"expected {', '.join(sorted(members)) or 'none'}"
            )
        command = members[word]
    if isinstance(command, TyperGroup):
        raise UsageError(f"{where}: expected a sub-command: {', '.join(sorted(command.commands))}")
    return command


def _on_the_command_line(
    command: Any, option: str, value: object, texts: Sequence[str]
) -> Sequence[str]:
    """An option, or a name that `--set` accepts; a switch that cannot be turned off is left out."""
    flag = f"--{option}"
    parameter = next((p for p in command.params if flag in p.opts), None)
    if parameter is None and option in options.OF_A_RUN:
        flag = f"--set={option}"
    elif isinstance(value, bool) and getattr(parameter, "is_flag", True):
        return [flag] if value else parameter.secondary_opts[:1] if parameter else [flag]
    return [f"{flag}={text}" for text in texts]


def _output(
    command: Any, words: Sequence[str], arguments: Sequence[str], args: Sequence[str], where: str
) -> str:
    """The verb's output for these arguments, found by parsing them."""
    called = " ".join(("kbforge", *words))
    try:
        given = command.make_context(called, list(arguments)).params
    except UsageMistake as error:
        said = " ".join(str(error.format_message()).split())
        raise UsageError(f"{where}: {said} (see {called} --help)") from error
    written = next((given[name] for name in reversed(_OUTPUTS) if given.get(name)), "")
    named = registry.named_after(str(written), args)
    is_file = named not in ("", "-") and not registry.is_address(named)
    return os.path.normpath(named) if is_file else ""


def _paths(texts: Sequence[str]) -> tuple[str, ...]:
    """The distinct paths that texts, or the values of settings `key=path`, may name."""
    files = (text for text in texts if not registry.is_address(text))
    parts = (part for text in files for part in (text, text.partition("=")[2]))
    return tuple(dict.fromkeys(os.path.normpath(part) for part in parts if part not in ("", "-")))


def _require_not_this_file(step: PipelineStep, path: str) -> None:
    """Refuse a step that would replace the pipeline file or one of its inputs."""
    folder = Path(path).resolve().parent
    written = [step.output, *(t for key in _WRITTEN for t in step.settings.get(key, ()))]
    for place in (folder / name for name in written if name not in ("", "-")):
        try:
            require_apart(place, [path, *(folder / name for name in step.declared)])
        except UsageError as error:
            raise UsageError(f"{step.where}: {error}") from None


def _check_order(steps: Sequence[PipelineStep], file: str) -> None:
    """Refuse duplicate names or outputs, and steps that read the output of a later step."""
    names: set[str] = set()
    writer = {step.output: number for number, step in reversed(list(enumerate(steps)))}
    for number, step in enumerate(steps):
        if step.name in names:
            raise UsageError(
                f"{file}: step {number + 1}: expected a unique name, "
                f'got "{quoted(step.name)}" again'
            )
        names.add(step.name)
        if step.output and writer[step.output] < number:
            raise UsageError(
                f"{step.where} writes {quoted(step.output)}, which step "
                f'"{quoted(steps[writer[step.output]].name)}" has written'
            )
        for path in step.named:
            if writer.get(path, -1) > number:
                raise UsageError(
                    f"{step.where} reads {quoted(path)}, which only the later step "
                    f'"{quoted(steps[writer[path]].name)}" writes; change their order'
                )


# --- running --------------------------------------------------------------------------------------


def run_pipeline(
    path: str,
    announce: Callable[[StepReport], None],
    *,
    dry_run: bool = False,
    force: bool = False,
    first: str = "",
    only: str = "",
    print_to_stderr: bool = False,
) -> list[StepReport]:
    """Run a pipeline file: all steps, those from `first` on, or `only` one.

    `announce` gets a report before and after each step. A dry run decides which steps would run;
    `force` runs every selected step. A step that fails ends the run; the next run continues there.

    Raises:
        UsageError: the file cannot run as written; nothing has run.
        KBForgeError: a step failed; it is named, and the exit code is that of its verb.

    """
    steps = read_pipeline(path)
    chosen = _chosen(steps, quoted(path, 400), first, only)
    folder = Path(path).resolve().parent
    output = next((step.output for step in steps if step.output), "")
    journal = Journal(folder / Path(output).parent / f".{Path(path).stem}.run.json")
    if journal.problem:
        announce(StepReport("", 0, "note", journal.problem))
    reports: list[StepReport] = []
    pending: dict[str, str] = {}  # in a dry run: output -> the step that would write it
    with contextlib.chdir(folder):
        for step in chosen:
            number, record = steps.index(step) + 1, journal.records.get(step.name)
            why = "forced" if force else _why(step, record, pending)
            if not why and record is not None:
                report = StepReport(step.name, number, "skipped", "", printed=record.printed or "")
            elif dry_run:
                report = StepReport(step.name, number, "would run", why)
                pending |= {step.output: step.name} if step.output else {}
            else:
                announce(StepReport(step.name, number, "runs", why))
                begin = time.monotonic()
                _run_and_remember(step, journal, print_to_stderr)
                report = StepReport(step.name, number, "ran", why, time.monotonic() - begin)
            announce(report)
            reports.append(report)
    return reports


def _chosen(
    steps: Sequence[PipelineStep], file: str, first: str, only: str
) -> Sequence[PipelineStep]:
    if first and only:
        raise UsageError("--from and --only cannot be combined")
    names = [step.name for step in steps]
    wanted = first or only
    if not wanted:
        return steps
    if wanted not in names:
        raise UsageError(
            f"{file}: {'--from' if first else '--only'}: there is no step "
            f'"{quoted(wanted)}"; steps: {", ".join(map(quoted, names))}'
        )
    begin = names.index(wanted)
    return steps[begin:] if first else steps[begin : begin + 1]


def _run_and_remember(step: PipelineStep, journal: Journal, print_to_stderr: bool) -> None:
    for path in step.declared:
        if not _is_readable(path):
            raise UsageError(f"{step.where}: input {quoted(path)} does not exist")
    record = journal.records.get(step.name)
    known = {step.output, *(record.outputs if record else ())}
    before = {path: digest for path, digest in step.files.items() if path not in known}
    journal.put(step.name, None)
    for folder in {Path(step.output).parent, journal.file.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    with _captured(print_to_stderr) as printed:
        _call(step)
    if step.output and not os.path.exists(step.output):
        raise KBForgeError(f"{step.where}: it succeeded, but {quoted(step.output)} is missing")
    outputs = {path: digest for path, digest in step.files.items() if path not in before}
    record = StepRecord(step.program, step.settings, before, outputs, printed.text())
    journal.put(step.name, record)


def _call(step: PipelineStep) -> None:
    """Run the verb; turn its failure into a sentence that names the step, with its exit code."""
    called = " ".join(("kbforge", *step.verb))
    try:
        with registry.blamed():
            code = step.command.main(list(step.arguments), prog_name=called, standalone_mode=False)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int | None) else 1  # a text means 1
    except KBForgeError as error:
        error.args = (f"{step.where}: {error}",)
        raise
    except BrokenPipeError:
        raise
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        raise KBForgeError(f"{step.where}: {name}{reason_of(error)}") from error
    if code in interrupts.EXIT_CODES:
        raise KeyboardInterrupt
    if isinstance(code, int) and code:
        failed = KBForgeError(f"{step.where}: {called} ended with exit code {code}")
        failed.exit_code = code
        raise failed


class _Tee(io.BytesIO):
    """Passes everything on to a stream, and keeps a copy up to a maximum length."""

    def __init__(self, target: BinaryIO) -> None:
        super().__init__()
        self._target = target

    def write(self, data: Any) -> int:
        self._target.write(data)
        self._target.flush()
        if self.tell() <= _MAX_PRINTED:
            super().write(data)
        return len(data)

    def text(self) -> str | None:
        """All that was written, or None if it is too long."""
        kept = self.getvalue()
        return kept.decode("utf-8", "replace") if len(kept) <= _MAX_PRINTED else None


@contextlib.contextmanager
def _captured(to_stderr: bool) -> Iterator[_Tee]:
    """A copy of standard output, which a skipped step repeats.

    The copy is not a terminal, so tables have no colours and look the same everywhere.
    """
    sys.stdout.flush()
    tee = _Tee(bytes_of(sys.stderr if to_stderr else sys.stdout))
    wrapper = io.TextIOWrapper(tee, encoding="utf-8", write_through=True)
    try:
        with contextlib.redirect_stdout(wrapper):
            yield tee
    finally:
        with contextlib.suppress(BrokenPipeError):
            wrapper.detach()


# --- the journal ----------------------------------------------------------------------------------
#
# A small JSON file beside the first output holds, for each step that succeeded, its options, the
# version of the program, and the SHA-256 of every file that it read and wrote. A step is skipped if
# its record still holds. Contents decide, not times: touching a file changes nothing, and if a step
# writes the same bytes as before, the steps that read them do not run.


class StepRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One successful run of a step."""

    program: str  # name and version of the distribution that has the verb, and of kbforge
    settings: Mapping[str, tuple[str, ...]]  # by option
    inputs: dict[str, str]  # SHA-256 by path, from before it ran
    outputs: dict[str, str]  # likewise, from after it ran
    printed: str | None  # None if that was too long to keep


class Journal:
    """The records of a pipeline by step, and their file; `problem` is why the file is unusable."""

    def __init__(self, file: Path) -> None:
        self.file, self.problem = file, ""
        self.records: dict[str, StepRecord] = {}
        if not file.is_file():
            return
        try:
            found = orjson.loads(file.read_bytes())
            if found["format"] != _FORMAT or len(found) != 2:
                raise ValueError
            self.records = msgspec.convert(found["steps"], dict[str, StepRecord])
        except (OSError, ValueError, TypeError, LookupError, msgspec.ValidationError):
            self.problem = f"{quoted(str(file), 400)} cannot be used; every step runs"

    def put(self, step: str, record: StepRecord | None) -> None:
        """Save the record of a successful run; None deletes the record, because the step starts
        again."""
        if self.records.pop(step, None) is None and record is None:
            return
        self.records |= {} if record is None else {step: record}
        data = {"format": _FORMAT, "steps": msgspec.to_builtins(self.records)}
        with open_output(str(self.file)) as out:
            out.write(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")


def _why(step: PipelineStep, record: StepRecord | None, pending: Mapping[str, str]) -> str:
    """Why a step must run, as a clause; "" if it need not run.

    Pending outputs are those of steps that a dry run would run.
    """
    for path in step.named:
        if path in pending:
            return f'input {quoted(path)} comes from step "{quoted(pending[path])}"'
    if record is None:
        return "it has not succeeded yet"
    if any(map(registry.is_address, step.settings["args"])):
        return "it reads a database"
    if record.program != step.program:
        return f"{record.program} became {step.program}"
    old, new = record.settings, step.settings
    if changed := sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key)):
        return f"{', '.join(changed)} changed"
    if record.printed is None:
        return "it printed too much to repeat"
    now = step.files
    then = record.inputs | record.outputs
    for path in sorted(then.keys() | now.keys()):
        if then.get(path) != now.get(path):
            what = "output" if path in record.outputs else "input"
            how = "changed" if path in then else "is new"
            return f"{what} {quoted(path)} {how if path in now else 'is missing'}"
    return ""


def _is_readable(path: str) -> bool:
    """Whether a path is a file or a folder, not a pipe or a device."""
    return os.path.isfile(path) or os.path.isdir(path)


def fingerprint(path: str) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of all files in a folder."""
    try:
        if not os.path.isdir(path):
            return _file_digest(path)
        found = sorted(Path(root, name) for root, _, names in os.walk(path) for name in names)
        if len(found) > _MAX_FILES:
            raise KBForgeError(
                f"{quoted(path, 400)}: expected a folder of at most {_MAX_FILES:,} files as "
                f"input of a step, got {len(found):,}"
            )
        digest = hashlib.sha256()
        for file in found:
            if file.is_file():
                name = os.fsencode(file.relative_to(path))
                digest.update(f"{len(name)}:".encode() + name + _file_digest(file).encode())
        return digest.hexdigest()
    except OSError as error:
        raise KBForgeError(f"cannot read {quoted(path, 400)}: {reason_of(error)}") from error


def _file_digest(path: str | Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_template(folder: str, force: bool = False) -> Path:
    """Write a commented `pipeline.toml` into a folder; overwrite an old one only with `force`."""
    target = Path(folder) / FILE_NAME
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(f"{quoted(folder, 400)} is not a folder")
    if target.exists() and not force:
        raise UsageError(f"{quoted(str(target), 400)} exists; --force overwrites it")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(files("kbforge.cli").joinpath(FILE_NAME).read_bytes())
    return target
