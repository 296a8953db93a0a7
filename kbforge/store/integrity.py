"""Integrity of a store: its pages, every row, and the references between rows.

A small store is examined whenever it is opened, so that a flipped bit anywhere in it is noticed
before anything is answered. Of a large one every row that is read is verified, and `kbforge check`
examines it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kbforge.errors import KBForgeError, quoted
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.rows import COLUMNS, checksum

SMALL = 16_000_000
"""Bytes of a file that is examined when it is opened, which takes a second for 100 MB."""
_MOST = 100  # findings of SQLite's own, and damaged rows that are named of each table


@dataclass(frozen=True, slots=True)
class Examination:
    """What a store is like.

    Attributes:
        path: of the file.
        version: of its tables.
        rows: by table, how many can be read and are as they were written.
        damage: sentences; none if it is whole.

    """

    path: str
    version: int
    rows: Mapping[str, int]
    damage: tuple[str, ...]

    def require_whole(self) -> None:
        """Refuse a store that is damaged anywhere.

        Raises:
            KBForgeError: it is.

        """
        _refuse(self.path, self.damage)

    def to_json(self) -> dict[str, Any]:
        """All by name."""
        return {
            "path": self.path,
            "version": self.version,
            "whole": not self.damage,
            "rows": dict(self.rows),
            "damage": list(self.damage),
        }


def examine(database: sqlite3.Connection, path: str, version: int) -> Examination:
    """Read all of a store.

    Args:
        database: to read, with the tables of today's version.
        path: of the file.
        version: of its tables.

    """
    damage = list(_unsound(database))
    rows: dict[str, int] = {}
    seen = _CrossChecks()
    for table in COLUMNS:
        rows[table] = 0
        for found in _rows(database, table):
            if isinstance(found, str):
                damage.append(found)
            else:
                rows[table] += 1
                seen.take(table, found)
    if not damage:
        damage.extend(seen.amiss(rows))
    return Examination(path, version, rows, tuple(damage))


def require_sound(database: sqlite3.Connection, path: str) -> None:
    """Refuse a file whose pages are damaged, as SQLite sees them.

    Raises:
        KBForgeError: they are.

    """
    _refuse(path, tuple(_unsound(database)))


def _refuse(path: str, damage: tuple[str, ...]) -> None:
    if damage:
        more = f", and {len(damage) - 1:,} more" if len(damage) > 1 else ""
        raise KBForgeError(
            f"{quoted(path, 400)} is damaged: {damage[0]}{more}; kbforge check says what is intact"
        )


def _unsound(database: sqlite3.Connection) -> Iterator[str]:
    """What SQLite finds amiss: pages, indexes, the file's header."""
    try:
        for pragma, expected in (("encoding", "UTF-8"), ("auto_vacuum", 0)):
            got = database.execute(f"PRAGMA {pragma}").fetchone()[0]
            if got != expected:
                yield f"its header says {pragma} {quoted(str(got))}"
        for (said,) in database.execute(f"PRAGMA integrity_check({_MOST})"):
            if said != "ok":
                yield quoted(said.replace("\n", "; "), 200)
    except sqlite3.DatabaseError as error:
        yield quoted(str(error).lower(), 200)


def _rows(database: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...] | str]:
    """The rows of a table, and a sentence for each that is damaged."""
    bad = 0
    try:
        for row in database.execute(f"SELECT {', '.join(COLUMNS[table])}, checksum FROM {table}"):
            told = row[:-1]
            if checksum(told) == row[-1]:
                yield told
                continue
            bad += 1
            if bad <= _MOST:
                yield f"the row {quoted(str(row[0]), 40)} of {table} is not as it was written"
    except sqlite3.DatabaseError as error:
        yield f"{table} cannot be read to its end ({quoted(str(error).lower(), 200)})"
    if bad > _MOST:
        yield f"{bad - _MOST:,} more rows of {table} are not as they were written"


class _CrossChecks:
    """What rows say of each other, gathered in one pass over the tables."""

    def __init__(self) -> None:
        self._facts: dict[str, bytes] = {}
        self._homes: dict[int, int] = {}
        self._pages: set[int] = set()
        self._kept: set[str] = set()
        self._members: list[tuple[str, int, bytes]] = []
        self._runs: list[tuple[int, int]] = []
        self._mentioned: set[int] = set()

    def take(self, table: str, row: tuple[Any, ...]) -> None:
        """Note what other rows must agree with."""
        if table == "meta":
            self._facts[row[0]] = row[1]
        elif table == "fragment":
            self._homes[row[0]] = row[3]
        elif table == "page":
            self._pages.add(row[0])
        elif table == "kept":
            self._kept.add(row[0])
        elif table == "entity":
            self._members.append(row)
        elif table == "run":
            self._runs.append((row[0], row[6]))
        elif table == "image":
            self._mentioned.add(row[0])

    def amiss(self, rows: Mapping[str, int]) -> Iterator[str]:
        """Rows that are missing, or do not agree with others."""
        if [number for number, _ in self._runs] != list(range(1, len(self._runs) + 1)):
            yield "run lacks rows"
        if not self._mentioned <= {number for number, _ in self._runs}:
            yield "image has rows of runs that do not exist"
        for home in sorted(set(self._homes.values()) - self._pages):
            yield f"page lacks subproblem {home}, which fragments name"
        yield from self._entities()
        if "totals" in self._facts:
            yield from self._totals(rows)
        if "frozen" in self._facts:
            yield from self._frozen()

    def _entities(self) -> Iterator[str]:
        held: set[int] = set()
        for entity, home, members in self._members:
            numbers = set(numbers_from_bytes(members[: len(members) // 8 * 8]).tolist())
            if any(self._homes.get(number) != home for number in numbers) or numbers & held:
                yield f"the members of entity {quoted(entity, 40)} are not its subproblem's"
            held |= numbers
        for number in sorted(set(self._homes) - held):
            yield f"no entity holds fragment number {number}"

    def _totals(self, rows: Mapping[str, int]) -> Iterator[str]:
        told = _object(self._facts["totals"].partition(b"\n")[0])
        for name, table in (("n_fragments", "fragment"), ("n_subproblems", "page")):
            if told.get(name) != rows[table]:
                yield f"{table} has {rows[table]:,} rows where the totals say {told.get(name)}"
        if self._runs and self._runs[-1][1] != rows["entity"]:
            yield f"entity has {rows['entity']:,} rows where the last run says {self._runs[-1][1]}"

    def _frozen(self) -> Iterator[str]:
        kept = _object(self._facts["frozen"]).get("kept")
        roles = kept if isinstance(kept, dict) else {}
        for role, digest in roles.items():
            if digest is not None and digest not in self._kept:
                yield f"kept lacks what {quoted(role, 40)} learned"


def _object(content: bytes) -> dict[str, Any]:
    """A fact; an empty one if it is no object."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
