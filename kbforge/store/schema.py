"""The tables of a store, its version, and the update of an older store.

| table | a row is |
|---|---|
| meta | a fact of the whole: what was chosen, the session's totals, figures of drift |
| kept | what a model has learned, under the digest of its content |
| fragment | a fragment: its number in the session, its place among the others, where it is now |
| page | a subproblem with its particles (`kbforge.contracts.Page`) |
| led | a key of the index, and the families of clusters that it leads to |
| entity | an entity of the most probable grouping, and the subproblem that holds it |
| redirect | an id that an entity had, and the ids of those that have its fragments now |
| image | what an entity was when a run first changed it |
| run | a command that wrote |
| decision | what was decided of two fragments, and whether it was undone |
| confidence | an entity by the number of its first fragment: its size, what is reported, and the
confidence |
| stale | a subproblem that changed since the confidence of its entities was told |
| erased | a row as it was before a decision: undoing the last one brings back the exact state |

Each row ends with its checksum, see `kbforge.store.rows`, whose functions read and write all rows.

A place is what orders fragments for people: one that replaces another takes its place.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sqlite3
from collections.abc import Callable, Sequence

from kbforge.errors import KBForgeError, quoted
from kbforge.store.rows import COLUMNS, insert_rows

APPLICATION = 0x4B424647  # "KBFG"
VERSION = 2

_OLDER = ("4220418b50fe0120099afddc30546b98f74e2e186113c509763656a3952a7827",)
"""The digest of `_schema_of` each older version."""
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
CREATE TABLE entity (
    id TEXT PRIMARY KEY,
    subproblem INTEGER NOT NULL,
    members BLOB NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX entity_subproblem ON entity (subproblem);
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
CREATE TABLE erased (
    decision INTEGER NOT NULL,
    name TEXT NOT NULL,
    key BLOB NOT NULL,
    content BLOB,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (decision, name, key)
) WITHOUT ROWID;
"""


def create(database: sqlite3.Connection) -> None:
    """Make the tables, within the transaction at hand."""
    _make_tables(database)
    database.execute(f"PRAGMA application_id = {APPLICATION}")
    database.execute(f"PRAGMA user_version = {VERSION}")


def version_of(database: sqlite3.Connection, path: str) -> int | None:
    """The version of a store; None if nothing has been put into the file.

    Raises:
        KBForgeError: it is a database of another program, or of a later version of this one.

    """
    if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return None
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version: int = database.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise KBForgeError(
            f"{quoted(path, 400)}: expected a store of kbforge cluster --into, got a database of "
            "another program"
        )
    if not 0 < version <= VERSION:
        raise KBForgeError(
            f"{quoted(path, 400)} is a store of version {version}, and this program knows versions "
            f"1 to {VERSION}; "
            + ("install a newer kbforge" if version > VERSION else "it is damaged: use a copy")
        )
    _require_tables(database, path, version)
    return version


def _require_tables(database: sqlite3.Connection, path: str, version: int) -> None:
    """Refuse whatever a store of this version does not have: a view or a trigger runs code.

    Raises:
        KBForgeError: a table, a column or an index is missing, or is there beside these.

    """
    told = _schema_of(database)
    if version == VERSION:
        same = tuple(told) == _schema_of_today()
    else:
        same = hashlib.sha256(repr(told).encode()).hexdigest() == _OLDER[version - 1]
    if not same:
        today = dict(_schema_of_today())
        strange = [name for name, sql in told if version == VERSION and today.get(name) != sql]
        missing = [name for name in today if name not in dict(told)]
        what = f" ({quoted(', '.join([*strange, *missing]), 100)})" if strange or missing else ""
        raise KBForgeError(
            f"{quoted(path, 400)}: expected the tables of a store of version {version}, got "
            f"others{what}; it is damaged or was changed by another program: use a copy"
        )


def _schema_of(database: sqlite3.Connection) -> list[tuple[str, str]]:
    """By name, the statements that made all that there is in a database."""
    rows = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return sorted((f"{kind} {name} of {table}", f"{sql}") for kind, name, table, sql in rows)


@functools.cache
def _schema_of_today() -> tuple[tuple[str, str], ...]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        _make_tables(database)
        return tuple(_schema_of(database))


def migrate(database: sqlite3.Connection, version: int) -> None:
    """Bring a store up to today's version, within the transaction at hand."""
    for step in _MIGRATIONS[version - 1 :]:
        step(database)
    database.execute(f"PRAGMA user_version = {VERSION}")


def _make_tables(database: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";"):
        if statement.strip():
            database.execute(statement)


def _from_1(database: sqlite3.Connection) -> None:
    """Make the tables anew, whose rows have checksums, and copy the rows."""
    for (index,) in database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND name NOT LIKE 'sqlite_%'"
    ).fetchall():
        database.execute(f"DROP INDEX {index}")
    there = "SELECT name FROM sqlite_master WHERE type = 'table'"
    tables = [name for (name,) in database.execute(there) if name in COLUMNS]
    for table in tables:
        database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    _make_tables(database)
    for table in tables:
        columns = COLUMNS[table]
        old = database.execute(f"SELECT {', '.join(columns)} FROM old_{table}")
        insert_rows(database, table, old)
        database.execute(f"DROP TABLE old_{table}")
    pages = database.execute("SELECT name FROM page").fetchall()
    insert_rows(database, "stale", pages)


_MIGRATIONS: Sequence[Callable[[sqlite3.Connection], None]] = (_from_1,)
"""The k-th makes a store of version k one of version k + 1, within the transaction at hand."""
