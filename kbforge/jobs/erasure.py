"""Erases the content of removed fragments: the steps that follow the removal.

An erasure takes three steps, each of one transaction. The fact `ERASING` records which are left:

1. The fragments and the decisions about them are deleted (`kbforge.jobs.remove`). The fact has
   their ids.
2. The models learn again from the other fragments, because counts and rates had learned from the
   removed ones. Images of entities lose the fragments, and runs lose their inputs. The fact has no
   ids any more. An image records that it lost some, not which or how many: a reader of the changes
   learns only that an entity is gone or has changed.
3. The search index is removed, the file is rewritten, and its log is emptied. The fact is deleted.

The next program that opens the store to write finishes an interrupted erasure.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from kbforge.contracts import Run
from kbforge.kb.entities import entity_ids
from kbforge.store.audit import END, audit_of
from kbforge.store.changes import known_of
from kbforge.store.database import MARK, remove_index
from kbforge.store.store import Store
from kbforge.store.tables import change_rows, insert_rows, read_rows, write_rows
from kbforge.store.writing import FILLS, begin, write_run

ERASES = "remove --secure"
"""The verb of erasing runs."""
ERASING = "erasing"
"""The fact that an erasure has begun and not ended; see above."""


def finish_erasing(store: Store) -> None:
    """Finish an erasure, if one was begun.

    Raises:
        KBForgeError: as `prepare`, or the file cannot be rewritten; the erasure stays unfinished.
        LikelihoodError: no particle of a subproblem is possible; it stays unfinished.

    """
    pending = None if store.database.version is None else store.fact(ERASING)
    if pending is None:
        return
    if pending["ids"] is not None:
        gone, source = set(pending["ids"]), pending["source"]
        rest = {**pending, "ids": None, "source": None}
        if store.n_fragments:
            from kbforge.jobs.refit import learn  # .3 s to import, and few erase

            run = begin(store, ERASES, "", time.perf_counter())
            learned = learn(store)
            learned.facts[ERASING] = rest
            learned.write(store, run, False, also=lambda rows: _forget(rows, gone, source))
        else:
            store.database.transaction(lambda rows: _empty(rows, gone, source, rest))
    remove_index(store.database.path)
    store.database.compact()
    store.database.transaction(lambda rows: _end(rows, store.last_run))


def _forget(rows: sqlite3.Connection, gone: set[str], source: str | None) -> None:
    """Delete the fragments from images, redirects and runs.

    The id of an authority's entity is that of one of its fragments, so a digest replaces it.
    """
    images = []
    for run, entity, told in list(read_rows(rows, "image")):
        ids = orjson.loads(told)
        left = [id for id in known_of(ids) if id not in gone]
        if entity in gone:
            rows.execute("DELETE FROM image WHERE run = ? AND entity = ?", (run, entity))
            entity = next(entity_ids(entity))
        elif len(left) == len(ids):
            continue
        images.append((run, entity, orjson.dumps([*left, None])))
    insert_rows(rows, "image", images, "OR REPLACE")
    leads = {id: orjson.loads(targets) for id, targets in read_rows(rows, "redirect")}
    ended = {id: leads.pop(id) for id in gone.intersection(leads)}
    now: dict[str, tuple[bytes] | None] = dict.fromkeys(ended)
    for id, targets in leads.items():
        found = list(targets)
        for to in found:  # which grows: it leads where an id led that has ended
            found += [one for one in ended.get(to, ()) if one not in found]
        found = [to for to in found if to not in ended]
        if found != targets or not found:
            now[id] = (orjson.dumps(found),) if found else None
    write_rows(rows, "redirect", now)
    names = [*gone, *([] if source is None else [source])]
    told_of = {
        number: {"about": ""}
        for number, verb, about, *_ in read_rows(rows, "run")
        # other runs were given ids, which may stand there cut and escaped
        if verb != FILLS or any(name in about for name in names)
    }
    change_rows(rows, "run", told_of)
    _forget_said(rows, gone, names)


def _forget_said(rows: sqlite3.Connection, gone: set[str], names: Sequence[str]) -> None:
    """Empty what lines of the audit say of the fragments; their digests keep the chain."""
    emptied: dict[int, dict[str, bytes]] = {}
    for line in audit_of(rows):
        said = line.said or {}
        if "a" in said:
            tells = said["a"] in gone or said["b"] in gone
        else:
            about = said.get("about", "")
            tells = about and (line.verb != FILLS or any(name in about for name in names))
        if tells or any(name in said.get("note", "") for name in names):
            emptied[line.number] = {"said": b""}
    change_rows(rows, "audit", emptied)


def _empty(
    rows: sqlite3.Connection, gone: set[str], source: str | None, rest: Mapping[str, object]
) -> None:
    """Delete what models learned if there are no fragments left to learn from.

    The store is like a new one, except that the numbers of its runs and the ids of former entities
    are not reused, so readers of the changes can continue.
    """
    _forget(rows, gone, source)
    rows.execute("DELETE FROM meta WHERE name NOT IN (?, ?)", (MARK, END))
    for table in ("kept", "page", "led", "mention", "entity", "redirect", "confidence", "stale"):
        rows.execute(f"DELETE FROM {table}")
    write_rows(rows, "meta", {ERASING: (orjson.dumps(rest),)})


def _end(rows: sqlite3.Connection, last: Run | None) -> None:
    write_rows(rows, "meta", {ERASING: None})
    if last is not None:
        write_run(rows, replace(last, finished=True))
