"""`kbforge report`: writes a knowledge base as one HTML page."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console, options
from kbforge.errors import UsageError, quoted

app = typer.Typer(add_completion=False)


@app.command()
def report(
    kb: options.KnowledgeBase,
    output: Annotated[
        str, typer.Option("--output", "-o", help="HTML file; - is standard output.")
    ] = "report.html",
    fragments: Annotated[
        str | None,
        typer.Option(
            "--fragments",
            help="Read labels from the fragments that were clustered, to mark the right entities.",
        ),
    ] = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Read the labels of a store's fragments.")
    ] = False,
    title: Annotated[
        str | None,
        typer.Option("--title", help="Title of the page.", show_default="the file's name"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary as one JSON object.")
    ] = False,
) -> None:
    """Write a knowledge base as one HTML page.

    The page loads nothing from elsewhere, and prints well. It shows the sizes and confidences of
    the entities, the most important uncertain entities with their alternatives, attributes with
    conflicting values, and lists of entities. For a store it also shows what was chosen and why,
    what the last run changed, decisions, runs with their times, drift, and the answers of reviews.

    Examples:

        kbforge report kb.sqlite -o report.html

        kbforge report kb.sqlite --labels --title "People of 1900"

        kbforge report kb.jsonl --fragments fragments.jsonl
    """
    from kbforge.files.io import open_output, require_apart, require_writable
    from kbforge.jobs.report import report as run

    if as_json and output == "-":
        raise UsageError("--json and the page cannot both go to standard output; give -o FILE")
    require_apart(output, [kb, fragments])
    if output != "-":
        require_writable(output)
    with console.working("reading"):
        made = run(kb, fragments, labels, title)
    with open_output(output) as out:
        out.write(made.html.encode())
    if as_json:
        console.print_json({**made.summary(), "output": output})
    elif output != "-":
        console.note(f"wrote {quoted(output, 400)}")
