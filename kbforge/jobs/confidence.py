"""Recomputes the confidence of a store's changed entities when a run ends.

Most of a map's inputs describe the entity itself. Others describe the file: how rare words and
values are, which attributes name entities, the expected quality of groupings. These are read once
all fragments that the models learned from are in, and are then frozen until `kbforge refit`. A map
also compares an entity with others like it. In a store with few fragments, or after many changes,
it compares with all, and recomputes all entities. Otherwise it compares with those that share index
keys, and entities of unchanged subproblems keep their confidence.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from kbforge.contracts import (
    CandidateIndex,
    Fragment,
    IntArray,
    LearnedState,
    Posterior,
    Snapshot,
)
from kbforge.errors import OutputError
from kbforge.evaluation.reliability import BoolArray, ReportedEntities, entity_probabilities
from kbforge.files.columns import statements_of
from kbforge.fit.choices import PreparedRun
from kbforge.fit.confidence import (
    ConfidenceMap,
    reads_whole,
    told_of_entities,
    whole_of,
    with_whole,
)
from kbforge.fit.features import ClusteringReport
from kbforge.jobs.models import restore
from kbforge.kb.facts import facts_to_keep
from kbforge.kb.pools import Pools
from kbforge.kb.relations import Relations
from kbforge.kb.times import StatedTimes
from kbforge.store.database import Database
from kbforge.store.pages import columns_of_pages, page_from_bytes, subproblems_of
from kbforge.store.store import FACTS, Confidences, Store, kept_row
from kbforge.store.tables import ask, insert_rows, read_rows, rows_of, write_rows

WHOLE = "whole"
"""The fact with the digest of the frozen figures."""
_FEW = 2000  # fragments, all of which are compared with
_SHARE = 10  # if one in so many has changed, all are compared with


@dataclass(frozen=True, slots=True)
class _Report:
    """Reported figures of some subproblems."""

    numbers: IntArray  # of the fragments, by place among them, shape [fragments]
    reported: ClusteringReport
    names: Sequence[int]  # of the subproblems, as `reported` numbers them
    told: frozenset[int]  # the subproblems whose entities get a new confidence

    def firsts(self) -> IntArray:
        """The smallest number of each entity's fragments, shape [entities]."""
        entities = self.reported.entities
        numbers = self.numbers[entities.members]
        return np.minimum.reduceat(numbers, np.cumsum(entities.lengths) - entities.lengths)


def write_confidence(
    store: Store,
    rows: sqlite3.Connection,
    reading: ConfidenceMap | None,
    index: CandidateIndex | None,
    undoable: int | None = None,
    most: int | None = None,
    begun: Snapshot | None = None,
) -> None:
    """Recompute the confidence of the entities that changed, within the current transaction.

    Without a map (`reading`) entities keep the reported probability. `index` finds entities to
    compare with; `undoable` is as in `kbforge.store.tables.write_rows`. At `most` this many of the
    changed subproblems are recomputed, unless the frozen figures have not been read yet. `begun` is
    all that the store has, if it was filled in this transaction.
    """
    digest = store.fact(WHOLE)
    limit = -1 if most is None or digest is None else most
    stale = [name for (name,) in read_rows(rows, "stale", "ORDER BY subproblem LIMIT ?", (limit,))]
    if not stale:
        return
    if is_due := store.fact(FACTS, "") is None:
        stale = [name for (name,) in ask(rows, "SELECT name FROM page ORDER BY name")]
    report = _report(store, stale, reading, index, digest is not None, begun)
    if reading is not None and digest is None:
        _keep(rows, WHOLE, whole_of(reading, report.reported))
    if is_due:
        _keep(rows, FACTS, _facts_of(store, report))
    found = _confidence(store, reading, report)
    entities = report.reported.entities
    numbers = report.numbers[entities.members]
    names = np.array(report.names, np.int64)[entities.subproblem]
    changed = np.isin(names, np.array(sorted(report.told), np.int64))
    columns = (
        *(report.firsts(), names, entities.lengths),
        *(entities.probability, np.array(found)),
    )
    rows_now = zip(*(column[changed].tolist() for column in columns), strict=True)
    told = {first: tuple(row) for first, *row in rows_now}
    own = numbers[np.repeat(changed, entities.lengths)].tolist()
    before = {first: tuple(row) for first, *row in rows_of(rows, "confidence", "first", own)}
    now: dict[int, Sequence[float] | None] = {first: None for first in before if first not in told}
    now |= {first: row for first, row in told.items() if before.get(first) != row}
    write_rows(rows, "confidence", now, undoable)
    write_rows(rows, "stale", dict.fromkeys(stale), undoable)


