"""The bar that follows a clustering: of fragments, or of rounds where a method makes rounds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kbforge.cli import console

if TYPE_CHECKING:
    from kbforge.contracts import OnStep, Progress

_COLUMNS = (
    "{task.fields[fragments_per_second]} fragments/s",
    "{task.fields[subproblems]} subproblems",
    "10^{task.fields[log10_effective_particles]} particles",
    "{task.fields[model_evaluations]} evaluations",
)
_OFFLINE_COLUMNS = (
    "{task.fields[rounds_per_second]} rounds/s",
    "{task.fields[clusters]} clusters",
    "log posterior {task.fields[log_posterior]}",
    "{task.fields[model_evaluations]} evaluations",
)


@contextlib.contextmanager
def following() -> Iterator[OnStep]:
    """What a clustering tells of its steps: a sign of life before the first one, then a bar."""
    import time

    begin = time.monotonic()
    shown = -math.inf
    bar: Any = None
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(contextlib.ExitStack())
        before.enter_context(console.working("preparing"))

        def on_step(progress: Progress) -> None:
            nonlocal shown, bar
            if bar is None:  # the first step tells what there is to count
                before.close()
                bar = stack.enter_context(bar_for(progress))
            now = time.monotonic()
            done, total, fields = figures(progress, max(now - begin, 1e-9))
            if now - shown < 0.1 and done != total:
                return
            shown = now
            bar.update(done, **fields)

        yield on_step


def bar_for(progress: Progress) -> Any:
    """A bar of fragments, or of rounds for a method that goes over all of them again and again."""
    rounds = progress.rounds
    columns = _COLUMNS if rounds is None else _OFFLINE_COLUMNS
    total = progress.total if rounds is None else rounds.most
    return console.progress(*columns, total=total, description="clustering")


def figures(progress: Progress, seconds: float) -> tuple[int, int | None, dict[str, str]]:
    """How much is done, of how much if that is known, and the bar's fields."""
    rounds, evaluations = progress.rounds, f"{progress.model_evaluations:,}"
    if rounds is None:
        return (
            progress.fragments,
            progress.total,
            {
                "fragments_per_second": f"{progress.fragments / seconds:,.0f}",
                "subproblems": f"{progress.subproblems:,}",
                "log10_effective_particles": f"{progress.log10_effective_particles:,.0f}",
                "model_evaluations": evaluations,
            },
        )
    return (
        rounds.done,
        rounds.most,
        {
            "rounds_per_second": f"{rounds.done / seconds:,.1f}",
            "clusters": f"{rounds.clusters:,}",
            "log_posterior": f"{rounds.log_posterior:,.1f}",
            "model_evaluations": evaluations,
        },
    )
