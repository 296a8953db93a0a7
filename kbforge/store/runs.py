"""Runs: each command that writes is one, and one that was killed is gone on with."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kbforge.contracts import Run
from kbforge.store.rows import change_rows, insert_rows
from kbforge.store.store import Store

FILLS = "cluster"
"""The verb of runs that take fragments in; they are about files."""
_MOST_ABOUT = 1000


@dataclass(slots=True)
class Running:
    """The run at hand.

    Attributes:
        number: of its row.
        added: fragments so far.
        removed: likewise.
        before: seconds that it had lasted before it was gone on with.
        began: when the command began, by `time.perf_counter`.

    """

    number: int
    added: int
    removed: int
    before: float
    began: float

    def columns(self, entities: int, finished: bool) -> Mapping[str, object]:
        """The columns of its row that are other than when it began."""
        return {
            "finished": int(finished),
            "added": self.added,
            "removed": self.removed,
            "entities": entities,
            "seconds": self.before + time.perf_counter() - self.began,
        }


def begin(store: Store, verb: str, about: str, began: float) -> Running:
    """Begin a run, or go on with the last one if it is of this kind and did not end.

    Args:
        store: to be written.
        verb: of the run.
        about: what it was given, for people.
        began: when the command began, by `time.perf_counter`.

    """
    runs = store.runs()
    last = runs[-1] if runs else None
    if last is not None and not last.finished and last.verb == verb:
        same = about == last.about or _changed_nothing(store, last)
        told = about if same else f"{last.about}; {about}"
        columns = {"about": told[:_MOST_ABOUT]}
        store.database.transaction(lambda database: update(database, last.number, columns))
        return Running(last.number, last.added, last.removed, last.seconds, began)
    number = len(runs) + 1
    made = Run(
        number, verb, about[:_MOST_ABOUT], False, 0, 0, store.n_entities, 0.0, wall_time(began)
    )
    store.database.transaction(lambda database: insert(database, made))
    return Running(number, 0, 0, 0.0, began)


def wall_time(began: float) -> float:
    """What the clock on the wall said at a time of `time.perf_counter`, in seconds since 1970."""
    return time.time() - (time.perf_counter() - began)


def withdraw(store: Store, number: int) -> None:
    """Forget a run that ended by an error before it changed anything."""

    def delete(database: sqlite3.Connection) -> None:
        database.execute("DELETE FROM run WHERE number = ?", (number,))

    for run in store.runs():
        if run.number == number and not run.finished and _changed_nothing(store, run):
            store.database.transaction(delete)


def _changed_nothing(store: Store, run: Run) -> bool:
    """Whether all is as before a run that has not ended."""
    rows = store.database.connection
    touched = [
        rows.execute(f"SELECT 1 FROM {table} WHERE run = ?", (run.number,)).fetchone()
        for table in ("image", "decision")
    ]
    return touched == [None, None] and not run.added and not run.removed


def insert(database: sqlite3.Connection, run: Run) -> None:
    """Put a run into its table, within the transaction at hand."""
    row = (
        *(run.number, run.verb, run.about, int(run.finished), run.added, run.removed),
        *(run.entities, run.seconds, run.began),
    )
    insert_rows(database, "run", [row])


def update(database: sqlite3.Connection, number: int, columns: Mapping[str, object]) -> None:
    """Set columns of a run, within the transaction at hand."""
    change_rows(database, "run", {number: columns})
