"""The progress of a clustering: its stages before the first step, then a bar."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kbforge import interrupts
from kbforge.cli import console
from kbforge.words import lasting

if TYPE_CHECKING:
    from kbforge.contracts import OnStage, OnStep, Progress, Stage

_COLUMNS = (
    "{task.fields[speed]}",
    "{task.fields[subproblems]} subproblems",
    "10^{task.fields[log10_effective_particles]} particles",
    "{task.fields[model_evaluations]} evaluations",
)
_ENOUGH = 3  # fragments or rounds are enough to measure a speed
_SECONDS_TO_TELL = 10.0
_LONG = 120.0  # seconds left that are worth a note
_OFFLINE_COLUMNS = (
    "{task.fields[speed]}",
    "{task.fields[clusters]} clusters",
    "{task.fields[log_posterior]}",
    "{task.fields[model_evaluations]} evaluations",
)


class RunCallbacks(NamedTuple):
    """Functions that a run calls.

    Attributes:
        on_step: after a step.
        on_stage: at the begin of each stage before the first step.

    """

    on_step: OnStep
    on_stage: OnStage


@contextlib.contextmanager
def following() -> Iterator[RunCallbacks]:
    """Show the progress of a run: the stages before the first step, then a bar."""
    import time

    begin = time.monotonic()
    shown = -math.inf
    bar: Any = None
    first = 0  # units done at the first step, before the speed is measured
    told = False
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(contextlib.ExitStack())
        sign = before.enter_context(console.working("preparing"))

        def on_stage(stage: Stage) -> None:
            sign.say(f"{stage.doing} ({stage.number} of {stage.of})")

        def on_step(progress: Progress) -> None:
            nonlocal begin, first, shown, bar, told
            now = time.monotonic()
            done, total, fields = figures(progress, now - begin, first)
            if bar is None:  # only the first step knows the unit and the total
                before.close()
                bar = stack.enter_context(bar_for(progress))
                begin, first = now, done  # the stages before say nothing about the speed
            elif now - shown < 0.1 and done != total:
                return
            shown = now
            bar.update(done, **fields)
            if not told and (rest := time_left(done - first, done, total, now - begin)) > _LONG:
                told = True
                console.note(
                    f"note: at this speed it takes {lasting(rest)} more; --limit reads fewer "
                    "fragments, and n-grams are faster than a language model"
                )

        on_step.seldom = True  # type: ignore[attr-defined]
        yield RunCallbacks(on_step, on_stage)


@contextlib.contextmanager
def stoppable() -> Iterator[RunCallbacks]:
    """Like `following`, but a signal ends the run after the current step.

    Before the first step, there is nothing to keep, so the run ends at once.
    """
    from kbforge.contracts import Interrupted

    stopped = stepping = False

    def stop() -> None:
        nonlocal stopped
        if stopped or not stepping:  # a second Ctrl-C does not wait for the step
            raise KeyboardInterrupt
        stopped = True

    with interrupts.called(stop), following() as shown:

        def on_step(progress: Progress) -> None:
            nonlocal stepping
            if stopped:
                raise Interrupted
            stepping = True
            shown.on_step(progress)

        on_step.seldom = True  # type: ignore[attr-defined]
        yield shown._replace(on_step=on_step)


def speed(done: int, seconds: float, unit: str) -> str:
    """The speed of a run: `175 fragments/s`, `2.5 rounds/s`, or `12 s a fragment` if it is slow."""
    rate = done / max(seconds, 1e-9)
    if rate >= 9.95:
        return f"{rate:,.0f} {unit}s/s"
    if rate >= 0.95:
        return f"{rate:.1f} {unit}s/s"
    if not done:
        return f"no {unit} yet"
    return f"{seconds / done:,.{1 if seconds < 9.95 * done else 0}f} s a {unit}"


def time_left(measured: int, done: int, total: int | None, seconds: float) -> float:
    """Seconds until the end, by the speed so far; 0 if that is unknown.

    Args:
        measured: fragments or rounds in `seconds`.
        done: fragments or rounds so far.
        total: fragments or rounds of the whole run; None if unknown.
        seconds: time of the measured ones.

    """
    if total is None or measured < _ENOUGH or seconds < _SECONDS_TO_TELL:
        return 0.0
    return seconds / measured * (total - done)


def bar_for(progress: Progress) -> Any:
    """A bar of fragments, or of rounds for a method that repeats over all fragments."""
    rounds = progress.rounds
    columns = _COLUMNS if rounds is None else _OFFLINE_COLUMNS
    total = progress.total if rounds is None else rounds.most
    return console.progress(*columns, total=total, description="clustering")


def figures(
    progress: Progress, seconds: float, first: int = 0
) -> tuple[int, int | None, dict[str, str]]:
    """The units done, their total (None if unknown), and the bar's fields.

    Args:
        progress: of the last step.
        seconds: time since `first` fragments or rounds were done.
        first: units that do not count for the speed.

    """
    rounds, evaluations = progress.rounds, f"{progress.model_evaluations:,}"
    if rounds is None:
        return (
            progress.fragments,
            progress.total,
            {
                "speed": speed(progress.fragments - first, seconds, "fragment"),
                "subproblems": f"{progress.subproblems:,}",
                "log10_effective_particles": f"{progress.log10_effective_particles:,.0f}",
                "model_evaluations": evaluations,
            },
        )
    called = "log posterior" if rounds.probability else "score"
    return (
        rounds.done,
        rounds.most,
        {
            "speed": speed(rounds.done - first, seconds, "round"),
            "clusters": f"{rounds.clusters:,}",
            "log_posterior": f"{called} {rounds.log_posterior:,.1f}",
            "model_evaluations": evaluations,
        },
    )
