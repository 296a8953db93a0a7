"""What killed runs left is removed, and nothing else that has such a name."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from kbforge.files.temporary import hold, sweep, temporary_file, temporary_folder
from tests.program import Run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of files")
NAME = ".kbforge-left.part"


def test_files_and_folders_of_the_dead_are_removed(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"half")
    (tmp_path / ".kbforge-folder.part").mkdir()
    (tmp_path / ".kbforge-folder.part" / "a").write_bytes(b"x")
    (tmp_path / ".kbforge-other").write_bytes(b"mine")
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".kbforge-other"]


def test_what_is_held_stays(tmp_path: Path) -> None:
    with temporary_file(tmp_path) as (file, _), temporary_folder(tmp_path) as folder:
        sweep(tmp_path)
        assert file.exists()
        assert folder.exists()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a file", "link to a folder"])
def test_neither_pipes_nor_links_are_opened_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Opening a pipe to which nobody writes waits for ever."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    match kind:
        case "pipe":
            os.mkfifo(NAME)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(NAME)
        case "link to a file":
            os.symlink("mine/file", NAME)
        case _:
            os.symlink("mine", NAME)
    sweep(tmp_path)
    assert sorted(os.listdir()) == [NAME, "mine"]
    assert (mine / "file").read_bytes() == b"x"


def test_a_run_beside_a_pipe_of_such_a_name_ends(program: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    (tmp_path / "a.csv").write_text("name\nAda\n")
    program("load", "csv", tmp_path / "a.csv", "-o", tmp_path / "a.jsonl")
    assert sorted(os.listdir(tmp_path)) == [NAME, "a.csv", "a.jsonl"]


def test_a_name_that_became_another_one_s_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"dead")

    def held(handle: int) -> bool:
        (tmp_path / "new").write_bytes(b"alive")
        os.replace(tmp_path / "new", path)
        return hold(handle)

    monkeypatch.setattr("kbforge.files.temporary.hold", held)
    sweep(tmp_path)
    assert path.read_bytes() == b"alive"
