"""`kbforge train-pairs`: trains the model of pairs on from labels, writes a model bundle."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge_training.cli import Output

app = typer.Typer(add_completion=False)


@app.command()
def train_pairs(
    context: typer.Context,
    fragments: options.Fragments,
    output: Output,
    labels: Annotated[
        str,
        option(
            "--labels",
            "Labelled fragments, entities, a table of fragment and entity or of two fragments and "
            "same or different, or answers.",
        ),
    ],
    id_column: options.IdColumn = None,
    link: options.Link = None,
    limit: options.Limit = None,
    settings: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Train the model of pairs on from labels of a file.

    They add trees and a correction to the model that ships, unless labels of other entities are
    predicted better without. Hundreds of labelled pairs teach much, thirty seldom anything.

    Examples:

        kbforge train-pairs products.csv --labels known.csv -o model/

        kbforge cluster products.csv --likelihood model/ -o kb.jsonl
    """
    from kbforge.files.io import require_apart
    from kbforge_training.pairs import train

    require_apart(output, [fragments, labels], whole=True)
    read = options.read_all(context, fragments)
    with console.working("learning"):
        trained = train(read, labels, output, link)
    if json:
        console.print_json({"model": str(output), **trained})
        return
    console.note(
        f"{output}: {trained['trees']:,} trees from {trained['labels']:,} labelled pairs of "
        f"{trained['fragments']:,} fragments"
    )
    console.note(
        f"a labelled pair is predicted with a log loss of {trained['loss_after']:.3f} nats by "
        f"the labels of other entities; {trained['loss_before']:.3f} without labels"
    )
