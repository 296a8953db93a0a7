"""Runs: each command that changes a store is one, and one that was killed is continued.

The row of a run is written with its first change, in one transaction: a command that changes
nothing, or fails before it does, is no run.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

from kbforge.contracts import Run
from kbforge.store.rows import insert_rows
from kbforge.store.store import Store

FILLS = "cluster"
"""The verb of runs that add fragments; they are about files."""
_MOST_ABOUT = 1000


@dataclass(slots=True)
class Running:
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


def begin(store: Store, verb: str, about: str, began: float) -> Running:
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
        return Running(
            last.number, verb, told, last.added, last.removed, last.seconds, began, last.began, True
        )
    number = 1 if last is None else last.number + 1
    # what the clock on the wall said
    started = time.time() - (time.perf_counter() - began)
    return Running(number, verb, told, 0, 0, 0.0, began, started, False)


def write_run(database: sqlite3.Connection, run: Run) -> None:
    """Write the row of a run, within the transaction at hand."""
    row = (
        *(run.number, run.verb, run.about, int(run.finished), run.added, run.removed),
        *(run.entities, run.seconds, run.began),
    )
    insert_rows(database, "run", [row], "OR REPLACE")
