"""A process that dies at a boundary of a transaction, without a chance to tidy up."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from collections.abc import Callable, Sequence

import pytest

from kbforge.store.database import Database

BOUNDARIES = ("BEGIN IMMEDIATE", "COMMIT", "VACUUM", "PRAGMA wal_checkpoint")
_DIED = 77
# forked from a process that has the modules and no threads
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.jobs.test_killed"])


def dies_at(boundary: int, act: Callable[..., object], *given: str) -> bool:
    """Do something in a process of its own that dies before it reaches a boundary.

    Args:
        boundary: the first is 1.
        act: what to do, a function of a module.
        given: what it takes.

    Returns:
        Whether it died; False if it came to its end before.

    """
    child = PROCESSES.Process(target=_act, args=(boundary, act, given))
    child.start()
    child.join()
    assert child.exitcode in (0, _DIED), "it failed before it could die"
    return child.exitcode == _DIED


def _act(boundary: int, act: Callable[..., object], given: Sequence[str]) -> None:
    _die_at(boundary)
    act(*given)


def _die_at(boundary: int) -> None:
    opened, passed = Database._opened, 0

    def heard(statement: str) -> None:
        nonlocal passed
        passed += statement.startswith(BOUNDARIES)
        if passed == boundary:
            os._exit(_DIED)

    def opened_and_heard(self: Database) -> sqlite3.Connection:
        connection = opened(self)
        connection.set_trace_callback(heard)
        return connection

    pytest.MonkeyPatch().setattr(Database, "_opened", opened_and_heard)
