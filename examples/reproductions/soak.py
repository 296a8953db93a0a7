"""Soak: an endless stream of records of a fixed number of people, and what memory grows by.

    python examples/reproductions/soak.py [--way engine|session|store] [--minutes 10]

| way | what takes the records in | what it keeps |
|---|---|---|
| engine | a session of split SMC, whose record of the input is emptied after every part | its own |
| session | the same session as it is | the records, too, since it has to give them back |
| store | a store on disk, as `kbforge cluster --into` fills one | next to nothing between parts |

The limit is of the whole address space (RLIMIT_AS). Every half minute a row says how much memory is
resident, and its growth in bytes a record since the last row and since the third minute. The first
records are what the likelihood learns from. A value has four wrong spellings, so that distinct
values, which the likelihood keeps, come to an end; --spellings 0 gives none.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from kbforge import registry
from kbforge.clustering.session import SmcSession
from kbforge.contracts import Fragment, ModelSpec
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.kernel.binding import kernel_status
from kbforge_lab.bench.perform import resident_mib
from kbforge_lab.bench.scale.measuring import records
from kbforge_plugins.clusterers.sequential import SplitSmc

_PART = 2_000
_FIRST = 5_000
_MIB = 2**20
_SETTLED = 180.0  # seconds: what is learned and interned once is there by then


def main() -> None:
    """Take in records until time or memory is up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--way", choices=["engine", "session", "store"], default="engine")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--people", type=int, default=1000)
    parser.add_argument("--spellings", type=int, default=4, help="wrong ones a value; 0: any")
    parser.add_argument("--gib", type=float, default=2.0, help="limit of the address space")
    parser.add_argument("--seconds", type=float, default=30.0, help="between rows")
    given = parser.parse_args()
    most = int(given.gib * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    stream = records(given.people, spellings=given.spellings or None)
    first = list(islice(stream, _FIRST))
    print(f"{kernel_status()}; {given.people:,} people, {given.way}, {given.gib:g} GiB\n")
    print("| minute | records | resident MiB | bytes a record | since minute 3 |")
    print("|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        add = way(given.way, first, Path(folder))
        marks = Marks(given.seconds)
        try:
            while marks.minutes < given.minutes:
                part = list(islice(stream, _PART))
                add(part)
                marks.note(len(part))
        except MemoryError:
            print(f"\nout of memory after {marks.records:,} records, minute {marks.minutes:.1f}")


def way(name: str, first: list[Fragment], folder: Path) -> Callable[[list[Fragment]], object]:
    """What takes in a part; it has learned from the first records, and taken them in."""
    if name == "store":
        store, choices = str(folder / "soak.sqlite"), RunOptions(likelihood="attributes")
        add_fragments(store, first, choices)
        return lambda part: add_fragments(store, part, RunOptions())
    likelihood = registry.create("likelihoods", "attributes", {})
    likelihood.fit(first)
    spec = ModelSpec(likelihood, likelihood.default_alpha, index=likelihood.index)
    session = SplitSmc().open(spec, np.random.default_rng(0))
    session.add(first)

    def add(part: list[Fragment]) -> None:
        session.add(part)
        session.touched()
        if name == "engine":
            assert isinstance(session, SmcSession), kernel_status()
            session._state.held.clear()  # the engine never looks at them again

    return add


class Marks:
    """Prints a row now and then."""

    def __init__(self, apart: float) -> None:
        self._begin, self._apart = time.monotonic(), apart
        self._due = apart
        self.records = 0
        self._last = self._settled = (0, 0.0)

    @property
    def minutes(self) -> float:
        """Since the beginning."""
        return (time.monotonic() - self._begin) / 60

    def note(self, more: int) -> None:
        """So many more records are in."""
        self.records += more
        seconds = 60 * self.minutes
        if seconds < self._due:
            return
        self._due += self._apart
        now = (self.records, resident_mib() or 0.0)
        cells = [f"{self.minutes:.1f}", f"{now[0]:,}", f"{now[1]:,.1f}", grown(self._last, now)]
        if self._settled[0]:
            cells.append(grown(self._settled, now))
        elif seconds >= _SETTLED:
            self._settled = now
        self._last = now
        print("| " + " | ".join([*cells, ""][:5]) + " |", flush=True)


def grown(before: tuple[int, float], now: tuple[int, float]) -> str:
    """Bytes a record between two marks of (records, MiB)."""
    return f"{_MIB * (now[1] - before[1]) / max(now[0] - before[0], 1):,.0f}"


if __name__ == "__main__":
    main()
