"""Writing rows of tables by their keys, and bringing back what they were."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import orjson

Rows: TypeAlias = Mapping[Any, Sequence[Any] | None]
"""By key, the other columns; None is no such row."""

COLUMNS = {
    "meta": ("name", "value"),
    "fragment": ("number", "id", "place", "subproblem", "source", "line"),
    "page": ("name", "first", "content"),
    "led": ("key", "closed", "families"),
    "entity": ("id", "subproblem", "members"),
    "redirect": ("id", "targets"),
}
"""The columns of each table, its key first."""


def write_rows(
    database: sqlite3.Connection, table: str, rows: Rows, undoable: int | None = None
) -> None:
    """Write rows, within the transaction at hand.

    Args:
        database: to write to.
        table: one of `COLUMNS`.
        rows: what they are now.
        undoable: the decision under which to note what they were; None notes nothing.

    """
    columns = COLUMNS[table]
    if undoable is not None:
        _note(database, table, rows, undoable)
    database.executemany(
        f"DELETE FROM {table} WHERE {columns[0]} = ?",
        [(key,) for key, row in rows.items() if row is None],
    )
    places = ", ".join("?" * len(columns))
    database.executemany(
        f"INSERT OR REPLACE INTO {table} VALUES ({places})",
        [(key, *row) for key, row in rows.items() if row is not None],
    )


def bring_back(database: sqlite3.Connection, decision: int) -> None:
    """Make all rows what they were before a decision, within the transaction at hand."""
    noted = database.execute(
        "SELECT name, key, content FROM erased WHERE decision = ?", (decision,)
    )
    before: dict[str, dict[Any, Sequence[Any] | None]] = {}
    for table, key, content in noted.fetchall():
        row = None if content is None else _decoded(content)
        before.setdefault(table, {})[_decoded(key)[0]] = row
    # an id is unique among fragments, too: what goes makes room for what comes
    for table, rows in before.items():
        write_rows(database, table, dict.fromkeys(rows))
        write_rows(database, table, {key: row for key, row in rows.items() if row is not None})


def _note(database: sqlite3.Connection, table: str, rows: Rows, decision: int) -> None:
    columns = COLUMNS[table]
    question = f"SELECT {', '.join(columns[1:])} FROM {table} WHERE {columns[0]} = ?"
    noted = []
    for key in rows:
        old = database.execute(question, (key,)).fetchone()
        noted.append((decision, table, _encoded([key]), None if old is None else _encoded(old)))
    database.executemany("INSERT OR IGNORE INTO erased VALUES (?, ?, ?, ?)", noted)


def _encoded(row: Sequence[Any]) -> bytes:
    return orjson.dumps([{"b": v.hex()} if isinstance(v, bytes) else v for v in row])


def _decoded(content: bytes) -> list[Any]:
    return [bytes.fromhex(v["b"]) if isinstance(v, dict) else v for v in orjson.loads(content)]


def forget_before(database: sqlite3.Connection) -> None:
    """Something else was written: no decision can be undone exactly any more."""
    database.execute("DELETE FROM erased")