def confidence_of(
    store: Store, names: Sequence[int], prepared: PreparedRun | None = None
) -> Confidences:
    """The confidence of the entities of changed subproblems, by first fragment; reads only.

    `prepared` are the store's models, if they are loaded.
    """
    if prepared is None:
        prepared, _ = restore(store, confidence=True)
    index = prepared.models.index
    known = store.fact(WHOLE) is not None
    report = _report(store, names, prepared.confidence, index, known)
    found = _confidence(store, prepared.confidence, report)
    return dict(zip(report.firsts().tolist(), found, strict=True))


def complete_confidence(path: str) -> None:
    """Compute confidences that a killed run or an older version left out, if the store can be
    written now."""
    with Database(path) as database:
        store = Store(database)
        if not store.has_stale:
            return
        runs = store.runs()
        if not store.has_session or not runs or not runs[-1].finished:
            return  # the run that goes on will tell it
    try:
        written = Database(path, write=True)
    except OutputError:
        return
    with written as database:
        store = Store(database)
        prepared, _ = restore(store, confidence=True)
        last = store.fact("last")
        database.transaction(
            lambda rows: write_confidence(
                store, rows, prepared.confidence, prepared.models.index, last
            )
        )


def _confidence(store: Store, reading: ConfidenceMap | None, report: _Report) -> Sequence[float]:
    digest = store.fact(WHOLE)
    if reading is not None and digest is not None:
        reading = with_whole(reading, store.kept(digest))
    decisions = store.pages.totals.constraints.decisions
    return list(told_of_entities(reading, report.reported, decisions).tolist())


def _keep(rows: sqlite3.Connection, fact: str, learned: LearnedState | None) -> None:
    """Save figures of the whole file, if there are any, and their digest as a fact."""
    if learned is not None:
        digest, content = kept_row(learned)
        insert_rows(rows, "kept", [(digest, content)], "OR REPLACE")
        write_rows(rows, "meta", {fact: (orjson.dumps(digest),)})


def _facts_of(store: Store, report: _Report) -> LearnedState:
    """What says how probable values in question are, based on the report of all."""
    fragments, of = report.reported.fragments, report.reported.entities
    entities = np.empty(len(fragments), np.int64)
    entities[of.members] = report.firsts().repeat(of.lengths)
    together = StatedTimes(fragments, store.time).together(entities)
    refer = sorted(store.corpus.refer)
    relations = Relations.of(fragments, entities, refer) if refer else None
    pools = Pools.of(statements_of(fragments), entities, relations)
    return facts_to_keep(fragments, entities, store.corpus, together, pools)


def _report(
    store: Store,
    stale: Sequence[int],
    reading: ConfidenceMap | None,
    index: CandidateIndex | None,
    known: bool,
    begun: Snapshot | None = None,
) -> _Report:
    """The reported figures of subproblems and of those to compare them with."""
    connection = store.database.connection
    names, told = [*stale], frozenset(stale)
    n = store.n_fragments
    if begun is None and reading is not None and reads_whole(reading):
        changed = _members(store, stale)
        if not known or index is None or n <= _FEW or _SHARE * len(changed) >= n:
            names = [name for (name,) in ask(connection, "SELECT name FROM page")]
            told = frozenset(names)
        else:
            names += _near(store, changed, index)
    names = sorted({*names})
    fragments: Sequence[Fragment]
    if begun is not None:
        numbers, fragments = np.arange(n), begun.fragments
        subproblems = subproblems_of(connection, begun.pages, numbers)
    else:
        rows = rows_of(connection, "page", "name", names)
        pages = sorted((name, page_from_bytes(name, content)) for name, _, content in rows)
        numbers, fragments, subproblems = columns_of_pages(connection, [page for _, page in pages])
    posterior = Posterior(subproblems, float("nan"), len(fragments), 0)
    entities = entity_probabilities([posterior])
    placed = None if n <= _FEW else _changed(entities, names, {*stale}, len(fragments))
    reported = ClusteringReport(fragments, entities, placed, statements_of(fragments))
    return _Report(numbers, reported, names, told)


def _changed(
    entities: ReportedEntities, names: Sequence[int], stale: set[int], n: int
) -> BoolArray:
    out = np.zeros(n, np.bool_)
    changed = np.isin(np.array(names)[entities.subproblem], np.array(sorted(stale)))
    out[entities.members[np.repeat(changed, entities.lengths)]] = True
    return out


def _members(store: Store, names: Iterable[int]) -> list[int]:
    rows = rows_of(store.database.connection, "page", "name", list(names))
    pages = (page_from_bytes(name, content) for name, _, content in rows)
    return sorted({number for page in pages for number in page.members.tolist()})


def _near(store: Store, numbers: Sequence[int], index: CandidateIndex) -> list[int]:
    """The subproblems that keys of fragments lead to; a closed key leads nowhere."""
    fragments: Sequence[Fragment] = list(store.pages.fragments(numbers).values())
    keys = np.unique(index.keys_of(fragments)[1]).tolist()
    postings = store.pages.postings(keys).values()
    families = sorted({family for one in postings if not one.closed for family in one.families})
    return sorted(set(store.pages.homes(families).values()))
