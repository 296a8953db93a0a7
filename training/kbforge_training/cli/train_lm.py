"""`kbforge train-lm`: fragments in, a language model out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from kbforge_training.lm import TrainedLm
    from kbforge_training.loop import Step

app = typer.Typer(add_completion=False)

_COLUMNS = (
    "step {task.fields[step]}",
    "{task.fields[nats_per_fragment]} nats/fragment",
    "held out {task.fields[held_out]}",
    "{task.fields[tokens_per_second]} tokens/s",
)


@app.command()
def train_lm(
    fragments: Annotated[
        list[str], typer.Argument(help="JSON lines files of fragments; - for stdin.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model; an old model is replaced.")
    ],
    recipe: Annotated[
        str, typer.Option(help="tiny, small, rebel-8m, or a TOML file of your own.")
    ] = "small",
    dev: Annotated[
        str | None,
        typer.Option(help="Fragments to validate on; some entities are held out without."),
    ] = None,
    calibrate_on: Annotated[
        str | None,
        typer.Option(help="Labelled fragments to find alpha on; held-out ones without."),
    ] = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0, help="Between checkpoints; a killed run goes on from the last.")
    ] = 5.0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Read no further than this many fragments of a file.")
    ] = None,
    gpu: options.Gpu = False,
    device: options.Device = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a language model of sets of fragments.

    Labels say which fragments are of one entity: from them the model learns how observations of
    one entity belong together. A run that was interrupted or killed goes on where it was when the
    same command is given again.

    Examples:

        kbforge train-lm labelled.jsonl --recipe small -o model/

        kbforge train-lm labelled.jsonl --recipe rebel-8m --gpu -o model/

        kbforge cluster fragments.jsonl --likelihood model/ -o kb.jsonl
    """
