"""`kbforge run`: runs the changed steps of a pipeline."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, counted, quoted

if TYPE_CHECKING:
    from kbforge.cli.recipe import StepReport

app = typer.Typer(add_completion=False)


_OF_A_RUN = ("dry_run", "first", "only", "json")


@app.command()
def run(
    context: typer.Context,
    pipeline: Annotated[
        str | None,
        typer.Argument(help="Pipeline file (TOML). With --init: the folder to write it into."),
    ] = None,
    init: Annotated[
        bool, option("--init", "Write a commented pipeline.toml to edit; run nothing.")
    ] = False,
    dry_run: Annotated[
        bool, option("--dry-run", "Show what would run and why; run nothing.")
    ] = False,
    force: Annotated[
        bool, option("--force", "Run steps even if unchanged. With --init: overwrite the file.")
    ] = False,
    first: Annotated[str, option("--from", "Start at this step.", metavar="STEP")] = "",
    only: Annotated[str, option("--only", "Run only this step.", metavar="STEP")] = "",
    json: Annotated[
        bool, option("--json", "Print a summary of the steps as one JSON object.")
    ] = False,
) -> None:
    """Run a pipeline file; skip the steps that did not change.

    A step is a verb with its arguments and options. It runs if it has not succeeded yet, if its
    options, an input file or the program changed, or if its output is missing or was modified. A
    skipped step prints its earlier output again. A step that fails ends the run; the next run
    continues there.

    Examples:

        kbforge run --init && kbforge run pipeline.toml

        kbforge run --init archive && kbforge run archive/pipeline.toml

        kbforge run pipeline.toml --dry-run

        kbforge run pipeline.toml --from cluster --force
    """
    from kbforge.cli.recipe import run_pipeline, write_template

    if init:
        if (named := options.first_given(context, _OF_A_RUN)) is not None:
            raise UsageError(f"--init runs nothing; leave out {named}")
        target = write_template(pipeline or ".", force)
        console.note(f"wrote {target}; edit the line marked EDIT, then: kbforge run {target}")
        return
    if pipeline is None:
        raise UsageError("expected a pipeline file; --init writes one")
    reports = run_pipeline(
        pipeline,
        lambda report: _show(report, json),
        dry_run=dry_run,
        force=force,
        first=first,
        only=only,
        print_to_stderr=json,
    )
    if json:
        told = [
            {"step": r.step, "status": r.status, "why": r.why, "seconds": round(r.seconds, 3)}
            for r in reports
        ]
        console.print_json({"steps": told})
        return
    ends = ("ran", "skipped", "would run")
    counts = {status: sum(r.status == status for r in reports) for status in ends}
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    console.note(f"{counted(len(reports), 'step')}: {', '.join(parts)}")


def _show(report: StepReport, json: bool) -> None:
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
