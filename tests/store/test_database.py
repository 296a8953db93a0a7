"""The file of a store: one writer whatever its name, readers that do not wait, no strange files."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kbforge.errors import BusyError, KBForgeError, OutputError
from kbforge.store import tables
from kbforge.store.database import Database, is_store
from kbforge.store.tables import insert_rows
from tests.program import Run
from tests.store.fixtures.version_2 import stored
from tests.store.verbs import VERBS, ending, fresh


def made(path: Path) -> Path:
    with Database(str(path), write=True) as database:
        database.transaction(tables.create_tables)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A new store."""
    return made(tmp_path / "kb.sqlite")


def change(path: Path, script: str) -> None:
    """Change a database behind the back of KBForge."""
    with sqlite3.connect(path, isolation_level=None) as database:
        database.executescript(script)
    database.close()


def put(name: str, value: bytes) -> Callable[[sqlite3.Connection], None]:
    def write(rows: sqlite3.Connection) -> None:
        insert_rows(rows, "meta", [(name, value)], "OR REPLACE")

    return write


@pytest.mark.slow
def test_a_second_writer_is_refused(path: Path) -> None:
    with Database(str(path), write=True), pytest.raises(OutputError, match="another kbforge"):
        Database(str(path), write=True)
    Database(str(path), write=True).close()


@pytest.mark.slow
def test_a_writer_lets_others_write_in_between(path: Path) -> None:
    with Database(str(path), write=True) as database:
        database.let_go()
        assert database.take()
        database.let_go()
        with Database(str(path), write=True) as other:
            with pytest.raises(BusyError, match="another kbforge command is writing to it"):
                database.take()
            other.transaction(put("a", b"1"))
        assert not database.take()
        database.transaction(put("b", b"2"))
        database.let_go()
        assert database.take()
        database.let_go()
        path.rename(path.with_suffix(".old"))
        with pytest.raises(OutputError, match="was removed"):
            database.take()


def test_a_reader_sees_one_moment_while_another_writes(path: Path) -> None:
    question = "SELECT count(*) FROM meta WHERE name = 'a'"
    with Database(str(path), write=True) as writer, Database(str(path)) as reader:
        with reader.snapshot():
            assert reader.connection.execute(question).fetchone() == (0,)
            writer.transaction(put("a", b"1"))
            assert reader.connection.execute(question).fetchone() == (0,)
        assert reader.connection.execute(question).fetchone() == (1,)


def test_a_transaction_is_whole(path: Path) -> None:

    def half(rows: sqlite3.Connection) -> None:
        insert_rows(rows, "meta", [("a", b"0")])
        raise RuntimeError

    with Database(str(path), write=True) as database:
        with pytest.raises(RuntimeError):
            database.transaction(half)
        question = "SELECT * FROM meta WHERE name = 'a'"
        assert database.connection.execute(question).fetchall() == []


def test_a_stranger_who_writes_in_between_is_noticed(path: Path) -> None:
    with Database(str(path), write=True) as database:
        stranger = sqlite3.connect(path)
        insert_rows(stranger, "meta", [("b", b"0")])
        stranger.commit()
        stranger.close()
        with pytest.raises(OutputError, match="another program has written"):
            database.transaction(put("a", b"1"))


def test_a_full_disk_is_told_and_keeps_what_was_committed(path: Path) -> None:
    with Database(str(path), write=True) as database:
        database.transaction(put("small", b"1"))
        pages = database.connection.execute("PRAGMA page_count").fetchone()[0]
        database.connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(OutputError, match=r"disk is full.*free some space"):
            database.transaction(put("large", b"1" * 1_000_000))
    with Database(str(path)) as database:
        assert database.connection.execute("SELECT name FROM meta").fetchall() == [("small",)]


