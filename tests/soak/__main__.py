"""`make soak`: kills while stores are filled, and the stores are as without them.

First every likelihood that keeps takes up what it kept of 60,000 different values. Then a store of
made-up people is updated with 20,000 fragments under 100 kills, and a store by the plain default is
made under 20. One copy is filled in one go, the other is killed at random moments until it has come
to its end. Their exports and their sorted dumps must be equal, byte for byte.
"""

import argparse
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.files.fragments import write_fragments
from tests.likelihoods.test_kept_whole import KEEPING, require_kept, spellings
from tests.people import people
from tests.store.dump import dump


def main() -> None:
    """Run and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=60_000, help="different, of a likelihood")
    parser.add_argument("--kills", type=int, default=100, help="of the update")
    parser.add_argument("--fragments", type=int, default=20_000, help="of the update")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    known, later = spellings(options.values, 1), spellings(20, 2)
    for name in KEEPING:
        begin = time.perf_counter()
        require_kept(name, known, later)
        print(f"{time.perf_counter() - begin:.1f} s to keep and take up {name}", flush=True)
    n, seed = options.fragments, options.seed
    found = people(n, seed + 1)
    attributes = ["--likelihood", "attributes"]
    compare(found[:n], found[n : 2 * n], options.kills, seed, attributes)
    varied = [replace(one, id=f"varied-{one.id}") for one in spellings(3000, seed)]
    varied = [*people(n // 6, seed), *varied]
    compare([], varied[100:], options.kills // 5, seed, later=varied[:100])


def compare(
    first: Sequence[Fragment],
    update: Sequence[Fragment],
    kills: int,
    seed: int,
    options: Sequence[str] = (),
    later: Sequence[Fragment] = (),
) -> int:
    """Require that a store killed during an update equals one that was not; returns the hits.

    `first` is in both stores before, `later` comes to both at the end; `options` are of the first
    command, and `kills` is how many are tried at most.
    """
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder, "whole.sqlite"), Path(folder, "killed.sqlite")
        before, after = Path(folder, "first.jsonl"), Path(folder, "update.jsonl")
        write_fragments(update, after)
        if first:
            write_fragments(first, before)
            print(f"{fill(whole, before, options):.1f} s to make the store", flush=True)
            shutil.copy(whole, killed)
        begun = killed.read_bytes() if first else None
        seconds = fill(whole, after)
        print(f"{seconds:.1f} s for {len(update)} fragments", flush=True)
        for _ in range(5):  # no hit: sooner, should the machine be faster now
            hit = fill_killed(killed, after, kills, 0.6 * seconds, seed)
            if hit:
                break
            seconds /= 2
            killed.unlink()
            if begun is not None:
                killed.write_bytes(begun)
        if later:
            write_fragments(later, after)
            fill(whole, after)
            fill(killed, after)
        assert dump(killed) == dump(whole)
        assert exported(killed) == exported(whole)
        print(f"{hit} kills of {kills} hit; the stores are equal", flush=True)
        return hit


def command(*arguments: object) -> list[str]:
    """The program in a process of its own."""
    return [sys.executable, "-m", "kbforge.cli.main", *map(str, arguments)]


def exported(store: Path) -> bytes:
    """What `kbforge export` writes."""
    return subprocess.run(
        command("export", store, "-o", "-"), check=True, capture_output=True
    ).stdout


def fill(store: Path, fragments: Path, options: Sequence[str] = ()) -> float:
    """Fill a store without a kill; returns the seconds of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command("cluster", fragments, "--into", store, *options), check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fill_killed(store: Path, fragments: Path, kills: int, longest: float, seed: int) -> int:
    """Fill a store, killed at random moments until it is full; returns how many kills hit.

    The moments are seconds of the processor, at most `longest`: whatever else the machine does,
    they are at the same places of the work. The timer outlives `exec`, and kills as SIGKILL does.
    """
    rng = random.Random(seed)
    for hit in range(kills):
        moment = rng.uniform(0.2, max(longest, 0.4))
        process = subprocess.run(
            command("cluster", fragments, "--into", store),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=partial(signal.setitimer, signal.ITIMER_PROF, moment),
        )
        if process.returncode != -signal.SIGPROF:
            assert process.returncode == 0
            return hit
    fill(store, fragments)
    return kills


if __name__ == "__main__":
    main()
