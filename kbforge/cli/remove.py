"""`kbforge remove`: take fragments out of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console
from kbforge.errors import UsageError
from kbforge.words import counted

app = typer.Typer(add_completion=False)


@app.command()
def remove(
    store: Annotated[str, typer.Argument(help="Store, as kbforge cluster --into makes.")],
    fragments: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of fragments.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source", help="All fragments from this source, such as a table: people.csv."
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Also erase what they said from the file, its log, and what models learned.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take fragments out of a store, as if they had not come: all of those named, or none.

    Fragments that were removed before are passed over, so the same command can be given again.

    With --secure the models learn again from what is left, decisions about the fragments go, and
    the file is written anew, so that nothing of what was removed stays behind. If that is
    interrupted, the next command that writes finishes it; kbforge status says so.

    Examples:

        kbforge remove kb.sqlite row-17 row-20

        kbforge remove kb.sqlite --source people.csv

        kbforge remove kb.sqlite row-17 --secure
    """
    from kbforge.jobs.living.events import remove as run
    from kbforge.jobs.living.secure import erase

    if not fragments and source is None:
        raise UsageError("expected the ids of fragments, or --source; see --help")
    remover = erase if secure else run
    done = remover(store, fragments or (), source)
    gone = counted(done.told["removed"], "fragment")
    how = "erased" if secure else "removed"
    what = f"all of it was {how} before" if done.told["already"] else f"{gone} {how}"
    console.print_done(done, store, what, as_json)
