"""Reading and writing rows of tables, each with a checksum of its content.

All rows are written here, with their checksum, and read here, where it is verified: a bit that has
flipped on a disk is a sentence, and never another result. The checksum is the CRC-32 of all columns
of the row in one fixed form; text and numbers as ASCII, the bytes of the last column as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias
from zlib import crc32

import orjson

from kbforge.errors import KBForgeError, quoted

Rows: TypeAlias = Mapping[Any, Sequence[Any] | None]
"""By key, the other columns; None is no such row."""
Row: TypeAlias = tuple[Any, ...]

COLUMNS = {
    "meta": ("name", "value"),
    "kept": ("digest", "content"),
    "fragment": ("number", "id", "place", "subproblem", "source", "line"),
    "page": ("name", "first", "content"),
    "led": ("key", "closed", "families"),
    "entity": ("id", "subproblem", "members"),
    "redirect": ("id", "targets"),
    "image": ("run", "entity", "fragments"),
    "run": (
        *("number", "verb", "about", "finished", "added", "removed", "entities"),
        *("seconds", "began"),
    ),
    "decision": ("number", "same", "first", "second", "run", "undone"),
    "erased": ("decision", "name", "key", "content"),
    "confidence": ("first", "subproblem", "size", "reported", "confidence"),
    "stale": ("subproblem",),
}
"""The columns of each table, its key first, without the checksum, which is the last one."""
_AT_ONCE = 500  # values in one question


def checksum(row: Row) -> int:
    """Of a row's columns in their order, without the checksum."""
    last = row[-1]
    if type(last) is bytes:
        return crc32(last, crc32(ascii(row[:-1]).encode()))
    return crc32(ascii(row).encode())


def read_rows(
    database: sqlite3.Connection, table: str, where: str = "", values: Sequence[Any] = ()
) -> Iterator[Row]:
    """Whole rows, without their checksums, each verified.

    Args:
        database: to read.
        table: one of `COLUMNS`.
        where: what follows in the question: which rows, and in which order.
        values: of its parameters.

    Raises:
        KBForgeError: a row is damaged, or the file is.

    """
    question = f"SELECT {', '.join(COLUMNS[table])}, checksum FROM {table} {where}"
    try:
        for row in database.execute(question, values):
            told = row[:-1]
            if checksum(told) != row[-1]:
                damaged(database, f"the row {quoted(str(row[0]), 40)} of {table}")
            yield told
    except sqlite3.DatabaseError as error:
        damaged(database, f"{table} cannot be read ({str(error).lower()})", error)


def row_of(database: sqlite3.Connection, table: str, key: Any) -> Row | None:
    """The row with this key; None if there is none.

    Raises:
        KBForgeError: it is damaged.

    """
    return next(read_rows(database, table, f"WHERE {COLUMNS[table][0]} = ?", (key,)), None)


def ask(database: sqlite3.Connection, question: str, values: Sequence[Any] = ()) -> list[Row]:
    """Answer a question about keys and numbers of rows, whose content is not read.

    Raises:
        KBForgeError: the file is damaged.

    """
    try:
        return database.execute(question, values).fetchall()
    except sqlite3.DatabaseError as error:
        damaged(database, f"it cannot be read ({str(error).lower()})", error)


def rows_of(
    database: sqlite3.Connection, table: str, column: str, values: Sequence[Any]
) -> Iterator[Row]:
    """The rows that have one of the values in a column.

    Raises:
        KBForgeError: one is damaged.

    """
    for start in range(0, len(values), _AT_ONCE):
        part = list(values[start : start + _AT_ONCE])
        marks = ",".join("?" * len(part))
        yield from read_rows(database, table, f"WHERE {column} IN ({marks})", part)


