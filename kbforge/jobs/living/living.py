"""An open stored knowledge base: its session and its writer."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson

from kbforge.contracts import DecisionRecord, Fragment, OnStage, Session
from kbforge.errors import UsageError, quoted
from kbforge.fit.choices import Choices
from kbforge.fit.models import Fit
from kbforge.jobs.living.drift import Drift, drift_of
from kbforge.jobs.living.frozen import freeze, reading_of, seen_of, thaw
from kbforge.store.database import Database, is_store
from kbforge.store.store import Store
from kbforge.store.tables import create_tables, insert_rows, write_rows
from kbforge.store.writing import ActiveRun, StoreWriter, begin, write_run

COMMIT_SECONDS = 1.0
"""Between two transactions, at least."""
COMMIT_SHARE = 0.05
"""Of the time that transactions may take: rows are all over the tables, so that many write much."""
COMMIT_LATEST = 30.0
"""Seconds after which there is one in any case: a crash loses at most these."""
COMMIT_FRAGMENTS = 100_000
"""Steps after which there is one in any case: what they did is held in memory."""
ERASING = "erasing"
"""The fact that an erasure has begun and not ended, see `kbforge.jobs.living.secure`."""


@dataclass(slots=True)
class OpenStore:
    """A store that is open to be written.

    Attributes:
        store: what it says.
        prepared: its models.
        choices: that it was made with.
        session: where its subproblems are.
        run: the one at hand.
        writing: follows the session.
        drift: of what came since the models learned.
        facts: of the whole, to be written at the next commit.

    """

    store: Store
    prepared: Fit
    choices: Choices
    session: Session
    run: ActiveRun
    writing: StoreWriter
    drift: Drift
    facts: dict[str, object] = field(default_factory=dict)
    _written: float = field(default_factory=time.perf_counter)
    _due: float = COMMIT_SECONDS
    _steps: int = 0

    def commit(self, finished: bool = False, decided: DecisionRecord | None = None) -> None:
        """Write what has happened since the last time, in one transaction.

        Args:
            finished: whether the run has come to its end.
            decided: as of `StoreWriter.write`.

        Raises:
            OutputError: it cannot be written; the store is as it was.

        """
        begin = time.perf_counter()
        last = None if decided is None else decided.number
        facts = {**self.facts, "drift": self.drift.to_json(), "last": last}
        row = self.run.row(self.writing.n_entities, finished)
        self.writing.write(row, facts, decided, self._tell if finished else None)
        self.run.written = True
        self._written, self._steps = time.perf_counter(), 0
        lasted = self._written - begin
        self._due = min(max(lasted / COMMIT_SHARE, COMMIT_SECONDS), COMMIT_LATEST)

    def finish(self) -> None:
        """Note that the run has ended, when all else is written; if it wrote nothing, do nothing.

        Raises:
            OutputError: it cannot be written.

        """
        if self.run.written:
            row = self.run.row(self.writing.n_entities, True)

            def note(rows: sqlite3.Connection) -> None:
                self._tell(rows)
                write_run(rows, row)

            self.store.database.transaction(note)

    @property
    def run_number(self) -> int:
        """Of the run at hand, or of the one before if this one has written nothing."""
        return self.run.number if self.run.written else self.run.number - 1

    def _tell(self, rows: sqlite3.Connection) -> None:
        """Tell the confidence of what the run changed, within the transaction at hand."""
        from kbforge.jobs.living.calibrating import tell  # .1 s to import

        made, store = self.prepared, self.store
        reading = made.confidence
        if reading is None:
            reading = reading_of(
                store, made.models.likelihood, made.likelihood, self.choices.defaults
            )
        tell(store, rows, reading, made.models.index, store.fact("last"))

    def stepped(self) -> None:
        """A step is done: commit if the last time is long ago."""
        self._steps += 1
        late = time.perf_counter() - self._written > self._due
        if late or self._steps >= COMMIT_FRAGMENTS:
            self.commit()

    def reopen(self) -> None:
        """Begin anew from the tables, which are other than the session knows."""
        rng = np.random.default_rng(self.choices.seed)
        prepared, database = self.prepared, self.store.database
        self.session = prepared.clusterer.open(prepared.problem, rng, pages=self.store.pages)
        self.writing = StoreWriter(database, self.session, self.run)
        self.drift = Drift.from_json(self.store.fact("drift"), self.drift.seen)
        self.facts.clear()

    def require(self, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of fragments.

        Raises:
            UsageError: the store lacks one.

        """
        numbers = self.store.pages.numbers(ids)
        for id in ids:
            if id not in numbers:
                raise UsageError(
                    f'{quoted(self.store.database.path, 400)} has no fragment "{quoted(id)}"'
                )
        return numbers


