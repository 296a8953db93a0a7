"""`kbforge run`: runs the steps of a pipeline that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.verbs import InstalledVerb
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.recipe.run import StepReport

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
        bool,
        typer.Option("--init", help="Write a commented pipeline.toml to edit; run nothing."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and why; run nothing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Run steps even if unchanged. With --init: overwrite the file."
        ),
    ] = False,
    first: Annotated[str, typer.Option("--from", metavar="STEP", help="Start at this step.")] = "",
    only: Annotated[str, typer.Option("--only", metavar="STEP", help="Run only this step.")] = "",
    json: Annotated[
        bool, typer.Option("--json", help="Print a summary of the steps as one JSON object.")
    ] = False,
) -> None:
    """Run a pipeline file; skip the steps that did not change.

    A step is a verb with its arguments and options. It runs if it has not succeeded yet, if its
    options, an input file or the program changed, or if its output is missing or was modified. A
    skipped step repeats what it printed. A step that fails ends the run; the next run continues
    there.

    Examples:

        kbforge run --init && kbforge run pipeline.toml

        kbforge run --init archive && kbforge run archive/pipeline.toml

        kbforge run pipeline.toml --dry-run

        kbforge run pipeline.toml --from cluster --force
    """
    from kbforge.recipe.run import RunSettings, run_pipeline, summary
    from kbforge.words import counted

    if init:
        if (named := options.first_given(context, _OF_A_RUN)) is not None:
            raise UsageError(f"--init runs nothing; leave out {named}")
        _write_template(pipeline or ".", force)
        return
    if pipeline is None:
        raise UsageError("expected a pipeline file; --init writes one")
    settings = RunSettings(dry_run, force, first, only, print_to_stderr=json)
    reports = run_pipeline(pipeline, settings, InstalledVerb, lambda report: _show(report, json))
    if json:
        console.print_json(summary(reports))
        return
    counts = {status: sum(r.status == status for r in reports) for status in _STATUSES}
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    console.note(f"{counted(len(reports), 'step')}: {', '.join(parts)}")


def _write_template(folder: str, force: bool) -> None:
    from kbforge.recipe.run import write_template

    target = write_template(folder, force)
    console.note(f"wrote {target}; edit the line marked EDIT, then: kbforge run {target}")


_STATUSES = ("ran", "skipped", "would run")


def _show(report: StepReport, json: bool) -> None:
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
