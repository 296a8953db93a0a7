"""Files damaged at random, for every reader: a sentence or a result, at a terminal, in time.

`KBFORGE_HOSTILE=5000` tries as many inputs; `make soak` does. A failure names the seed, and
`KBFORGE_HOSTILE_KEEP=FOLDER` keeps the inputs that failed.
"""

from __future__ import annotations

import io
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
from tests.hostile.readers import READERS, Reader, cycle, prepare, put
from tests.hostile.test_terminal import STYLES

COUNT = int(os.environ.get("KBFORGE_HOSTILE", "500"))
PARTS = 10
MOST_SECONDS = 60
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
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    prepare(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_files(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.chdir(good)
    faults, slowest = [], (0.0, "")
    for number, reader in enumerate(cycle(COUNT // PARTS)):
        seed = f"{part}/{number}"
        content = damaged(random.Random(seed), (good / reader.file).read_bytes())
        given = put(reader, good, tmp_path, content)
        begin = time.monotonic()
        wrong = fault(reader.arguments(given))
        slowest = max(slowest, (time.monotonic() - begin, f"{reader.name} {seed}"))
        if wrong:
            faults.append(f"{reader.name}, seed {seed}: {wrong}")
            _keep(f"{part}-{number}-{given.name}", content)
    print(f"{COUNT // PARTS} inputs, the slowest took {slowest[0]:.1f} s: {slowest[1]}")
    assert not faults, "\n".join(faults)


def _keep(name: str, content: bytes) -> None:
    if folder := os.environ.get("KBFORGE_HOSTILE_KEEP"):
        (Path(folder) / name).write_bytes(content)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_the_good_files_are_good(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: Reader
) -> None:
    """Else the damaged ones would be refused for another reason."""
    monkeypatch.chdir(good)
    given = put(reader, good, tmp_path, (good / reader.file).read_bytes())
    monkeypatch.setattr(sys, "argv", ["kbforge", *reader.arguments(given)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
