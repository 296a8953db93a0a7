"""`kbforge changes`: what is other than it was, for another system to follow."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def changes(
    store: Annotated[str, typer.Argument(help="Store, as kbforge cluster --into makes.")],
    since: Annotated[
        int, typer.Option("--since", min=0, help="Number of a run: kbforge status lists them.")
    ] = 0,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write; - is standard output.")
    ] = "-",
) -> None:
    """Write how entities are other than when a run had ended, as JSON lines.

    A line has the entity's id; kind (created, changed, merged, split or removed); the ids of its
    fragments before and after; and others, the entities that took them or lost them.

    Examples:

        kbforge changes kb.sqlite --since 4

        kbforge changes kb.sqlite --since 4 -o changes.jsonl
    """
    import orjson

    from kbforge.files.apart import require_apart
    from kbforge.files.io import open_output
    from kbforge.store.database import Database
    from kbforge.store.store import Store
    from kbforge.store.store import changes as read

    require_apart(output, [store])
    with Database(store) as database, open_output(output) as out:
        for change in read(Store(database), since):
            out.write(orjson.dumps(change.to_json()) + b"\n")
