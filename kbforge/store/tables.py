"""The tables of a store: rows with checksums, versions, and updates of older stores.

| table | a row is |
|---|---|
| meta | a global fact: what was chosen, the session's totals, figures of drift |
| kept | the learned state of a model, under the digest of its content |
| fragment | a fragment: its number in the session, its place among the others, its subproblem |
| page | a subproblem with its particles (`kbforge.contracts.Page`) |
| led | a key of the index, and the families of clusters that it leads to |
| mention | a name, or a value of an attribute that refers, and the fragments that state it |
| entity | an entity of the most probable grouping, and the subproblem that holds it |
| redirect | a former id of an entity, and the ids of the entities that have its fragments now |
| image | the state of an entity when a run first changed it |
| run | a command that wrote |
| decision | a decision about two fragments, and whether it was undone |
| audit | who wrote what, when and why (`kbforge.store.audit`) |
| confidence | an entity by the number of its first fragment: size, reported, and confidence |
| stale | a subproblem that changed since the confidence of its entities was computed |
| erased | a row before a decision or (key -run) a change of rules, so that undo restores it |

A place orders fragments for readers: a fragment that replaces another takes its place.

Each row ends with the CRC-32 of its columns in one fixed form: text and numbers as ASCII, the bytes
of the last column unchanged. A flipped bit on a disk causes an error, never a result.

A checksum cannot detect that a row is missing, or that an index skips it. So before it reads all
rows of a table, and when it does not find a row, a connection once lets SQLite examine the table
with its indexes (`require_sound`). A small file is examined when it is opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn, TypeAlias
from zlib import crc32

import orjson

from kbforge.errors import StoreError, quoted

Rows: TypeAlias = Mapping[Any, Sequence[Any] | None]
"""By key, the other columns; None if there is no such row."""
Row: TypeAlias = tuple[Any, ...]

APPLICATION = 0x4B424647  # "KBFG"
VERSION = 4
_EARLIER = {
    2: "2f27a86752854c1aa19ae0c8353fc9a3b543fde6c60514890f13cc519ce68eef",
    3: "519a2d1b0d9bd6693b1cb1be284268d9d7ee1c43b5d58379a1768f5737418897",
}
"""The digest of `_schema_of` a store of an earlier version."""
_AT_ONCE = 500  # values in one question
_TOGETHER = 50  # rows in one statement; SQLite takes longer to read a longer one
_SHORT = ("entity", "fragment", "led", "page")
"""Tables of short rows, which have no REAL for JSON to round."""
_TABLES = """
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE kept (
    digest TEXT PRIMARY KEY,
    content BLOB NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE fragment (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    place INTEGER NOT NULL,
    subproblem INTEGER NOT NULL,
    source TEXT,
    line BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX fragment_source ON fragment (source) WHERE source IS NOT NULL;
CREATE INDEX fragment_moved ON fragment (number, place) WHERE place <> number;
CREATE TABLE page (
    name INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    content BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX page_first ON page (first);
CREATE TABLE led (
    key INTEGER PRIMARY KEY,
    closed INTEGER NOT NULL,
    families BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE mention (
    key INTEGER PRIMARY KEY,
    content BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE entity (
    id TEXT PRIMARY KEY,
    subproblem INTEGER NOT NULL,
    members BLOB NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX entity_subproblem ON entity (subproblem);
CREATE TABLE redirect (
    id TEXT PRIMARY KEY,
    targets BLOB NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE image (
    run INTEGER NOT NULL,
    entity TEXT NOT NULL,
    fragments BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (run, entity)
) WITHOUT ROWID;
CREATE TABLE run (
    number INTEGER PRIMARY KEY,
    verb TEXT NOT NULL,
    about TEXT NOT NULL,
    finished INTEGER NOT NULL,
    added INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    entities INTEGER NOT NULL,
    seconds REAL NOT NULL,
    began REAL NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE decision (
    number INTEGER PRIMARY KEY,
    same INTEGER NOT NULL,
    first TEXT NOT NULL,
    second TEXT NOT NULL,
    run INTEGER NOT NULL,
    undone INTEGER,
    checksum INTEGER NOT NULL
);
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    author TEXT NOT NULL,
    verb TEXT NOT NULL,
    run INTEGER NOT NULL,
    decision INTEGER,
    digest TEXT NOT NULL,
    chain TEXT NOT NULL,
    said BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE erased (
    decision INTEGER NOT NULL,
    name TEXT NOT NULL,
    key BLOB NOT NULL,
    content BLOB,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (decision, name, key)
) WITHOUT ROWID;
CREATE TABLE confidence (
    first INTEGER PRIMARY KEY,
    subproblem INTEGER NOT NULL,
    size INTEGER NOT NULL,
    reported REAL NOT NULL,
    confidence REAL NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX confidence_size ON confidence (size DESC, subproblem);
CREATE INDEX confidence_doubt ON confidence (confidence, reported, size DESC, subproblem);
CREATE TABLE stale (subproblem INTEGER PRIMARY KEY, checksum INTEGER NOT NULL);
"""


def create_tables(database: sqlite3.Connection) -> None:
    """Create the tables of a new store, within the current transaction."""
    for statement in _TABLES.split(";"):
        if statement.strip():
            database.execute(statement)
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute(f"PRAGMA user_version = {VERSION}")


def version_of(database: sqlite3.Connection, path: str) -> int | None:
    """The version of a store; None if the file is empty.

    Raises StoreError if it belongs to another program, has a later version, or has wrong tables.
    """
    if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return None
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version: int = database.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise StoreError(
            f"{quoted(path, 400)}: expected a store of kbforge cluster --into, got a database of "
            "another program"
        )
    if not min(_EARLIER) <= version <= VERSION:
        way_out = "install a newer kbforge" if version > VERSION else "it is damaged: use a copy"
        if version == 1:
            way_out = "any command of kbforge 0.2.0 that opens it brings it up to date"
        raise StoreError(
            f"{quoted(path, 400)} is a store of version {version}, and this program knows versions "
            f"{min(_EARLIER)} to {VERSION}; {way_out}"
        )
    _require_tables(database, path, version)
    return version


def _require_tables(database: sqlite3.Connection, path: str, version: int) -> None:
    """Refuse missing or additional tables, columns or indexes: a view or a trigger runs code."""
    found = _schema_of(database)
    if version == VERSION:
        same = dict(found) == _SCHEMA
    else:
        same = hashlib.sha256(repr(found).encode()).hexdigest() == _EARLIER[version]
    if not same:
        strange = [name for name, sql in found if version == VERSION and _SCHEMA.get(name) != sql]
        missing = [name for name in _SCHEMA if name not in dict(found)]
        what = f" ({quoted(', '.join([*strange, *missing]), 100)})" if strange or missing else ""
        raise StoreError(
            f"{quoted(path, 400)}: expected the tables of a store of version {version}, got "
            f"others{what}; it is damaged or was changed by another program: use a copy"
        )


def _schema_of(database: sqlite3.Connection) -> list[tuple[str, str]]:
    """The statements that created a database, by name."""
    rows = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return sorted((f"{kind} {name} of {table}", f"{sql}") for kind, name, table, sql in rows)


with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as _empty:
    create_tables(_empty)
    _SCHEMA = dict(_schema_of(_empty))
    COLUMNS = {
        table: tuple(name for _, name, *_ in _empty.execute(f"PRAGMA table_info({table})"))[:-1]
        for (table,) in _empty.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    """The columns of each table, its key first, without the checksum, which is last."""


def migrate(database: sqlite3.Connection) -> None:
    """Bring an earlier store up to date, within the current transaction.

    Version 2 had no mentions, which `kbforge refit` finds, and version 3 no audit, which begins
    now.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    new = ("TABLE audit", "TABLE mention")[: 4 - version]
    for statement in _TABLES.split(";"):
        if any(name in statement for name in new):
            database.execute(statement)
    database.execute(f"PRAGMA user_version = {VERSION}")


def checksum(row: Row) -> int:
    """The checksum of a row's other columns."""
    last = row[-1]
    if type(last) is bytes:
        return crc32(last, crc32(ascii(row[:-1]).encode()))
    return crc32(ascii(row).encode())


class StoreConnection(sqlite3.Connection):
    """A connection that knows which tables have not been examined yet."""

    unexamined: frozenset[str] = frozenset()


def require_sound(database: sqlite3.Connection, table: str) -> None:
    """Let SQLite examine a table with its indexes once, so that no row is missing.

    Raises StoreError if it is damaged.
    """
    if not is_unexamined(database, table):
        return
    for (said,) in ask(database, f"PRAGMA integrity_check({table})"):
        if said != "ok":
            damaged(database, f"{table} ({quoted(said.replace(chr(10), '; '), 200)})")
    assert isinstance(database, StoreConnection)
    database.unexamined -= {table}


def is_unexamined(database: sqlite3.Connection, table: str) -> bool:
    """Whether a table has not been examined yet."""
    return isinstance(database, StoreConnection) and table in database.unexamined


def read_rows(
    database: sqlite3.Connection, table: str, where: str = "", values: Sequence[Any] = ()
) -> Iterator[Row]:
    """Verified rows without checksums; `where` selects and orders the rows.

    Raises StoreError if a row, an index or the file is damaged.
    """
    require_sound(database, table)
    return verified_rows(database, table, where, values)


def verified_rows(
    database: sqlite3.Connection, table: str, where: str, values: Sequence[Any], few: bool = False
) -> Iterator[Row]:
    """Like `read_rows`, for callers that detect missing rows in another way.

    A `few` of a table of `_SHORT` rows come as one row: for each SQLite gives up Python's lock,
    which takes a server with many readers as long as the reading.
    """
    *columns, last = COLUMNS[table]
    try:
        rows: Iterator[tuple[Row, int]]
        if few and table in _SHORT:
            each = f"json_group_array(json_array({', '.join(columns)}, hex({last}), checksum))"
            ((told,),) = database.execute(f"SELECT {each} FROM {table} {where}", values)
            rows = (((*row, bytes.fromhex(end)), of) for *row, end, of in orjson.loads(told))
        else:
            each = ", ".join((*columns, last))
            found = database.execute(f"SELECT {each}, checksum FROM {table} {where}", values)
            rows = ((row[:-1], row[-1]) for row in found)
        for row, of in rows:
            if checksum(row) != of:
                damaged(database, f"the row {quoted(str(row[0]), 40)} of {table}")
            yield row
    except (sqlite3.DatabaseError, ValueError) as error:
        damaged(database, f"{table} cannot be read ({str(error).lower()})", error)


def row_of(database: sqlite3.Connection, table: str, key: Any) -> Row | None:
    """The verified row with this key; None if there is none."""
    return next(rows_of(database, table, COLUMNS[table][0], [key]), None)


def rows_of(
    database: sqlite3.Connection,
    table: str,
    column: str,
    values: Sequence[Any],
    all_there: bool = False,
) -> Iterator[Row]:
    """The verified rows that have one of the values in a column.

    With `all_there`, a value without a row means that the store is damaged.
    """
    at = COLUMNS[table].index(column)
    for start in range(0, len(values), _AT_ONCE):
        part = list(values[start : start + _AT_ONCE])
        marks = ",".join("?" * len(part))
        where = f"WHERE {column} IN ({marks})"
        rows = list(verified_rows(database, table, where, part, few=True))
        found, asked = {row[at] for row in rows}, set(part)
        if not found <= asked:
            damaged(database, f"the index of {table}")
        yield from rows
        missing = asked - found
        if missing:
            require_sound(database, table)
        if missing and all_there:
            damaged(database, f"{table}, which lacks {quoted(str(min(missing)), 40)},")


def ask(database: sqlite3.Connection, question: str, values: Sequence[Any] = ()) -> list[Row]:
    """Answer a query about keys and row numbers, without reading the content.

    Raises StoreError if the file is damaged.
    """
    try:
        return database.execute(question, values).fetchall()
    except sqlite3.DatabaseError as error:
        damaged(database, f"it cannot be read ({str(error).lower()})", error)


def damaged(database: sqlite3.Connection, what: str, error: Exception | None = None) -> NoReturn:
    """Raise a StoreError that the store is damaged."""
    # as bytes: a name may be no text
    (path,) = database.execute("SELECT CAST(file AS BLOB) FROM pragma_database_list").fetchone()
    said = what if error is not None else f"{what} is damaged"
    raise StoreError(
        f"{quoted(os.fsdecode(path), 400)} is damaged: {said}; kbforge check shows what is intact"
    ) from error


def insert_rows(
    database: sqlite3.Connection, table: str, rows: Iterable[Row], unless: str = ""
) -> None:
    """Insert rows; `unless` handles existing keys ("OR REPLACE", "OR IGNORE").

    A statement has several of them, because SQLite gives up Python's lock for each statement.
    """
    marks, left = ", ".join("?" * (len(COLUMNS[table]) + 1)), iter(rows)
    while part := list(islice(left, _TOGETHER)):
        into = f"INSERT {unless} INTO {table} VALUES ({'), ('.join([marks] * len(part))})"
        database.execute(into, [value for row in part for value in (*row, checksum(row))])


def change_rows(
    database: sqlite3.Connection, table: str, changes: Mapping[Any, Mapping[str, Any]]
) -> None:
    """Set columns of rows, given by key, within the current transaction."""
    columns = COLUMNS[table]
    for key, values in changes.items():
        row = row_of(database, table, key)
        if row is None:
            damaged(database, f"the row {quoted(str(key), 40)} of {table}, which is missing,")
        new = {**dict(zip(columns, row, strict=True)), **values}
        insert_rows(database, table, [tuple(new.values())], "OR REPLACE")


def write_rows(
    database: sqlite3.Connection, table: str, rows: Rows, undoable: int | None = None
) -> None:
    """Write rows with a key of one column; save the old rows under the key `undoable`."""
    if undoable is not None:
        there = rows_of(database, table, COLUMNS[table][0], list(rows))
        before = {key: _encoded(row) for key, *row in there}
        noted = [(undoable, table, _encoded([key]), before.get(key)) for key in rows]
        insert_rows(database, "erased", noted, "OR IGNORE")
    database.executemany(
        f"DELETE FROM {table} WHERE {COLUMNS[table][0]} = ?",
        [(key,) for key, row in rows.items() if row is None],
    )
    now = ((key, *row) for key, row in rows.items() if row is not None)
    insert_rows(database, table, now, "OR REPLACE")


def bring_back(database: sqlite3.Connection, decision: int) -> None:
    """Restore all rows to their state before a decision, within the current transaction."""
    before: dict[str, dict[Any, Sequence[Any] | None]] = {}
    noted = read_rows(database, "erased", "WHERE decision = ?", (decision,))
    for _, table, key, content in list(noted):
        row = None if content is None else _decoded(content)
        before.setdefault(table, {})[_decoded(key)[0]] = row
    # an id is unique among fragments, too: what goes makes room for what comes
    for table, rows in before.items():
        write_rows(database, table, dict.fromkeys(rows))
        write_rows(database, table, {key: row for key, row in rows.items() if row is not None})


def _encoded(row: Sequence[Any]) -> bytes:
    return orjson.dumps([{"b": v.hex()} if isinstance(v, bytes) else v for v in row])


def _decoded(content: bytes) -> list[Any]:
    return [bytes.fromhex(v["b"]) if isinstance(v, dict) else v for v in orjson.loads(content)]
