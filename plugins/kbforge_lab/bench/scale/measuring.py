"""Measures the cost of growing parts of a file, each in its own process.

    python -m kbforge_lab.bench.scale.measuring < JOB.json

Standard output has lines of JSON: how far a part has come, and last the figures or one sentence on
what went wrong. The process ends when nobody reads them any more. Without a file, people are made
up: each is drawn from the seed and its own number, so a population of any size takes no memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np

from kbforge.contracts import Fragment, OnStep, Posterior, Progress
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.fragments import held, read_fragments, to_line
from kbforge.files.io import open_output, read_lines
from kbforge.fit.choices import RunOptions
from kbforge.fit.prepare import prepare
from kbforge.jobs.cluster import KnowledgeBase, Times
from kbforge.kernel.binding import kernel_status
from kbforge_lab.bench.perform import Clocks, peak_mib, resident_mib

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
    choices: RunOptions,
    draw: Draw = "first",
    on_part: OnPart | None = None,
    environment: Mapping[str, str] | None = None,
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
            }
            yield _measured(job, size, on_part, environment)
            source.unlink()


def write_parts(
    file: str | None, sizes: Sequence[int], draw: Draw, seed: int, folder: Path
) -> None:
    """Write SIZE.jsonl for every size; the file is read once and never held.

    Made-up people are as many as the records allow, so that records have equally many duplicates in
    small and large files.
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
                return Measurement(**message["measured"])
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


RECORDS_A_PERSON = 3
"""Of a population that grows with the file."""

_LETTERS = "abcdefghijklmnoprstuvwz"
_DIGITS = "0123456789"
_VOWELS = "aeiou"
_SLIP, _GAP = 0.08, 0.1
_FIRST_NAMES, _SURNAMES, _TOWNS = 400, 20_000, 500


def records(population: int, seed: int = 0, spellings: int | None = None) -> Iterator[Fragment]:
    """Records without end, each of a person drawn at random, with typos and gaps."""
    if population < 1:
        raise UsageError(f"people: expected 1 or more, got {population}")
    for number in count():
        rng = random.Random(f"record {seed} {number}")
        person = rng.randrange(population)
        properties = {
            name: (_slipped(value, rng, spellings),)
            for name, value in _person(person, seed).items()
            if rng.random() >= _GAP
        }
        if not properties:
            properties = {"name": (_person(person, seed)["name"],)}
        yield Fragment(f"r{number}", properties, label=f"p{person}")


def _person(number: int, seed: int) -> dict[str, str]:
    """What is true of a person."""
    rng = random.Random(f"person {seed} {number}")
    names = (_word(rng, "first", _FIRST_NAMES), _word(rng, "last", _SURNAMES))
    return {
        "name": " ".join(names),
        "born": f"{rng.randint(1900, 1999)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "town": _word(rng, "town", _TOWNS),
    }


def _word(rng: random.Random, kind: str, kinds: int) -> str:
    """One of so many words; few of them are frequent, as among names."""
    number = int(kinds * rng.random() ** 2)
    made = random.Random(f"{kind} {number}")
    syllables = made.randint(2, 4)
    return "".join(made.choice(_LETTERS) + made.choice(_VOWELS) for _ in range(syllables))


def _slipped(value: str, rng: random.Random, spellings: int | None) -> str:
    """The value, now and then with one character in place of another."""
    if rng.random() >= _SLIP:
        return value
    if spellings is not None:
        rng = random.Random(f"slip {rng.randrange(spellings)} {value}")
    at = rng.randrange(len(value))
    return value[:at] + rng.choice(_DIGITS if value[at].isdigit() else _LETTERS) + value[at + 1 :]


PARTS = ("reading", "preparing", "clustering", "writing")
Tell: TypeAlias = Callable[[Mapping[str, Any]], None]

