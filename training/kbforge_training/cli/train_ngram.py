"""`kbforge train-ngram`: counts characters, tunes the scale, writes a model bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError
from kbforge_training.cli import Inputs, LimitPerFile, Output, read_all

app = typer.Typer(add_completion=False)

_SHOWN_EVERY = 256


@app.command()
def train_ngram(
    fragments: Inputs,
    output: Output,
    order: Annotated[int, option("--order", "2 for bigrams, 3 for trigrams.")] = 2,
    attributes: Annotated[
        str, option("--attributes", "Attributes to count, separated by commas.")
    ] = "name",
    scale: Annotated[
        str,
        option("--scale", "Pseudo-observations of each history; auto tunes the scale on labels."),
    ] = "auto",
    limit: LimitPerFile = None,
    json: options.Json = False,
) -> None:
    """Train a character n-gram model of names.

    It counts the n-grams of every distinct value of name, or of other attributes. If fragments have
    labels, the scale is the one that makes the labelled clusters most probable; otherwise it is the
    likelihood's default.

    Examples:

        kbforge train-ngram labelled.jsonl -o model/

        kbforge train-ngram people.jsonl --order 3 --attributes name,alias -o m/

        kbforge cluster fragments.jsonl --likelihood model/ -o kb.jsonl
    """
    from kbforge.files.io import require_apart
    from kbforge_training.ngram import train

    require_apart(output, fragments, whole=True)
    names = tuple(name for name in attributes.split(",") if name)
    with console.progress(total=None, description="counting") as bar:

        def show(done: int) -> None:
            if done % _SHOWN_EVERY == 0:
                bar.update(done)

        trained = train(read_all(fragments, limit), output, order, names, _scale(scale), show)
    if json:
        console.print_json({"model": str(output), **trained})
    else:
        _print_summary(trained, output)


def _scale(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f'--scale: expected auto or a number, got "{text}"') from None


def _print_summary(trained: Mapping[str, Any], output: Path) -> None:
    console.note(
        f"{output}: {trained['likelihood']} model of {trained['ngrams']:,} n-grams from "
        f"{trained['values']:,} different values in {trained['fragments']:,} fragments"
    )
    if trained["evidence"] is None:
        console.note(f"scale {trained['scale']:.4g} (not tuned)")
    else:
        console.note(
            f"scale {trained['scale']:.4g}, tuned on {trained['clusters']:,} labelled clusters: "
            f"log evidence {trained['evidence']:,.1f}"
        )
    if trained["at_edge"]:
        console.note(
            f"warning: the best scale lies at the {trained['at_edge']} edge of the search range, "
            f"so the labels say little about it; consider --scale"
        )
