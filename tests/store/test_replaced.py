"""Another file takes the name of a store that is open: it is never read with the old log."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kbforge.errors import BusyError, OutputError, StoreError
from kbforge.store.database import Database, is_store, log_of
from kbforge.store.tables import StoreConnection
from tests.store.copies import copied
from tests.store.dump import dump
from tests.store.fixtures.version_2 import stored
from tests.store.test_database import put


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = stored("records", tmp_path / "records.sqlite")
    Database(str(path)).close()
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = stored("mentions", tmp_path / "mentions.sqlite")
    Database(str(path)).close()
    return path


def test_the_new_file_is_opened_when_the_old_log_was_left(path: Path, other: Path) -> None:
    wanted = dump(other)
    reader, writer = Database(str(path)), Database(str(path), write=True)
    assert not reader.replaced
    other.replace(path)
    assert reader.replaced
    assert writer.replaced
    for write in (False, True):
        with pytest.raises(BusyError, match="was replaced a moment ago"):
            Database(str(path), write=write)
    writer.leave()
    assert not log_of(str(path)).exists()
    reader.leave()
    with Database(str(path), write=True) as new:
        assert new.examined()[1] == []
    assert dump(path) == wanted


def test_what_only_the_log_has_goes_into_the_file_that_was_moved(path: Path, other: Path) -> None:
    away = path.with_suffix(".away")
    reader, writer = Database(str(path)), Database(str(path), write=True)
    writer.transaction(put("a", b"1"))
    path.rename(away)
    other.replace(path)
    with pytest.raises(BusyError):  # only the writer may empty the log
        reader.leave()
    assert log_of(str(path)).stat().st_size
    writer.leave()
    reader.leave()
    assert any(line.startswith("meta ('a'") for line in dump(away))
    with Database(str(away)) as moved, Database(str(path)) as new:
        assert moved.lacking is None
        assert new.lacking is None
        assert moved.examined()[1] == new.examined()[1] == []


def test_a_log_that_belongs_to_the_present_file_stays(path: Path, other: Path) -> None:
    old = Database(str(path), write=True)
    other.replace(path)
    old.leave()
    with Database(str(path), write=True) as writer:
        writer.transaction(put("b", b"2"))
        later = Database(str(path))
        assert not later.replaced
        later.close()
        assert log_of(str(path)).stat().st_size
    assert any(line.startswith("meta ('b'") for line in dump(path))


def test_nobody_leaves_a_log_while_a_command_writes_the_new_file(path: Path, other: Path) -> None:
    reader = Database(str(path))
    with Database(str(other), write=True):
        os.rename(other, path)
        with pytest.raises(BusyError):
            reader.leave()
    reader.leave()
    assert Database(str(path)).examined()[1] == []


def test_a_file_that_was_copied_over_a_store_at_rest_is_another_one(
    path: Path, other: Path
) -> None:
    reader, writer = Database(str(path)), Database(str(path), write=True)
    reader.rest()
    writer.transaction(put("a", b"1"))
    writer.settle()
    writer.let_go()
    assert not reader.replaced, "a transaction is no copy"
    reader.rest()
    copied(other, path)
    assert reader.replaced
    with pytest.raises(OutputError, match="was replaced"):
        writer.take()
    with pytest.raises(BusyError):
        Database(str(path))
    reader.leave()
    writer.leave()
    assert dump(path) == dump(other)
    assert Database(str(path)).examined()[1] == []


def test_a_store_that_is_not_there_is_a_sentence(path: Path, tmp_path: Path) -> None:
    reader, writer = Database(str(path)), Database(str(path), write=True)
    shutil.move(path, tmp_path / "away.sqlite")
    with pytest.raises(StoreError, match=r"cannot read .*: the file was removed"):
        _ = reader.replaced
    with pytest.raises(OutputError, match=r"cannot write .*: the file was removed"):
        writer.take()
    with pytest.raises(StoreError, match="the file was removed"):
        _ = reader.size


def test_a_thread_that_looks_at_a_file_leaves_the_locks_of_one_that_opens_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its lock, another program removes the log that a reader uses: what it reads is torn.

    The other thread, such as a server's writer, looks when the connection exists and has read.
    """
    opened = Database._opened

    def seen(self: Database) -> StoreConnection:
        found = opened(self)
        assert is_store(self.path)
        return found

    Database(str(path), write=True).close()
    monkeypatch.setattr(Database, "_opened", seen)
    with Database(str(path), verify=False) as reader:
        log = log_of(str(path)).stat().st_ino
        for number in range(2):
            write = (
                "import sys; from kbforge.store.database import Database\n"
                "from tests.store.test_database import put\n"
                "with Database(sys.argv[1], write=True) as writer:\n"
                f"    writer.transaction(put('a{number}', b'1'))"
            )
            subprocess.run([sys.executable, "-c", write, str(path)], check=True)
            assert log_of(str(path)).stat().st_ino == log
            rows = reader.connection.execute("SELECT name FROM meta WHERE name LIKE 'a_'")
            assert len(rows.fetchall()) == number + 1
    assert not log_of(str(path)).exists()


def test_a_file_that_replaces_one_as_it_is_looked_at_keeps_its_locks(
    path: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file takes the name between the look at the name and the one at the content."""
    with Database(str(other), verify=False):
        taken = os.open

        def replaced(name: str, *given: int) -> int:
            os.link(other, path.with_suffix(".link"))
            os.replace(path.with_suffix(".link"), path)
            return taken(name, *given)

        monkeypatch.setattr(os, "open", replaced)
        assert is_store(str(path))
        monkeypatch.undo()
        read = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM meta')"
        subprocess.run([sys.executable, "-c", read, str(other)], check=True)
        assert log_of(str(other)).exists()


def test_who_leaves_late_does_not_remove_the_log_of_the_new_file(
    path: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer leaves and opens the new file after a reader saw that the log is the old one."""
    reader, writer = Database(str(path)), Database(str(path), write=True)
    other.replace(path)
    unwritten, opened = Database._unwritten, list[Database]()

    def late(self: Database) -> AbstractContextManager[bool]:
        if not opened and self is reader:
            writer.leave()
            opened.append(Database(str(path), write=True))
            opened[0].let_go()
        return unwritten(self)

    monkeypatch.setattr(Database, "_unwritten", late)
    reader.leave()
    (new,) = opened
    log = log_of(str(path)).stat().st_ino
    with Database(str(path)) as later:
        new.take()
        new.transaction(put("a", b"1"))
        assert log_of(str(path)).stat().st_ino == log
        assert later.connection.execute("SELECT value FROM meta WHERE name = 'a'").fetchone()
        with Database(str(path)) as last:
            assert last.examined()[1] == []
            assert last.connection.execute("SELECT value FROM meta WHERE name = 'a'").fetchone()
    new.close()
