"""`kbforge undo`: take a decision back."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli.told import told

app = typer.Typer(add_completion=False)


@app.command()
def undo(
    store: Annotated[str, typer.Argument(help="Store, as kbforge cluster --into makes.")],
    number: Annotated[int, typer.Argument(help="Of the decision: kbforge decide --list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take a decision back.

    If nothing was written since, all is exactly as it was before. Otherwise what it had decided is
    clustered again without it. A decision that was undone before stays so.

    Examples:

        kbforge undo kb.sqlite 3
    """
    from kbforge.jobs.living.events import undo as run

    done = run(store, number)
    how = "exactly as before" if done.told["exact"] else "clustered again without it"
    what = "was undone before" if done.told["already"] else f"undone, {how}"
    told(done, store, f"decision {number} {what}", as_json)
