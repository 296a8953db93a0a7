"""Growing parts of a file, one after another, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.fragments import read_fragments, to_line
from kbforge.files.io import open_output, read_lines
from kbforge.fit.choices import Choices
from kbforge_lab.bench.scale.measuring import RECORDS_A_PERSON, Measurement, read_figures, records

Draw: TypeAlias = Literal["first", "random"]
OnPart: TypeAlias = Callable[[int, str, float], None]
"""Is told of a size, of the part that it is in, and of the share of that part that is done."""

USUAL = tuple(first * 10**power for power in range(2, 9) for first in (1, 3))
LEAST_BY_ITSELF, MOST_BY_ITSELF = 1_000, 100_000
_FEWEST_SIZES = 4
_SECONDS_TO_DIE = 10.0


def sizes_of(total: int | None, named: Sequence[int] | None = None) -> tuple[int, ...]:
    """Which sizes to measure, ascending."""
    if named is not None:
        sizes = tuple(sorted(set(named)))
        if sizes[0] < 1 or len(sizes) < 3:
            raise UsageError(f"--sizes: expected three or more from 1, got {_listed(named)}")
        if total is not None and sizes[-1] > total:
            raise UsageError(f"--sizes: expected at most {total:,} fragments, got {sizes[-1]:,}")
        return sizes
    most = MOST_BY_ITSELF if total is None else min(total, MOST_BY_ITSELF)
    usual = sorted({*(size for size in USUAL if LEAST_BY_ITSELF <= size < most), most})
    if len(usual) >= _FEWEST_SIZES:
        return tuple(usual)
    halves = sorted({most >> power for power in range(_FEWEST_SIZES)} - {0})
    if len(halves) < 3:
        raise KBForgeError(f"a fit needs three sizes, and there are {most:,} fragments")
    return tuple(halves)


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def count_fragments(file: str) -> int:
    """Lines of a file that are not empty."""
    if file == "-":
        raise UsageError("bench scale reads a file more than once; expected its name, got -")
    return sum(bool(line.strip()) for _, line in read_lines(file))


def measure_all(
    file: str | None,
    sizes: Sequence[int],
    choices: Choices,
    draw: Draw = "first",
    on_part: OnPart | None = None,
    environment: Mapping[str, str] | None = None,
    shards: Sequence[int] = (),
) -> Iterator[Measurement]:
    """The costs of growing parts of a file, the smallest first."""
    with TemporaryDirectory(prefix="kbforge-scale-") as name:
        folder = Path(name)
        write_parts(file, sizes, draw, choices.seed, folder)
        for size in sizes:
            source, output = folder / f"{size}.jsonl", folder / "kb.jsonl"
            job = {
                "file": str(source),
                "output": str(output),
                "choices": asdict(choices),
                "shards": list(shards) if size == sizes[-1] else [],
            }
            yield _measured(job, size, on_part, environment)
            source.unlink()


def write_parts(
    file: str | None, sizes: Sequence[int], draw: Draw, seed: int, folder: Path
) -> None:
    """Write SIZE.jsonl for every size.

    The file is read once, and never held. Made-up people are as many as the records allow, so that
    a record has as many others of its person in a small file as in a large one.
    """
    if file is None:
        for size in sizes:
            made = islice(records(max(size // RECORDS_A_PERSON, 1), seed), size)
            _write(folder, [size], ((0, fragment) for fragment in made))
        return
    ranks: Iterable[int] = range(sizes[-1])
    if draw == "random":
        # a fragment's place in a random order: the parts are the beginnings of that order
        ranks = np.random.default_rng(seed).permutation(count_fragments(file)).tolist()
    _write(folder, sizes, zip(ranks, read_fragments(file), strict=False))


def _write(folder: Path, sizes: Sequence[int], ranked: Iterable[tuple[int, Fragment]]) -> None:
    with contextlib.ExitStack() as stack:
        parts = [
            (size, stack.enter_context(open_output(str(folder / f"{size}.jsonl"))))
            for size in sizes
        ]
        for rank, fragment in ranked:
            line = to_line(fragment)
            for size, part in parts:
                if rank < size:
                    part.write(line)


def _measured(
    job: Mapping[str, Any],
    size: int,
    on_part: OnPart | None,
    environment: Mapping[str, str] | None,
) -> Measurement:
    """One job, in a process that does not outlive this one's interest in it."""
    # runs must not fight for the cores, and Ctrl-C is this process's to act on
    surroundings = {"OMP_NUM_THREADS": "1", **os.environ, **(environment or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "kbforge_lab.bench.scale.measuring"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=surroundings,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError):
            json.dump(job, process.stdin)
            process.stdin.close()
        for line in process.stdout:
            message = json.loads(line)
            if "error" in message:
                raise KBForgeError(f"at {size:,} fragments: {message['error']}")
            if "measured" in message:
                return read_figures(message["measured"])
            if on_part is not None:
                on_part(size, message["part"], message["done"] / message.get("of", size))
        code = process.wait(_SECONDS_TO_DIE)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    # the system kills who takes too much
    why = " (out of memory?)" if code == -signal.SIGKILL else ""
    raise KBForgeError(
        f"at {size:,} fragments: its process ended with exit code {quoted(code)}{why}"
    )
