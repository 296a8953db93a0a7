"""Pairs of fragments that are one entity with more than some probability, as CSV.

| column | meaning |
|---|---|
| left, right | the fragments |
| probability | that they are one entity, by the groupings that the knowledge base keeps |
| rest | probability of groupings that it does not keep: the pair may have as much more |
| entity_id | the entity that holds both; empty if two entities hold them |

First come the pairs within entities, entity by entity, then those of two entities by code point.
The dialect is that of `table`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence

from kbforge.contracts import Exporter, View
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.io import open_output
from kbforge.kb.pairs import Groupings
from kbforge_plugins.exporters.table import number, safe, table

COLUMNS = ("left", "right", "probability", "rest", "entity_id")
_MOST_PAIRS = 100_000_000


class PairsExporter(Exporter):
    """One row a pair of fragments that are probably one entity."""

    def __init__(self, threshold: float = 0.5, guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            threshold: pairs must be more probable than this, from 0 to below 1.
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula. Set it to false for programs that want ids unchanged.

        Raises:
            UsageError: a threshold that is no probability below 1.

        """
        if not 0 <= threshold < 1:
            raise UsageError(
                f"exporter pairs: threshold: expected a number from 0 to below 1, got {threshold:g}"
            )
        self._threshold = threshold
        self._safe = safe if guard_formulas else str

    def export(self, view: View, target: str) -> None:
        """Write a header and a row a pair.

        Raises:
            KBForgeError: more pairs than anyone can read.

        """
        # a pair of two entities is known to both, and each may have dropped what the other has
        try:
            with (
                open_output(target) as out,
                contextlib.closing(sqlite3.connect("")) as waiting,
                table(out) as write,
            ):
                self._export(view, waiting, write)
        except sqlite3.OperationalError as error:
            raise KBForgeError(f"exporter pairs: no temporary file holds them: {error}") from error

    def _export(
        self, view: View, waiting: sqlite3.Connection, write: Callable[[Sequence[str]], object]
    ) -> None:
        waiting.execute("CREATE TABLE pair (one, other, probability, rest)")
        write(COLUMNS)
        for count, cells in enumerate(self._inside(view, waiting)):
            write(cells)
            if count == _MOST_PAIRS:
                raise KBForgeError(
                    f"exporter pairs: expected at most {_MOST_PAIRS:,} pairs, got more; "
                    "kbforge export --format members writes one row a fragment"
                )
        self._across(waiting, write)

    def _inside(self, view: View, waiting: sqlite3.Connection) -> Iterator[list[str]]:
        for entity in view.entities():
            groupings = Groupings(entity)
            for pair in groupings.pairs(self._threshold):
                if pair.inside:
                    ids = (self._safe(pair.one), self._safe(pair.other))
                    of = self._safe(entity.id)
                    yield [*ids, number(pair.probability), number(groupings.rest), of]
                else:
                    row = (*sorted((pair.one, pair.other)), pair.probability, groupings.rest)
                    waiting.execute("INSERT INTO pair VALUES (?, ?, ?, ?)", row)

    def _across(
        self, waiting: sqlite3.Connection, write: Callable[[Sequence[str]], object]
    ) -> None:
        """Each pair once, with the closest bounds: at least the larger, at most the smaller sum."""
        found = waiting.execute(
            "SELECT one, other, max(probability), min(probability + rest) - max(probability) "
            "FROM pair GROUP BY one, other ORDER BY one, other"
        )
        for one, other, probability, rest in found:
            left, right = self._safe(one), self._safe(other)
            write([left, right, number(probability), number(max(round(rest, 9), 0.0)), ""])
