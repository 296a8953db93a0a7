"""Runs a pipeline: its steps in order, except unchanged ones.

`run_pipeline` reads the file, and for each step decides, runs and remembers. A step runs a verb in
this process, in the folder of the pipeline file. A step that fails ends the run. The steps before
it are remembered, so the next run continues there.
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
from typing import Any, BinaryIO, cast

import msgspec
import orjson

from kbforge import interrupts
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.io import bytes_of, open_output
from kbforge.recipe.read import FindVerb, PipelineStep, Verb, read_pipeline

FILE_NAME = "pipeline.toml"
_FORMAT = 1
_MAX_FILES = 10_000
_MAX_PRINTED = 1 << 18  # bytes of a step's standard output that are kept to be repeated


class StepFailed(KBForgeError):
    """A step that failed: the message names it, and the exit code is that of its verb."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class StepReport:
    """How one step ends."""

    step: str
    number: int
    status: str  # "runs" (before it does), "ran", "skipped", or "would run" in a dry run
    why: str  # it runs, or is skipped
    seconds: float = 0.0
    printed: str = ""  # the standard output of a skipped step, from when it ran


def run_pipeline(
    path: str,
    find_verb: FindVerb,
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
    `force` runs every chosen step.

    Raises:
        UsageError: the file cannot run as written; nothing has run then.
        StepFailed: a step failed; the steps before it are remembered.

    """
    steps = read_pipeline(path, find_verb)
    chosen = _chosen(steps, path, first, only)
    folder = Path(path).resolve().parent
    output = next((step.output for step in steps if step.output), "")
    journal = Journal(folder / Path(output).parent / f".{Path(path).stem}.run.json")
    if journal.problem:
        announce(StepReport("", 0, "note", journal.problem))
    reports: list[StepReport] = []
    pending: dict[str, str] = {}  # in a dry run: output -> the step that would write it
    with contextlib.chdir(folder):
        for number, step in chosen:
            verb = find_verb(step.verb)
            record = journal.records.get(step.name)
            why = "forced" if force else _why(step, verb.program, record, pending)
            if not why and record is not None:
                report = StepReport(step.name, number, "skipped", "", printed=record.printed or "")
            elif dry_run:
                report = StepReport(step.name, number, "would run", why)
                pending |= {step.output: step.name} if step.output else {}
            else:
                announce(StepReport(step.name, number, "runs", why))
                begin = time.monotonic()
                where = f'{quoted(path, 400)}: step "{quoted(step.name)}"'
                _run_and_remember(step, verb, journal, where, print_to_stderr)
                report = StepReport(step.name, number, "ran", why, time.monotonic() - begin)
            announce(report)
            reports.append(report)
    return reports


def _chosen(
    steps: Sequence[PipelineStep], path: str, first: str, only: str
) -> list[tuple[int, PipelineStep]]:
    """The chosen steps, with their numbers from 1."""
    numbered = list(enumerate(steps, 1))
    names = [step.name for step in steps]
    for option, name in (("--from", first), ("--only", only)):
        if name and name not in names:
            raise UsageError(
                f"{quoted(path, 400)}: {option}: there is no step "
                f'"{quoted(name)}"; steps: {", ".join(map(quoted, names))}'
            )
    if first and only:
        raise UsageError("--from and --only exclude each other")
    if only:
        return [(number, step) for number, step in numbered if step.name == only]
    return numbered[names.index(first) :] if first else numbered


def _run_and_remember(
    step: PipelineStep, verb: Verb, journal: Journal, where: str, print_to_stderr: bool
) -> None:
    for path in step.declared:
        if not is_readable(path):
            raise UsageError(f"{where}: input {quoted(path)} does not exist")
    record = journal.records.get(step.name)
    before = {path: fingerprint(path) for path in _inputs(step, record)}
    journal.forget(step.name)
    for folder in {Path(step.output).parent, journal.file.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    with _captured(print_to_stderr) as printed:
        _call(step, verb, where)
    # a file that a step names and has just created is an output, too, such as a quarantine file
    made = {path for path in step.named if path not in before and is_readable(path)}
    if step.output:
        if not os.path.exists(step.output):
            raise StepFailed(f"{where}: it ended well but {quoted(step.output)} is missing", 1)
        made.add(step.output)
    text = printed.text()
    outputs = {path: fingerprint(path) for path in sorted(made)}
    journal.put(step.name, StepRecord(verb.program, step.settings, before, outputs, text))


def _call(step: PipelineStep, verb: Verb, where: str) -> None:
    """Run the verb; its failure becomes a `StepFailed`, with its sentence and exit code."""
    try:
        code = verb.run(step.arguments)
    except KBForgeError as error:
        raise StepFailed(f"{where}: {error}", error.exit_code) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        raise StepFailed(f"{where}: {name}{reason}", KBForgeError.exit_code) from error
    if code in interrupts.EXIT_CODES:
        raise KeyboardInterrupt
    if code:
        called = " ".join(("kbforge", *step.verb))
        raise StepFailed(f"{where}: {called} ended with exit code {code}", code)


def summary(reports: Sequence[StepReport]) -> dict[str, Any]:
    """The summary that `kbforge run --json` prints."""
    return {
        "steps": [
            {"step": r.step, "status": r.status, "why": r.why, "seconds": round(r.seconds, 3)}
            for r in reports
        ]
    }


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
    inputs: dict[str, str]  # SHA-256 by path
    outputs: dict[str, str]  # likewise
    printed: str | None  # None if that was too long to keep


class Journal:
    """The records of a pipeline by step, and their file; `problem` says why that is unusable."""

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

    def put(self, step: str, record: StepRecord) -> None:
        """Save the record of a successful run."""
        self.records[step] = record
        self._save()

    def forget(self, step: str) -> None:
        """Delete the record of a step, because it starts again."""
        if self.records.pop(step, None) is not None:
            self._save()

    def _save(self) -> None:
        data = {"format": _FORMAT, "steps": msgspec.to_builtins(self.records)}
        with open_output(str(self.file)) as out:
            out.write(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")


def _why(
    step: PipelineStep, program: str, record: StepRecord | None, pending: Mapping[str, str]
) -> str:
    """Why a step must run, as a clause; "" if it need not. Hashes its inputs and outputs.

    Pending outputs are those of steps that a dry run would run.
    """
    for path in step.named:
        if path in pending:
            return f'input {quoted(path)} comes from step "{quoted(pending[path])}"'
    if record is None:
        return "it has not succeeded yet"
    if record.program != program:
        return f"{record.program} became {program}"
    old, new = record.settings, step.settings
    if changed := sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key)):
        return f"{', '.join(changed)} changed"
    if record.printed is None:
        return "it printed too much to repeat"
    current = {path: fingerprint(path) for path in _inputs(step, record)}
    for path in sorted(current.keys() | record.inputs.keys()):
        if path not in current:
            return f"input {quoted(path)} is gone"
        if path not in record.inputs:
            return f"input {quoted(path)} is new"
        if current[path] != record.inputs[path]:
            return f"input {quoted(path)} changed"
    for path, digest in record.outputs.items():
        if not os.path.exists(path):
            return f"output {quoted(path)} is missing"
        if fingerprint(path) != digest:
            return f"output {quoted(path)} was modified"
    return ""


def _inputs(step: PipelineStep, record: StepRecord | None) -> list[str]:
    """The files and folders that a step reads: those that it names, except its outputs."""
    written = record.outputs if record else {}
    return [path for path in step.named if path not in written and is_readable(path)]


def is_readable(path: str) -> bool:
    """Whether a path is a file or a folder, not a pipe or a device."""
    return os.path.isfile(path) or os.path.isdir(path)


def fingerprint(path: str) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of all files in a folder."""
    try:
        if not os.path.isdir(path):
            return _file_digest(path)
        files = sorted(Path(root, name) for root, _, names in os.walk(path) for name in names)
        if len(files) > _MAX_FILES:
            raise KBForgeError(
                f"{quoted(path, 400)}: expected a folder of at most {_MAX_FILES:,} files as "
                f"input of a step, got {len(files):,}"
            )
        digest = hashlib.sha256()
        for file in files:
            if file.is_file():
                name = os.fsencode(file.relative_to(path))
                digest.update(f"{len(name)}:".encode() + name + _file_digest(file).encode())
        return digest.hexdigest()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot read {quoted(path, 400)}: {reason}") from error


def _file_digest(path: str | Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# --- what a step prints ---------------------------------------------------------------------------


class _Tee(io.RawIOBase):
    """A binary stream that passes everything on and keeps a copy, up to a limit."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._kept: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        copy = bytes(data)
        self._target.write(copy)
        self._target.flush()
        self._size += len(copy)
        if self._size <= _MAX_PRINTED:
            self._kept.append(copy)
        return len(copy)

    def text(self) -> str | None:
        """All that was written; None if it is too long to keep."""
        if self._size > _MAX_PRINTED:
            return None
        return b"".join(self._kept).decode("utf-8", "replace")


@contextlib.contextmanager
def _captured(to_stderr: bool) -> Iterator[_Tee]:
    """A copy of standard output, which a skipped step repeats.

    The copy is not a terminal, so tables have no colours and look the same everywhere.
    """
    sys.stdout.flush()
    tee = _Tee(bytes_of(sys.stderr if to_stderr else sys.stdout))
    wrapper = io.TextIOWrapper(cast(BinaryIO, tee), encoding="utf-8", write_through=True)
    try:
        with contextlib.redirect_stdout(wrapper):
            yield tee
    finally:
        with contextlib.suppress(BrokenPipeError):
            wrapper.detach()


# --- a file to start from -------------------------------------------------------------------------


def template() -> str:
    """The text of a commented pipeline file."""
    return files("kbforge.recipe").joinpath("template.toml").read_text("utf-8")


def write_template(folder: str, force: bool = False) -> Path:
    """Write `pipeline.toml` into a folder, which is created; overwrite one only if forced."""
    target = Path(folder) / FILE_NAME
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "w" if force else "x", encoding="utf-8") as out:
            out.write(template())
    except FileExistsError as error:
        if target.parent.is_dir():
            raise UsageError(f"{quoted(str(target), 400)} exists; --force overwrites it") from error
        raise UsageError(f"{quoted(folder, 400)} is not a folder") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot write {quoted(str(target), 400)}: {reason}") from error
    return target
