"""The pipeline: run the steps of a file in order, and skip those that nothing has changed for.

`run_pipeline` is the whole story: read the file, and for each step decide, run, remember. A step
is a verb of the command line, called in this process as the command line would call it, in the
folder of the pipeline file. A step that fails ends the run; what earlier steps did is remembered,
so that the next run goes on from there.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import kbforge
from kbforge import interrupts, registry
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.recipe.read import Pipeline, Step, command_of, read_pipeline
from kbforge.recipe.remember import (
    Record,
    State,
    fingerprint,
    fingerprints,
    inputs_of,
    is_readable,
    load_state,
    why_run,
)
from kbforge.registry.blame import blamed

_MAX_PRINTED = 1 << 18  # bytes of a step's standard output that are kept to be repeated


class StepFailed(KBForgeError):
    """A step that failed; the text names it, the exit code is its own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Report:
    """What becomes of one step.

    Attributes:
        status: "runs" (announced before it does), "ran", "skipped", or "would run" in a dry run.
        why: why it runs, or why it is skipped.
        seconds: how long it ran.
        printed: what a skipped step printed when it ran.

    """

    step: str
    number: int
    status: str
    why: str
    seconds: float = 0.0
    printed: str = ""


@dataclass(frozen=True, slots=True)
class How:
    """How to run a pipeline.

    Attributes:
        dry_run: decide, but run nothing.
        force: run every step that is looked at.
        first: name of the step to start at, "" for the first.
        only: name of the one step to look at, "" for all.
        print_to_stderr: send what the verbs print on standard output to standard error.

    """

    dry_run: bool = False
    force: bool = False
    first: str = ""
    only: str = ""
    print_to_stderr: bool = False


def run_pipeline(path: str, how: How, announce: Callable[[Report], None]) -> list[Report]:
    """Run a pipeline file.

    Args:
        path: the file.
        how: which steps, and whether really.
        announce: called with a report before and after each step.

    Raises:
        UsageError: the file cannot be run as written; nothing has run then.
        StepFailed: a step failed; the steps before it are remembered.

    """
    pipeline = read_pipeline(path)
    chosen = _chosen(pipeline, how)
    state = load_state(pipeline)
    if state.problem:
        announce(Report("", 0, "note", state.problem))
    reports: list[Report] = []
    pending: dict[str, str] = {}  # in a dry run: output -> the step that would write it
    with contextlib.chdir(pipeline.folder):
        for number, step in chosen:
            why = _why(step, state, how, pending)
            if not why:
                record = state.records[step.name]
                report = Report(step.name, number, "skipped", "", printed=record.printed or "")
            elif how.dry_run:
                report = Report(step.name, number, "would run", why)
                pending |= {step.output: step.name} if step.output else {}
            else:
                announce(Report(step.name, number, "runs", why))
                begin = time.monotonic()
                _run_and_remember(step, state, pipeline, how)
                report = Report(step.name, number, "ran", why, time.monotonic() - begin)
            announce(report)
            reports.append(report)
    return reports


def _chosen(pipeline: Pipeline, how: How) -> list[tuple[int, Step]]:
    """The steps to look at, with their numbers from 1."""
    numbered = list(enumerate(pipeline.steps, 1))
    names = [step.name for step in pipeline.steps]
    for option, name in (("--from", how.first), ("--only", how.only)):
        if name and name not in names:
            raise UsageError(
                f"{quoted(pipeline.path, 400)}: {option}: there is no step "
                f'"{quoted(name)}"; steps: {", ".join(map(quoted, names))}'
            )
    if how.first and how.only:
        raise UsageError("--from and --only exclude each other")
    if how.only:
        return [(number, step) for number, step in numbered if step.name == how.only]
    return numbered[names.index(how.first) :] if how.first else numbered


def _why(step: Step, state: State, how: How, pending: dict[str, str]) -> str:
    """Why the step must run; "" if it need not."""
    if how.force:
        return "forced"
    for path in step.named:
        if path in pending:
            return f'input {quoted(path)} comes from step "{quoted(pending[path])}"'
    return why_run(step, state.records.get(step.name), _program(step), Path())


