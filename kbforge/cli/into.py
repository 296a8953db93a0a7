"""`kbforge cluster --into`: fragments in, and the stored knowledge base follows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import typer

from kbforge import interrupts
from kbforge.cli import console
from kbforge.cli.following import stoppable
from kbforge.errors import quoted
from kbforge.words import counted

if TYPE_CHECKING:
    from kbforge.fit.choices import Choices
    from kbforge.jobs.living.take_in import Taken


def take_in(
    into: str,
    fragments: str,
    choices: Choices,
    on_duplicate: Literal["error", "replace"],
    limit: int | None,
    as_json: bool,
    inputs: Sequence[str | None],
) -> None:
    """Take a file into a store and say what came of it.

    Raises:
        KBForgeError: as `kbforge.jobs.living.take_in.take_in`, or the file cannot be read.

    """
    from kbforge.files.apart import require_apart
    from kbforge.files.fragments import read_fragments
    from kbforge.jobs.living.take_in import take_in as run

    require_apart(into, inputs)
    begin = time.perf_counter()
    held = list(read_fragments(fragments, limit=limit))
    about = "standard input" if fragments == "-" else fragments
    with stoppable() as told:
        taken = run(into, held, choices, on_duplicate, about, told.on_step, told.on_stage, begin)
    for sentence in taken.notes:
        console.note(f"note: {sentence}")
    if taken.worth_it:
        console.note(
            f"note: what came since the models learned differs by {taken.drift:.2f} or is more "
            f"than they learned from; kbforge refit {quoted(into, 400)} learns again"
        )
    if as_json:
        console.print_json(taken.summary())
    else:
        _print(taken, into)
    if not taken.complete:
        console.note(
            f"{interrupts.sentence()}: {quoted(into, 400)} holds what came by then; the same "
            "command goes on"
        )
        raise typer.Exit(interrupts.exit_code())


def _print(taken: Taken, into: str) -> None:
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("added", f"{taken.added:,}")
    if taken.replaced:
        table.add_row("of them in the place of others", f"{taken.replaced:,}")
    if taken.skipped:
        table.add_row("there already", f"{taken.skipped:,}")
    table.add_row("fragments", f"{taken.fragments:,}")
    table.add_row("entities", f"{taken.entities:,}")
    table.add_row("subproblems", f"{taken.subproblems:,}")
    table.add_row("alpha", f"{taken.alpha:,.6g}")
    table.add_row("seconds", f"{taken.seconds:,.2f}")
    console.stderr().print(table)
    console.note(f"run {taken.run}: {counted(taken.added, 'fragment')} into {quoted(into, 400)}")
