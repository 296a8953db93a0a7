"""Entities as CSV, one row a value, for joins and for spreadsheets.

| column | meaning |
|---|---|
| entity_id, name, confidence, subproblem | the entity, repeated on each of its rows |
| reported | likewise; empty where the confidence is as reported |
| attribute, value | one distinct value |
| count | how many fragments state it |
| fragments | their ids, joined |

An entity with a vector has one more row, whose attribute is empty and whose value is the vector,
numbers separated by spaces; so has one with neither vector nor properties, with an empty value. The
dialect is that of `table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kbforge.contracts import Entity, Exporter, View
from kbforge.files.io import open_output
from kbforge_plugins.exporters.table import Joined, number, numbers, safe, table

COLUMNS = (
    "entity_id",
    "name",
    "attribute",
    "value",
    "count",
    "fragments",
    "confidence",
    "subproblem",
    "reported",
)


class CsvExporter(Exporter):
    """One row a value, for joins and for spreadsheets."""

    endings: ClassVar = (".csv",)

    def __init__(self, separator: str = "|", guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            separator: one character between the fragment ids of a cell; within an id it and the
                backslash are written behind a backslash.
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula (one that begins with = + - @, full-width ones included, and is no number
                and no phone number). Set it to false for programs that want the values unchanged.

        Raises:
            UsageError: a separator that is not one character, or that is the backslash.

        """
        self._joined = Joined(separator, "csv")
        self._safe = safe if guard_formulas else str

    def export(self, view: View, target: str) -> None:
        """Write a header and the entities' rows."""
        with open_output(target) as out, table(out) as write:
            write(COLUMNS)
            for entity in view.entities():
                for row in self._rows(entity):
                    write(row)

    def _rows(self, entity: Entity) -> Iterator[list[str]]:
        for attribute, values in entity.properties.items():
            for value in values:
                cell = self._safe(value.value)
                yield self._row(entity, attribute, cell, value.fragments)
        if entity.vector is not None or not entity.properties:
            yield self._row(entity, "", numbers(entity.vector), entity.fragments)

    def _row(
        self, entity: Entity, attribute: str, value: str, fragments: tuple[str, ...]
    ) -> list[str]:
        return [
            self._safe(entity.id),
            self._safe(entity.name),
            self._safe(attribute),
            value,
            str(len(fragments)),
            self._safe(self._joined(fragments)),
            number(entity.confidence),
            str(entity.subproblem),
            number(entity.reported),
        ]
