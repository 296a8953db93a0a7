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
        rows, damage = database.examined()
        version = database.version
    if as_json:
        console.print_json(
            {"path": store, "version": version, "whole": not damage, "rows": rows, "damage": damage}
        )
    else:
        for table, count in rows.items():
            typer.echo(f"{table:<9} {count:>12,} rows intact")
        for sentence in damage:
            typer.echo(f"damage: {sentence}")
        typer.echo(
            f"{quoted(store, 400)} is damaged: restore it from a copy"
            if damage
            else f"{quoted(store, 400)} is intact"
        )
    if damage:
        raise typer.Exit(1)
