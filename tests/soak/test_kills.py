"""The soak in small: a few kills, and the store is as without them; and kills in every stage."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kbforge.files.fragments import write_fragments
from tests.people import people
from tests.soak.__main__ import command, compare, exported
from tests.store.dump import dump

KILLS = 20
STAGES = ("reading", "preparing", "clustering", "confidence", "assembling", "writing")


@pytest.mark.slow
def test_ten_kills_leave_no_trace() -> None:
    found = people(2500, 5)
    assert compare(found[:600], found[600:], 10, 0, ["--likelihood", "attributes"]) > 0


def ran(*arguments: object, moment: float = 0.0) -> tuple[int, bytes, float]:
    """Exit code, output and processor seconds of a command, killed at this one of them, if any."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(signal.setitimer, signal.ITIMER_PROF, moment),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, done.stdout, took


def moments(summary: dict[str, Any], took: float, rng: random.Random) -> Iterator[float]:
    """Seconds of the processor: two at random in each stage, the rest anywhere.

    The seconds of the stages are of the clock; starting up is the first stage.
    """
    seconds = [summary.get(f"seconds_{stage}", 0.0) for stage in STAGES]
    begin, bounds = took - sum(seconds), [0.0]
    for length in [max(begin, 0.0), *seconds]:
        bounds.append(bounds[-1] + length)
    scale = took / bounds[-1]
    for first, last in [*pairwise(bounds)] * 2:
        yield scale * rng.uniform(first, last)
    for _ in range(KILLS - 2 * (len(bounds) - 1)):
        yield scale * rng.uniform(0.0, bounds[-1])


def content_of_file(path: Path) -> object:
    return path.read_bytes()


def content_of_store(path: Path) -> object:
    return dump(path), exported(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "content"), [("-o", content_of_file), ("--into", content_of_store)]
)
def test_killed_at_twenty_moments_and_run_again_it_gives_the_same(
    tmp_path: Path, option: str, content: Callable[[Path], object]
) -> None:
    fragments, whole = tmp_path / "people.jsonl", tmp_path / "whole"
    write_fragments(people(120, 7), fragments)
    code, out, took = ran("cluster", fragments, option, whole, "--json")
    assert code == 0
    expected = content(whole)
    for k, moment in enumerate(moments(json.loads(out), took, random.Random(3))):
        folder, code = tmp_path / f"{k}", 0
        target = folder / "killed"
        while code == 0:  # it ended before the moment, as the processor is faster now: sooner
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            code, _, _ = ran("cluster", fragments, option, target, moment=max(moment, 0.01))
            moment *= 0.9
        assert code == -signal.SIGPROF
        if option == "-o" and target.exists():  # the file is there as a whole, or not at all
            assert content(target) == expected
        assert ran("cluster", fragments, option, target)[0] == 0
        assert content(target) == expected, f"killed at moment {k}"
