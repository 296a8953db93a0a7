"""`kbforge remove`: removes fragments from a store, and with --secure their content from its files.

An erasure takes three steps, each of one transaction. The fact `ERASING` says which are left:

1. The fragments and the decisions about them go. The fact has their ids.
2. The models learn again from what is left, because counts and rates had learned from what was
   removed. Images of entities lose the fragments, and runs lose what they were given. The fact
   has no ids any more. An image says that it lost some, not which or how many: whoever follows
   the changes hears that an entity is gone or has changed, and nothing of what it was.
3. The search index is removed; the file is written anew, and its log is emptied. The fact goes.

Whoever opens a store to write finishes an erasure that was killed in between. So the command can
be given again, and ends with the same content.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from kbforge.contracts import Run
from kbforge.errors import UsageError, quoted
from kbforge.jobs.decide import forget as forget_reported
from kbforge.jobs.refit import learn
from kbforge.jobs.update import ERASING, EventResult, require_all, resume, unchanged, writable
from kbforge.kb.entities import entity_ids
from kbforge.store.database import MARK, remove_index
from kbforge.store.store import Store, known_of
from kbforge.store.tables import change_rows, insert_rows, read_rows, write_rows
from kbforge.store.writing import FILLS, begin, write_run

REMOVES = "remove"
ERASES = "remove --secure"


def remove(path: str, ids: Sequence[str], source: str | None = None) -> EventResult:
    """Take fragments, and all from a source, out of a store as if they had not come, or none.

    Fragments that were removed before are passed over, so that the command can be given again.

    Raises:
        UsageError: the store never had one of them, or has none from that source.
        LikelihoodError: the likelihood fails on what is left.

    """
    began = time.perf_counter()
    with writable(path) as store:
        store.require_made()
        about = ", ".join([*ids[:10], *([] if source is None else [f"source {source}"])])
        known = store.pages.numbers(ids)
        missing = [id for id in ids if id not in known]
        require_all(store, missing, store.had(missing, REMOVES))
        of_source = [] if source is None else store.of_source(source)
        if source is not None and not of_source:
            before = [run for run in store.runs() if (run.verb, run.about) == (REMOVES, about)]
            if not before:
                raise _no_source(store, source)
        wanted = list(dict.fromkeys([*(id for id in ids if id in known), *of_source]))
        if not wanted:
            return unchanged(store, removed=0, already=True)
        held = resume(store, REMOVES, about, began)
        numbers = store.pages.numbers(wanted)
        held.session.remove(wanted)
        held.writing.removed({number: id for id, number in numbers.items()})
        held.run.removed += len(wanted)
        held.commit(finished=True)
        return held.result(removed=len(wanted), already=False)


def _no_source(store: Store, source: str) -> UsageError:
    where = quoted(store.database.path, 400)
    return UsageError(f'{where} has no fragment from the source "{quoted(source)}"')


def erase(path: str, ids: Sequence[str], source: str | None = None) -> EventResult:
    """Take fragments out of a store and erase what they said: all of them, or none.

    Of fragments that were removed before, it erases what is left. Right after an erasure, fragments
    of which nothing is there are passed over, so that the command can be given again.

    Raises:
        UsageError: the store has nothing of one of them, or nothing from that source.
        KBForgeError: as `finish`; what is removed by then stays removed.

    """
    began = time.perf_counter()
    with writable(path) as store:
        if store.database.version is None:
            store.require_made()
        last, emptied = store.last_run, store.fact("choices") is None
        decided = {
            id for one in store.decisions() for id in (one.decision.first, one.decision.second)
        }
        known = {*store.pages.numbers(ids), *decided.intersection(ids), *store.had(ids)}
        of_source = [] if source is None else store.of_source(source)
        if not emptied and (last is None or last.verb != ERASES):
            require_all(store, ids, known)
            if source is not None and not of_source:
                raise _no_source(store, source)
        gone = list(dict.fromkeys([*(id for id in ids if id in known), *of_source]))
        if not gone:
            return unchanged(store, removed=0, already=True)
        run, removed = _remove(store, gone, source, began)
        finish(store)
        told = {"removed": removed, "already": False}
        return EventResult(run, store.n_fragments, store.n_entities, told)


def _remove(store: Store, gone: Sequence[str], source: str | None, began: float) -> tuple[int, int]:
    """The first step; returns the number of the run, and of fragments."""
    held = resume(store, ERASES, "", began)
    numbers = store.pages.numbers(gone)
    about = [
        one.decision
        for one in store.decisions()
        if one.undone is None and not {one.decision.first, one.decision.second}.isdisjoint(gone)
    ]
    if about:
        held.session.lift(about)
        held.writing.followed()
    held.session.remove(list(numbers))
    held.writing.removed({number: id for id, number in numbers.items()})
    held.writing.also(lambda rows: _forget_decisions(rows, gone))
    held.run.removed += len(numbers)
    held.facts[ERASING] = {"fragments": len(gone), "ids": gone, "source": source}
    held.commit()
    return held.run.number, len(numbers)


def finish(store: Store) -> None:
    """Take the steps of an erasure that are left.

    Raises:
        KBForgeError: as `prepare`, or the file cannot be written anew; it stays to be finished.
        LikelihoodError: no particle of a subproblem is possible any more; likewise.

    """
    pending = store.fact(ERASING)
    if pending["ids"] is not None:
        gone, source = set(pending["ids"]), pending["source"]
        rest = {**pending, "ids": None, "source": None}
        if store.n_fragments:
            run = begin(store, ERASES, "", time.perf_counter())
            learned = learn(store)
            learned.facts[ERASING] = rest
            learned.write(store, run, False, also=lambda rows: _forget(rows, gone, source))
        else:
            store.database.transaction(lambda rows: _empty(rows, gone, source, rest))
    remove_index(store.database.path)
    store.database.compact()
    store.database.transaction(lambda rows: _end(rows, store.last_run))


def _forget_decisions(rows: sqlite3.Connection, gone: Sequence[str]) -> None:
    for id in gone:
        rows.execute("DELETE FROM decision WHERE first = ?1 OR second = ?1", (id,))
    forget_reported(rows)


def _forget(rows: sqlite3.Connection, gone: set[str], source: str | None) -> None:
    """Delete what images, redirects and runs tell of the fragments.

    The entity of an authority had the id of a fragment, and is told by a digest of it.
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


def _empty(
    rows: sqlite3.Connection, gone: set[str], source: str | None, rest: Mapping[str, object]
) -> None:
    """Delete what models learned when nothing is left to learn from.

    The store is as if new, but for the numbers of its runs and the ids that entities had: whoever
    follows the changes goes on.
    """
    _forget(rows, gone, source)
    rows.execute("DELETE FROM meta WHERE name <> ?", (MARK,))
    for table in ("kept", "page", "led", "entity", "redirect", "confidence", "stale"):
        rows.execute(f"DELETE FROM {table}")
    write_rows(rows, "meta", {ERASING: (orjson.dumps(rest),)})


def _end(rows: sqlite3.Connection, last: Run | None) -> None:
    write_rows(rows, "meta", {ERASING: None})
    if last is not None:
        write_run(rows, replace(last, finished=True))
