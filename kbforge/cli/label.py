"""`kbforge label`: asks about the pairs of fragments that tell most."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.cli.choices import choices_of
from kbforge.errors import UsageError, quoted
from kbforge.words import counted

if TYPE_CHECKING:
    from kbforge.files.answers import AnswerFile
    from kbforge.fit.label import Labelling

app = typer.Typer(add_completion=False)

_PACKED = (".gz", ".zst")


@app.command()
def label(
    context: typer.Context,
    fragments: Annotated[str, typer.Argument(help="JSON lines file of fragments.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="File of answers; those that it holds count.")
    ] = "answers.jsonl",
    count: Annotated[int, typer.Option("--count", min=1, help="Most questions to ask.")] = 12,
    likelihood: Annotated[
        str | None,
        typer.Option("--likelihood", help="Choose alpha for this likelihood, and no other."),
    ] = None,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    settings: options.Settings = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Questions and answers are JSON lines.")
    ] = False,
) -> None:
    """Ask which pairs of fragments are one entity; a dozen answers choose the better grouping.

    The pairs are those on which likely groupings of this file differ most, and some that are drawn
    from all. The answers choose likelihood and alpha, and say how often such choices are right.
    They are evidence, not orders: a grouping may still part what an answer puts together. Each
    answer is on disk before the next question.

    At a terminal: y is one entity, n is not, s skips, u takes back the last answer, q ends.

    Without one, or with --json, each question is a line on standard output and each answer a line
    on standard input: {"same": true}, {"same": false}, {"same": null} to skip, {"undo": true} or
    {"quit": true}.

    Examples:

        kbforge label fragments.jsonl

        kbforge cluster fragments.jsonl --answers answers.jsonl

        kbforge label fragments.jsonl --count 30 -o mine.jsonl --json < said.jsonl
    """
    from kbforge.cli.asking import at_terminal, by_lines, side_by_side
    from kbforge.files.answers import AnswerFile
    from kbforge.files.apart import require_apart
    from kbforge.files.fragments import read_fragments
    from kbforge.files.io import require_writable
    from kbforge.fit.label import Labelling

    if fragments == "-":
        raise UsageError("answers come from standard input, so fragments cannot; name their file")
    if output == "-" or output.endswith(_PACKED):
        raise UsageError(
            f"--output {quoted(output, 400)}: expected a plain file, for it grows with each answer"
        )
    require_apart(output, [fragments, *options.files_of(settings, likelihood)])
    require_writable(output)
    choices = choices_of(context)
    held = list(read_fragments(fragments, limit=limit))
    with AnswerFile(output) as file:
        with console.working("looking for questions"):
            labelling = Labelling(held, choices, file)
        try:
            if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
                by_lines(labelling, count)
                console.print_json({"summary": labelling.changed().to_json()})
            else:
                at_terminal(labelling, count, lambda question: side_by_side(question.a, question.b))
                _say(labelling, file, fragments)
        except KeyboardInterrupt:
            kept = counted(len(file.answers), "answer")
            console.note(f"\n{interrupts.sentence()}: {quoted(output, 400)} holds {kept}")
            raise typer.Exit(interrupts.exit_code()) from None


def _say(labelling: Labelling, file: AnswerFile, fragments: str) -> None:
    """What the answers changed, and the next command."""
    if not file.answers:
        console.note("no answers")
        return
    console.note(str(labelling.changed()))
    kept = f"{quoted(file.path, 400)} holds {counted(len(file.answers), 'answer')}"
    command = f"kbforge cluster {quoted(fragments, 400)} --answers {quoted(file.path, 400)}"
    console.note(f"{kept}; {command} chooses by them")
