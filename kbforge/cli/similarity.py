"""`kbforge similarity`: how probable it is that two fragments are one entity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kbforge.cli import console
from kbforge.errors import UsageError, quoted
from kbforge.words import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kbforge.contracts import Entity
    from kbforge.kb.similarity import Similar

app = typer.Typer(add_completion=False)


@app.command()
def similarity(
    kb: Annotated[str, typer.Argument(help="Entities, JSON lines, or a store; - is stdin.")],
    fragment: Annotated[str, typer.Argument(help="Id of a fragment.", metavar="ID")],
    other: Annotated[
        str | None,
        typer.Argument(help="Id of another; without it, all that may be one.", metavar="ID"),
    ] = None,
    confidence_map: Annotated[
        str | None,
        typer.Option(
            "--confidence-map",
            help="File written by kbforge reliability --fit; gives calibrated probabilities.",
        ),
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(help="Draw all fragments that may be one as a tree, .png or .svg."),
    ] = None,
    linkage: Annotated[
        Literal["single", "complete", "average"],
        typer.Option(help="Which pairs say how near two branches are: nearest, farthest or all."),
    ] = "average",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say how probable it is that two fragments are one entity, by the groupings that were kept.

    The probability is exact if kbforge cluster kept --alternatives all. Otherwise it is a range:
    what is sure, and what groupings that were not kept may add.

    Examples:

        kbforge similarity kb.jsonl row-17 row-20

        kbforge similarity kb.jsonl row-17

        kbforge similarity kb.jsonl row-17 --confidence-map confidence.toml --json

        kbforge similarity kb.jsonl row-17 --tree row-17.svg
    """
    from kbforge.files.apart import require_apart
    from kbforge.fit.confidence import read_confidence
    from kbforge.jobs.living.views import around
    from kbforge.kb.read import read_entities
    from kbforge.kb.similarity import similar
    from kbforge.pictures.canvas import require_format, require_matplotlib
    from kbforge.store.database import is_store

    if tree is not None:
        require_matplotlib()
        require_format(tree)
        require_apart(tree, [kb, confidence_map])
    if kb == confidence_map == "-":
        raise UsageError("only one of KB and --confidence-map can be standard input")
    calibrate = None if confidence_map is None else read_confidence(confidence_map).pairs.one
    held = None
    if kb == "-":  # it is read once
        held = list(read_entities(kb))
    elif is_store(kb):
        held = around(kb, [fragment] if other is None else [fragment, other])

    def read() -> Iterable[Entity]:
        return read_entities(kb) if held is None else held

    found = similar(read, fragment, other, calibrate)
    if tree is not None:
        _draw(read, fragment, tree, linkage)
    if as_json:
        console.print_json({"fragment": fragment, "similar": [one.to_json() for one in found]})
    elif found:
        _print(found)
    else:
        console.note(f"no grouping that was kept joins {quoted(fragment)} with another fragment")


def _draw(read: Callable[[], Iterable[Entity]], fragment: str, target: str, linkage: str) -> None:
    from kbforge.kb.similarity import block_of, leaf_names
    from kbforge.pictures.canvas import save
    from kbforge.pictures.tree import MOST, draw_tree

    block = block_of(read, fragment, MOST)
    names = leaf_names(block)
    entities = [entity.id for entity in block.entities]
    save(draw_tree(names, entities, block.together, linkage), target)
    console.note(f"wrote {target}")


def _print(found: list[Similar]) -> None:
    from rich.table import Table
    from rich.text import Text

    calibrated = any(one.calibrated is not None for one in found)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("one entity", justify="right", no_wrap=True)
    if calibrated:
        table.add_column("calibrated", justify="right", no_wrap=True)
    table.add_column("fragment", overflow="fold")
    table.add_column("of", overflow="fold")
    for one in found:
        cells = [_range(one)]
        if calibrated:
            cells.append("" if one.calibrated is None else percent(one.calibrated))
        of = f"{quoted(one.entity.name)} ({quoted(one.entity.id)})"
        table.add_row(*map(Text, (*cells, quoted(one.fragment), of)))
    console.stdout().print(table)


def _range(one: Similar) -> str:
    """What is sure, and what it may be at most if that reads differently."""
    low, high = percent(one.probability), percent(min(one.probability + one.rest, 1.0))
    return low if low == high else f"{low} to {high}"
