"""`kbforge review`: asks about the pairs of fragments of a store that most depends on."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Annotated

import typer

from kbforge import interrupts
from kbforge.cli import console
from kbforge.cli.told import told
from kbforge.words import counted

app = typer.Typer(add_completion=False)


@app.command()
def review(
    store: Annotated[str, typer.Argument(help="Store, as kbforge cluster --into makes.")],
    count: Annotated[int, typer.Option("--count", min=1, help="Most questions to ask.")] = 20,
    as_json: Annotated[
        bool, typer.Option("--json", help="Questions and answers are JSON lines.")
    ] = False,
) -> None:
    """Ask about what a store doubts, the pair first whose answer is expected to set most right.

    Each question shows both fragments, whom they are with, and what speaks for their being one.
    Each answer is a decision: every grouping honours it from then on. It is in the store before
    the next question; kbforge decide --list shows it, and kbforge undo takes it back.

    At a terminal: y is one entity, n is not, s skips, u takes back the last answer, q ends.

    Without one, or with --json, each question is a line on standard output and each answer a line
    on standard input: {"same": true}, {"same": false}, {"same": null} to skip, {"undo": true} or
    {"quit": true}. An answer that contradicts decisions is not kept; a line {"refused": why} says
    so.

    Examples:

        kbforge review kb.sqlite

        kbforge review kb.sqlite --count 50

        kbforge review kb.sqlite --json < said.jsonl
    """
    from kbforge.cli.asking import at_terminal, by_lines
    from kbforge.cli.evidence import show
    from kbforge.jobs.living.reviewing import reviewed

    interrupted = False
    by_line = as_json or not (sys.stdin.isatty() and sys.stdout.isatty())
    with ExitStack() as held:
        with console.working("looking for questions"):
            review = held.enter_context(reviewed(store))
        try:
            if by_line:
                by_lines(review.asks, count)
            else:
                at_terminal(review.asks, count, show)
            if review.asks.question() is None:
                console.note("nothing is left to ask")
        except KeyboardInterrupt:
            interrupted = True
        done = review.done()
    if by_line and not interrupted:
        console.print_json({"summary": done.summary()})
        return
    made = counted(len(done.told["decisions"]), "decision")
    told(done, store, f"{interrupts.sentence()}, {made}" if interrupted else made, as_json=False)
    if interrupted:
        raise typer.Exit(interrupts.exit_code())