def damaged(
    database: sqlite3.Connection, what: str, error: sqlite3.DatabaseError | None = None
) -> NoReturn:
    """Say that a store is damaged.

    Raises:
        KBForgeError: always.

    """
    path = database.execute("PRAGMA database_list").fetchone()[2]
    said = what if error is not None else f"{what} is not as it was written"
    raise KBForgeError(
        f"{quoted(path, 400)} is damaged: {said}; kbforge check says what is intact"
    ) from error


def insert_rows(
    database: sqlite3.Connection, table: str, rows: Iterable[Row], unless: str = ""
) -> None:
    """Put whole rows into a table, within the transaction at hand.

    Args:
        database: to write to.
        table: one of `COLUMNS`.
        rows: without checksums.
        unless: what to do where the key is there: "OR REPLACE" or "OR IGNORE"; empty fails.

    """
    marks = ", ".join("?" * (len(COLUMNS[table]) + 1))
    database.executemany(
        f"INSERT {unless} INTO {table} VALUES ({marks})",
        ((*row, checksum(row)) for row in rows),
    )


def change_rows(
    database: sqlite3.Connection, table: str, changes: Mapping[Any, Mapping[str, Any]]
) -> None:
    """Set columns of rows, within the transaction at hand.

    Args:
        database: to write to.
        table: one of `COLUMNS` with a key of one column.
        changes: by key, columns with their values.

    """
    columns = COLUMNS[table]
    for key, values in changes.items():
        row = row_of(database, table, key)
        if row is None:
            damaged(database, f"the row {quoted(str(key), 40)} of {table}, which is missing,")
        new = {**dict(zip(columns, row, strict=True)), **values}
        stated = checksum(tuple(new.values()))
        settings = ", ".join(f"{name} = ?" for name in (*values, "checksum"))
        database.execute(
            f"UPDATE {table} SET {settings} WHERE {columns[0]} = ?", (*values.values(), stated, key)
        )


def write_rows(
    database: sqlite3.Connection, table: str, rows: Rows, undoable: int | None = None
) -> None:
    """Write rows by their keys, within the transaction at hand.

    Args:
        database: to write to.
        table: one of `COLUMNS` with a key of one column.
        rows: what they are now.
        undoable: the decision under which to note what they were; None notes nothing.

    """
    if undoable is not None:
        _note(database, table, rows, undoable)
    database.executemany(
        f"DELETE FROM {table} WHERE {COLUMNS[table][0]} = ?",
        [(key,) for key, row in rows.items() if row is None],
    )
    there = ((key, *row) for key, row in rows.items() if row is not None)
    insert_rows(database, table, there, "OR REPLACE")


def bring_back(database: sqlite3.Connection, decision: int) -> None:
    """Make all rows what they were before a decision, within the transaction at hand."""
    before: dict[str, dict[Any, Sequence[Any] | None]] = {}
    noted = read_rows(database, "erased", "WHERE decision = ?", (decision,))
    for _, table, key, content in list(noted):
        row = None if content is None else _decoded(content)
        before.setdefault(table, {})[_decoded(key)[0]] = row
    # an id is unique among fragments, too: what goes makes room for what comes
    for table, rows in before.items():
        write_rows(database, table, dict.fromkeys(rows))
        write_rows(database, table, {key: row for key, row in rows.items() if row is not None})


def _note(database: sqlite3.Connection, table: str, rows: Rows, decision: int) -> None:
    noted = []
    for key in rows:
        old = row_of(database, table, key)
        noted.append((decision, table, _encoded([key]), None if old is None else _encoded(old[1:])))
    insert_rows(database, "erased", noted, "OR IGNORE")


def _encoded(row: Sequence[Any]) -> bytes:
    return orjson.dumps([{"b": v.hex()} if isinstance(v, bytes) else v for v in row])


def _decoded(content: bytes) -> list[Any]:
    return [bytes.fromhex(v["b"]) if isinstance(v, dict) else v for v in orjson.loads(content)]


def forget_before(database: sqlite3.Connection) -> None:
    """Something else was written: no decision can be undone exactly any more."""
    database.execute("DELETE FROM erased")
