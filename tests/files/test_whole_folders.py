"""Folders that are whole or not there, and that never take the place of what is not theirs."""

import pytest

from kbforge.errors import OutputError, UsageError
from kbforge.files.io import open_folder

NAMES = ("a.csv", "b.csv")


def write(path, content=b"x"):
    with open_folder(str(path), NAMES, "exporter x") as folder:
        for name in NAMES:
            (folder / name).write_bytes(content)


def test_a_folder_appears_and_is_replaced(tmp_path):
    write(tmp_path / "kb")
    write(tmp_path / "kb", b"y")
    assert {file.name: file.read_bytes() for file in (tmp_path / "kb").iterdir()} == dict.fromkeys(
        NAMES, b"y"
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "kb"]


def test_a_failure_leaves_the_old_one(tmp_path):
    write(tmp_path / "kb")
    with pytest.raises(TypeError):
        write(tmp_path / "kb", None)
    assert (tmp_path / "kb" / "a.csv").read_bytes() == b"x"
    assert list(tmp_path.iterdir()) == [tmp_path / "kb"]


@pytest.mark.parametrize("strange", ["file", "folder"])
def test_what_is_not_its_own_is_left_alone(tmp_path, strange):
    there = tmp_path / "kb"
    if strange == "file":
        there.write_text("mine")
    else:
        write(there)
        (there / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"exporter x: .*expected no such folder, or one that it"):
        write(there, b"y")
    assert "mine" in (there if strange == "file" else there / "notes.txt").read_text()


def test_it_is_no_stream_and_needs_a_place(tmp_path):
    with pytest.raises(UsageError, match="expected a folder, got standard output"):
        write("-")
    with pytest.raises(OutputError, match="no such file or directory"):
        write(tmp_path / "missing" / "kb")
