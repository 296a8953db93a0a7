"""`kbforge decide`: what a person knows about two fragments, for a store to honour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.contracts import Decision

app = typer.Typer(add_completion=False)


@app.command()
def decide(
    store: options.Store,
    said: Annotated[
        str | None,
        typer.Argument(metavar="same|different", help="Whether they are the same entity."),
    ] = None,
    a: Annotated[str | None, typer.Argument(metavar="ID", help="Id of a fragment.")] = None,
    b: Annotated[str | None, typer.Argument(metavar="ID", help="Id of another.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            help='Read decisions from JSON lines such as {"same": true, "a": ID, "b": ID}, or from '
            "answers that kbforge review collected; - for standard input.",
        ),
    ] = None,
    unknown: Annotated[
        bool,
        typer.Option("--unknown", help="Allow fragments that the store does not have yet."),
    ] = False,
    list_them: Annotated[
        bool, typer.Option("--list", help="List the decisions, and which were undone.")
    ] = False,
    undo: Annotated[
        int | None,
        typer.Option("--undo", metavar="N", help="Take back decision number N (see --list)."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Decide that two fragments are the same entity or not.

    Every later grouping honours a decision. A decision that contradicts others is refused, and one
    that is already in force is not made again.

    --undo takes a decision back. If the store has not changed since, it is restored exactly;
    otherwise the fragments that the decision affected are clustered again without it.

    Examples:

        kbforge decide kb.sqlite same row-17 row-20

        kbforge decide kb.sqlite different row-17 row-21

        kbforge decide kb.sqlite --file decisions.jsonl --json

        kbforge decide kb.sqlite --list

        kbforge decide kb.sqlite --undo 3
    """
    from kbforge.jobs.decide import decide as run
    from kbforge.jobs.decide import decisions_of, read_decisions

    given = [part for part in (said, a, b) if part is not None]
    if list_them or undo is not None:
        if given or file is not None or (list_them and undo is not None):
            raise UsageError("--list and --undo make no decision; give one of them by itself")
        _list(store, as_json) if undo is None else _undo(store, undo, as_json)
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
    console.print_done(done, store, which if numbers else "nothing was decided", as_json)


def _undo(store: str, number: int, as_json: bool) -> None:
    from kbforge.jobs.decide import undo

    done = undo(store, number)
    how = "exactly as before" if done.told["exact"] else "clustered again without it"
    what = "was undone before" if done.told["already"] else f"undone, {how}"
    console.print_done(done, store, f"decision {number} {what}", as_json)


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
        console.note("the store has no decisions")
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