def _program(step: Step) -> str:
    """Name and version of what a step runs: kbforge, and the distribution of a plugin's verb."""
    plugin = registry.find("commands", step.verb[0])
    ours = f"kbforge {kbforge.__version__}"
    return (
        ours
        if plugin.distribution == "kbforge"
        else (f"{plugin.distribution} {plugin.version} on {ours}")
    )


def _run_and_remember(step: Step, state: State, pipeline: Pipeline, how: How) -> None:
    where = f'{quoted(pipeline.path, 400)}: step "{quoted(step.name)}"'
    for path in step.declared:
        if not is_readable(Path(path)):
            raise UsageError(f"{where}: input {quoted(path)} does not exist")
    record = state.records.get(step.name)
    paths = inputs_of(step, record, Path())
    before = fingerprints(paths, Path())
    state.forget(step.name)
    for folder in {Path(step.output).parent, state.file.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    with _captured(how.print_to_stderr) as printed:
        _call(step, where)
    # what a step names and has just made is an output too, such as a quarantine file
    made = {path for path in step.named if path not in before and is_readable(Path(path))}
    if step.output:
        if not os.path.exists(step.output):
            raise StepFailed(f"{where}: it ended well but {quoted(step.output)} is missing", 1)
        made.add(step.output)
    text = printed.text()
    outputs = {path: fingerprint(Path(path)) for path in sorted(made)}
    state.put(step.name, Record(_program(step), step.settings, before, outputs, text))


def _call(step: Step, where: str) -> None:
    """Call the verb as the command line would.

    Raises:
        StepFailed: it failed, with its sentence and exit code.
        KeyboardInterrupt: it was interrupted.

    """
    command = command_of(step.verb)
    called = " ".join(("kbforge", *step.verb))
    try:
        with blamed():
            code = command.main(list(step.arguments), prog_name=called, standalone_mode=False)
    except KBForgeError as error:
        raise StepFailed(f"{where}: {error}", error.exit_code) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        raise StepFailed(f"{where}: {name}{reason}", KBForgeError.exit_code) from error
    except SystemExit as error:
        code = error.code
    except Exception as error:
        # Typer carries its own copy of click, so usage errors are told by what they can do
        if not hasattr(error, "format_message"):
            raise
        said = " ".join(str(error.format_message()).split())
        raise StepFailed(f"{where}: {said} (see {called} --help)", UsageError.exit_code) from error
    if code in interrupts.EXIT_CODES:
        raise KeyboardInterrupt
    if isinstance(code, int) and code:
        raise StepFailed(f"{where}: {called} ended with exit code {code}", code)


# --- what verbs print -----------------------------------------------------------------------------


class _Tee(io.RawIOBase):
    """A binary stream that passes everything on and keeps a copy of the first part."""

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
        """All that was written; None if it was too much to keep."""
        if self._size > _MAX_PRINTED:
            return None
        return b"".join(self._kept).decode("utf-8", "replace")


@contextlib.contextmanager
def _captured(to_stderr: bool) -> Iterator[_Tee]:
    """Standard output, copied: a skipped step repeats what it printed.

    The copy is no terminal, so tables come without colours, the same on every terminal.
    """
    sys.stdout.flush()
    tee = _Tee((sys.stderr if to_stderr else sys.stdout).buffer)
    wrapper = io.TextIOWrapper(cast(BinaryIO, tee), encoding="utf-8", write_through=True)
    try:
        with contextlib.redirect_stdout(wrapper):
            yield tee
    finally:
        with contextlib.suppress(BrokenPipeError):
            wrapper.detach()


def summary(reports: Sequence[Report]) -> dict[str, Any]:
    """What `kbforge run --json` prints."""
    return {
        "steps": [
            {"step": r.step, "status": r.status, "why": r.why, "seconds": round(r.seconds, 3)}
            for r in reports
        ]
    }
