"""Entities as CSV, one row a value, for spreadsheets and for joins.

| column | meaning |
|---|---|
| entity_id, name, confidence, subproblem | the entity, repeated on each of its rows |
| calibrated_confidence | likewise; empty if there is none |
| attribute, value | one distinct value |
| count | how many fragments state it |
| fragments | their ids, joined |

An entity with a vector has one more row, whose attribute is empty and whose value is the vector,
numbers separated by spaces; so has one with neither vector nor properties, with an empty value. The
dialect is RFC 4180 in UTF-8.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from kbforge.contracts import Entity
from kbforge.errors import UsageError

COLUMNS = (
    "entity_id",
    "name",
    "attribute",
    "value",
    "count",
    "fragments",
    "confidence",
    "subproblem",
    "calibrated_confidence",
)

_FORMULA = re.compile(r"\s*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


class CsvExporter:
    """The exporter `csv`."""

    def __init__(self, separator: str = "|", guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            separator: one character between the fragment ids of a cell; within an id it and the
                backslash are written behind a backslash.
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula (one that begins with = + - @ and is not a number). Set it to false for
                programs that want the values unchanged.

        Raises:
            UsageError: a separator that is not one character, or that is the backslash.

        """
        if len(separator) != 1 or separator == "\\":
            raise UsageError("exporter csv: separator must be one character, not a backslash")
        self._separator = separator
        self._guard_formulas = guard_formulas

    def export(self, entities: Iterable[Entity], out: BinaryIO) -> None:
        """Write a header and the entities' rows to a binary stream."""
        text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
        try:
            writer = csv.writer(text)
            writer.writerow(COLUMNS)
            for entity in entities:
                writer.writerows(self._rows(entity))
        finally:
            # the stream is the caller's to close
            text.detach()

    def _rows(self, entity: Entity) -> Iterator[list[str]]:
        for attribute, values in entity.properties.items():
            for value in values:
                yield self._row(entity, attribute, value.value, value.fragments)
        if entity.vector is not None or not entity.properties:
            numbers = " ".join(map(repr, entity.vector or ()))
            yield self._row(entity, "", numbers, entity.fragments, guarded=False)

    def _row(
        self,
        entity: Entity,
        attribute: str,
        value: str,
        fragments: tuple[str, ...],
        guarded: bool = True,
    ) -> list[str]:
        ids = self._separator.join(self._escaped(fragment) for fragment in fragments)
        return [
            self._safe(entity.id),
            self._safe(entity.name),
            self._safe(attribute),
            self._safe(value) if guarded else value,
            str(len(fragments)),
            self._safe(ids),
            repr(entity.confidence),
            str(entity.subproblem),
            "" if entity.calibrated_confidence is None else repr(entity.calibrated_confidence),
        ]

    def _escaped(self, fragment: str) -> str:
        escaped = fragment.replace("\\", "\\\\")
        return escaped.replace(self._separator, f"\\{self._separator}")

    def _safe(self, cell: str) -> str:
        if not self._guard_formulas or not _FORMULA.match(cell) or _NUMBER.fullmatch(cell):
            return cell
        return f"'{cell}"
