"""Opens a store to write: lock, recovery, models and session, for all verbs that write."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kbforge.contracts import DecisionRecord, Fragment, IntArray, OnlineClusterer, OnStep, Snapshot
from kbforge.errors import NotFoundError, quoted
from kbforge.fit.choices import PreparedRun, RunOptions
from kbforge.jobs.erasure import finish_erasing
from kbforge.jobs.models import Drift, freeze, reading_of, restore, seen_of
from kbforge.store.database import Database, is_store
from kbforge.store.store import Store
from kbforge.store.tables import insert_rows
from kbforge.store.writing import KNOWN, StoreWriter, begin, write_run

if TYPE_CHECKING:
    from kbforge.fit.confidence import ConfidenceMap

COMMIT_SECONDS = 1.0
"""Minimum time between two transactions, in seconds."""
COMMIT_SHARE = 0.05
"""Maximum share of time for transactions: rows are spread over the tables, so each writes much."""
COMMIT_LATEST = 30.0
"""Maximum time between transactions, in seconds: a crash loses at most these."""
COMMIT_FRAGMENTS = 100_000
"""Maximum number of steps between transactions, because their results stay in memory."""


@dataclass(frozen=True, slots=True)
class EventResult:
    """What a command did to a store."""

    run: int  # its number or, if nothing changed, that of the last run
    fragments: int  # the number now
    entities: int  # the number now
    told: Mapping[str, Any]  # figures of the command, by name

    def summary(self) -> dict[str, Any]:
        """The summary of the verb's `--json`."""
        return {
            "run": self.run,
            "fragments": self.fragments,
            "entities": self.entities,
            **self.told,
        }


@contextlib.contextmanager
def locked(path: str, make: bool = False) -> Iterator[Store]:
    """A store, locked for writing until the end; an interrupted erasure is finished first.

    With `make`, a missing store is created, and has no tables yet.

    Raises:
        KBForgeError: it cannot be opened, is written by another program, or is not a store.

    """
    if not make and not is_store(path):
        Database(path).close()  # says what is wrong
    with Database(path, write=True) as database:
        store = Store(database)
        finish_erasing(store)
        yield store


@contextlib.contextmanager
def opened(path: str, verb: str, about: str) -> Iterator[OpenStore]:
    """A store, open for a run; the verb and its inputs are for readers of the log."""
    began = time.perf_counter()
    with locked(path) as store:
        store.require_made()
        yield resume(store, verb, about, began)


def resume(store: Store, verb: str, about: str, began: float) -> OpenStore:
    """Open a store with its saved models; arguments as for `OpenStore`."""
    prepared, choices = restore(store)
    return OpenStore(store, prepared, choices, verb, about, began)


