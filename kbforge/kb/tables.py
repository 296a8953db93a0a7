"""Tables of a knowledge base for data frames: members, wide and pairs.

| table | a row is | columns |
|---|---|---|
| members | a fragment | id, entity_id, entity_name, confidence, reported |
| pairs | two fragments that are probably one entity | left, right, probability, rest, entity_id |
| wide | an entity | entity_id, entity_name, confidence, reported, fragments, every attribute |

Values are unchanged: formulas are a matter of spreadsheets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbforge import registry
from kbforge.contracts import View
from kbforge.files.arrow import ArrowTable, Cell

_IDS = ("id", "left", "right")  # of fragments
_NUMBERS = ("confidence", "reported", "probability", "rest")


def table_of(view: View, format: str, number_ids: bool = False, **options: object) -> ArrowTable:
    """The output of the exporter `members`, `pairs` or `wide`, as a table in memory.

    With `number_ids` the ids of fragments are whole numbers, as in the table that they come from.
    """
    exporter = registry.create("exporters", format, {"guard_formulas": False, **options})
    rows: Iterator[Sequence[Cell]] = exporter.rows(view)
    columns = [str(column) for column in next(rows)]
    if number_ids:
        places = {columns.index(column) for column in _IDS if column in columns}
        rows = ([int(str(c)) if i in places else c for i, c in enumerate(row)] for row in rows)
    return ArrowTable(columns, rows, _NUMBERS)
