"""Fragments as CSV, one row a fragment: which entity it belongs to.

| column | meaning |
|---|---|
| fragment | its id |
| entity_id, name | the entity that it is in |
| confidence, reported | the entity's; the second is empty where the first is as reported |

It joins what went in to what came out. Rows stand entity by entity; the dialect is that of `table`.
"""

from __future__ import annotations

from kbforge.contracts import Exporter, View
from kbforge.files.io import open_output
from kbforge_plugins.exporters.table import number, safe, table

COLUMNS = ("fragment", "entity_id", "name", "confidence", "reported")


class MembersExporter(Exporter):
    """One row a fragment: which entity it belongs to."""

    def __init__(self, guard_formulas: bool = True) -> None:
        """Set the options.

        Args:
            guard_formulas: put an apostrophe before a cell that a spreadsheet would take for a
                formula. Set it to false for programs that want ids and names unchanged.

        """
        self._safe = safe if guard_formulas else str

    def export(self, view: View, target: str) -> None:
        """Write a header and a row a fragment."""
        with open_output(target) as out, table(out) as write:
            write(COLUMNS)
            for entity in view.entities():
                of_entity = [
                    self._safe(entity.id),
                    self._safe(entity.name),
                    number(entity.confidence),
                    number(entity.reported),
                ]
                for fragment in entity.fragments:
                    write([self._safe(fragment), *of_entity])
