"""Running a pipeline: its steps in order, without those that nothing has changed for.

`run_pipeline` is the whole story: read the file, and for each step decide, run, remember. A step
runs a verb in this process, in the folder of the pipeline file. The caller says which verbs there
are. A step that fails ends the run. What earlier steps did is remembered, so that the next run goes
on from there.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbforge import interrupts
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.recipe.captured import captured
from kbforge.recipe.read import Pipeline, Step, read_pipeline
from kbforge.recipe.remember import (
    Journal,
    Record,
    fingerprint,
    fingerprints,
    inputs_of,
    is_readable,
    load_journal,
    why_run,
)
from kbforge.recipe.verbs import FindVerb, Verb


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
class RunSettings:
    """Which steps of a pipeline to run, and whether really.

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


def run_pipeline(
    path: str,
    settings: RunSettings,
    find_verb: FindVerb,
    announce: Callable[[Report], None],
) -> list[Report]:
    """Run a pipeline file.

    Args:
        path: the file.
        settings: which steps, and whether really.
        find_verb: the verbs that a step may name.
        announce: called with a report before and after each step.

    Raises:
        UsageError: the file cannot be run as written; nothing has run then.
        StepFailed: a step failed; the steps before it are remembered.

    """
    pipeline = read_pipeline(path, find_verb)
    chosen = _chosen(pipeline, settings)
    journal = load_journal(pipeline)
    if journal.problem:
        announce(Report("", 0, "note", journal.problem))
    reports: list[Report] = []
    pending: dict[str, str] = {}  # in a dry run: output -> the step that would write it
    with contextlib.chdir(pipeline.folder):
        for number, step in chosen:
            verb = find_verb(step.verb)
            why = _why(step, verb.program, journal, settings, pending)
            if not why:
                record = journal.records[step.name]
                report = Report(step.name, number, "skipped", "", printed=record.printed or "")
            elif settings.dry_run:
                report = Report(step.name, number, "would run", why)
                pending |= {step.output: step.name} if step.output else {}
            else:
                announce(Report(step.name, number, "runs", why))
                begin = time.monotonic()
                _run_and_remember(step, verb, journal, pipeline, settings)
                report = Report(step.name, number, "ran", why, time.monotonic() - begin)
            announce(report)
            reports.append(report)
    return reports


def _chosen(pipeline: Pipeline, settings: RunSettings) -> list[tuple[int, Step]]:
    """The steps to look at, with their numbers from 1."""
    numbered = list(enumerate(pipeline.steps, 1))
    names = [step.name for step in pipeline.steps]
    for option, name in (("--from", settings.first), ("--only", settings.only)):
        if name and name not in names:
            raise UsageError(
                f"{quoted(pipeline.path, 400)}: {option}: there is no step "
                f'"{quoted(name)}"; steps: {", ".join(map(quoted, names))}'
            )
    if settings.first and settings.only:
        raise UsageError("--from and --only exclude each other")
    if settings.only:
        return [(number, step) for number, step in numbered if step.name == settings.only]
    return numbered[names.index(settings.first) :] if settings.first else numbered


def _why(
    step: Step, program: str, journal: Journal, settings: RunSettings, pending: dict[str, str]
) -> str:
    """Why the step must run; "" if it need not."""
    if settings.force:
        return "forced"
    for path in step.named:
        if path in pending:
            return f'input {quoted(path)} comes from step "{quoted(pending[path])}"'
    return why_run(step, journal.records.get(step.name), program, Path())


def _run_and_remember(
    step: Step, verb: Verb, journal: Journal, pipeline: Pipeline, settings: RunSettings
) -> None:
    where = f'{quoted(pipeline.path, 400)}: step "{quoted(step.name)}"'
    for path in step.declared:
        if not is_readable(Path(path)):
            raise UsageError(f"{where}: input {quoted(path)} does not exist")
    record = journal.records.get(step.name)
    paths = inputs_of(step, record, Path())
    before = fingerprints(paths, Path())
    journal.forget(step.name)
    for folder in {Path(step.output).parent, journal.file.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    with captured(settings.print_to_stderr) as printed:
        _call(step, verb, where)
    # what a step names and has just made is an output too, such as a quarantine file
    made = {path for path in step.named if path not in before and is_readable(Path(path))}
    if step.output:
        if not os.path.exists(step.output):
            raise StepFailed(f"{where}: it ended well but {quoted(step.output)} is missing", 1)
        made.add(step.output)
    text = printed.text()
    outputs = {path: fingerprint(Path(path)) for path in sorted(made)}
    journal.put(step.name, Record(verb.program, step.settings, before, outputs, text))


def _call(step: Step, verb: Verb, where: str) -> None:
    """Run the verb.

    Raises:
        StepFailed: it failed, with its sentence and exit code.
        KeyboardInterrupt: it was interrupted.

    """
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


def summary(reports: Sequence[Report]) -> dict[str, Any]:
    """What `kbforge run --json` prints."""
    return {
        "steps": [
            {"step": r.step, "status": r.status, "why": r.why, "seconds": round(r.seconds, 3)}
            for r in reports
        ]
    }