_SECONDS_APART = 0.5


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one size took."""

    fragments: int
    entities: int
    subproblems: int
    clusters: int  # distinct ones of the particles at the end
    largest: int
    wall: Mapping[str, float]
    cpu: Mapping[str, float]  # processor seconds of each part, threads together
    starting: float  # processor seconds until the program could begin
    peak_mib: float | None
    held_mib: Mapping[str, float | None]
    likelihood: str
    kernel: str
    written: int

    @property
    def seconds(self) -> float:
        return sum(self.wall.values())

    def own(self, part: str) -> float:
        """Seconds of a part: on the wall, or of the processor where the process waited."""
        return min(self.wall[part], self.cpu[part])

    @property
    def engine_per_second(self) -> float:
        """Fragments a second of the clustering alone."""
        return self.fragments / max(self.own("clustering"), 1e-9)


def measured(file: str, output: str, choices: RunOptions, tell: Tell) -> Measurement:
    """Go all the way from a file to a knowledge base."""
    stages = _Stages(tell)
    starting = stages.last.cpu
    fragments = held(read_fragments(file))
    stages.end("reading")
    prepared = prepare(fragments, choices)
    stages.end("preparing")
    rng = np.random.default_rng(choices.seed)
    begin = time.perf_counter()
    posterior = prepared.clusterer.cluster(
        fragments, prepared.spec, rng, _told(tell, len(fragments))
    )
    times = Times(clustering=time.perf_counter() - begin)
    stages.end("clustering")
    knowledge = KnowledgeBase(
        tuple(fragments),
        posterior,
        times,
        prepared.alpha,
        prepared.confidence,
        prepared.notes,
        prepared.likelihood,
    )
    knowledge.write(output)
    stages.end("writing")
    return Measurement(
        fragments=len(fragments),
        **_found(posterior),
        wall={name: one.wall for name, one in stages.spent.items()},
        cpu={name: one.cpu for name, one in stages.spent.items()},
        starting=starting,
        peak_mib=peak_mib(),
        held_mib=stages.held,
        likelihood=prepared.likelihood,
        kernel=kernel_status(),
        written=Path(output).stat().st_size,
    )


class _Stages:
    """The clocks and the memory at the end of each part."""

    def __init__(self, tell: Tell) -> None:
        self.spent: dict[str, Clocks] = {}
        self.held: dict[str, float | None] = {}
        self.last = Clocks.now()
        self._tell = tell
        tell({"part": PARTS[0], "done": 0})

    def end(self, part: str) -> None:
        now = Clocks.now()
        self.spent[part] = now - self.last
        self.held[part] = resident_mib()
        following = PARTS[PARTS.index(part) + 1 :]
        if following:
            self._tell({"part": following[0], "done": 0})
        self.last = Clocks.now()


def _told(tell: Tell, total: int) -> OnStep:
    """Reports progress now and then."""
    due = time.monotonic() + _SECONDS_APART

    def on_step(progress: Progress) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _SECONDS_APART
            tell({"part": "clustering", "done": progress.fragments, "of": total})

    on_step.seldom = True  # type: ignore[attr-defined]
    return on_step


def _found(posterior: Posterior) -> dict[str, int]:
    """The sizes of a result."""
    entities = clusters = largest = subproblems = 0
    for subproblem in posterior.subproblems:
        subproblems += 1
        entities += len(subproblem.particles[0].clusters)
        clusters += len({one for row in subproblem.particles for one in row.clusters})
        largest = max(largest, len(subproblem.fragments))
    return {
        "entities": entities,
        "subproblems": subproblems,
        "clusters": clusters,
        "largest": largest,
    }


def figures(one: Measurement) -> dict[str, Any]:
    """As JSON has them."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


def main() -> None:
    """Do the job on standard input."""
    job = json.load(sys.stdin)

    def tell(message: Mapping[str, Any]) -> None:
        print(json.dumps(message), flush=True)

    try:
        choices = RunOptions(**job["choices"])
        done = measured(job["file"], job["output"], choices, tell)
        tell({"measured": figures(done)})
    except BrokenPipeError:
        os._exit(1)  # nobody waits for it
    except KBForgeError as error:
        tell({"error": str(error)})
    except MemoryError:
        tell({"error": "out of memory"})


if __name__ == "__main__":
    main()
