"""`kbforge changes`: the entities that changed, for another system to follow."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import options

app = typer.Typer(add_completion=False)


@app.command()
def changes(
    store: options.Store,
    since: Annotated[
        int, typer.Option("--since", min=0, help="Number of a run (see kbforge status); 0 for all.")
    ] = 0,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write; - is standard output.")
    ] = "-",
) -> None:
    """List the entities that changed since a run.

    Each line is a JSON object: the entity's id; kind (created, changed, merged, split or removed);
    the ids of its fragments before and after; and others, the entities that took fragments from it
    or gave fragments to it.

    Examples:

        kbforge changes kb.sqlite --since 4

        kbforge changes kb.sqlite --since 4 -o changes.jsonl
    """
    import orjson

    from kbforge.files.io import open_output, require_apart
    from kbforge.store.database import Database
    from kbforge.store.store import Store
    from kbforge.store.store import changes as read

    require_apart(output, [store])
    with Database(store) as database, open_output(output) as out:
        for change in read(Store(database), since):
            out.write(orjson.dumps(change.to_json()) + b"\n")
