"""`kbforge status`: describes a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kbforge.cli import console, options
from kbforge.errors import quoted

if TYPE_CHECKING:
    from kbforge.jobs.report import Status

app = typer.Typer(add_completion=False)

_RUNS = 10


@app.command()
def status(
    store: options.Store,
    as_json: options.Json = False,
) -> None:
    """Describe a store: contents, models, runs and drift.

    It also says whether learning again (kbforge refit) is worth it.

    Examples:

        kbforge status kb.sqlite

        kbforge status kb.sqlite --json
    """
    from kbforge.jobs.report import status_of

    found = status_of(store)
    if as_json:
        console.print_json(found.to_json())
    else:
        _print(found)


def _print(found: Status) -> None:
    from rich.table import Table
    from rich.text import Text

    from kbforge.words import counted, lasting

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right")
    rows = {
        "fragments": f"{found.fragments:,}",
        "entities": f"{found.entities:,}",
        "subproblems": f"{found.subproblems:,}",
        "effective particles": f"10^{found.log10_effective_particles:.1f}",
        "decisions in force": f"{found.decisions:,}",
        "likelihood": quoted(found.likelihood, 400),
        "alpha": f"{found.alpha:,.6g}",
        "learned from": f"{found.learned_from:,}",
        "added since": f"{found.came_since:,}",
        "drift": f"{found.drift:.2f}",
        "megabytes": f"{found.megabytes:,.1f}",
    }
    if found.kbforge is not None:
        rows["learned by"] = f"kbforge {quoted(found.kbforge, 40)}"
    if found.link is not None:
        rows["linked by"] = quoted(found.link)
    for name, value in rows.items():
        table.add_row(name, Text(value))
    out = console.stdout()
    out.print(table)
    runs = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("run", "event", "added", "removed", "entities", "time", "about"):
        runs.add_column(name, overflow="fold")
    for run in found.runs[-_RUNS:]:
        verb = run.verb if run.finished else f"{run.verb} (not finished)"
        figures = (f"{run.added:,}", f"{run.removed:,}", f"{run.entities:,}")
        cells = (str(run.number), verb, *figures, lasting(run.seconds), quoted(run.about, 60))
        runs.add_row(*map(Text, cells))
    out.print()
    out.print(runs)
    if len(found.runs) > _RUNS:
        console.note(f"the last {_RUNS} of {len(found.runs):,} runs; --json has all")
    if found.erasing:
        console.note(
            f"note: {counted(found.erasing, 'fragment')} removed, and not erased yet, because "
            "kbforge remove --secure was interrupted; the next command that writes finishes it"
        )
    if found.refit_is_worth_it:
        most = ", ".join(quoted(name) for name in found.drift_by_attribute)
        of = f" (most in {most})" if most else ""
        console.note(
            f"note: the fragments added since differ from those that the models learned from{of}, "
            f"or outnumber them; kbforge refit {quoted(found.path, 400)} learns again"
        )