def test_a_torn_log_loses_nothing_that_was_committed_before_it(tmp_path: Path) -> None:
    path, copy = tmp_path / "kb.sqlite", tmp_path / "copy.sqlite"
    made(path)
    with Database(str(path), write=True) as database:
        for number in range(20):
            database.transaction(put(f"{number:02}", b"x" * 3000))
            if number == 9:
                kept = Path(f"{path}-wal").stat().st_size
        # as a power cut leaves them: the log ends in the middle of a transaction
        copy.write_bytes(path.read_bytes())
        log = Path(f"{path}-wal").read_bytes()
        Path(f"{copy}-wal").write_bytes(log[: kept + 1000] + b"\0" * 500)
    with Database(str(copy), write=True) as database:
        names = [name for (name,) in database.connection.execute("SELECT name FROM meta")]
    assert [name for name in names if name != "log"] == [f"{number:02}" for number in range(10)]


@pytest.mark.parametrize("write", [False, True])
def test_files_of_other_kinds_are_refused(tmp_path: Path, write: bool) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "a"}\n')
    with pytest.raises(KBForgeError, match="got JSON objects that are not fragments"):
        Database(str(other), write=write)
    foreign = tmp_path / "foreign.sqlite"
    change(foreign, "CREATE TABLE t (x)")
    assert is_store(str(foreign))
    before = foreign.read_bytes()
    with pytest.raises(KBForgeError, match="another program"):
        Database(str(foreign), write=write)
    assert foreign.read_bytes() == before
    with pytest.raises(KBForgeError, match="no such"):
        Database(str(tmp_path / "no" / "kb.sqlite"), write=write)


def test_a_store_of_a_later_version_is_refused(path: Path) -> None:
    change(path, f"PRAGMA user_version = {tables.VERSION + 1}")
    with pytest.raises(KBForgeError, match="newer kbforge"):
        Database(str(path))


def test_a_store_of_the_first_version_names_the_release_that_brings_it_up_to_date(
    path: Path,
) -> None:
    change(path, "PRAGMA user_version = 1")
    with pytest.raises(KBForgeError, match=r"versions 2 to \d+; any command of kbforge 0\.2\.0"):
        Database(str(path))


def test_a_store_in_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = made(folder / "kb.sqlite")
    for file in folder.iterdir():
        if file != path:
            file.unlink()
    folder.chmod(0o500)
    try:
        with Database(str(path)) as database:
            assert database.connection.execute("SELECT * FROM meta").fetchall() == []
    finally:
        folder.chmod(0o700)


