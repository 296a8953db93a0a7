"""`kbforge lab`: what reproduces and compares the source papers, each with a verb of its own."""

from __future__ import annotations

import typer

from kbforge_lab.cli import (
    bench,
    plot,
    sample,
    train_default,
    train_diffusion,
    train_supervised,
)

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def lab() -> None:
    """Reproduce and compare the source papers."""


for verb in (bench, plot, train_default, train_diffusion, train_supervised):
    app.registered_commands += verb.app.registered_commands
app.add_typer(sample.app, name="sample")
