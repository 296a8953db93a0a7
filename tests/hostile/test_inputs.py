"""Files damaged at random, for every reader: a sentence or a result, at a terminal, in time.

Memory stays under a limit, and nothing is different without a word: where `cluster` takes a table,
`load` reads the same records in it, and damage to a packed file changes their number only if the
command says so by its exit code.

`KBFORGE_HOSTILE=5000` tries as many inputs; `make soak` does. A failure names the seed, and
`KBFORGE_HOSTILE_KEEP=FOLDER` keeps the inputs that failed.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbforge.cli.main import main
from tests.hostile.damage import damaged
from tests.hostile.readers import READERS, TABLES, Reader, cycle, prepare, put
from tests.hostile.test_terminal import STYLES

COUNT = int(os.environ.get("KBFORGE_HOSTILE", "500"))
PARTS = 10
MOST_SECONDS = 60
MOST_MIB = 400  # beside the 100 MiB that the program needs itself
PACKED = (".gz", ".bz2", ".zst")  # formats with checksums
CODES = (0, 1, 2)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a time limit by a signal")


class Terminal(io.TextIOWrapper):
    """A standard stream that says that it is a terminal, and keeps what it gets."""

    def __init__(self) -> None:
        self.kept = io.BytesIO()
        super().__init__(self.kept, encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def close(self) -> None:
        """Stay open: the program's end does not end the test."""


class Hung(BaseException):
    """An input that took too long."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def end(number: int, frame: Any) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fault(arguments: list[str]) -> str:
    """Run the program at a terminal; what is wrong with how it ended, "" if nothing is."""
    out, err = Terminal(), Terminal()
    streams = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv, sys.stdout, sys.stderr = ["kbforge", *arguments], out, err
    sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
    try:
        with limited(MOST_SECONDS):
            main()
    except SystemExit as ended:
        wrong = "" if ended.code in CODES or ended.code is None else f"exit code {ended.code}"
    except Hung:
        wrong = f"no end in {MOST_SECONDS} s"
    except BaseException as error:
        wrong = f"{type(error).__name__}: {error}"
    else:
        wrong = "it did not exit"
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = streams
    said = (out.kept.getvalue() + err.kept.getvalue()).decode("utf-8", "surrogateescape")
    if "Traceback" in said:
        wrong = wrong or "a traceback"
    obeyed = {c for c in STYLES.sub("", said) if not c.isprintable()} - {"\n", "\r", "\t"}
    if obeyed or "\x1b[2J" in said:
        wrong = wrong or f"a terminal obeys {sorted(obeyed)!a}"
    return wrong


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    prepare(folder)
    return folder


def records(arguments: list[str]) -> list[str] | None:
    """The ids of the records in out.jsonl that a command writes; None if it fails."""
    Path("out.jsonl").unlink(missing_ok=True)
    if fault(arguments) or not Path("out.jsonl").exists():
        return None
    lines = [json.loads(line) for line in Path("out.jsonl").read_bytes().splitlines()]
    return sorted(id for line in lines for id in line.get("fragments", [line["id"]]))


def difference(reader: Reader, given: Path, count: int) -> str:
    """What a command does otherwise with a table than it says, "" if nothing."""
    arguments = reader.arguments(given)
    clustered = records(arguments)
    if clustered is None:
        return ""
    options = arguments[arguments.index("attributes") + 1 :]
    loaded = records(["load", str(given), *options])
    if loaded != clustered:
        return f"cluster takes {clustered}, load {loaded}"
    if given.suffix in PACKED and len(clustered) != count:
        return f"{len(clustered)} records, and {count} in the good file"
    return ""


def memory() -> tuple[float, float]:
    """MiB of this process now, and at most since the last call; 0 where they are not known."""
    try:
        status = Path("/proc/self/status").read_text()
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0.0, 0.0
    now, most = (int(status.partition(f"{name}:")[2].split()[0]) for name in ("VmRSS", "VmHWM"))
    return now / 1024, most / 1024


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_files(good, tmp_path, monkeypatch, part):
    monkeypatch.chdir(good)
    faults, slowest, largest = [], (0.0, ""), (0.0, "")
    counts = {one.name: len(records(one.arguments(good / one.file)) or ()) for one in TABLES}
    for number, reader in enumerate(cycle(COUNT // PARTS)):
        seed = f"{part}/{number}"
        content = damaged(random.Random(seed), (good / reader.file).read_bytes())
        given = put(reader, good, tmp_path, content)
        begin, (before, _) = time.monotonic(), memory()
        wrong = fault(reader.arguments(given))
        slowest = max(slowest, (time.monotonic() - begin, f"{reader.name} {seed}"))
        most = memory()[1] - before
        largest = max(largest, (most, f"{reader.name} {seed}"))
        if most > MOST_MIB:
            wrong = wrong or f"{most:.0f} MiB of memory"
        if reader in TABLES:
            wrong = wrong or difference(reader, given, counts[reader.name])
        if wrong:
            faults.append(f"{reader.name}, seed {seed}: {wrong}")
            _keep(f"{part}-{number}-{given.name}", content)
    print(f"{COUNT // PARTS} inputs, the slowest took {slowest[0]:.1f} s: {slowest[1]}")
    print(f"the largest took {largest[0]:.0f} MiB: {largest[1]}")
    assert not faults, "\n".join(faults)


def _keep(name: str, content: bytes) -> None:
    if folder := os.environ.get("KBFORGE_HOSTILE_KEEP"):
        (Path(folder) / name).write_bytes(content)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_the_good_files_are_good(good, tmp_path, monkeypatch, program, reader):
    """Else the damaged ones would be refused for another reason."""
    monkeypatch.chdir(good)
    given = put(reader, good, tmp_path, (good / reader.file).read_bytes())
    assert program(*reader.arguments(given)).code == 0
