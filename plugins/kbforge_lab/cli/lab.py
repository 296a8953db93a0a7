"""`kbforge lab`: the verbs of the laboratory, and `lab sample`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbforge.cli import console
from kbforge_lab.cli import bench, plot, train

app = typer.Typer(add_completion=False, no_args_is_help=True)
sample_app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def lab() -> None:
    """Reproduce and compare the source papers."""


for verb in (bench, plot, train):
    app.registered_commands += verb.app.registered_commands
app.add_typer(sample_app, name="sample")


@sample_app.callback()
def sample() -> None:
    """Draw test sets from labelled fragments."""


@sample_app.command()
def confusable(
    fragments: Annotated[str, typer.Argument(help="Labelled fragments; - for standard input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the splits.")],
    entities: Annotated[int, typer.Option(help="Number of entities per split.")] = 50,
    max_fragments: Annotated[int, typer.Option(help="Maximum fragments per entity.")] = 50,
    splits: Annotated[str, typer.Option(help="Names, separated by commas.")] = "train,dev,test",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw groups of 2 to 5 entities that share a name.

    It writes FOLDER/<split>.jsonl per split and FOLDER/groups.json. No entity is in two splits.

    Examples:

        kbforge lab sample confusable fragments.jsonl -o sample/ --entities 50

        kbforge lab sample confusable fragments.jsonl -o sample/ --splits dev --seed 7
    """
    from kbforge.errors import counted
    from kbforge.files.fragments import read_fragments
    from kbforge.files.io import require_apart
    from kbforge_lab.sampling import sample_confusable, write_splits

    names = [name.strip() for name in splits.split(",")]
    for file in (*(f"{name}.jsonl" for name in names), "groups.json"):
        require_apart(output / file, [fragments])
    drawn = sample_confusable(read_fragments(fragments), entities, names, max_fragments, seed)
    write_splits(drawn, output)
    if as_json:
        summary = {
            split.name: {
                "entities": split.entities,
                "fragments": len(split.fragments),
                "groups": len(split.groups),
            }
            for split in drawn
        }
        console.print_json({"splits": summary, "output": str(output)})
        return
    for split in drawn:
        console.note(
            f"{output / split.name}.jsonl: {counted(split.entities, 'entity', 'entities')} in "
            f"{counted(len(split.groups), 'group')}, {counted(len(split.fragments), 'fragment')}"
        )
