"""Ended from outside: real signals to real processes, and disks that are full."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbforge import interrupts
from tests.cli.driving import PROGRAM, Terminal
from tests.cli.test_cluster import GAUSSIAN, write_points
from tests.jsonl import members_of
from tests.people import write_people

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")


@contextmanager
def started(
    *arguments: object,
    prepare: Callable[[], object] | None = None,
    **environment: str,
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
        preexec_fn=prepare,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[bytes], start: bytes) -> None:
    """Until it says a line that begins with a regular expression."""
    assert process.stderr is not None
    for line in process.stderr:
        if re.match(start, line):
            return
    raise AssertionError("it ended before")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, b"interrupted: "),
        (signal.SIGTERM, 143, b"interrupted by SIGTERM: "),
        (signal.SIGHUP, 129, b"interrupted by SIGHUP: "),
    ],
)
def test_a_clustering_keeps_what_it_has(
    tmp_path: Path, number: signal.Signals, code: int, said: bytes
) -> None:
    points, kb = write_points(tmp_path / "many.jsonl", 150_000, 3_000), tmp_path / "kb.jsonl"
    command = ("cluster", points, "-o", kb, *GAUSSIAN, "--set", "particles=300", "--json")
    with started(*command) as running:
        wait_for(running, rb"clustering: [1-9]")  # some fragments have been added
        for _ in range(3):  # they often come in groups
            running.send_signal(number)
            running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=300)
    assert running.returncode == code, err
    assert said in err
    assert b"Traceback" not in err
    assert not kb.exists()
    summary = json.loads(out)
    assert not summary["complete"]
    assert 0 < summary["fragments"] < 150_000
    held = members_of(f"{kb}.partial")
    assert held == sorted(f"p{i}" for i in range(summary["fragments"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, b"kbforge: interrupted\n"),
        (signal.SIGTERM, 143, b"kbforge: interrupted by SIGTERM\n"),
        (signal.SIGHUP, 129, b"kbforge: interrupted by SIGHUP\n"),
    ],
)
@pytest.mark.parametrize("verb", ["load jsonl -", "cluster -", "train-ngram -"])
def test_a_run_without_a_result_ends_at_once_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int, said: bytes, verb: str
) -> None:
    with started(*verb.split(), "-o", tmp_path / "out") as running:
        assert running.stdin is not None
        running.stdin.write(b'{"id": "a", "properties": {"name": ["A"]}}\n')
        running.stdin.flush()
        wait_until_it_reads(running.pid)
        running.send_signal(number)
        assert running.wait(timeout=300) == code
        assert running.stderr is not None
        assert running.stderr.read() == said
    assert list(tmp_path.iterdir()) == []


def wait_until_it_reads(pid: int) -> None:
    """Until the process waits for its input, and imports nothing any more."""
    deadline = time.monotonic() + 300
    asleep_in = ""  # the system call and what it was given: a read of file 0
    while asleep_in.split()[1:2] != ["0x0"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        asleep_in = Path(f"/proc/{pid}/syscall").read_text()


def wait_until_it_has_worked(pid: int, seconds: float) -> None:
    """Until the process has used so much processor time: imports take less than two seconds."""
    used = 0.0
    deadline = time.monotonic() + 300
    while used < seconds:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_while_rates_are_learned_a_signal_ends_it(tmp_path: Path) -> None:
    people = write_people(tmp_path / "people.jsonl", 20_000)
    out = tmp_path / "out"
    out.mkdir()
    with started("cluster", people, "-o", out / "kb.jsonl") as running:
        wait_until_it_has_worked(running.pid, 2.0)
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=300)
    assert running.returncode == 143
    assert err.endswith(b"interrupted by SIGTERM\n")
    assert list(out.iterdir()) == []


@pytest.mark.slow
def test_nohup_is_respected(tmp_path: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with started("load", "jsonl", "-", "-o", tmp_path / "out", prepare=ignore) as running:
        assert running.stdin is not None
        time.sleep(2)
        running.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        _, err = running.communicate(b'{"id": "a", "properties": {"name": ["A"]}}\n')
    assert running.returncode == 0, err
    assert (tmp_path / "out").exists()


def test_signals_wait_for_the_end_of_a_block() -> None:
    done = []
    before = signal.getsignal(signal.SIGTERM)  # that of a test before, if it started Ray

    def twice() -> None:
        with interrupts.deferred() as came:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGHUP)
            done.append(came())

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert done == [True]
    assert interrupts.exit_code() == 143
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        signal.raise_signal(signal.SIGHUP)
    assert interrupts.exit_code() == 129, "the next block starts anew"
    assert signal.getsignal(signal.SIGTERM) is before


def limited() -> None:
    """No file may grow: a disk that is full for everything."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 8 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def entities_in(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_a_result_that_does_not_fit_goes_elsewhere(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = write_points(tmp_path / "points.jsonl", 300, 100)
    elsewhere = tmp_path / "here"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with started("cluster", points, "-o", small / "kb.jsonl", *GAUSSIAN) as running:
        _, err = running.communicate(timeout=300)
    rescued = elsewhere / "rescued-1-kb.jsonl"
    assert running.returncode == 1
    assert err.decode().splitlines()[-1] == (
        f"kbforge: cannot write {small}/kb.jsonl: no space left on device; "
        f"the result is in {rescued} instead"
    )
    assert entities_in(rescued) > 1
    assert list(small.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("output", ["/dev/full", "-"])
def test_so_does_one_that_a_device_or_standard_output_does_not_take(
    tmp_path: Path, output: str
) -> None:
    points = write_points(tmp_path / "points.jsonl")
    with open("/dev/full", "wb") as full:
        command = [*PROGRAM, "cluster", str(points), "-o", output, *GAUSSIAN]
        ran = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False
        )
    assert ran.returncode == 1
    assert b"Exception ignored" not in ran.stderr
    (rescued,) = tmp_path.glob("rescued-1-*")
    assert str(rescued).encode() in ran.stderr.splitlines()[-1]
    assert entities_in(rescued) == 6


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path) -> None:
    points = write_points(tmp_path / "points.jsonl")
    kb = tmp_path / "kb.jsonl"
    with started("cluster", points, "-o", kb, *GAUSSIAN, prepare=limited) as running:
        _, err = running.communicate(timeout=300)
    assert running.returncode == 1
    assert err.decode().splitlines()[-1] == f"kbforge: cannot write {kb}: file too large"
    assert [path.name for path in tmp_path.iterdir()] == ["points.jsonl"]


def test_at_a_terminal_it_waits_until_there_is_room(tmp_path: Path) -> None:
    """The limit is lifted from outside while it waits, as a user would delete files."""
    points, kb = write_points(tmp_path / "points.jsonl"), tmp_path / "kb.jsonl"
    terminal = Terminal("cluster", points, "-o", kb, *GAUSSIAN, prepare=limited)
    terminal.wait_for("press Enter")
    assert not kb.exists()
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(terminal.pid, resource.RLIMIT_FSIZE, unlimited)
    terminal.type("\n")
    assert terminal.end() == 0, terminal.said
    assert entities_in(kb) == 6
