"""`kbforge check`: looks for damage in a store."""

from __future__ import annotations

import typer

from kbforge.cli import console, options
from kbforge.errors import quoted

app = typer.Typer(add_completion=False)


@app.command()
def check(
    store: options.Store,
    as_json: options.Json = False,
) -> None:
    """Verify every page, index and row of a store.

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
            typer.echo(f"{table:<9} {rows:>12,} rows intact")
        for sentence in found.damage:
            typer.echo(f"damage: {sentence}")
        typer.echo(
            f"{quoted(found.path, 400)} is damaged: restore it from a copy"
            if found.damage
            else f"{quoted(found.path, 400)} is intact"
        )
    if found.damage:
        raise typer.Exit(1)
