"""Writing: atomic, with the mode and the links of what is replaced, and clean after a kill."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import OutputError, UsageError
from kbforge.files.fragments import DigestSet
from kbforge.files.io import (
    hold,
    open_output,
    require_apart,
    require_distinct,
    sweep,
    temporary_file,
    temporary_folder,
)
from kbforge.models.bundle import Bundle, read_bundle, write_bundle

POSIX = pytest.mark.skipif(os.name != "posix", reason="modes, links and locks of POSIX")

WRITER = """
import sys, time
from pathlib import Path
from kbforge.files.io import open_output
with open_output(sys.argv[1]) as out:
    out.write(b"half")
    out.flush()
    Path(sys.argv[2]).touch()
    time.sleep(600)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def write(path: Path, content: bytes) -> None:
    with open_output(str(path)) as out:
        out.write(content)


@POSIX
@pytest.mark.parametrize("bits", [0o600, 0o640, 0o755])
def test_a_replaced_file_keeps_its_mode(tmp_path, bits):
    file = tmp_path / "out"
    file.write_bytes(b"old")
    file.chmod(bits)
    write(file, b"new")
    assert (file.read_bytes(), mode(file)) == (b"new", bits)


@POSIX
def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "out", b"new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "out") == 0o640


@POSIX
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_replaced(tmp_path, there):
    target, link = tmp_path / "deep" / "kb", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_bytes(b"old")
        target.chmod(0o600)
    link.symlink_to(Path("deep") / "kb")
    write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert not there or mode(target) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"deep", "link"}
    assert list(target.parent.iterdir()) == [target]


@POSIX
def test_a_replaced_bundle_keeps_its_modes_and_link(tmp_path):
    folder, link = tmp_path / "v1", tmp_path / "model"
    write_bundle(folder, Bundle("likelihoods", "x", {"a.json": b"1"}, {}, {}))
    folder.chmod(0o700)
    (folder / "a.json").chmod(0o600)
    link.symlink_to("v1")
    write_bundle(link, Bundle("likelihoods", "x", {"a.json": b"2"}, {}, {}))
    assert link.is_symlink()
    assert read_bundle(folder).files == {"a.json": b"2"}
    assert (mode(folder), mode(folder / "a.json")) == (0o700, 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "v1"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "out"
    file.write_bytes(b"old")

    def fail() -> None:
        with open_output(str(file)) as out:
            out.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def started(tmp_path: Path, output: Path) -> subprocess.Popen[bytes]:
    """A process that is in the middle of writing a file."""
    ready = tmp_path / "ready"
    ready.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(output), str(ready)])
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.02)
    return process


@POSIX
def test_the_next_run_removes_what_a_killed_one_left_and_no_living_one(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    killed = started(tmp_path, folder / "a")
    living = started(tmp_path, folder / "b")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    try:
        assert len(list(folder.iterdir())) == 2
        write(folder / "c", b"c")
        left = [path for path in folder.iterdir() if path.name != "c"]
        assert len(left) == 1, "only the living one's is left"
        write(folder / "d", b"d")
        assert left[0].read_bytes() == b"half"
    finally:
        living.kill()
        living.wait()
    write(folder / "e", b"e")
    assert sorted(path.name for path in folder.iterdir()) == ["c", "d", "e"]


@POSIX
def test_a_hidden_file_of_another_program_is_not_swept(tmp_path):
    (tmp_path / ".kbforge-notes").write_bytes(b"mine")
    (tmp_path / ".out.swp").write_bytes(b"an editor's")
    write(tmp_path / "out", b"x")
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_output_error():
    with pytest.raises(OutputError, match="cannot write /dev/full: no space left"):
        write(Path("/dev/full"), b"x")


# The set of digests against Python's own set.


@given(st.lists(st.binary(max_size=3)))
def test_like_a_set(members):
    seen, expected = DigestSet(), set()
    for member in members:
        assert seen.add(member) == (member not in expected)
        expected.add(member)
    assert len(seen) == len(expected)


def test_nothing_is_forgotten_while_it_grows():
    seen = DigestSet()
    members = [str(i).encode() for i in range(30_000)]
    assert all(seen.add(member) for member in members)
    assert not any(seen.add(member) for member in members)
    assert len(seen) == 30_000


# What killed runs left is removed, and nothing else that has such a name.


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of files")
NAME = ".kbforge-left.part"


def test_files_and_folders_of_the_dead_are_removed(tmp_path):
    (tmp_path / NAME).write_bytes(b"half")
    (tmp_path / ".kbforge-folder.part").mkdir()
    (tmp_path / ".kbforge-folder.part" / "a").write_bytes(b"x")
    (tmp_path / ".kbforge-other").write_bytes(b"mine")
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".kbforge-other"]


