"""Runs: each command that writes is one, and one that was killed is gone on with."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kbforge.contracts import Run
from kbforge.store.store import Store

_MOST_ABOUT = 1000


@dataclass(slots=True)
class Running:
    """The run at hand.

    Attributes:
        number: of its row.
        added: fragments so far.
        removed: likewise.
        before: seconds that it had lasted before it was gone on with.
        began: by the clock that measures it.

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


def begin(store: Store, verb: str, about: str) -> Running:
    """Begin a run, or go on with the last one, if it is of this kind and did not end."""
    runs = store.runs()
    last = runs[-1] if runs else None
    if last is not None and not last.finished and last.verb == verb:
        return Running(last.number, last.added, last.removed, last.seconds, time.perf_counter())
    number = len(runs) + 1
    made = Run(number, verb, about[:_MOST_ABOUT], False, 0, 0, store.n_entities, 0.0, time.time())
    store.database.transaction(lambda database: insert(database, made))
    return Running(number, 0, 0, 0.0, time.perf_counter())


def insert(database: sqlite3.Connection, run: Run) -> None:
    """Put a run into its table, within the transaction at hand."""
    database.execute(
        "INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(run.number, run.verb, run.about, int(run.finished), run.added, run.removed),
            *(run.entities, run.seconds, run.began),
        ),
    )


def update(database: sqlite3.Connection, number: int, columns: Mapping[str, object]) -> None:
    """Set columns of a run, within the transaction at hand."""
    for column, value in columns.items():
        database.execute(f"UPDATE run SET {column} = ? WHERE number = ?", (value, number))
