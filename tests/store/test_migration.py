"""Stores of older versions are brought up to date: nothing is lost, and all or nothing is done."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError, OutputError
from kbforge.jobs.decide import undo
from kbforge.jobs.views import entities_of
from kbforge.store import tables
from kbforge.store.database import Database, lock
from kbforge.store.store import Store
from tests.program import Run
from tests.store.dump import dump
from tests.store.fixtures.version_2 import NAMES, stored
from tests.store.verbs import VERBS, ending

KILLED = """
import os, sys
from kbforge.store import database
migrate = database.migrate
database.migrate = lambda rows: (migrate(rows), os._exit(9))
database.Database(sys.argv[1], write=True)
"""


@pytest.fixture(params=NAMES)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return stored(request.param, tmp_path / f"{request.param}.sqlite")


def version(path: Path) -> int:
    with sqlite3.connect(path) as database:
        found: int = database.execute("PRAGMA user_version").fetchone()[0]
    database.close()
    return found


@pytest.mark.parametrize("write", [False, True])
def test_all_that_an_older_store_says_stays(old: Path, write: bool) -> None:
    before = dump(old)
    assert version(old) == 2
    with Database(str(old), write=write) as database:
        assert database.version == tables.VERSION
        assert Store(database).n_fragments == 30
    assert (version(old), dump(old)) == (tables.VERSION, before)


@pytest.mark.slow
def test_every_verb_brings_an_older_store_up_to_date(old: Path, program: Run) -> None:
    for verb in VERBS:
        path = stored(old.stem, old)
        assert version(path) == 2
        code, said = ending(program, verb, path)
        assert (code, version(path)) == (0, tables.VERSION), (verb, said)


def test_an_older_store_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.sqlite"
    with Database(str(new), write=True) as made:
        made.transaction(tables.create_tables)
    Database(str(old)).close()
    question = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    told = []
    for path in (old, new):
        with sqlite3.connect(path) as rows:
            told.append(rows.execute(question).fetchall())
        rows.close()
    assert told[0] == told[1]


def test_the_last_decision_of_an_older_store_is_undone_exactly(old: Path) -> None:
    before = {entity.fragments for entity in entities_of(str(old))}
    assert undo(str(old), 4).told["exact"]
    assert {entity.fragments for entity in entities_of(str(old))} != before


def test_a_migration_that_is_killed_leaves_the_store_as_it_was(old: Path) -> None:
    before = dump(old)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(old)], check=False)
    assert ended.returncode == 9
    assert (version(old), dump(old)) == (2, before)
    Database(str(old)).close()
    assert (version(old), dump(old)) == (tables.VERSION, before)


@pytest.mark.slow
def test_an_older_store_that_is_being_written_is_not_read(old: Path) -> None:
    with open(old, "r+b") as file:
        assert lock(file.fileno(), old) is not None
        with pytest.raises(KBForgeError, match=r"store of version 2.*another kbforge"):
            Database(str(old))


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everything")
def test_an_older_store_in_a_folder_that_cannot_be_written_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    old = stored("records", folder / "old.sqlite")
    folder.chmod(0o500)
    try:
        with pytest.raises(KBForgeError, match=r"store of version 2.*permission denied"):
            Database(str(old))
        with pytest.raises(OutputError, match="permission denied"):
            Database(str(old), write=True)
    finally:
        folder.chmod(0o700)
