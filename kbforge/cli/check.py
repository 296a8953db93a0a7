"""`kbforge check`: whether a store is whole."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console
from kbforge.errors import quoted

app = typer.Typer(add_completion=False)


@app.command()
def check(
    store: Annotated[str, typer.Argument(help="Store, as kbforge cluster --into makes.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read all of a store and verify every page, index and row.

    The exit code is 1 if anything is damaged.

    Examples:

        kbforge check kb.sqlite

        kbforge check kb.sqlite --json
    """
    from kbforge.store.database import Database

    with Database(store, verify=False) as database:
        found = database.examined()
    if as_json:
        console.print_json(found.to_json())
    else:
        for table, rows in found.rows.items():
            typer.echo(f"{table:<9} {rows:>12,} rows as they were written")
        for sentence in found.damage:
            typer.echo(f"damage: {sentence}")
        typer.echo(
            f"{quoted(found.path, 400)} is damaged: restore it from a copy"
            if found.damage
            else f"{quoted(found.path, 400)} is whole"
        )
    if found.damage:
        raise typer.Exit(1)
