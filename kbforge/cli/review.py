"""`kbforge review`: asks a person which pairs of fragments are the same entity."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.errors import UsageError, quoted
from kbforge.words import counted

if TYPE_CHECKING:
    from kbforge.files.answers import AnswerFile
    from kbforge.fit.review import FileReview

app = typer.Typer(add_completion=False)

_PACKED = (".gz", ".zst")
_OF_A_FILE = ("output", "likelihood", "seed", "limit", "settings")
_QUESTIONS_OF_A_FILE = 12
_QUESTIONS_OF_A_STORE = 20


@app.command()
def review(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="FILE", help="Fragments, JSON lines; or a store.")],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="File of answers; the answers that it already has count. A store keeps its own.",
        ),
    ] = "answers.jsonl",
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            min=1,
            help="Maximum number of questions.",
            show_default=f"{_QUESTIONS_OF_A_FILE}; {_QUESTIONS_OF_A_STORE} for a store",
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option("--likelihood", help="Choose alpha for this likelihood and no other."),
    ] = None,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    settings: options.Settings = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write questions and read answers as JSON lines.")
    ] = False,
) -> None:
    """Answer questions about uncertain pairs, most useful first.

    For a file of fragments, it asks about the pairs on which likely groupings differ most, and
    about some random pairs. The answers choose likelihood and alpha for kbforge cluster --answers;
    a dozen are enough. They are evidence, not orders: a grouping may still separate a pair that an
    answer joins.

    For a store, it asks first about the pair whose answer is expected to correct most fragments,
    and shows the evidence for and against. Each answer is a decision, which every later grouping
    honours. kbforge decide --list shows the decisions and --undo takes one back.

    Each answer is saved before the next question. At a terminal: y (same entity), n (not), s
    (skip), u (undo the last answer), q (quit).

    Without a terminal, or with --json, each question is a line on standard output and each answer a
    line on standard input: {"same": true}, {"same": false}, {"same": null} to skip, {"undo": true}
    or {"quit": true}. If an answer contradicts decisions, it is not kept, and a line
    {"refused": why} says so.

    Examples:

        kbforge review fragments.jsonl

        kbforge cluster fragments.jsonl --answers answers.jsonl

        kbforge review fragments.jsonl --count 30 --json < said.jsonl

        kbforge review kb.sqlite --count 50
    """
    from kbforge.store.database import is_store

    by_line = as_json or not (sys.stdin.isatty() and sys.stdout.isatty())
    if not is_store(path):
        _review_file(context, path, output, count or _QUESTIONS_OF_A_FILE, by_line)
        return
    if (named := options.first_given(context, _OF_A_FILE)) is not None:
        raise UsageError(f"{named} is for a file of fragments, and {quoted(path, 400)} is a store")
    _review_store(path, count or _QUESTIONS_OF_A_STORE, by_line)


def _review_file(
    context: typer.Context, fragments: str, output: str, count: int, by_line: bool
) -> None:
    from kbforge.cli.asking import at_terminal, by_lines, side_by_side
    from kbforge.files.answers import AnswerFile
    from kbforge.files.fragments import read_fragments
    from kbforge.files.io import require_apart, require_writable
    from kbforge.fit.review import FileReview

    if fragments == "-":
        raise UsageError("standard input has the answers, so the fragments need a file")
    if output == "-" or output.endswith(_PACKED):
        raise UsageError(
            f"--output {quoted(output, 400)}: expected a plain file, to append answers to"
        )
    given = context.params
    models = options.files_of(given["settings"], given["likelihood"])
    require_apart(output, [fragments, *models])
    require_writable(output)
    choices = options.choices_of(context)
    read = list(read_fragments(fragments, limit=given["limit"]))
    with AnswerFile(output) as file:
        with console.working("looking for questions"):
            labelling = FileReview(read, choices, file)
        try:
            if by_line:
                by_lines(labelling, count)
                console.print_json({"summary": labelling.changed().to_json()})
            else:
                at_terminal(labelling, count, lambda question: side_by_side(question.a, question.b))
                _say(labelling, file, fragments)
        except KeyboardInterrupt:
            kept = counted(len(file.answers), "answer")
            console.note(f"\n{interrupts.sentence()}: {quoted(output, 400)} holds {kept}")
            raise typer.Exit(interrupts.exit_code()) from None


def _say(labelling: FileReview, file: AnswerFile, fragments: str) -> None:
    """What the answers changed, and the next command."""
    if not file.answers:
        console.note("no answers")
        return
    console.note(str(labelling.changed()))
    kept = f"{quoted(file.path, 400)} holds {counted(len(file.answers), 'answer')}"
    command = f"kbforge cluster {quoted(fragments, 400)} --answers {quoted(file.path, 400)}"
    console.note(f"{kept}; {command} uses them")


def _review_store(store: str, count: int, by_line: bool) -> None:
    from kbforge.cli.asking import at_terminal, by_lines, show_evidence
    from kbforge.jobs.living.reviewing import reviewed

    interrupted = False
    with ExitStack() as stack:
        with console.working("looking for questions"):
            review = stack.enter_context(reviewed(store))
        try:
            if by_line:
                by_lines(review.asks, count)
            else:
                at_terminal(review.asks, count, show_evidence)
            if review.asks.question() is None:
                console.note("no questions are left")
        except KeyboardInterrupt:
            interrupted = True
        done = review.done()
    if by_line and not interrupted:
        console.print_json({"summary": done.summary()})
        return
    made = counted(len(done.told["decisions"]), "decision")
    what = f"{interrupts.sentence()}, {made}" if interrupted else made
    console.print_done(done, store, what, as_json=False)
    if interrupted:
        raise typer.Exit(interrupts.exit_code())
