"""`kbforge lab bench`: compares algorithms side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from kbforge.cli import console, options
from kbforge.errors import EXIT_ERROR, KBForgeError, UsageError
from kbforge_lab.cli import bench_scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

    from kbforge_lab.bench.experiment import BenchResult
    from kbforge_lab.bench.report import Grid
    from kbforge_lab.bench.results import Row
    from kbforge_lab.bench.workers import Failure

app = typer.Typer(add_completion=False)

_WIDEST = 1_000  # columns of a terminal that nobody has


class _Bench(TyperCommand):
    """Takes the name of a suite; `scale` in its place is a command of its own."""

    @property
    def commands(self) -> Mapping[str, Any]:
        """The one sub-command, as those of a group are found."""
        return {"scale": typer.main.get_command(bench_scale.app)}

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        found = self.commands.get(args[0]) if args else None
        if found is None:
            return super().make_context(info_name, args, parent, **extra)
        return found.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@app.command(cls=_Bench)
def bench(
    suite: Annotated[
        str,
        typer.Argument(
            help="Suite: accuracy, circles, documents, gauss, hashing, supervised or text."
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for results and report.",
            show_default="bench-SUITE, or bench-SUITE-quick",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small version of the suite.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit with 1 unless all that the suite expects was tested and holds."
        ),
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Run nothing; report on the folder's results.")
    ] = False,
    workers: Annotated[
        int,
        typer.Option("--workers", min=1, help="Number of parallel runs, each in its own process."),
    ] = 1,
    tasks: Annotated[str | None, typer.Option(help="Only these sets, separated by commas.")] = None,
    methods: Annotated[
        str | None, typer.Option(help="Only these methods, separated by commas: smc,greedy.")
    ] = None,
    sweeps: Annotated[
        bool,
        typer.Option(
            help="Also run the settings that only the curves need, such as other P and M. --set "
            "suite.sweeps=N limits the sweeps of a sampler."
        ),
    ] = True,
    shuffles: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum orders of the data.", show_default="the suite's"),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Maximum seconds of a run.", show_default="the suite's")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the data's orders and of the methods.")
    ] = 0,
    figures: Annotated[bool, typer.Option(help="Draw the figures; needs matplotlib.")] = True,
    format_name: Annotated[
        Literal["jsonl", "parquet"],
        typer.Option("--format", help="parquet: also write the tables as Parquet."),
    ] = "jsonl",
    settings: options.Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare clusterers on a suite: methods, settings and orders of the data, with a report.

    It writes results.jsonl (one row per run), trace.jsonl (the course of each run), figures, and
    report.md. The suite accuracy compares what users get from a file alone, and writes table.csv
    instead of figures. After an interruption the same command continues. If a run fails, the others
    continue, and the exit code is 1.

    kbforge lab bench scale FILE measures growing parts of a file and plans for larger ones.

    Examples:

        kbforge lab bench gauss --quick

        kbforge lab bench gauss --set suite.data=published --workers 2 -o results/

        kbforge lab bench text --methods split-smc,smc --shuffles 2 --no-sweeps

        kbforge lab bench text --tasks webnlg-names --set suite.likelihood=gpt --seconds 1800

        kbforge lab bench accuracy --set suite.most=5000 --set suite.orders=5

        kbforge lab bench supervised --workers 2 --methods scdp-3
    """
    from pathlib import Path

    from kbforge.registry.options import parse_settings
    from kbforge_lab.bench.experiment import bench as run
    from kbforge_lab.bench.experiment import prepare
    from kbforge_lab.bench.runs import BenchSettings, Selection

    if seconds is not None and not seconds > 0:
        raise UsageError(f"--seconds: expected a number above 0, got {seconds:g}")
    chosen = BenchSettings(
        quick=quick,
        report_only=report_only,
        workers=workers,
        selection=Selection(_names(tasks), _names(methods), sweeps, shuffles, seconds, seed),
        figures=figures,
        format=format_name,
        options=dict(parse_settings(settings or [], ("suite",))["suite"]),
    )
    folder = output or f"bench-{suite}{'-quick' if quick else ''}"
    planned = prepare(suite, chosen)
    total, called = len(planned.runs), f"bench {suite}"
    names = {one.key: one.called for one in planned.runs}
    with console.progress("last: {task.fields[last]}", total=total, description=called) as bar:
        done = run(
            planned, Path(folder), chosen, lambda n, last: bar.update(n, last=_said(last, names))
        )
    for sentence in done.notes:
        console.note(f"note: {sentence}")
    if json:
        console.print_json(done.summary())
    else:
        _print(done, folder)
    if check:
        _require_all_tested(done)
    if done.failed or (check and not done.holds):
        raise typer.Exit(EXIT_ERROR)


