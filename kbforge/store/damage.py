"""Examines a store for SQLite errors, damaged rows, and broken references."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from kbforge.errors import StoreError, quoted
from kbforge.store.audit import END, broken
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.tables import COLUMNS, checksum

_MOST = 100  # findings of SQLite's own, and damaged rows that are named of each table


def refuse_damage(path: str, damage: Sequence[str]) -> None:
    """Raise a KBForgeError that names the first finding, if there are any."""
    if damage:
        more = f", and {len(damage) - 1:,} more" if len(damage) > 1 else ""
        raise StoreError(
            f"{quoted(path, 400)} is damaged: {damage[0]}{more}; kbforge check shows what is intact"
        )


def unsound(database: sqlite3.Connection) -> Iterator[str]:
    """The errors that SQLite finds: in pages, indexes, the file's header."""
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


def whole_rows(database: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...] | str]:
    """The rows of a table, and a sentence for each that is damaged."""
    bad = 0
    try:
        for row in database.execute(f"SELECT {', '.join(COLUMNS[table])}, checksum FROM {table}"):
            if checksum(row[:-1]) == row[-1]:
                yield row[:-1]
                continue
            bad += 1
            if bad <= _MOST:
                yield f"the row {quoted(str(row[0]), 40)} of {table} is damaged"
    except sqlite3.DatabaseError as error:
        yield f"{table} cannot be read to its end ({quoted(str(error).lower(), 200)})"
    if bad > _MOST:
        yield f"{bad - _MOST:,} more rows of {table} are damaged"


class References:
    """The references between rows, gathered in one pass over the tables."""

    def __init__(self) -> None:
        self._facts: dict[str, bytes] = {}
        self._homes: dict[int, int] = {}
        self._entities: list[tuple[str, int, bytes]] = []
        self._runs: list[tuple[int, int]] = []
        self._audit: list[tuple[Any, ...]] = []
        self._mentioned: set[int] = set()
        self._keys: dict[str, set[Any]] = {"page": set(), "kept": set(), "image": set()}

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """Record what other rows must agree with."""
        if table == "meta":
            self._facts[row[0]] = row[1]
        elif table == "fragment":
            self._homes[row[0]] = row[3]
        elif table == "entity":
            self._entities.append(row)
        elif table == "mention":
            self._mentioned.update(numbers_from_bytes(row[1])[::2].tolist())
        elif table == "run":
            self._runs.append((row[0], row[6]))
        elif table == "audit":
            self._audit.append(row)
        elif table in self._keys:
            self._keys[table].add(row[0])

    def amiss(self, rows: Mapping[str, int]) -> Iterator[str]:
        """Sentences about rows that are missing or contradict others; `rows` has counts by
        table."""
        if [number for number, _ in self._runs] != list(range(1, len(self._runs) + 1)):
            yield "run lacks rows"
        if not self._keys["image"] <= {number for number, _ in self._runs}:
            yield "image has rows of runs that do not exist"
        yield from broken(self._audit, self._facts.get(END))
        for home in sorted(set(self._homes.values()) - self._keys["page"]):
            yield f"page lacks subproblem {home}, which fragments name"
        held: set[int] = set()
        for entity, home, members in self._entities:
            numbers = set(numbers_from_bytes(members[: len(members) // 8 * 8]).tolist())
            if any(self._homes.get(number) != home for number in numbers) or numbers & held:
                yield f"the members of entity {quoted(entity, 40)} are not its subproblem's"
            held |= numbers
        for number in sorted(set(self._homes) - held):
            yield f"no entity holds fragment number {number}"
        for number in sorted(self._mentioned - self._homes.keys()):
            yield f"mention has fragment number {number}, which does not exist"
        if "totals" in self._facts:
            totals = _object(self._facts["totals"].partition(b"\n")[0])
            for name, table in (("n_fragments", "fragment"), ("n_subproblems", "page")):
                if totals.get(name) != (n := rows[table]):
                    yield f"{table} has {n:,} rows where the totals say {totals.get(name)}"
            if self._runs and self._runs[-1][1] != (n := rows["entity"]):
                yield f"entity has {n:,} rows where the last run says {self._runs[-1][1]}"
        if "frozen" in self._facts:
            kept = _object(self._facts["frozen"]).get("kept")
            for role, digest in (kept if isinstance(kept, dict) else {}).items():
                if digest is not None and digest not in self._keys["kept"]:
                    yield f"kept lacks what {quoted(role, 40)} learned"


def _object(content: bytes) -> dict[str, Any]:
    """A fact, or an empty one if it is not an object."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
