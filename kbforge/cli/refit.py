"""`kbforge refit`: the models of a store learn again."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console
from kbforge.cli.told import told

app = typer.Typer(add_completion=False)


@app.command()
def refit(
    store: Annotated[str, typer.Argument(help="Store, as kbforge cluster --into makes.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn rates, base counts and alpha again from all that a store holds.

    The groupings that it keeps are weighed by what was learned; kbforge revisit then looks for
    better ones. Decisions are heard as answers. kbforge status says when it is worth it.

    Examples:

        kbforge refit kb.sqlite

        kbforge refit kb.sqlite && kbforge revisit kb.sqlite
    """
    from kbforge.jobs.living.refit import refit as run

    with console.progress(total=None, description="weighing") as bar:
        done = run(store, lambda steps, most: bar.update(steps))
    for sentence in done.told["notes"]:
        console.note(f"note: {sentence}")
    was, now = done.told["alpha_before"], done.told["alpha"]
    what = f"learned again, alpha {now:,.4g} (it was {was:,.4g})"
    if done.told["already"]:
        what = "nothing was written since the models learned"
    told(done, store, what, as_json)
