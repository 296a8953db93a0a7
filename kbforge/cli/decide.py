"""`kbforge decide`: what a person knows of two fragments, for a store to honour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console
from kbforge.cli.told import told
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.contracts import Decision

app = typer.Typer(add_completion=False)


@app.command()
def decide(
    store: Annotated[str, typer.Argument(help="Store, as kbforge cluster --into makes.")],
    said: Annotated[
        str | None, typer.Argument(metavar="[same|different]", help="Whether they are one entity.")
    ] = None,
    a: Annotated[str | None, typer.Argument(metavar="[ID]", help="Id of a fragment.")] = None,
    b: Annotated[str | None, typer.Argument(metavar="[ID]", help="Id of another.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            help='Decisions, JSON lines such as {"same": true, "a": ID, "b": ID}; - for stdin.',
        ),
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also of fragments that the store does not have yet.")
    ] = False,
    list_them: Annotated[
        bool, typer.Option("--list", help="Show the decisions, and which were undone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Decide that two fragments are one entity, or are not.

    Every grouping honours it from now on, whatever comes. Decisions that contradict others are
    refused; one that is in force already is not made again. kbforge undo takes one back. Files
    that kbforge label wrote can be given, too.

    Examples:

        kbforge decide kb.sqlite same row-17 row-20

        kbforge decide kb.sqlite different row-17 row-21

        kbforge decide kb.sqlite --file decisions.jsonl --json

        kbforge decide kb.sqlite --list
    """
    from kbforge.jobs.living.events import decide as run
    from kbforge.jobs.living.events import decisions_of, read_decisions

    given = [part for part in (said, a, b) if part is not None]
    if list_them:
        if given or file is not None:
            raise UsageError("--list shows decisions and makes none; leave out what is decided")
        _list(store, as_json)
        return
    if (file is None) == (len(given) < 3) or (file is not None and given):
        raise UsageError("expected same or different and two ids, or --file; see --help")
    if file is not None:
        decisions: list[Decision] = read_decisions(file)
    else:
        decisions = decisions_of([(given[0], given[1], given[2])])
    done = run(store, decisions, unknown)
    numbers = done.told["decisions"]
    which = f"decision {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} decisions"
    if done.told["already"]:
        which += f" {'is' if len(numbers) == 1 else 'are'} in force already"
    told(done, store, which if numbers else "nothing was decided", as_json)


def _list(store: str, as_json: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from kbforge.errors import quoted
    from kbforge.store.database import Database
    from kbforge.store.store import Store

    with Database(store) as database:
        decisions = Store(database).decisions()
    if as_json:
        rows = [
            {
                "number": one.number,
                "same": one.decision.same,
                "a": one.decision.first,
                "b": one.decision.second,
                "run": one.run,
                "undone": one.undone,
            }
            for one in decisions
        ]
        console.print_json({"decisions": rows})
        return
    if not decisions:
        console.note("no decision was made")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("decision", "says", "fragment", "fragment", "run", "undone in run"):
        table.add_column(name, overflow="fold")
    for one in decisions:
        says = "same" if one.decision.same else "different"
        undone = "" if one.undone is None else str(one.undone)
        ids = (quoted(one.decision.first, 400), quoted(one.decision.second, 400))
        table.add_row(*map(Text, (str(one.number), says, *ids, str(one.run), undone)))
    console.stdout().print(table)