def _require_all_tested(done: BenchResult) -> None:
    if not done.verdicts:
        raise KBForgeError("--check: the suite expects nothing of these tasks")
    untested = [verdict.sentence for verdict in done.verdicts if verdict.held is None]
    if untested:
        raise KBForgeError(f"--check: not tested: {'; '.join(untested)}")


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


def _said(last: Row | Failure | None, names: Mapping[str, str]) -> str:
    """What came of a run; `names` has what the run of each row is called."""
    from kbforge_lab.bench.workers import Failure

    if last is None:
        return "none yet"
    if isinstance(last, Failure):
        return f"{last.run.called} failed"
    known = last.log_posterior > -math.inf
    return (
        f"{names[last.key]}: {f'log posterior {last.log_posterior:,.1f}, ' if known else ''}"
        f"F1 {last.f1:.3f}, pairs F1 {last.pairwise_f1:.3f}, {last.seconds:.2f} s"
    )


def _print(done: BenchResult, folder: str) -> None:
    from kbforge.errors import counted
    from kbforge_lab.bench.summary import footnotes

    screen: Any = console.stdout()
    if done.plan.of_ways or done.plan.of_examples:
        wide: Any = console.stdout()
        wide.width = _WIDEST  # the terminal breaks lines: figures that are cut short are none
        for table in _wide_tables(done):
            wide.print(table)
    else:
        screen.print(_methods_table(done))
    # below, because a column for this leaves no terminal enough for the rest
    for line in filter(lambda line: line.endings, done.lines):
        said = f"* {line.task}, {line.method.name}: of {counted(line.runs, 'run')} {line.endings}"
        screen.print(said, markup=False, soft_wrap=True)
    for name, meaning in footnotes(done.lines).items():
        screen.print(f"{name}: {meaning}", markup=False, soft_wrap=True)
    for verdict in done.verdicts:
        screen.print(f"{verdict.mark}: {verdict.sentence}", markup=False, soft_wrap=True)
    again = f", {done.finished_before:,} finished before" if done.finished_before else ""
    failed = f"; {len(done.failed)} failed, the same command tries again" if done.failed else ""
    console.note(f"{counted(done.runs, 'run')}{again}{failed}; wrote {folder}/report.md")


def _methods_table(done: BenchResult) -> Table:
    from rich.text import Text

    table = bench_scale.new_table(
        texts=("task", "method", "P"),
        numbers=("runs", "log posterior", "F1", "pairs F1", "entities", "seconds"),
    )
    for line in done.lines:
        table.add_row(
            Text(line.task),
            Text(line.method.name),
            "" if line.method.particles is None else str(line.method.particles),
            f"{line.runs}{'*' * bool(line.endings)}",
            line.log_posterior.text(1),
            line.f1.text(3),
            "" if line.pairwise_f1 is None else line.pairwise_f1.text(3),
            f"{line.entities.mean:,.1f}",
            f"{line.seconds.mean:,.3g}",
        )
    return table


def _wide_tables(done: BenchResult) -> Iterator[Table]:
    from kbforge_lab.bench.report import overview, pairs_table

    if done.plan.of_ways:
        grids = overview(done.plan, done.lines)
    else:
        grids = [pairs_table(task, done.plan, done.lines) for task in done.plan.tasks]
    for grid in grids:
        table = _grid_table(grid)
        table.title, table.title_justify = grid.title, "left"
        yield table


def _grid_table(grid: Grid) -> Table:
    from rich.text import Text

    table = bench_scale.new_table(texts=grid.head[: grid.texts], numbers=grid.head[grid.texts :])
    for cells in grid.rows:
        table.add_row(*map(Text, cells))
    return table
