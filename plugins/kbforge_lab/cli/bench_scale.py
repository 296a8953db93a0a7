"""`kbforge lab bench scale`: predicts the cost of larger files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kbforge.cli import console, options
from kbforge.cli.options import choices_of
from kbforge.errors import UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from kbforge.fit.choices import RunOptions
    from kbforge_lab.bench.scale.measuring import Draw, Measurement
    from kbforge_lab.bench.scale.plan import ScaleReport

app = typer.Typer(add_completion=False)

_OF_A_RUN = ("clusterer", "particles", "index")
_WIDEST = 1_000  # columns of a terminal that nobody has


@app.command(epilog=options.names_listed(_OF_A_RUN))
def scale(
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            help="Fragments, JSON lines; the more, the better.",
            show_default="made-up people",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Sizes of the parts, separated by commas.",
            show_default="1000,3000,10000 and so on to 100000",
        ),
    ] = None,
    draw: Annotated[
        Literal["first", "random"],
        typer.Option(
            help="Take the first fragments of the file for a part, or random ones in file order."
        ),
    ] = "first",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Write the report to this file, as Markdown."),
    ] = None,
    likelihood: options.Likelihood = None,
    alpha: Annotated[
        float | None, typer.Option(help="Concentration; a larger one makes more entities.")
    ] = None,
    seed: options.Seed = 0,
    settings: options.RunSettings = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure growing parts of a file, and plan for 10 million to 1,000 million fragments.

    Each part is clustered from file to knowledge base in its own process. Time and memory are
    fitted against the number of fragments. For larger files the plan gives both, with intervals,
    and lists its assumptions.

    Examples:

        kbforge lab bench scale fragments.jsonl --sizes 10000,30000,100000,300000 --draw random

        kbforge lab bench scale --sizes 1000,2000,4000,8000 --likelihood attributes --json
    """
    from kbforge.files.io import open_output, require_apart, require_writable
    from kbforge_lab.bench.scale.measuring import count_fragments, sizes_of
    from kbforge_lab.bench.scale.plan import ScaleReport, markdown, summary

    if output is not None:
        require_apart(output, [] if file is None else [file])
        require_writable(output)
    choices = choices_of(context, _OF_A_RUN, ["likelihood", "index", "clusterer"])
    wanted = sizes_of(None if file is None else count_fragments(file), _numbers(sizes))
    scaled = ScaleReport(
        "made-up people" if file is None else quoted(file, 400),
        "three records a person" if file is None else f"{draw} fragments",
        list(_followed(file, wanted, choices, draw)),
    )
    if output is not None:
        with open_output(output) as out:
            out.write(markdown(scaled).encode())
    if json:
        console.print_json(summary(scaled))
    else:
        _print(scaled)


def _numbers(text: str | None) -> list[int] | None:
    """The numbers that --sizes names, if it was given."""
    if text is None:
        return None
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--sizes: expected whole numbers separated by commas, got {quoted(text)}"
        ) from None


def _followed(
    file: str | None, sizes: Sequence[int], choices: RunOptions, draw: Draw
) -> Iterator[Measurement]:
    """The measurements, with a bar of the fragments that are through."""
    from kbforge_lab.bench.scale.measuring import PARTS, measure_all

    columns = ("{task.fields[part]} {task.fields[of]} fragments", "{task.fields[last]}")
    through, last = 0, "no size is through"
    with console.progress(*columns, total=sum(sizes), description="bench scale") as bar:

        def on_part(size: int, part: str, share: float) -> None:
            done = (PARTS.index(part) + min(share, 1.0)) / len(PARTS)
            bar.update(through + int(done * size), part=part, of=f"{size:,}", last=last)

        for one in measure_all(file, sizes, choices, draw, on_part):
            through += one.fragments
            last = f"{one.fragments:,} took {one.seconds:,.1f} s"
            yield one


def _print(scaled: ScaleReport) -> None:
    from rich.text import Text

    from kbforge_lab.bench.scale.plan import grids, sentences

    screen = console.stdout()
    screen.width = _WIDEST  # the terminal breaks lines: figures that are cut short are none
    for grid in grids(scaled):
        first, *others = grid.head
        table = new_table([first or grid.title], others)
        for row in grid.rows:
            table.add_row(*map(Text, row))
        screen.print(table)
        screen.print()
    for sentence in sentences(scaled):
        screen.print(f"* {sentence}", markup=False, soft_wrap=True)


def new_table(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """An empty table without lines: columns of text, then columns of numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in texts:
        table.add_column(column)
    for column in numbers:
        table.add_column(column, justify="right")
    return table
