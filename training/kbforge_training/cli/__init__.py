"""The verbs that train models, one module each, and the options that they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from kbforge.cli.options import option

if TYPE_CHECKING:
    from kbforge.contracts import Fragment

Inputs: TypeAlias = Annotated[
    list[str], typer.Argument(help="Files of fragments, JSON lines; - for standard input.")
]
Output: TypeAlias = Annotated[
    Path, option("--output", "-o", "Folder for the model; replaces an old model.")
]
LimitPerFile: TypeAlias = Annotated[
    int | None, option("--limit", "Read at most this many fragments per file.", min=1)
]


def read_all(paths: Iterable[str], limit: int | None) -> Iterator[Fragment]:
    """The fragments of some files."""
    from kbforge.files.fragments import read_fragments

    for path in paths:
        yield from read_fragments(path, limit=limit)
