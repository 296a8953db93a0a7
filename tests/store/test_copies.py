"""A copy of a store's file is whole when no command writes, and says so if it is not."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError, OutputError
from kbforge.store.backup import backup
from kbforge.store.database import Database
from tests.jobs.killing import dies_at
from tests.program import Run
from tests.store.copies import enlarge, require_honest_copy, require_whole_copy
from tests.store.dump import dump
from tests.store.fixtures.version_2 import stored
from tests.store.test_database import put
from tests.store.verbs import READING, WRITING, ending


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store."""
    path = stored("records", tmp_path / "records.sqlite")
    Database(str(path)).close()
    return path


def beside(path: Path) -> set[str]:
    """The endings of what lies beside a store."""
    return {file.name.removeprefix(path.name) for file in path.parent.glob(f"{path.name}?*")}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Somebody reads an older state of the store."""
    with Database(str(path)) as reader, reader.snapshot():
        reader.connection.execute("SELECT count(*) FROM fragment").fetchone()
        yield


@pytest.mark.parametrize("verb", WRITING)
def test_the_last_one_to_close_a_store_leaves_a_file_that_is_whole(
    verb: str, path: Path, program: Run
) -> None:
    # an erasure is not done while somebody reads what it erases
    with Database(str(path)) if verb == "remove --secure" else reading(path):
        assert ending(program, verb, path)[0] == 0
        gc.collect()
    require_whole_copy(path)
    assert beside(path) <= {"-wal", "-shm"}, "of `dump`"


@pytest.mark.parametrize("verb", READING)
def test_a_verb_that_reads_leaves_nothing_beside_a_store(
    verb: str, path: Path, program: Run
) -> None:
    assert ending(program, verb, path)[0] == 0
    gc.collect()  # at the latest when the program ends
    assert beside(path) == set()


def test_readers_leave_the_log_to_a_writer_that_is_at_work(path: Path) -> None:
    with Database(str(path), write=True) as writer:
        writer.transaction(put("a", b"1"))
        Database(str(path)).close()
        assert {"-wal", "-shm"} <= beside(path)
        assert not require_honest_copy(path)
        assert writer.settle()
        require_whole_copy(path)
        with reading(path):
            writer.transaction(put("a", b"1"))
            assert beside(path)
        writer.transaction(put("b", b"2"))
        assert not require_honest_copy(path)
    require_whole_copy(path)


def test_a_reader_can_close_after_another_store_took_the_name(path: Path, tmp_path: Path) -> None:
    other = Path(shutil.copy(path, tmp_path / "other.sqlite"))
    with Database(str(path)):
        other.replace(path)
    assert Database(str(path)).lacking is None


def written(path: str) -> None:
    """Commit two transactions."""
    with Database(path, write=True) as database:
        database.transaction(put("a", b"1"))
        database.transaction(put("b", b"2"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_copy_without_the_log_of_a_killed_command_says_so(path: Path, tmp_path: Path) -> None:
    whole = [False]
    while True:
        killed = Path(shutil.copy(path, tmp_path / f"killed-{len(whole)}.sqlite"))
        if not dies_at(len(whole), written, str(killed)):
            break
        whole.append(require_honest_copy(killed))
        Database(str(killed), write=True).close()
        require_whole_copy(killed)
    # until the mark is in the file, there is nothing else in the log
    assert whole[1:4] == [True, True, True]
    assert whole[4:] == [False] * 8


def test_check_names_a_copy_that_lacks_its_log(path: Path, tmp_path: Path, program: Run) -> None:
    with Database(str(path), write=True) as writer:
        writer.transaction(put("a", b"1"))
        copy = shutil.copy(path, tmp_path / "copy.sqlite")
        assert program("check", path, "--json").json["lacking"] is None
    ran = program("check", copy, "--json")
    assert (ran.code, ran.json["whole"], ran.json["damage"]) == (1, False, [])
    assert ran.json["lacking"].startswith(f"{copy} may lack data written after run 12: ")
    plain = program("check", copy)
    assert plain.code == 1
    assert b"may lack data written after run 12" in plain.out
    assert b"is intact" not in plain.out
    with pytest.raises(KBForgeError, match="may lack"):
        backup(copy, str(tmp_path / "again.sqlite"))
    assert b"may lack" in program("status", copy).err.encode()
    Database(copy, write=True).close()
    assert program("check", copy, "--json").json["lacking"] is None


def test_a_backup_has_what_the_store_has(path: Path, tmp_path: Path, program: Run) -> None:
    copy = tmp_path / "copy.sqlite"
    made = program("backup", path, copy, "--json").json
    assert made["path"] == str(copy)
    assert (made["fragments"], made["run"]) == (30, 12)
    assert made["bytes"] == copy.stat().st_size
    assert dump(copy) == dump(path)
    gc.collect()
    assert {file.name for file in tmp_path.iterdir()} <= {
        *(path.name, copy.name, f"{copy.name}-wal", f"{copy.name}-shm"),
        *(f"{path.name}-wal", f"{path.name}-shm"),
    }


def test_a_backup_beside_a_writer_is_of_one_moment(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    with Database(str(path), write=True) as writer:
        writer.transaction(put("a", b"1"))
        wanted = dump(path)
        backup(
            str(path),
            str(copy),
            on_copied=lambda _: writer.transaction(put("b", b"2")),
        )
        with Database(str(copy)) as made:
            assert made.lacking is None
    assert dump(copy) == wanted


def test_a_backup_replaces_a_store_only_when_asked(path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(stored("mentions", tmp_path / "m.sqlite"), tmp_path / "copy.sqlite"))
    copy.chmod(0o640)
    before = copy.read_bytes()
    with pytest.raises(OutputError, match="--replace replaces a store"):
        backup(str(path), str(copy))
    with Database(str(copy)), pytest.raises(OutputError, match="has it open"):
        backup(str(path), str(copy), replace=True)
    backup(str(path), str(copy), replace=True)
    assert dump(copy) == dump(path)
    assert copy.read_bytes() != before
    assert copy.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("replace", [False, True])
def test_a_backup_replaces_nothing_but_a_store(path: Path, tmp_path: Path, replace: bool) -> None:
    other = tmp_path / "people.csv"
    other.write_text("id,name\n1,Ann\n")
    for to in (other, path, tmp_path):
        with pytest.raises(Exception, match=r"cannot write|would replace"):
            backup(str(path), str(to), replace)
    assert other.read_text() == "id,name\n1,Ann\n"
    with pytest.raises(OutputError, match="no such"):
        backup(str(path), str(tmp_path / "no" / "copy.sqlite"), replace)
    orphan = tmp_path / "copy.sqlite-wal"
    orphan.write_bytes(b"log")
    with pytest.raises(OutputError, match="is the log of another file"):
        backup(str(path), str(tmp_path / "copy.sqlite"), replace)


def test_a_backup_of_a_damaged_store_is_none(path: Path, tmp_path: Path) -> None:
    enlarge(path)
    with Database(str(path), write=True) as database:
        database.connection.execute("UPDATE fragment SET place = 99 WHERE number = 3")
    with pytest.raises(Exception, match=rf"{path.name} is damaged: the row 3 of fragment"):
        backup(str(path), str(tmp_path / "copy.sqlite"))
    assert not (tmp_path / "copy.sqlite").exists()
    assert not list(tmp_path.glob(".kbforge-*"))
