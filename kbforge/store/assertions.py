"""What persons assert about the fragments of a store (`kbforge.kb.assertions`).

The fact `ASSERTED:ID` has the assertions about the fragment ID, each with the number of the
decision that made it; the fact `ASSERTED` differs after each change, also after one that was only
rehearsed. Assertions stay if the fragment is removed, as decisions do, and hold again if it comes
back.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import orjson

from kbforge.contracts import DecisionRecord, Fragment
from kbforge.store.tables import insert_rows, read_rows, row_of, rows_of, write_rows

ASSERTED = "asserted"


def assertions_of(rows: sqlite3.Connection, ids: Sequence[str]) -> list[Fragment]:
    """What persons assert about fragments, the last one last."""
    if row_of(rows, "meta", ASSERTED) is None:
        return []
    told = rows_of(rows, "meta", "name", [f"{ASSERTED}:{id}" for id in ids])
    numbered = sorted((one for row in told for one in orjson.loads(row[1])), key=lambda one: one[0])
    return [Fragment.from_json(said, "the store") for _, said in numbered]


def write_assertion(
    rows: sqlite3.Connection, decided: DecisionRecord, assertion: Fragment | None
) -> None:
    """Keep what a decision asserts, so that undoing the decision restores the state; without an
    assertion, withdraw it. Within the current transaction."""
    key, number = f"{ASSERTED}:{decided.first}", decided.number
    there = row_of(rows, "meta", key)
    left = [one for one in orjson.loads(there[1] if there else b"[]") if one[0] != number]
    if assertion is not None:
        left.append([number, assertion.to_json()])
    _write(rows, key, left, None if assertion is None else number)


def forget_assertions(rows: sqlite3.Connection, gone: Collection[str]) -> None:
    """Delete the assertions about fragments, and those with these ids, within a transaction."""
    begin, end = f"{ASSERTED}:", f"{ASSERTED};"
    for key, content in list(read_rows(rows, "meta", "WHERE name > ? AND name < ?", (begin, end))):
        left = [one for one in orjson.loads(content) if one[1]["id"] not in gone]
        _write(rows, key, [] if key.removeprefix(begin) in gone else left)


def _write(
    rows: sqlite3.Connection, key: str, left: Sequence[Any], undoable: int | None = None
) -> None:
    changed = (orjson.dumps(secrets.token_hex(8)),)
    facts = {key: (orjson.dumps(left),) if left else None, ASSERTED: changed}
    write_rows(rows, "meta", facts, undoable)


def note_changes(
    rows: sqlite3.Connection, run: int, entities: Iterable[tuple[str, Sequence[str]]]
) -> None:
    """Note that a run changed entities otherwise than in their fragments: as an erasure, whose
    images end with None. Within the current transaction."""
    images = ((run, id, orjson.dumps([*fragments, None])) for id, fragments in entities)
    insert_rows(rows, "image", images, "OR IGNORE")
