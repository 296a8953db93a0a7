"""What Windows and macOS lack is not needed: their own calls take its place, or nothing does."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import types
from pathlib import Path

import pytest

from kbforge.files.io import hold, locked, open_output, temporary_folder
from tests.registry.distributions import Result, python

EXAMPLES = Path(__file__).parents[2] / "examples"
# modules, functions and constants that only POSIX has
WITHOUT_POSIX = """
import sys, types

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
import subprocess  # which takes msvcrt for a sign of Windows
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
sys.modules["msvcrt"].LK_NBLCK = 2
sys.modules["msvcrt"].locking = lambda handle, mode, count: None
import os, signal
for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "sched_getaffinity", "fork", "getuid"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "pthread_sigmask", "setitimer"):
    if hasattr(signal, name):
        delattr(signal, name)
from kbforge.__main__ import main
main()
"""


def without_posix(*arguments: str, cwd: Path) -> Result:
    return python("-c", WITHOUT_POSIX, *arguments, cwd=cwd)


@pytest.mark.slow
def test_verbs_run_without_what_only_posix_has(tmp_path):
    people = EXAMPLES / "people" / "people.csv"
    for line in (
        f"load csv {people} --id id -o people.jsonl",
        "cluster people.jsonl -o kb.jsonl",
        "cluster people.jsonl --into kb.sqlite",
        "decide kb.sqlite different 1 2",
        "export kb.jsonl --format neo4j -o neo4j",
        "report kb.jsonl -o report.html",
        "train-ngram people.jsonl -o model",
        "evaluate kb.jsonl people.jsonl",
    ):
        done = without_posix(*line.split(), cwd=tmp_path)
        if line.startswith(("train", "evaluate")):  # there are no labels, which is said in words
            assert done.code in (1, 2), done.err
            assert len(done.err.splitlines()) == 1
        else:
            assert done.code == 0, done.err
    left = {path.name for path in tmp_path.iterdir() if path.name.startswith(".kbforge-")}
    assert left == set()


class Msvcrt(types.ModuleType):
    """Windows' locks, as far as they are used: a byte of a file has at most one."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: dict[tuple[int, int, int], int] = {}

    def locking(self, handle: int, mode: int, count: int) -> None:
        assert (mode, count) == (self.LK_NBLCK, 1)
        status = os.fstat(handle)
        place = (status.st_dev, status.st_ino, os.lseek(handle, 0, os.SEEK_CUR))
        if self.held.setdefault(place, handle) != handle:
            raise PermissionError(errno.EACCES, "Permission denied")


@pytest.fixture
def windows(monkeypatch):
    made = Msvcrt()
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", made)
    return made


def test_a_file_has_one_holder(tmp_path, windows):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"one line\n")
    with open(path, "r+b") as first, open(path, "r+b") as second:
        first.seek(4)
        assert hold(first.fileno())
        assert not hold(second.fileno())
        assert first.tell() == 4
        assert second.read() == b"one line\n"  # the locked byte is behind the end
    (place,) = windows.held
    assert place[2] > 1 << 30


def test_a_locked_file_refuses_others(tmp_path, windows):
    with locked(tmp_path / "lock"), pytest.raises(BlockingIOError), locked(tmp_path / "lock"):
        pass


def test_without_any_locks_nothing_is_held(tmp_path, monkeypatch):
    for name in ("fcntl", "msvcrt"):
        monkeypatch.setitem(sys.modules, name, None)
    with locked(tmp_path / "lock"), locked(tmp_path / "lock"):
        assert not (tmp_path / "lock").exists()
    with open(tmp_path / "file", "wb") as file, pytest.raises(OSError, match="no locks"):
        hold(file.fileno())


def test_an_output_is_closed_before_it_gets_its_name(tmp_path, monkeypatch):
    """Windows renames no open file."""
    handles: list[int] = []
    replace = os.replace

    def on_windows(source: str, target: str) -> None:
        for handle in handles:
            with contextlib.suppress(OSError):
                os.fstat(handle)
                raise PermissionError(errno.EACCES, "the file is open")
        replace(source, target)

    with open_output(str(tmp_path / "out.jsonl")) as out:
        out.write(b"content")
        handles.append(out.fileno())
        monkeypatch.setattr("kbforge.files.io.os.replace", on_windows)
        monkeypatch.setattr("kbforge.files.io.os.name", "nt")
    monkeypatch.undo()
    assert (tmp_path / "out.jsonl").read_bytes() == b"content"


def test_a_folder_that_cannot_be_opened_is_written(tmp_path, monkeypatch):
    """Windows opens no folders."""

    opened = os.open

    def refuse(path: str, flags: int, **inside: int) -> int:
        if inside:  # rmtree opens folders by their parents'
            return opened(path, flags, **inside)
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("kbforge.files.io.os.open", refuse)
        with temporary_folder(tmp_path) as made:
            (made / "file").write_text("content")
    assert list(tmp_path.iterdir()) == []
