"""Kill workers of Ray with kill -9 while they cluster, and compare the knowledge base.

    python examples/reproductions/ray_losses.py FILE --seconds 20 -- --likelihood attributes

clusters FILE without an executor and then with two workers of Ray, of which a random one is killed
every so many seconds. What comes after -- goes to both commands. Needs Linux, where processes are
read from /proc.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

_ACTOR = b"ray::_Place"
"""What Ray calls the process of a worker, before what it is doing."""


def workers() -> list[int]:
    """The processes of all workers on this machine."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                called = (folder / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if called.startswith(_ACTOR):
                found.append(int(folder.name))
    return sorted(found)


def kill_some(command: subprocess.Popen[bytes], kills: int, seconds: float, seed: int) -> int:
    """Kill workers while a command runs; how many were."""
    rng = random.Random(seed)
    killed = 0
    while command.poll() is None:
        time.sleep(seconds)
        there = workers()
        if there and killed < kills and command.poll() is None:
            os.kill(rng.choice(there), signal.SIGKILL)
            killed += 1
            print(f"killed {killed}", flush=True)
    return killed


def main() -> None:
    """Cluster twice, and say whether the result is the same."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0, help="between two kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("options", nargs="*", help="of kbforge cluster, after --")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        local, spread = Path(folder) / "local.jsonl", Path(folder) / "ray.jsonl"
        cluster = [str(Path(sys.executable).with_name("kbforge")), "cluster", given.file]
        start = time.perf_counter()
        subprocess.run([*cluster, *given.options, "-o", str(local)], check=True)
        between = time.perf_counter()
        by_ray = ["--executor", "ray", "--workers", str(given.workers), "-o", str(spread)]
        with subprocess.Popen([*cluster, *given.options, *by_ray]) as command:
            killed = kill_some(command, given.kills, given.seconds, given.seed)
        took = between - start, time.perf_counter() - between
        same = command.returncode == 0 and local.read_bytes() == spread.read_bytes()
    print(f"without an executor {took[0]:.0f} s, with Ray {took[1]:.0f} s, {killed} workers killed")
    print("the same bytes" if same else "NOT the same")
    sys.exit(not same)


if __name__ == "__main__":
    main()
