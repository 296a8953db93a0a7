"""Runs what a bench lacks, and reports everything.

plan -> runs -> (finished ones are skipped) -> workers -> results -> table, figures, report
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from kbforge import interrupts, registry
from kbforge.errors import KBForgeError, counted, quoted
from kbforge.pictures import require_matplotlib
from kbforge_lab.bench.report import draw, reached, write_report, write_table
from kbforge_lab.bench.results import Results, Row, alone_in
from kbforge_lab.bench.runs import BenchRun, BenchSettings, described, narrowed, runs_of, select
from kbforge_lab.bench.summary import Line, Verdict, failures, lines, shortfalls, verdicts
from kbforge_lab.bench.workers import Failure, perform_all
from kbforge_lab.suites import make_suite
from kbforge_lab.suites.plan import TASK_NAME, SuitePlan

OnRun: TypeAlias = Callable[[int, Row | Failure | None], None]
"""Called with how many runs are over and what came of the last one, None at the start."""


class BenchInterrupted(KBForgeError):
    """Ctrl-C, or another signal, in the middle of the runs; says what is kept of them."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.exit_code = interrupts.exit_code()


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What a bench found."""

    plan: SuitePlan
    lines: list[Line]
    verdicts: list[Verdict]
    notes: list[str]  # what was left out, and why
    runs: int  # reported, `finished_before` of them found in the folder
    finished_before: int
    failed: list[Failure]  # without a result; tried again the next time
    figures: list[str]

    @property
    def holds(self) -> bool | None:
        """Whether every expectation held; None if none failed but not all could be tested."""
        held = [verdict.held for verdict in self.verdicts]
        if False in held:
            return False
        return None if None in held or not held else True

    def summary(self) -> dict[str, Any]:
        """The figures that `kbforge lab bench --json` prints."""
        return {
            "runs": self.runs,
            "finished_before": self.finished_before,
            "failed": [{"run": f.run.called, "why": f.why} for f in self.failed],
            "holds": self.holds,
            "expectations": [{"held": v.held, "sentence": v.sentence} for v in self.verdicts],
            "table": [_flat(line) for line in self.lines],
            "notes": self.notes,
            "figures": self.figures,
        }


@dataclass(frozen=True, slots=True)
class BenchWork:
    """A bench before it runs: the suite's plan, the runs it comes to, and what is left out."""

    suite: str
    plan: SuitePlan
    runs: list[BenchRun]
    notes: list[str]


def prepare(suite_name: str, settings: BenchSettings) -> BenchWork:
    """Find out what there is to do."""
    plan = make_suite(suite_name, settings.options).plan(settings.quick)
    if find_spec("pyarrow") is None:  # the tables are also written as Parquet
        raise registry.library_missing("pyarrow", "kbforge lab bench") or ImportError("pyarrow")
    if settings.figures and plan.of_clusterers:
        require_matplotlib("; or leave them out with --no-figures")
    _require_names(suite_name, plan)
    plan = narrowed(plan, settings.selection)
    methods, notes = select(plan, settings.selection)
    runs = list(runs_of(suite_name, plan, methods, settings.selection))
    return BenchWork(suite_name, plan, runs, [*plan.notes, *notes])


def _require_names(suite: str, plan: SuitePlan) -> None:
    for task in plan.tasks:
        if not TASK_NAME.fullmatch(task.name):
            raise KBForgeError(
                f"suite {suite}: expected a task with a name of at most 100 letters, digits and "
                f'_ . + -, which file names are made of, got "{quoted(task.name)}"'
            )


def bench(
    planned: BenchWork, folder: Path, settings: BenchSettings, on_run: OnRun | None = None
) -> BenchResult:
    """Do the runs that the folder lacks, and write FOLDER/report.md with all that it quotes."""
    with contextlib.nullcontext() if settings.report_only else alone_in(folder):
        return _bench(planned, folder, settings, on_run)


def _bench(
    planned: BenchWork, folder: Path, settings: BenchSettings, on_run: OnRun | None
) -> BenchResult:
    plan, runs = planned.plan, planned.runs
    failed: list[Failure] = []
    results = Results(folder, repair=not settings.report_only)
    missing = [run for run in runs if run.key not in results.rows]
    notes = list(planned.notes)
    if settings.report_only and missing:
        notes.append(f"{len(missing):,} of {counted(len(runs), 'run')} not done yet")
        if len(missing) == len(runs):
            raise KBForgeError(f"{quoted(str(folder), 400)} holds no run of this bench")
    elif missing:
        try:
            failed = _perform(missing, results, settings.workers, len(runs), on_run)
        except KeyboardInterrupt:
            raise BenchInterrupted(_kept(runs, folder)) from None
        notes += failures(failed)
    runs = [run for run in runs if run.key in results.rows]
    if settings.format == "parquet":
        results.write_parquet()
    keys = {run.key for run in runs}
    rows = [results.rows[run.key] for run in runs]
    trace = [row for row in results.trace if row.key in keys]
    found = lines(rows, plan)
    notes += shortfalls(found, plan)
    judged = verdicts(rows, plan)
    drawn = settings.figures and plan.of_clusterers
    pictures = draw(plan, rows, trace, folder) if drawn else []
    if plan.of_ways:
        write_table(plan, found, folder)
    about = described(planned.suite, folder, settings, [run.seconds for run in planned.runs])
    raced = reached(plan, rows) if plan.race else []
    write_report(planned.suite, about, plan, found, judged, notes, pictures, raced, folder)
    files = [picture.file for picture in pictures]
    before = len(planned.runs) - len(missing)
    return BenchResult(plan, found, judged, notes, len(runs), before, failed, files)


def _perform(
    missing: Sequence[BenchRun], results: Results, workers: int, total: int, on_run: OnRun | None
) -> list[Failure]:
    """Do the runs and keep their results; returns those that failed."""
    done = total - len(missing)
    failed = []
    if on_run is not None:
        on_run(done, None)
    with contextlib.closing(perform_all(missing, workers)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                failed.append(outcome)
            else:
                results.add(outcome.row, outcome.trace)
            done += 1
            if on_run is not None:
                on_run(done, outcome if isinstance(outcome, Failure) else outcome.row)
    return failed


def _kept(runs: Sequence[BenchRun], folder: Path) -> str:
    # from the disk: the last one may have been interrupted on its way there or just behind it
    held = Results(folder, repair=False).rows
    kept = sum(run.key in held for run in runs)
    return (
        f"interrupted: {kept:,} of {counted(len(runs), 'run')} kept in {quoted(str(folder), 400)}; "
        "the same command goes on from them"
    )


def _flat(line: Line) -> dict[str, Any]:
    """A line as JSON: `metric` and `metric_sd` for each of its spreads."""
    content = asdict(line)
    method = content.pop("method")
    out: dict[str, Any] = {"task": content.pop("task"), "method": method["name"]}
    out |= {name: method[name] for name in ("particles", "surrogate", "max_evals")}
    for name, value in content.items():
        if isinstance(value, dict):
            out |= {name: value["mean"], f"{name}_sd": value["sd"]}
        else:
            out[name] = value
    return out