def test_what_is_held_stays(tmp_path):
    with temporary_file(tmp_path) as (file, _), temporary_folder(tmp_path) as folder:
        sweep(tmp_path)
        assert file.exists()
        assert folder.exists()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a file", "link to a folder"])
def test_neither_pipes_nor_links_are_opened_or_removed(tmp_path, monkeypatch, kind):
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


def test_a_run_beside_a_pipe_of_such_a_name_ends(program, tmp_path):
    os.mkfifo(tmp_path / NAME)
    (tmp_path / "a.csv").write_text("name\nAda\n")
    program("load", "csv", tmp_path / "a.csv", "-o", tmp_path / "a.jsonl")
    assert sorted(os.listdir(tmp_path)) == [NAME, "a.csv", "a.jsonl"]


def test_a_name_that_became_another_one_s_is_left(tmp_path, monkeypatch):
    path = tmp_path / NAME
    path.write_bytes(b"dead")

    def held(handle: int) -> bool:
        (tmp_path / "new").write_bytes(b"alive")
        os.replace(tmp_path / "new", path)
        return hold(handle)

    monkeypatch.setattr("kbforge.files.io.hold", held)
    sweep(tmp_path)
    assert path.read_bytes() == b"alive"


# An output is never an input, however either of them is named.


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    Path("mine.jsonl").write_text("mine")
    Path("soft").symlink_to("mine.jsonl")
    os.link("mine.jsonl", "hard")
    Path("round").symlink_to("deep")
    return tmp_path


@pytest.mark.parametrize(
    ("output", "given"),
    [
        ("mine.jsonl", "mine.jsonl"),
        ("./mine.jsonl", "mine.jsonl"),
        ("deep/../mine.jsonl", "mine.jsonl"),
        ("round/../mine.jsonl", "mine.jsonl"),
        ("soft", "mine.jsonl"),
        ("mine.jsonl", "soft"),
        ("hard", "mine.jsonl"),
        ("hard", "soft"),
        ("mine.jsonl", "."),
    ],
)
def test_one_file_under_two_names_is_refused(mine, output, given):
    with pytest.raises(UsageError, match=r"is an input.*; name another output"):
        require_apart(output, ["other", None, "", given])
    with pytest.raises(UsageError, match="is an input"):
        require_apart(str(mine / output), [given])


@pytest.mark.parametrize(
    ("output", "given"),
    [
        ("new", "mine.jsonl"),
        ("new", "new"),
        ("-", "-"),
        ("mine.jsonl", "-"),
        ("-", "mine.jsonl"),
        ("deep/mine.jsonl", "mine.jsonl"),
        ("new", "."),
        ("/dev/null", "/dev/null"),
        ("new", "a\0b"),
    ],
)
def test_two_files_are_apart(mine, output, given):
    require_apart(output, [given])


def test_a_folder_that_is_replaced_as_a_whole_may_hold_no_input(mine):
    Path("deep/in.jsonl").write_text("x")
    require_apart("deep", ["deep/in.jsonl"])
    with pytest.raises(UsageError, match="is an input"):
        require_apart("deep", ["round/in.jsonl"], whole=True)


def test_two_outputs_are_not_one(mine):
    require_distinct([("picture", "a"), ("animation", None), ("other", "b")])
    with pytest.raises(UsageError, match="the picture and the animation are both"):
        require_distinct([("picture", "deep/new"), ("animation", "round/new")])
    with pytest.raises(UsageError, match="the picture and the animation are both"):
        require_distinct([("picture", "soft"), ("animation", "hard")])