@contextlib.contextmanager
def writable(path: str) -> Iterator[Store]:
    """A store that is there, to be written by nobody else until the end.

    An erasure that was interrupted is finished first.

    Args:
        path: of the file.

    Raises:
        KBForgeError: it cannot be opened, is written by another program, or is no store.

    """
    if not is_store(path):
        Database(path).close()  # says what is wrong
    with Database(path, write=True) as database:
        store = Store(database)
        finish_erasing(store)
        yield store


def finish_erasing(store: Store) -> None:
    """Finish an erasure that was interrupted, if there is one.

    Raises:
        KBForgeError: as `kbforge.jobs.living.secure.finish`.

    """
    if store.database.version is not None and store.fact(ERASING) is not None:
        from kbforge.jobs.living.secure import finish  # it learns again, by what builds on this

        finish(store)


@contextlib.contextmanager
def opened(path: str, verb: str, about: str) -> Iterator[OpenStore]:
    """A store that is there, open to be written.

    Args:
        path: of the file.
        verb: of the run that begins.
        about: what it was given, for people.

    Raises:
        KBForgeError: it cannot be opened, is written by another program, or is no store.

    """
    began = time.perf_counter()
    with writable(path) as store:
        store.require_made()
        yield living(store, verb, about, began)


def living(store: Store, verb: str, about: str, began: float) -> OpenStore:
    """A store that was opened to be written, its models made again of what was kept.

    Args:
        store: that was opened.
        verb: of the run that begins.
        about: what it was given, for people.
        began: when the command began, by `time.perf_counter`; the run's seconds count from there.

    """
    prepared, choices = thaw(store)
    return _living(store, prepared, choices, verb, about, began)


def created(
    database: Database,
    fragments: Sequence[Fragment],
    choices: Choices,
    verb: str,
    about: str,
    began: float,
    on_stage: OnStage | None = None,
) -> OpenStore:
    """A new store, its models fitted to the fragments, none of which is taken in yet.

    Args:
        database: open to be written.
        fragments: that the models learn from.
        choices: of the store.
        verb: of the run that begins.
        about: what it was given, for people.
        began: as of `living`.
        on_stage: is told what is learned and tried.

    Raises:
        KBForgeError: as `prepare`.

    """
    from kbforge.fit.choices import require_link
    from kbforge.fit.prepare import prepare

    require_link(fragments, choices.link)
    prepared = prepare(fragments, choices, on_stage=on_stage)
    drift = drift_of(fragments, due=True)
    frozen = freeze(prepared, choices, fragments, drift)

    def all_of_it(rows: sqlite3.Connection) -> None:
        if database.version is None:
            create_tables(rows)
        insert_rows(rows, "kept", frozen.kept.items(), "OR REPLACE")
        facts = {name: (orjson.dumps(value),) for name, value in frozen.facts.items()}
        write_rows(rows, "meta", facts)

    database.transaction(all_of_it)
    return _living(Store(database), prepared, choices, verb, about, began)


def _living(
    store: Store, prepared: Fit, choices: Choices, verb: str, about: str, began: float
) -> OpenStore:
    rng = np.random.default_rng(choices.seed)
    begun = store.has_session
    pages = store.pages if begun else None
    session = prepared.clusterer.open(prepared.problem, rng, pages=pages)
    run = begin(store, verb, about, began)
    writing = StoreWriter(store.database, session, run)
    drift = Drift.from_json(store.fact("drift"), seen_of(store))
    return OpenStore(store, prepared, choices, session, run, writing, drift)
