"""The file of a store: one writer, readers that do not wait, errors as sentences."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError, OutputError
from kbforge.store import tables
from kbforge.store.database import Database, is_store
from kbforge.store.tables import insert_rows


def made(path: Path) -> Path:
    with Database(str(path), write=True) as database:
        database.transaction(tables.create_tables)
    return path


def put(name: str, value: bytes) -> Callable[[sqlite3.Connection], None]:
    def write(rows: sqlite3.Connection) -> None:
        insert_rows(rows, "meta", [(name, value)], "OR REPLACE")

    return write


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "kb.sqlite")
    with Database(str(path), write=True), pytest.raises(OutputError, match="another kbforge"):
        Database(str(path), write=True)
    Database(str(path), write=True).close()


def test_a_reader_sees_one_moment_while_another_writes(tmp_path: Path) -> None:
    path = made(tmp_path / "kb.sqlite")
    question = "SELECT count(*) FROM meta"
    with Database(str(path), write=True) as writer, Database(str(path)) as reader:
        with reader.snapshot():
            assert reader.connection.execute(question).fetchone() == (0,)
            writer.transaction(put("a", b"1"))
            assert reader.connection.execute(question).fetchone() == (0,)
        assert reader.connection.execute(question).fetchone() == (1,)


def test_a_transaction_is_whole(tmp_path: Path) -> None:
    path = made(tmp_path / "kb.sqlite")

    def half(rows: sqlite3.Connection) -> None:
        insert_rows(rows, "meta", [("a", b"0")])
        raise RuntimeError

    with Database(str(path), write=True) as database:
        with pytest.raises(RuntimeError):
            database.transaction(half)
        assert database.connection.execute("SELECT * FROM meta").fetchall() == []


def test_a_stranger_who_writes_in_between_is_noticed(tmp_path: Path) -> None:
    path = made(tmp_path / "kb.sqlite")
    with Database(str(path), write=True) as database:
        stranger = sqlite3.connect(path)
        insert_rows(stranger, "meta", [("b", b"0")])
        stranger.commit()
        stranger.close()
        with pytest.raises(OutputError, match="another program has written"):
            database.transaction(put("a", b"1"))


def test_a_full_disk_is_told_and_keeps_what_was_committed(tmp_path: Path) -> None:
    path = made(tmp_path / "kb.sqlite")
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
    assert names == [f"{number:02}" for number in range(10)]


@pytest.mark.parametrize("write", [False, True])
def test_files_of_other_kinds_are_refused(tmp_path: Path, write: bool) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "a"}\n')
    with pytest.raises(KBForgeError, match="got JSON objects that are not fragments"):
        Database(str(other), write=write)
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE t (x)")
    database.close()
    assert is_store(str(foreign))
    with pytest.raises(KBForgeError, match="another program"):
        Database(str(foreign), write=write)
    with pytest.raises(KBForgeError, match="no such"):
        Database(str(tmp_path / "no" / "kb.sqlite"), write=write)


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "kb.sqlite")
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {tables.VERSION + 1}")
    database.close()
    with pytest.raises(KBForgeError, match="newer kbforge"):
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
