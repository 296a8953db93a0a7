"""`kbforge lab train-diffusion`: simulated clusters of points in, a diffusion model out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbforge import interrupts
from kbforge.cli import console, options

if TYPE_CHECKING:
    from collections.abc import Callable

    from kbforge_training.fitting.loop import Step

app = typer.Typer(add_completion=False)

_COLUMNS = (
    "step {task.fields[step]}",
    "{task.fields[nats_per_point]} nats/point",
    "held out {task.fields[held_out]}",
)


@app.command()
def train_diffusion(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model; an old model is replaced.")
    ],
    recipe: Annotated[
        str, typer.Option(help="small, circles, or a TOML file of your own.")
    ] = "small",
    points: Annotated[
        int | None,
        typer.Option(min=1, help="Learn from this many points instead of the recipe's number."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**40, help="Of weights and clusters, instead of the recipe's."),
    ] = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0, help="Between checkpoints; a killed run goes on from the last.")
    ] = 5.0,
    gpu: options.Gpu = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a diffusion model of clusters of points: circles, simulated as the recipe says.

    It is the likelihood of points that belong together in a way no simple formula tells. Until
    it is done, a run is kept in a folder beside the model: one that was interrupted or killed
    goes on where it was when the same command is given again.

    Examples:

        kbforge lab train-diffusion -o model/

        kbforge lab train-diffusion --recipe circles -o model/

        kbforge cluster points.jsonl --likelihood model/ -o kb.jsonl
    """
    from dataclasses import asdict, replace

    from kbforge_lab.training.diffusion import read_diffusion_recipe
    from kbforge_lab.training.diffusion import train_diffusion as run
    from kbforge_training.fitting.run_folder import interrupted

    chosen = read_diffusion_recipe(recipe)
    changes = {"tokens": points, "seed": seed}
    schedule: Any = {name: value for name, value in changes.items() if value is not None}
    chosen = replace(chosen, schedule=replace(chosen.schedule, **schedule))
    total, where = chosen.schedule.tokens, options.device_of(gpu)
    try:
        with console.progress(*_COLUMNS, total=total, description="training") as bar:
            trained = run(
                output, chosen, where, 60.0 * checkpoint_minutes, _shown(bar), console.note
            )
    except KeyboardInterrupt:
        console.note(interrupted(output, total, "points"))
        raise typer.Exit(interrupts.exit_code()) from None
    if json:
        console.print_json({"model": str(output), **asdict(trained)})
        return
    console.note(
        f"{output}: diffusion model of {trained.parameters:,} parameters, {trained.steps:,} steps "
        f"over {trained.points:,} points"
    )
    console.note(
        f"held-out bound {trained.nats_per_point:.3f} nats a point; a perfect model has "
        f"{trained.entropy:.3f}"
    )


def _shown(bar: Any) -> Callable[[Step], None]:
    """Shows each step on a progress bar."""
    held_out = "…"

    def show(step: Step) -> None:
        nonlocal held_out
        if step.dev_nats_per_fragment is not None:
            held_out = f"{step.dev_nats_per_fragment:.3f}"
        bar.update(
            step.tokens,
            step=f"{step.step:,}",
            nats_per_point=f"{step.nats_per_fragment:.3f}",
            held_out=held_out,
        )

    return show
