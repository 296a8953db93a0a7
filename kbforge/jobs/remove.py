"""`kbforge remove`: removes fragments from a store and, with --secure, erases their content.

The next program that opens the store to write finishes an interrupted erasure
(`kbforge.jobs.erasure`). So the command can be repeated, and ends with the same content.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from kbforge.errors import UsageError, quoted
from kbforge.jobs.decide import forget as forget_answers
from kbforge.jobs.erasure import ERASES, ERASING, finish_erasing
from kbforge.jobs.opening import (
    EventResult,
    OpenStore,
    locked,
    require_all,
    resume,
    unchanged,
)
from kbforge.store.assertions import forget_assertions
from kbforge.store.store import Store

REMOVES = "remove"

Opened: TypeAlias = Callable[[str, str], OpenStore]
"""Begins a run of a store, given its verb and what it is about."""


def remove(path: str, ids: Sequence[str], source: str | None = None) -> EventResult:
    """Remove fragments, and all from a source, from a store: all of them, or none.

    Fragments removed earlier are skipped, so the command can be repeated.

    Raises:
        UsageError: the store never had one of them, or has none from that source.
        LikelihoodError: the likelihood fails on the other fragments.

    """
    began = time.perf_counter()
    with locked(path) as store:
        store.require_made()
        return removed(store, ids, partial(resume, store, began=began), source)


def removed(
    store: Store, ids: Sequence[str], opened: Opened, source: str | None = None
) -> EventResult:
    """Remove fragments from an open store, as `remove`; `opened` begins a run of it."""
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
    held = opened(REMOVES, about)
    held.remove(wanted)
    held.commit(finished=True)
    return held.result(removed=len(wanted), already=False)


def _no_source(store: Store, source: str) -> UsageError:
    where = quoted(store.database.path, 400)
    return UsageError(f'{where} has no fragment from the source "{quoted(source)}"')


def erase(path: str, ids: Sequence[str], source: str | None = None) -> EventResult:
    """Remove fragments from a store and erase their content: all of them, or none.

    It also erases the remains of fragments removed earlier. Right after an erasure, fragments
    without remains are skipped, so the command can be repeated.

    Raises:
        UsageError: the store has no trace of one of them, or nothing from that source.
        KBForgeError: as `finish_erasing`; fragments removed before the error stay removed.

    """
    began = time.perf_counter()
    with locked(path) as store:
        if store.database.version is None:
            store.require_made()
        return erased(store, ids, partial(resume, store, began=began), source)


def erased(
    store: Store, ids: Sequence[str], opened: Opened, source: str | None = None
) -> EventResult:
    """Erase fragments of an open store, as `erase`; sessions opened before are outdated then.

    `opened` begins a run of it.
    """
    last, emptied = store.last_run, store.fact("choices") is None
    decided = {id for one in store.decisions() for id in (one.decision.first, one.decision.second)}
    known = {*store.pages.numbers(ids), *decided.intersection(ids), *store.had(ids)}
    of_source = [] if source is None else store.of_source(source)
    if not emptied and (last is None or last.verb != ERASES):
        require_all(store, ids, known)
        if source is not None and not of_source:
            raise _no_source(store, source)
    gone = list(dict.fromkeys([*(id for id in ids if id in known), *of_source]))
    if not gone:
        return unchanged(store, removed=0, already=True)
    run, count = _remove(store, gone, source, opened(ERASES, ""))
    finish_erasing(store)
    told = {"removed": count, "already": False}
    return EventResult(run, store.n_fragments, store.n_entities, told)


def _remove(
    store: Store, gone: Sequence[str], source: str | None, held: OpenStore
) -> tuple[int, int]:
    """The first step; returns the run's number, and the number of fragments."""
    numbers = store.pages.numbers(gone)
    forgotten = {
        one.decision.name
        for one in store.decisions()
        if not {one.first, one.second}.isdisjoint(gone)
    }
    about = [
        one
        for one in held.session.constraints.decisions
        if one.name in forgotten or not {one.first, one.second}.isdisjoint(gone)
    ]
    if about:
        held.session.lift(about)
        held.writing.followed()
    held.remove(list(numbers))
    held.writing.also(lambda rows: _forget_decisions(rows, gone))
    held.facts[ERASING] = {"fragments": len(gone), "ids": gone, "source": source}
    held.commit()
    return held.run.number, len(numbers)


def _forget_decisions(rows: sqlite3.Connection, gone: Sequence[str]) -> None:
    for id in gone:
        rows.execute("DELETE FROM decision WHERE first = ?1 OR second = ?1", (id,))
    forget_assertions(rows, {*gone})
    forget_answers(rows, set(gone))
