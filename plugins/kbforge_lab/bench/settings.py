"""The settings of a bench, and the command line that says the same."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbforge import __version__
from kbforge_lab.bench.results import Format
from kbforge_lab.bench.runs import Selection


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What to run, how, and what to write.

    Attributes:
        quick: the suite's small plan.
        report_only: run nothing and report on what the folder has.
        workers: how many processes.
        selection: what of the plan to run.
        figures: whether to draw; needs matplotlib.
        format: "parquet" writes the tables in that format, too.
        options: of the suite.

    """

    quick: bool = False
    report_only: bool = False
    workers: int = 1
    selection: Selection = field(default_factory=Selection)
    figures: bool = True
    format: Format = "jsonl"
    options: dict[str, Any] = field(default_factory=dict)


def command(suite: str, folder: Path, settings: BenchSettings) -> str:
    """The command line that does the same runs, for a shell."""
    return shlex.join(
        ["kbforge", "lab", "bench", suite, *_arguments(settings), "--output", str(folder)]
    )


def _arguments(settings: BenchSettings) -> Iterator[str]:
    chosen = settings.selection
    if settings.quick:
        yield "--quick"
    for option, names in (("--tasks", chosen.tasks), ("--methods", chosen.methods)):
        if names is not None:
            yield from (option, ",".join(names))
    if not chosen.sweeps:
        yield "--no-sweeps"
    if chosen.shuffles is not None:
        yield from ("--shuffles", str(chosen.shuffles))
    if chosen.seconds is not None:
        yield from ("--seconds", repr(chosen.seconds))
    if chosen.seed:
        yield from ("--seed", str(chosen.seed))
    for name, value in settings.options.items():
        yield from ("--set", f"suite.{name}={value}")


def described(suite: str, folder: Path, settings: BenchSettings, budgets: Collection[float]) -> str:
    """Version, plan, options of the suite, time budget and command, as a paragraph."""
    options = ", ".join(f"{name} = {value}" for name, value in settings.options.items())
    least, most = min(budgets, default=0.0), max(budgets, default=0.0)
    budget = f"{most:g}" if least == most else f"{least:g} to {most:g}"
    return (
        f"KBForge {__version__}, the {'quick' if settings.quick else 'full'} plan, "
        f"{f'with {options}' if options else 'the suite as it is'}, at most {budget} seconds a "
        f"run:\n\n    {command(suite, folder, settings)}"
    )
