"""`kbforge lab train-supervised`: from clustered examples to a model for the clusterer scdp."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbforge.cli import console
from kbforge.errors import quoted

if TYPE_CHECKING:
    from kbforge_lab.training.supervised import TrainedSupervised

app = typer.Typer(add_completion=False)


@app.command()
def train_supervised(
    fragments: Annotated[
        list[str],
        typer.Argument(help="JSON lines files of labelled fragments; - for stdin."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model; an old model is replaced.")
    ],
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            metavar="ATTRIBUTE=NAME,...",
            help="Compare an attribute (* is the whole record) by these features alone; kbforge "
            "plugins list shows them.",
            show_default="by the kind of each attribute",
        ),
    ] = None,
    references: Annotated[
        int,
        typer.Option(
            min=12, max=5000, help="Keep no more labelled fragments than this, of whole entities."
        ),
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of all random draws.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Read no further than this many fragments of a file.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Learn from clustered examples which differences matter, and write a model for scdp.

    Labelled entities are hidden in turn and grouped beside the others; what groups them best is
    chosen: how many dimensions of each feature, which model of the paper, its rate of separation,
    and how much a fragment counts (the power of its likelihood). The model keeps what is compared
    of the labelled fragments, readably, because new ones are grouped beside them. The table says
    how well each clusterer does on hidden entities: scdp, linkage, or agglomerative, which stands
    for those that take any likelihood. Hidden entities are few, and of this file:
    docs/supervised.md says when examples pay.

    Examples:

        kbforge lab train-supervised labelled.jsonl -o model/

        kbforge lab train-supervised labelled.jsonl --feature name=last-word,initials --feature
        born=years -o model/

        kbforge cluster new.jsonl --likelihood model/ --clusterer scdp -o kb.jsonl

        kbforge cluster new.jsonl --likelihood model/ --clusterer scdp --set clusterer.model=3
        --set clusterer.sweeps=200 --seed 1 -o kb.jsonl
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
        _print(trained, output)


def _summary(found: TrainedSupervised) -> dict[str, Any]:
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


def _print(found: TrainedSupervised, output: Path) -> None:
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
    console.note(f"best on hidden entities: --clusterer {found.best}")
