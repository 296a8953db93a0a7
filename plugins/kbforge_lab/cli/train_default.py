"""`kbforge lab train-default`: the models behind the default, from labelled families of data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console
from kbforge.errors import UsageError, quoted

if TYPE_CHECKING:
    from kbforge_lab.training.defaults.judge import JudgedFile, Trained

app = typer.Typer(add_completion=False)

_PARTS = ("pairs", "judge", "doubt")


@app.command()
def train_default(
    data: Annotated[Path, typer.Argument(help="Folder of the labelled data.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for models and what they come from.")
    ],
    leave_out: Annotated[
        str, typer.Option("--leave-out", help="A family to judge by, or each.")
    ] = "each",
    part: Annotated[
        str | None, typer.Option("--part", help="pairs, judge or doubt; none trains all.")
    ] = None,
    files: Annotated[
        int | None,
        typer.Option(min=1, help="Resampled files a family; none takes each part's own number."),
    ] = None,
) -> None:
    """Train the pair model, the judge and the confidence maps that ship, and judge them.

    Each is trained on many files that are resampled from families of labelled data, once on all
    and once without each family, which is what its figures are of. What was run is kept in the
    output folder, so a run that was interrupted goes on. OUTPUT/without/FAMILY holds the models
    that have not seen a family; kbforge cluster --defaults takes such a folder.

    Examples:

        kbforge lab train-default data/ -o models/ --part judge

        kbforge cluster people.jsonl --defaults models/without/febrl
    """
    from kbforge_lab.training.defaults.families import FAMILIES, family_named

    if part is not None and part not in _PARTS:
        raise UsageError(f'--part: expected {", ".join(_PARTS)}, got "{quoted(part)}"')
    if not data.is_dir():
        raise UsageError(f'"{quoted(str(data), 400)}" is no folder of labelled data')
    left = () if leave_out == "each" else (family_named(leave_out).name,)
    output.mkdir(parents=True, exist_ok=True)
    for name in _PARTS if part is None else (part,):
        if name == "pairs":
            _train_pairs(data, output, files, left)
        elif name == "judge":
            ships = frozenset(family.name for family in FAMILIES if family.ships)
            _train_judge(data, output, files, ships, left)
        else:
            from kbforge_lab.training.defaults.doubt import main

            claims = str(output / "claims")
            main(["--data", str(data), "--claims", claims, "--out", str(output)])


def _train_pairs(data: Path, output: Path, files: int | None, left: tuple[str, ...]) -> None:
    from kbforge_lab.training.defaults.pairs import FILES, train

    for line in train(data, output, files or FILES, left):
        console.print_json(line)


def _train_judge(
    data: Path, output: Path, files: int | None, ships: frozenset[str], left: tuple[str, ...]
) -> None:
    from kbforge_lab.training.defaults.judge import FILES, judged_files, train_each, write

    def told(file: JudgedFile) -> None:
        console.note(
            f"{file.family} {file.name}: exact names {file.f1[0]:.3f}, best {file.f1.max():.3f}"
        )

    trained = train_each(judged_files(data, output, files or FILES, told), ships, left)
    write(trained, output)
    _print(trained)


def _print(trained: Trained) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("family")
    for title in ("exact names", "chosen", "best", "files below by .005", "by .01"):
        table.add_column(title, justify="right")
    for family, found in trained.by_family.items():
        shares = (f"{share:.0%}" for share in (found.below, found.far_below))
        scores = (f"{f1:.3f}" for f1 in (found.exact, found.chosen, found.best))
        table.add_row(family, *scores, *shares)
    console.stdout().print(table)
    console.note(f"margin {trained.ships.margin:g}, spread {trained.ships.spread:.3f}")
