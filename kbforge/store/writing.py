"""Writing a session into its store: the effects of each step in transactions, and the runs.

A transaction holds whole steps, so that the store is always that of a prefix of the stream. What is
written does not depend on how many steps a transaction holds.

Each command that changes a store is a run, and a killed run is continued. The row of a run is
written with its first change, in one transaction: a command that changes nothing, or fails before
it does, is no run.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import orjson

from kbforge.contracts import (
    Checkpoint,
    Cluster,
    DecisionRecord,
    Fragment,
    Page,
    Run,
    SubproblemChanges,
)
from kbforge.errors import KBForgeError
from kbforge.files.fragments import to_line
from kbforge.store.database import Database
from kbforge.store.entities import EntityTracker
from kbforge.store.pages import numbers_to_bytes, page_to_bytes, totals_to_bytes
from kbforge.store.rows import (
    ask,
    damaged,
    forget_before,
    insert_rows,
    row_of,
    rows_of,
    write_rows,
)
from kbforge.store.store import Store

FILLS = "cluster"
"""The verb of runs that add fragments; they are about files."""
_MOST_ABOUT = 1000
_LARGEST_KEY = 1 << 63


@dataclass(slots=True)
class ActiveRun:
    """The run at hand.

    Attributes:
        number: of its row.
        verb: of the command.
        about: what the command was given, for people.
        added: fragments so far.
        removed: fragments so far.
        before: seconds that it had lasted when it was continued.
        began: when the command began, by `time.perf_counter`.
        started: when the run began, in seconds since 1970.
        written: whether it has a row.

    """

    number: int
    verb: str
    about: str
    added: int
    removed: int
    before: float
    began: float
    started: float
    written: bool

    def row(self, entities: int, finished: bool) -> Run:
        """The run as it is now."""
        return Run(
            self.number,
            self.verb,
            self.about,
            finished,
            self.added,
            self.removed,
            entities,
            self.before + time.perf_counter() - self.began,
            self.started,
        )


def begin(store: Store, verb: str, about: str, began: float) -> ActiveRun:
    """Begin a run, or continue the last one if it is of the same command and did not end.

    A run that adds fragments is continued by any command that does.

    Args:
        store: to be written.
        verb: of the run.
        about: what it was given, for people.
        began: when the command began, by `time.perf_counter`.

    """
    last, told = store.last_run, about[:_MOST_ABOUT]
    same = last is not None and last.verb == verb and (told == last.about or verb == FILLS)
    if last is not None and same and not last.finished:
        if told != last.about:
            told = f"{last.about}; {about}"[:_MOST_ABOUT]
        return ActiveRun(
            last.number, verb, told, last.added, last.removed, last.seconds, began, last.began, True
        )
    number = 1 if last is None else last.number + 1
    # what the clock on the wall said
    started = time.time() - (time.perf_counter() - began)
    return ActiveRun(number, verb, told, 0, 0, 0.0, began, started, False)


def write_run(database: sqlite3.Connection, run: Run) -> None:
    """Write the row of a run, within the transaction at hand."""
    row = (
        *(run.number, run.verb, run.about, int(run.finished), run.added, run.removed),
        *(run.entities, run.seconds, run.began),
    )
    insert_rows(database, "run", [row], "OR REPLACE")


class WritableSession(Protocol):
    """What the writer needs of a session; see `kbforge.contracts.Session`."""

    def touched(self) -> SubproblemChanges:
        """The subproblems changed since the last call."""
        ...

    def clusters(self, name: int) -> Sequence[Cluster]:
        """The point estimate of a subproblem."""
        ...

    def checkpoint(self) -> Checkpoint:
        """The changes since the last checkpoint."""
        ...


class StoreWriter:
    """Writes a session into a store.

    Args:
        database: opened to write.
        session: opened on the store's pages, or fresh for a store without any.
        run: the one at hand.

    """

    def __init__(self, database: Database, session: WritableSession, run: ActiveRun) -> None:
        self._database, self._session = database, session
        self._undoable: int | None = None
        self._also: list[Callable[[sqlite3.Connection], object]] = []
        self._new: dict[int, tuple[Fragment, int]] = {}
        self._removed: dict[int, str] = {}
        connection = database.connection
        self._moved: dict[int, int] = dict(
            ask(connection, "SELECT number, place FROM fragment WHERE place <> number")
        )
        self._entities = EntityTracker(connection, run.number, self._id_of, run.verb != FILLS)
        self._count: int = ask(connection, "SELECT count(*) FROM entity")[0][0]

    @property
    def n_entities(self) -> int:
        """How many entities there are now."""
        return self._count + self._entities.added

    def place_of(self, number: int) -> int:
        """Where a fragment stands among the others."""
        return self._moved.get(number, number)

    def added(self, fragment: Fragment, number: int, place: int | None = None) -> None:
        """The session has taken in a fragment; nothing else has happened since.

        Args:
            fragment: as it came.
            number: that the session gave it.
            place: of the one that it replaces; None is the last.

        """
        self._new[number] = fragment, number if place is None else place
        if place not in (None, number):
            self._moved[number] = number if place is None else place
        self.followed(new=number)

    def removed(self, fragments: Mapping[int, str]) -> None:
        """The session has lost fragments, by number with their ids; nothing else has happened."""
        self._removed |= fragments
        self.followed(fragments)
        for number in fragments:
            self._moved.pop(number, None)
            if self._new.pop(number, None) is not None:
                del self._removed[number]

    def followed(self, removed: Collection[int] = (), new: int | None = None) -> SubproblemChanges:
        """Follow what the session's last step did to the entities; it says what that was.

        Args:
            removed: fragments that the step took out.
            new: the one that it took in.

        """
        touched = self._session.touched()
        clusters: dict[int, Sequence[Cluster]] = {
            name: self._session.clusters(name) for name in touched.changed
        }
        self._entities.follow(clusters, touched.gone, removed, new)
        return touched

    def also(self, write: Callable[[sqlite3.Connection], object]) -> None:
        """Have something else written in the next transaction."""
        self._also.append(write)

    def write(
        self,
        run: Run,
        facts: Mapping[str, object],
        decided: DecisionRecord | None = None,
        then: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Write all steps since the last time, in one transaction.

        Args:
            run: as it is now.
            facts: of the whole, by name, as JSON.
            decided: the decision that the steps follow from; what rows were is noted, so that
                undoing it brings them back.
            then: writes more when all else is written.

        Raises:
            OutputError: as `Database.transaction`; the store is as it was.

        """
        checkpoint = self._session.checkpoint()
        self._undoable = None if decided is None else decided.number

        def all_of_it(database: sqlite3.Connection) -> None:
            if decided is None:
                forget_before(database)
            else:
                self._write_decision(database, decided)
            self._write_fragments(database, checkpoint)
            self._write_session(database, checkpoint)
            self._entities.write(database, self._undoable)
            for also in self._also:
                also(database)
            rows = {name: (orjson.dumps(value),) for name, value in facts.items()}
            write_rows(database, "meta", rows, self._undoable)
            write_run(database, run)
            if then is not None:
                then(database)

        self._database.transaction(all_of_it)
        self._count = self.n_entities
        self._entities.written()
        self._also.clear()
        self._new.clear()
        self._removed.clear()

    def _write_decision(self, database: sqlite3.Connection, decided: DecisionRecord) -> None:
        said = decided.decision
        row = (decided.number, int(said.same), said.first, said.second, decided.run, None)
        insert_rows(database, "decision", [row])

    def _write_fragments(self, database: sqlite3.Connection, checkpoint: Checkpoint) -> None:
        database.executemany(
            "DELETE FROM fragment WHERE number = ?", [(number,) for number in self._removed]
        )
        write_rows(database, "confidence", dict.fromkeys(self._removed), self._undoable)
        homes = {n: page.name for page in checkpoint.pages for n in page.members.tolist()}
        came = (
            (number, x.id, place, homes[number], x.source, to_line(x))
            for number, (x, place) in self._new.items()
        )
        insert_rows(database, "fragment", came)
        there = [number for number in homes if number not in self._new]
        moved = {
            number: (id, place, homes[number], *others)
            for number, id, place, home, *others in rows_of(database, "fragment", "number", there)
            if home != homes[number]
        }
        write_rows(database, "fragment", moved, self._undoable)

    def _write_session(self, database: sqlite3.Connection, checkpoint: Checkpoint) -> None:
        pages = {page.name: (self._first(page), page_to_bytes(page)) for page in checkpoint.pages}
        write_rows(database, "page", dict.fromkeys(checkpoint.gone), self._undoable)
        write_rows(database, "page", pages, self._undoable)
        write_rows(database, "stale", dict.fromkeys(checkpoint.gone), self._undoable)
        write_rows(database, "stale", dict.fromkeys(pages, ()), self._undoable)
        # in the order of the table, so that each of its pages is written once
        led = {
            key: (int(found.closed), numbers_to_bytes(found.families))
            if found.families or found.closed
            else None
            for key, found in sorted(checkpoint.led.items())
        }
        _require_keys(led)
        write_rows(database, "led", led, self._undoable)
        totals = {"totals": (totals_to_bytes(checkpoint.totals),)}
        write_rows(database, "meta", totals, self._undoable)

    def _first(self, page: Page) -> int:
        """The least place of a subproblem's fragments."""
        if not self._moved:
            return page.name
        return min(map(self.place_of, np.unique(page.members).tolist()))

    def _id_of(self, number: int) -> str:
        if number in self._new:
            return self._new[number][0].id
        if number in self._removed:
            return self._removed[number]
        found = row_of(self._database.connection, "fragment", number)
        if found is None:
            damaged(self._database.connection, f"fragment number {number}, which is missing,")
        id: str = found[1]
        return id


def _require_keys(keys: Iterable[int]) -> None:
    """Refuse keys that a table cannot hold.

    Raises:
        KBForgeError: one has more than 64 bits.

    """
    for key in keys:
        if not -_LARGEST_KEY <= key < _LARGEST_KEY:
            raise KBForgeError(
                f"the index gives the key {key}: expected whole numbers of 64 bits; a store cannot "
                "hold others"
            )
