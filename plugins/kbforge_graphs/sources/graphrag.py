"""The graphrag source: the Parquet tables of a GraphRAG output folder.

The source reads `entities.parquet` and `relationships.parquet`. Relationships name their ends by
title; they have no direction, so the order and repetition of a pair do not matter. Nulls and the
word `NONE` are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.fragments import read_each, shown
from kbforge_graphs.sources.graphs import GraphEntity, GraphSource, Record, Relation
from kbforge_plugins.sources.parquet import rows_of
from kbforge_plugins.sources.rows import row_json

ENTITIES, RELATIONSHIPS = "entities.parquet", "relationships.parquet"
TEXT_UNITS = "text_units.parquet"


class GraphRagSource(GraphSource):
    """GraphRAG's output folder."""

    def records(self, path: str, on_bad: OnBad) -> Iterator[Record]:
        folder = Path(path)
        if not folder.is_dir():
            got = "a file" if folder.exists() else "nothing"
            raise KBForgeError(f"{quoted(path, 400)}: expected a folder of GraphRAG, got {got}")
        for name in (ENTITIES, RELATIONSHIPS):
            if not (folder / name).is_file():
                raise KBForgeError(
                    f"{quoted(path, 400)}: expected a folder of GraphRAG with {name}, got a folder "
                    f"without it"
                )
        yield from table(os.fspath(folder / ENTITIES), _entity, on_bad)
        yield from table(os.fspath(folder / RELATIONSHIPS), _relation, on_bad)


Made: TypeAlias = Callable[[Mapping[str, Any], str], Record]
"""Makes a record of a row and its place."""
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "a list of ids": lambda value: (
        isinstance(value, list) and all(isinstance(one, str) and one for one in value)
    ),
    "a number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def table(path: str, made: Made, on_bad: OnBad) -> Iterator[Record]:
    """The results of `made` for each row of a table of GraphRAG."""
    with rows_of(path, on_bad) as (columns, rows):
        yield from read_each(
            rows,
            lambda row: made(dict(zip(columns, row[1], strict=True)), f"{path}:{row[0]}"),
            lambda row: row_json(columns, row[1]),
            on_bad,
        )


def _entity(row: Mapping[str, Any], place: str) -> GraphEntity:
    title = _cell(row, place, "title", "text")
    return GraphEntity(
        key=title,
        name=title,
        units=_cell(row, place, "text_unit_ids", "a list of ids", []),
        type=_cell(row, place, "type", "text", ""),
        description=_cell(row, place, "description", "text", ""),
        place=place,
    )


def _relation(row: Mapping[str, Any], place: str) -> Relation:
    return Relation(
        head=_cell(row, place, "source", "text"),
        tail=_cell(row, place, "target", "text"),
        units=_cell(row, place, "text_unit_ids", "a list of ids", []),
        weight=float(_cell(row, place, "weight", "a number", 1.0)),
        place=place,
    )


def _cell(
    row: Mapping[str, Any], place: str, column: str, expected: str, null: object = None
) -> Any:
    """A field of a row, checked; `null` in place of null, if it may be."""
    value = row.get(column)
    if value is None and null is not None:
        return null
    if not _FITS[expected](value):
        raise BadRecord(place, expected, _shown(value), column)
    return value


def _shown(value: object) -> str:
    return shown(value) if value is None or isinstance(value, str | int) else type(value).__name__
