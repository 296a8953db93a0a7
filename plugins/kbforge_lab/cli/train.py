"""The training verbs: `kbforge lab train-default`, `train-diffusion` and `train-supervised`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.errors import UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from kbforge_lab.training.supervised import SupervisedTraining
    from kbforge_training.fitting.loop import Step

app = typer.Typer(add_completion=False)

_PARTS = ("pairs", "confidence")


@app.command()
def train_default(
    data: Annotated[Path, typer.Argument(help="Folder of the labelled data.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for models and training results."),
    ],
    leave_out: Annotated[
        str, typer.Option("--leave-out", help="Family to leave out and test on, or each.")
    ] = "each",
    part: Annotated[
        str | None,
        typer.Option("--part", help="Train pairs or confidence.", show_default="all"),
    ] = None,
    files: Annotated[
        int | None,
        typer.Option(min=1, help="Resampled files per family.", show_default="each part's own"),
    ] = None,
) -> None:
    """Train and test the shipped pair model and confidence maps.

    Each is trained on many files that are resampled from families of labelled data: once on all
    families, and once without each family, which then tests it. An interrupted run can continue.
    OUTPUT/without/FAMILY holds the models that have not seen a family; kbforge cluster --set
    defaults takes such a folder.

    Examples:

        kbforge lab train-default data/ -o models/ --part confidence

        kbforge cluster people.jsonl --set defaults=models/without/febrl
    """
    from kbforge_lab.training.defaults.families import family_named

    if part is not None and part not in _PARTS:
        raise UsageError(f'--part: expected {", ".join(_PARTS)}, got "{quoted(part)}"')
    if not data.is_dir():
        raise UsageError(f'"{quoted(str(data), 400)}" is no folder of labelled data')
    left = () if leave_out == "each" else (family_named(leave_out).name,)
    output.mkdir(parents=True, exist_ok=True)
    for name in _PARTS if part is None else (part,):
        if name == "pairs":
            _train_pairs(data, output, files, left)
        else:
            from kbforge_lab.training.defaults.confidence import main

            claims = str(output / "claims")
            main(["--data", str(data), "--claims", claims, "--out", str(output)])


def _train_pairs(data: Path, output: Path, files: int | None, left: tuple[str, ...]) -> None:
    from kbforge_lab.training.defaults.pairs import FILES, train

    for line in train(data, output, files or FILES, left):
        console.print_json(line)


_COLUMNS = (
    "step {task.fields[step]}",
    "{task.fields[nats_per_point]} nats/point",
    "held out {task.fields[held_out]}",
)


@app.command()
def train_diffusion(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model; replaces an old model.")
    ],
    recipe: Annotated[str, typer.Option(help="Recipe: small, circles or a TOML file.")] = "small",
    points: Annotated[
        int | None,
        typer.Option(min=1, help="Number of points to learn from.", show_default="the recipe's"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**40, help="Random seed.", show_default="the recipe's"),
    ] = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0, help="Minutes between checkpoints.")
    ] = 5.0,
    gpu: options.Gpu = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a diffusion model of clusters of points, on simulated circles.

    The model is a likelihood for clusters whose shape no simple formula describes. The recipe says
    how circles are simulated. After an interruption the same command continues from the last
    checkpoint, which is kept beside the model.

    Examples:

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


@app.command()
def train_supervised(
    fragments: Annotated[
        list[str],
        typer.Argument(help="Files of labelled fragments, JSON lines; - for standard input."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model; replaces an old model.")
    ],
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            metavar="ATTRIBUTE=NAME,...",
            help="Compare an attribute (* is the whole record) by these features only; kbforge "
            "plugins list shows them.",
            show_default="by the kind of each attribute",
        ),
    ] = None,
    references: Annotated[
        int,
        typer.Option(
            min=12, max=5000, help="Maximum labelled fragments to keep, of whole entities."
        ),
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Read at most this many fragments per file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn from labelled entities which differences matter, and write a model for scdp.

    It hides labelled entities in turn, and chooses what groups them best beside the others: the
    number of dimensions of each feature, the paper's model, its rate of separation, and the power
    of its likelihood. The model folder keeps the compared parts of labelled fragments as readable
    text. The table says how well scdp, linkage and agglomerative, which stands for all that take
    any likelihood, group hidden entities. docs/supervised.md says when examples pay.

    Examples:

        kbforge lab train-supervised labelled.jsonl --feature name=last-word,initials --feature
        born=years -o model/

        kbforge cluster new.jsonl --likelihood model/ --set clusterer=scdp -o kb.jsonl
    """
    from itertools import chain

    from kbforge.files.fragments import read_fragments
    from kbforge.files.io import require_apart
    from kbforge_lab.training.supervised import PARTS, train

    require_apart(output, fragments, whole=True)
    read = list(chain.from_iterable(read_fragments(path, limit=limit) for path in fragments))
    with console.progress(total=PARTS, description="hiding entities") as bar:
        trained = train(read, output, feature or (), references, seed, bar.update)
    if json:
        console.print_json({"model": str(output), **_summary(trained)})
    else:
        _print_supervised(trained, output)


def _summary(found: SupervisedTraining) -> dict[str, Any]:
    trained, settings = found.trained, found.trained.settings
    return {
        "fragments": found.fragments,
        "entities": found.entities,
        "references": len(trained.references),
        "features": [[each.attribute, each.feature] for each in trained.compared],
        "vectors": trained.vectors,
        "dimensions": settings.dimensions,
        "scdp": settings.model,
        "models": {
            str(model): {"rate": choice.rate, "power": choice.power, "f1": choice.score}
            for model, choice in settings.choices.items()
        },
        "linkage": {"f1": found.linkage},
        "agglomerative": {"factor": settings.factor, "f1": found.one_type},
        "best": found.best,
    }


def _print_supervised(found: SupervisedTraining, output: Path) -> None:
    from rich.table import Table

    trained, settings = found.trained, found.trained.settings
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("clusterer")
    for title in ("rate", "power", "F1 on hidden entities"):
        table.add_column(title, justify="right")
    for model, choice in settings.choices.items():
        rate = f"{choice.rate:g}" if model == 3 else ""
        chosen = " *" if model == settings.model else ""
        table.add_row(f"scdp {model}{chosen}", rate, f"{choice.power:g}", f"{choice.score:.3f}")
    table.add_row("linkage", "", "", f"{found.linkage:.3f}")
    table.add_row("agglomerative", "", "", f"{found.one_type:.3f}")
    console.stdout().print(table)
    features = ", ".join(quoted(str(each), 60) for each in trained.compared) or "vectors"
    console.note(
        f"{quoted(str(output), 400)}: learned from {len(trained.references):,} of "
        f"{found.fragments:,} labelled fragments of {found.entities:,} entities; "
        f"{settings.dimensions} dimensions each of {features}"
    )
    console.note(f"best on hidden entities: --set clusterer={found.best}")
