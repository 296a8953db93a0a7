"""The graphrag source: the Parquet tables of a GraphRAG output folder.

Read are `entities.parquet` and `relationships.parquet`. Relationships name their ends by title;
they have no direction, so it does not matter in which one a pair is stated, or how often. A null
counts as nothing, and so does the word `NONE`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.fragments import shown
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


def table(path: str, made: Callable[[Row], Record], on_bad: OnBad) -> Iterator[Record]:
    """What `made` makes of each row of a table of GraphRAG."""
    with rows_of(path, on_bad) as (columns, rows):
        for number, cells in rows:
            try:
                record = made(Row(dict(zip(columns, cells, strict=True)), f"{path}:{number}"))
            except BadRecord as error:
                on_bad(error, row_json(columns, cells))
                continue
            yield record


class Row:
    """The fields of a row, checked one by one."""

    def __init__(self, fields: Mapping[str, Any], place: str) -> None:
        self._fields, self.place = fields, place

    def text(self, column: str, optional: bool = False) -> str:
        """A text; "" for null if it is optional."""
        value = self._fields.get(column)
        if value is None and optional:
            return ""
        if not isinstance(value, str):
            raise BadRecord(self.place, "text", _shown(value), column)
        return value

    def texts(self, column: str) -> list[str]:
        """A list of texts; none for null."""
        value = self._fields.get(column)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise BadRecord(self.place, "a list of ids", _shown(value), column)
        return value

    def number(self, column: str, default: float) -> float:
        """A number; the default for null."""
        value = self._fields.get(column)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadRecord(self.place, "a number", _shown(value), column)
        return float(value)


def _entity(row: Row) -> GraphEntity:
    title = row.text("title")
    return GraphEntity(
        key=title,
        name=title,
        units=row.texts("text_unit_ids"),
        type=row.text("type", optional=True),
        description=row.text("description", optional=True),
        place=row.place,
    )


def _relation(row: Row) -> Relation:
    return Relation(
        head=row.text("source"),
        tail=row.text("target"),
        units=row.texts("text_unit_ids"),
        description=row.text("description", optional=True),
        weight=row.number("weight", 1.0),
        id=row.text("id", optional=True),
        place=row.place,
    )


def _shown(value: object) -> str:
    return shown(value) if value is None or isinstance(value, str | int) else type(value).__name__
