"""Erasing: fragments leave a store, and nothing that they said stays in its files.

After the removal the models learn again from what is left, because counts and rates had learned
from what was removed. Decisions about the fragments, images of entities that had them and what runs
were given go, too. The file is then written anew, and its log is emptied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import orjson

from kbforge.jobs.living.events import Done, remove, undo
from kbforge.jobs.living.refit import refit
from kbforge.jobs.living.reviewing import forget as forget_reported
from kbforge.store.database import Database
from kbforge.store.rows import change_rows, insert_rows, read_rows
from kbforge.store.runs import FILLS
from kbforge.store.store import Store


def erase(path: str, ids: Sequence[str], source: str | None = None) -> Done:
    """Take fragments out of a store and erase what they said.

    Args:
        path: of the store.
        ids: of fragments.
        source: all fragments from there, too.

    Raises:
        UsageError: as `remove`.
        KBForgeError: as `refit`; what is removed by then stays removed.

    """
    with Database(path) as database:
        store = Store(database)
        gone = {*ids, *([] if source is None else store.of_source(source))}
        about = [
            one.number
            for one in store.decisions()
            if one.undone is None and gone & {one.decision.first, one.decision.second}
        ]
    for number in reversed(about):
        undo(path, number)
    done = remove(path, ids, source)
    if done.fragments:
        refit(path)
    with Database(path, write=True) as database:
        database.transaction(lambda rows: _forget(rows, gone, source))
        if not done.fragments:
            database.transaction(_empty)
        database.compact()
    return done


def _forget(rows: sqlite3.Connection, gone: set[str], source: str | None) -> None:
    """Delete whatever names one of the fragments."""
    for id in gone:
        rows.execute("DELETE FROM decision WHERE first = ?1 OR second = ?1", (id,))
    forget_reported(rows)
    rows.execute("DELETE FROM erased")
    images = []
    for run, entity, told in read_rows(rows, "image"):
        ids = orjson.loads(told)
        left = [id for id in ids if id not in gone]
        if len(left) < len(ids):
            images.append((run, entity, orjson.dumps(left)))
    insert_rows(rows, "image", images, "OR REPLACE")
    names = [*gone, *([] if source is None else [source])]
    told_of = {
        number: {"about": ""}
        for number, verb, about, *_ in read_rows(rows, "run")
        # other runs were given ids, which may stand there cut and escaped
        if verb != FILLS or any(name in about for name in names)
    }
    change_rows(rows, "run", told_of)


def _empty(rows: sqlite3.Connection) -> None:
    """Delete what models learned when nothing is left to learn from: the store is as if new."""
    for table in ("meta", "kept", "page", "led", "entity", "redirect", "image", "run"):
        rows.execute(f"DELETE FROM {table}")
