"""HTML for notebooks: escaped, short, and readable in dark mode.

Everything that comes from data passes through `cell_html`, which cuts it and removes control
characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from kbforge.errors import quoted

_CELL_CHARACTERS = 120
_MOST_COLUMNS = 20
_LEFT = ' style="text-align: left"'


def cell_html(cell: object) -> str:
    """A cell as HTML; nothing for None."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return escape(quoted(str(cell), _CELL_CHARACTERS))


def table_html(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    below: str = "",
) -> str:
    """A table of the first columns, with a bold line above it and a line below; all are texts."""
    head = "".join(f"<th{_LEFT}>{cell_html(column)}</th>" for column in columns[:_MOST_COLUMNS])
    if len(columns) > _MOST_COLUMNS:
        head += "<th>…</th>"
    body = "".join(
        f"<tr>{''.join(f'<td{_LEFT}>{cell_html(c)}</td>' for c in row[:_MOST_COLUMNS])}</tr>"
        for row in rows
    )
    above = f"<p><b>{cell_html(title)}</b></p>" if title else ""
    under = f"<p><small>{cell_html(below)}</small></p>" if below else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{above}{table}{under}</div>"
