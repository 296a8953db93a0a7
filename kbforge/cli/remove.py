"""`kbforge remove`: removes fragments from a store."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console, options
from kbforge.errors import UsageError
from kbforge.words import counted

app = typer.Typer(add_completion=False)


@app.command()
def remove(
    store: options.Store,
    fragments: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of fragments.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source", help="Remove all fragments from this source, such as the table people.csv."
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Also erase their content from the file, its log and the models.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Remove fragments from a store.

    The stored groupings lose the fragments and get new weights. Either all of the named fragments
    are removed or none. Fragments that were removed before are skipped, so the same command can be
    given again.

    Without --secure the models keep what they learned from the fragments. With it they learn again
    from the rest, decisions about the fragments are deleted, and the file is rewritten, so that no
    trace remains. If that is interrupted, kbforge status says so, and the next command that writes
    finishes it.

    Examples:

        kbforge remove kb.sqlite row-17 row-20

        kbforge remove kb.sqlite --source people.csv

        kbforge remove kb.sqlite row-17 --secure
    """
    from kbforge.jobs.remove import erase
    from kbforge.jobs.remove import remove as run

    if not fragments and source is None:
        raise UsageError("expected the ids of fragments, or --source; see --help")
    remover = erase if secure else run
    done = remover(store, fragments or (), source)
    gone = counted(done.told["removed"], "fragment")
    how = "erased" if secure else "removed"
    what = f"all of them were {how} before" if done.told["already"] else f"{gone} {how}"
    console.print_done(done, store, what, as_json)
