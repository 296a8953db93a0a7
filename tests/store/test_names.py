"""A store is the file of its name, whatever that is; what lies beside it is as private as it."""

from __future__ import annotations

import gc
import os
import stat
from pathlib import Path

import pytest

from kbforge.files.fragments import write_fragments
from kbforge.files.io import temporary_file
from kbforge.store.backup import backup
from kbforge.store.database import Database
from kbforge.store.tables import create_tables
from tests.people import people
from tests.program import Run
from tests.store.copies import enlarge
from tests.store.fixtures.version_2 import stored
from tests.store.test_database import made, put

NAMES = [
    b":memory:",
    b"file:x.sqlite",
    b"file::memory:?cache=shared",
    b"a?mode=memory#b%41.sqlite",
    b"\xff\n.sqlite",
]
"""What SQLite understands otherwise, what addresses do, and bytes that are no text."""


@pytest.mark.parametrize("name", NAMES)
def test_a_store_is_the_file_of_its_name(
    name: bytes, tmp_path: Path, program: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = os.fsdecode(name)
    given = os.fsdecode(name + b".jsonl")
    write_fragments(people(6, 3), given)
    program("cluster", given, "--into", store, "--likelihood", "attributes")
    assert sorted(os.listdir(os.fsencode(tmp_path))) == sorted([name, name + b".jsonl"])
    status = program("status", store, "--json").json
    assert (status["path"].encode(errors="surrogateescape"), status["fragments"]) == (name, 21)
    assert program("check", store, "--json").json["whole"]
    id = program("export", store, "--format", "members", "-o", "-").out.split(b'"')[11].decode()
    assert program("explain", store, "--fragment", id, "--json").out
    program("remove", store, id, "--secure")
    copy = os.fsdecode(b"copy of " + name)
    assert program("backup", store, copy, "--json").json["fragments"] == 20
    said = program("show", store, "--fragment", id)
    assert said.code
    assert said.err.startswith("kbforge: ")
    gc.collect()
    assert sorted(os.listdir(os.fsencode(tmp_path))) == sorted(
        [name, name + b".jsonl", b"copy of " + name]
    )


def test_damage_in_a_file_of_any_name_is_a_sentence(tmp_path: Path, program: Run) -> None:
    store = stored("records", tmp_path / os.fsdecode(b"\xff.sqlite"))
    enlarge(store)
    with Database(str(store), write=True) as database:
        database.connection.execute("UPDATE fragment SET line = replace(line, 'Bria', 'Bris')")
    program("export", store, "-o", "-").require_refusal(r"\udcff.sqlite is damaged: the row", 1)


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_store_and_what_lies_beside_it_are_private(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    with Database(str(path), write=True) as database:
        database.transaction(create_tables)
        database.transaction(put("a", b"1"))
        assert {file.name: mode(file) for file in tmp_path.iterdir()} == {
            f"kb.sqlite{ending}": 0o600 for ending in ("", "-wal", "-shm")
        }
    path.chmod(0o640)
    with Database(str(path), write=True) as database:
        database.transaction(put("b", b"1"))
        assert mode(f"{path}-wal") == mode(path) == 0o640
    backup(str(path), str(tmp_path / "copy.sqlite"))
    assert mode(tmp_path / "copy.sqlite") == 0o600


def test_a_command_that_writes_a_store_removes_what_killed_ones_left_beside_it(
    tmp_path: Path,
) -> None:
    (tmp_path / ".kbforge-dead.part").write_bytes(b"half a result")
    (tmp_path / ".kbforge-dead-folder.part").mkdir()
    with temporary_file(tmp_path) as (alive, _):
        made(tmp_path / "kb.sqlite")
        assert {file.name for file in tmp_path.iterdir()} == {"kb.sqlite", alive.name}
