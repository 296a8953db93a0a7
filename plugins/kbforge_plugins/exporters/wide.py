"""Entities as CSV: one row an entity, one column an attribute.

| column | meaning |
|---|---|
| entity_id, entity_name | the entity |
| confidence, reported | its own; the second is empty where the first is as reported |
| fragments | how many it has |
| every attribute, in the order of the file | its values, joined; a policy says which |
| vector | the entity's, where any has one: numbers separated by spaces |

With `kbforge export --policy most-stated`, or another policy, these are golden records. An
attribute that has the name of a column that is there already gets `~2` behind it. The dialect is
that of `table`.

The header needs the attributes of the last entity. So the entities wait in a temporary file, and
memory holds the names of the attributes and one entity.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

import orjson

from kbforge.contracts import Entity, Exporter, View
from kbforge.errors import KBForgeError
from kbforge.files.io import open_output
from kbforge.kb.order import AttributeOrder
from kbforge_plugins.exporters.table import Joined, number, numbers, safe, table

COLUMNS = ("entity_id", "entity_name", "confidence", "reported", "fragments")
_MOST_COLUMNS = 16_384
"""As many as spreadsheets have."""


class WideExporter(Exporter):
    """One row an entity, one column an attribute."""

    def __init__(self, separator: str = "|", guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            separator: one character between several values; within a value it and the backslash
                are written behind a backslash.
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula. Set it to false for programs that want the values unchanged.

        Raises:
            UsageError: a separator that is not one character, or that is the backslash.

        """
        self._rows = WideRows(Joined(separator, "wide"), safe if guard_formulas else str)

    def export(self, view: View, target: str) -> None:
        """Write a header and a row an entity.

        Raises:
            KBForgeError: more attributes than a spreadsheet has columns.

        """
        with open_output(target) as out, tempfile.TemporaryFile() as waiting:
            rows = self._rows.of(view.entities(), waiting)
            with table(out) as write:
                for row in rows:
                    write(row)


class WideRows:
    """A header and a row an entity, as texts.

    Args:
        joined: puts several values into one cell.
        safe: what becomes of a cell's text.

    """

    def __init__(self, joined: Joined, safe: Callable[[str], str]) -> None:
        self._joined, self._safe = joined, safe

    def of(self, entities: Iterable[Entity], waiting: IO[bytes]) -> Iterator[list[str]]:
        """The rows; entities wait in a file that is empty and can be read again.

        Raises:
            KBForgeError: more attributes than a spreadsheet has columns.

        """
        places: dict[str, int] = {}
        columns = AttributeOrder()
        vectors = False
        for entity in entities:
            columns.add(entity.properties)
            of_entity, cells, vector = self._record(entity)
            vectors = vectors or bool(vector)
            held = [(places.setdefault(key, len(places)), cell) for key, cell in cells]
            _check_width(len(COLUMNS) + len(places) + vectors)
            record = [of_entity, held, vector]
            waiting.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        waiting.seek(0)
        attributes = columns.merged()
        order = [places[attribute] for attribute in attributes]
        yield self._header([*attributes, *["vector"] * vectors])
        for line in waiting:
            of_entity, held, vector = orjson.loads(line)
            found = dict(held)
            row = [*of_entity, *(found.get(place, "") for place in order)]
            yield [*row, vector] if vectors else row

    def _record(self, entity: Entity) -> tuple[list[str], Iterator[tuple[str, str]], str]:
        of_entity = [
            self._safe(entity.id),
            self._safe(entity.name),
            number(entity.confidence),
            number(entity.reported),
            str(len(entity.fragments)),
        ]
        cells = (
            (key, self._safe(self._joined([value.value for value in values])))
            for key, values in entity.properties.items()
        )
        return of_entity, cells, numbers(entity.vector)

    def _header(self, attributes: Iterable[str]) -> list[str]:
        """The columns' names, each once."""
        names = dict.fromkeys(COLUMNS)
        for attribute in map(self._safe, attributes):
            name, number_of = attribute, 1
            while name in names:
                number_of += 1
                name = f"{attribute}~{number_of}"
            names[name] = None
        return list(names)


def _check_width(columns: int) -> None:
    if columns > _MOST_COLUMNS:
        raise KBForgeError(
            f"expected at most {_MOST_COLUMNS:,} columns, got more attributes; "
            "kbforge export --format csv writes one row a value"
        )
