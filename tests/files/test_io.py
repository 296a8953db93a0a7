"""Writing: atomic, with the mode and the links of what is replaced, and clean after a kill."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbforge.errors import OutputError
from kbforge.files.io import open_output
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
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, bits: int) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"old")
    file.chmod(bits)
    write(file, b"new")
    assert (file.read_bytes(), mode(file)) == (b"new", bits)


@POSIX
def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "out", b"new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "out") == 0o640


@POSIX
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path, there: bool) -> None:
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
def test_a_replaced_bundle_keeps_its_modes_and_link(tmp_path: Path) -> None:
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


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
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
def test_the_next_run_removes_what_a_killed_one_left_and_no_living_one(tmp_path: Path) -> None:
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
def test_a_hidden_file_of_another_program_is_not_swept(tmp_path: Path) -> None:
    (tmp_path / ".kbforge-notes").write_bytes(b"mine")
    (tmp_path / ".out.swp").write_bytes(b"an editor's")
    write(tmp_path / "out", b"x")
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_output_error() -> None:
    with pytest.raises(OutputError, match="cannot write /dev/full: no space left"):
        write(Path("/dev/full"), b"x")