SCHEMAS = {
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON meta BEGIN DELETE FROM fragment; END",
    "a trigger on insert": "CREATE TRIGGER t BEFORE INSERT ON run BEGIN SELECT randomblob(9); END",
    "a view": "CREATE VIEW v AS SELECT * FROM fragment",
    "a view named like a table": "ALTER TABLE led RENAME TO l; CREATE VIEW led AS SELECT * FROM l",
    "a view that never ends": "DROP TABLE image; CREATE VIEW image AS WITH RECURSIVE a(run) AS "
    "(SELECT 1 UNION ALL SELECT run + 1 FROM a) SELECT run, 'e' entity, x'' fragments FROM a",
    "another table": "CREATE TABLE other (x)",
    "a virtual table": "CREATE VIRTUAL TABLE v USING fts5(x)",
    "a table that is virtual": "DROP TABLE redirect; CREATE VIRTUAL TABLE redirect USING "
    "fts5(id, targets, checksum)",
    "a missing table": "DROP TABLE erased",
    "a missing index": "DROP INDEX page_first",
    "another index": "CREATE INDEX i ON fragment (place)",
    "an index on an expression": "CREATE INDEX i ON fragment (length(line))",
    "an index on other columns": "DROP INDEX page_first; CREATE INDEX page_first ON page (name)",
    "an index with a condition": "DROP INDEX page_first; "
    "CREATE INDEX page_first ON page (first) WHERE first > 3",
    "another column": "ALTER TABLE run ADD COLUMN x",
    "a missing column": "ALTER TABLE run DROP COLUMN about",
    "a column of another name": "ALTER TABLE run RENAME COLUMN about TO x",
    "a generated column": "ALTER TABLE meta ADD COLUMN x AS (zeroblob(900000000))",
    "a table with a rowid": "DROP TABLE redirect; CREATE TABLE redirect (id TEXT PRIMARY KEY, "
    "targets BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "another type": "DROP TABLE redirect; CREATE TABLE redirect (id TEXT PRIMARY KEY, "
    "targets TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID",
    "a check": "DROP TABLE redirect; CREATE TABLE redirect (id TEXT PRIMARY KEY, targets BLOB "
    "NOT NULL CHECK (length(targets) < 9), checksum INTEGER NOT NULL) WITHOUT ROWID",
    "statistics": "ANALYZE",
    "another program": "PRAGMA application_id = 1",
    "a version that is not known": "PRAGMA user_version = -7",
    "a huge version": "PRAGMA user_version = 2147483647",
    "an older version with today's tables": "PRAGMA user_version = 2",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_hostile_schemas_are_refused_by_every_verb(name: str, tmp_path: Path, program: Run) -> None:
    path, copy = stored("records", tmp_path / "hostile"), tmp_path / "records.sqlite"
    Database(str(path)).close()
    change(path, f"PRAGMA legacy_alter_table = ON; {SCHEMAS[name]}")
    for verb in VERBS:
        fresh(path, copy)
        code, said = ending(program, verb, copy)
        assert code == 1, (verb, said)
        assert isinstance(said, str)
        assert said.startswith("kbforge: ")
        assert said.count("\n") == 1, (verb, said)


@pytest.mark.slow
@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_links_to_a_store_are_one_store(tmp_path: Path, link: Callable[..., None]) -> None:
    path, other = stored("records", tmp_path / "kb.sqlite"), tmp_path / "folder" / "other.sqlite"
    other.parent.mkdir()
    link(path, other)
    with Database(str(path), write=True):
        for beside in tmp_path.glob("*lock*"):
            beside.unlink()
        for name in (path, other):
            with pytest.raises(OutputError, match="another kbforge"):
                Database(str(name), write=True)
    Database(str(other), write=True).close()


def test_a_store_that_is_closed_takes_no_lock_from_a_reader(tmp_path: Path) -> None:
    path = stored("records", tmp_path / "kb.sqlite")
    with Database(str(path)):
        for _ in range(3):
            Database(str(path), write=True).close()
            assert is_store(str(path))
        # another process sees the lock of SQLite that this process has on the file
        ran = os.spawnlp(os.P_WAIT, "python3", "python3", "-c", LOCKED, str(path))
        assert ran == 0


LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, (1 << 30) + 2)
    except OSError:
        sys.exit(0)
sys.exit(3)
"""


def test_a_file_that_was_not_made_here_is_not_removed(tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite"
    empty.touch()
    Database(str(empty), write=True).close()
    assert empty.exists()
    new = tmp_path / "new.sqlite"
    Database(str(new), write=True).close()
    assert list(tmp_path.iterdir()) == [empty]


def test_a_file_that_took_the_place_of_a_new_one_is_not_removed(tmp_path: Path) -> None:
    new, other = tmp_path / "new.sqlite", stored("records", tmp_path / "other.sqlite")
    content = other.read_bytes()
    with Database(str(new), write=True):
        other.replace(new)
    assert new.read_bytes() == content


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("verb", ["status", "cluster", "decide", "undo", "check", "changes"])
def test_what_is_no_file_is_refused_at_once(
    kind: str, verb: str, tmp_path: Path, program: Run
) -> None:
    path = tmp_path / "records.sqlite"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/null")
    before = stat.S_IFMT(path.stat().st_mode)
    assert not is_store(str(path))
    code, said = ending(program, verb, path)
    assert code == 1
    assert f"got a {kind}" in str(said)
    assert stat.S_IFMT(path.stat().st_mode) == before
