"""`kbforge init`: a commented pipeline file to start from."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console

app = typer.Typer(add_completion=False)


@app.command()
def init(
    folder: Annotated[str, typer.Argument(help="Where to write pipeline.toml.")] = ".",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing one.")] = False,
) -> None:
    """Write a commented pipeline.toml: edit one line, then kbforge run pipeline.toml.

    Examples:

        kbforge init

        kbforge init archive && kbforge run archive/pipeline.toml
    """
    from kbforge.recipe.template import write_template

    target = write_template(folder, force)
    console.note(f"wrote {target}; edit the line marked EDIT, then: kbforge run {target}")