class OpenStore:
    """A store open for writing: its models, its session and the current run.

    `about` describes the run's inputs to readers. The run's seconds count from `began`, by
    `time.perf_counter`. `facts` are written at the next commit.
    """

    def __init__(
        self,
        store: Store,
        fit: PreparedRun,
        choices: RunOptions,
        verb: str,
        about: str,
        began: float,
    ) -> None:
        self.store, self.prepared, self.choices = store, fit, choices
        self.facts: dict[str, object] = {}
        self.merges_cut = 0.0  # of a whole file, see `Posterior`
        self._seen = seen_of(store)
        self.run = begin(store, verb, about, began)
        self.reopen()
        self._written, self._due, self._steps = time.perf_counter(), COMMIT_SECONDS, 0

    def next_run(self, verb: str, about: str, began: float) -> None:
        """Begin another run after committing the current one; the session continues."""
        self.run = begin(self.store, verb, about, began)
        self.writing = self._writer()

    def reopen(self) -> None:
        """Begin from the tables, which may differ from the session."""
        store = self.store
        rng = np.random.default_rng(self.choices.seed)
        pages = store.pages if store.has_session else None
        self.session = self.prepared.clusterer.open(self.prepared.spec, rng, pages=pages)
        self.writing = self._writer()
        self.drift = Drift.from_json(store.fact("drift"), self._seen)
        self.facts.clear()

    def fill(self, fragments: Sequence[Fragment], on_step: OnStep | None) -> bool:
        """Cluster a whole file into the empty store, with identity as evidence; False if it adds
        fragments one by one."""
        spec = replace(self.prepared.spec, constraints=self.session.constraints)
        first = replace(self.prepared, spec=spec, confidence=self._reading())
        snapshot = self._begun(fragments, first, on_step)
        if snapshot is None:
            return False
        from kbforge.fit.identity import second_pass  # .2 s to import

        again = second_pass(fragments, partial(_firsts, snapshot), first, self.choices)
        if again is not None:
            second = self._begun(again.fragments, again.prepared, on_step)
            assert second is not None
            snapshot = replace(second, fragments=fragments)
            self._learn(again.learned(self.choices.defaults), fragments)
        self.merges_cut = snapshot.merges_cut
        self.writing.filled(snapshot)
        self.run.added = len(fragments)
        self.drift.add_learned(fragments)
        self.commit(finished=True)
        self.reopen()
        return True

    def remove(self, ids: Sequence[str]) -> None:
        """Remove fragments, or raise a LikelihoodError and change nothing."""
        numbers = {self.session.number(id): id for id in ids}
        contents = self.writing.contents(list(numbers))
        self.session.remove(ids)
        for number, fragment in contents.items():
            self.drift.remove(fragment, number)
        self.writing.removed(numbers)
        self.run.removed += len(numbers)

    def _begun(
        self, fragments: Sequence[Fragment], prepared: PreparedRun, on_step: OnStep | None
    ) -> Snapshot | None:
        clusterer = prepared.clusterer
        assert isinstance(clusterer, OnlineClusterer)
        rng = np.random.default_rng(self.choices.seed)
        return clusterer.begun(fragments, prepared.spec, rng, on_step)

    def _learn(self, prepared: PreparedRun, fragments: Sequence[Fragment]) -> None:
        """Replace the saved models at the next commit."""
        self.prepared = prepared
        facts, kept = freeze(prepared, self.choices, fragments, self.drift)
        self.facts |= facts

        def replace_kept(rows: sqlite3.Connection) -> None:
            rows.execute("DELETE FROM kept")
            insert_rows(rows, "kept", kept.items())

        self.writing.also(replace_kept)

    def _writer(self) -> StoreWriter:
        store = self.store
        return StoreWriter(store.database, self.session, self.run, store.fact(KNOWN))

    def commit(
        self,
        finished: bool = False,
        decided: Sequence[DecisionRecord] = (),
        told: bool = True,
        undoable: bool = False,
    ) -> None:
        """Write all changes since the last commit, in one transaction, or nothing.

        `finished`: the run is complete, and the confidence of what it changed is `told` now or left
        for later. `decided` is as in `StoreWriter.write`; `undoable`: it can be undone exactly.
        """
        begin = time.perf_counter()
        last = -self.run.number if undoable else decided[0].number if decided else None
        facts = {**self.facts, "drift": self.drift.to_json(), "last": last, **self.writing.facts}
        then = self._write_confidence if finished and told else None
        self.writing.write(facts, finished, last, decided, then)
        self.run.written = True
        self._written, self._steps = time.perf_counter(), 0
        lasted = self._written - begin
        self._due = min(max(lasted / COMMIT_SHARE, COMMIT_SECONDS), COMMIT_LATEST)

    def stepped(self) -> None:
        """Count a step: commit if the last commit was long ago."""
        self._steps += 1
        late = time.perf_counter() - self._written > self._due
        if late or self._steps >= COMMIT_FRAGMENTS:
            self.commit()

    def finish(self, told: bool = True) -> None:
        """Record the end of the run, if it has written anything; `told` as in `commit`."""
        if self.run.written:

            def note(rows: sqlite3.Connection) -> None:
                if told:
                    self._write_confidence(rows)
                write_run(rows, self.run.row(self.writing.n_entities, True))

            self.store.database.transaction(note)

    def tell(self, most: int) -> None:
        """Compute the confidence left for later, of a bounded number of subproblems."""
        self.store.database.transaction(lambda rows: self._write_confidence(rows, most))

    def result(self, **told: Any) -> EventResult:
        """The run's changes to the store, with its own figures."""
        return EventResult(self.run_number, self.session.n_fragments, self.writing.n_entities, told)

    @property
    def run_number(self) -> int:
        """The number of the current run, or of the previous one if this one wrote nothing."""
        return self.run.number if self.run.written else self.run.number - 1

    def _reading(self) -> ConfidenceMap | None:
        made = self.prepared
        if made.confidence is not None:
            return made.confidence
        return reading_of(self.store, made.models.likelihood, made.likelihood, self.choices)

    def _write_confidence(self, rows: sqlite3.Connection, most: int | None = None) -> None:
        """Compute the confidence of what the run changed, within the current transaction."""
        from kbforge.jobs.confidence import write_confidence  # .1 s to import

        index, last, begun = self.prepared.models.index, self.store.fact("last"), self.writing.begun
        write_confidence(self.store, rows, self._reading(), index, last, most, begun)


def _firsts(snapshot: Snapshot) -> IntArray:
    """The first fragment of each one's entity, shape [fragments]."""
    firsts = np.arange(len(snapshot.fragments))
    for page in snapshot.pages:
        for cluster in page.heaviest():
            firsts[list(cluster)] = cluster[0]
    return firsts


def unchanged(store: Store, **told: Any) -> EventResult:
    """The result of a command that changed nothing, because it had run before."""
    return EventResult(store.last_number, store.n_fragments, store.n_entities, told)


def require_all(store: Store, ids: Iterable[str], known: Collection[str]) -> None:
    """Refuse unknown ids."""
    for id in ids:
        if id not in known:
            where = quoted(store.database.path, 400)
            raise NotFoundError(f'{where} has no fragment "{quoted(id)}"')
