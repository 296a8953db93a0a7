"""`kbforge run`: a pipeline of verbs, skipping what has not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console
from kbforge.cli.verbs import InstalledVerb

if TYPE_CHECKING:
    from kbforge.recipe.run import Report

app = typer.Typer(add_completion=False)


@app.command()
def run(
    pipeline: Annotated[str, typer.Argument(help="Pipeline file (TOML); see kbforge init.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and why; run nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Run steps even if unchanged.")] = False,
    first: Annotated[str, typer.Option("--from", metavar="STEP", help="Start at this step.")] = "",
    only: Annotated[str, typer.Option("--only", metavar="STEP", help="Only this step.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Run the steps of a pipeline file, skipping those whose inputs and options did not change.

    A step is a verb with its arguments and options. It runs if it has not succeeded yet, if its
    options, an input file or the program changed, or if its output is missing or was modified. A
    skipped step repeats what it printed. A step that fails ends the run; the next run goes on
    there.

    Examples:

        kbforge init && kbforge run pipeline.toml

        kbforge run pipeline.toml --dry-run

        kbforge run pipeline.toml --from cluster --force
    """
    from kbforge.recipe.run import RunSettings, run_pipeline, summary
    from kbforge.words import counted

    settings = RunSettings(dry_run, force, first, only, print_to_stderr=json)
    reports = run_pipeline(pipeline, settings, InstalledVerb, lambda report: _show(report, json))
    if json:
        console.print_json(summary(reports))
        return
    counts = {status: sum(r.status == status for r in reports) for status in _STATUSES}
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    console.note(f"{counted(len(reports), 'step')}: {', '.join(parts)}")


_STATUSES = ("ran", "skipped", "would run")


def _show(report: Report, json: bool) -> None:
    import sys

    from kbforge.errors import quoted
    from kbforge.files.io import bytes_of

    called = f"[{report.number}] {quoted(report.step)}"
    if report.status == "note":
        console.note(f"note: {report.why}")
    elif report.status == "skipped":
        console.note(f"{called}: skipped, nothing changed")
        if report.printed and not json:
            bytes_of(sys.stdout).write(report.printed.encode())
            sys.stdout.buffer.flush()
    elif report.status == "ran":
        console.note(f"{called}: done in {report.seconds:.1f} s")
    else:
        console.note(f"{called}: {report.status}, because {report.why}")
