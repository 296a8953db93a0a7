"""Killing a program that fills a store, again and again, until it comes to its end."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def command(*arguments: object) -> list[str]:
    """The program in a process of its own."""
    return [sys.executable, "-m", "kbforge.cli.main", *map(str, arguments)]


def fill(store: Path, fragments: Path, options: Sequence[str] = ()) -> float:
    """Fill a store without a kill; returns the seconds that it took."""
    begin = time.perf_counter()
    subprocess.run(
        command("cluster", fragments, "--into", store, *options), check=True, capture_output=True
    )
    return time.perf_counter() - begin


def fill_killed(
    store: Path,
    fragments: Path,
    kills: int,
    seconds: float,
    seed: int,
    options: Sequence[str] = (),
) -> int:
    """Fill a store, killed at random moments until it is full; returns how many kills there were.

    Args:
        store: to fill.
        fragments: what with.
        kills: how many at most.
        seconds: that it takes without a kill.
        seed: of the moments.
        options: of the command.

    """
    rng = random.Random(seed)
    hit = 0
    for _ in range(kills):
        process = subprocess.Popen(
            command("cluster", fragments, "--into", store, *options),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(rng.uniform(0.2, max(2.5 * seconds / kills + 1.5, 0.6 * seconds)))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            hit += 1
            continue
        assert process.returncode == 0
        return hit
    fill(store, fragments, options)
    return hit
