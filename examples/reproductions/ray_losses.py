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


def workers(command: int) -> list[int]:
    """The processes of a command's workers; another Ray of this machine is left alone."""
    called: dict[int, bytes] = {}
    parent: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            number = int(folder.name)
            try:
                called[number] = (folder / "cmdline").read_bytes()
                # the name before it may hold anything, parentheses too
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parent[number] = int(fields[1])
    return sorted(n for n in parent if called[n].startswith(_ACTOR) and _under(n, command, parent))


def _under(process: int, ancestor: int, parent: dict[int, int]) -> bool:
    """Whether one process was started by another, at any remove."""
    while process in parent:
        if process == ancestor:
            return True
        process = parent[process]
    return False


def kill_some(command: subprocess.Popen[bytes], kills: int, seconds: float, seed: int) -> int:
    """Kill workers while a command runs; how many were."""
    rng = random.Random(seed)
    killed = 0
    while command.poll() is None:
        time.sleep(seconds)
        there = workers(command.pid)
        if there and killed < kills and command.poll() is None:
            os.kill(rng.choice(there), signal.SIGKILL)
            killed += 1
            print(f"killed {killed}", flush=True)
    return killed


def main() -> None:
    """Cluster twice, and say whether the result is the same."""
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = sys.argv[at + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog="After --, options of kbforge cluster."
    )
    parser.add_argument("file")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0, help="between two kills")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(sys.argv[1:at])
    with TemporaryDirectory() as folder:
        local, spread = Path(folder) / "local.jsonl", Path(folder) / "ray.jsonl"
        cluster = [str(Path(sys.executable).with_name("kbforge")), "cluster", given.file]
        start = time.perf_counter()
        subprocess.run([*cluster, *options, "-o", str(local)], check=True)
        between = time.perf_counter()
        by_ray = ["--executor", "ray", "--workers", str(given.workers), "-o", str(spread)]
        with subprocess.Popen([*cluster, *options, *by_ray]) as command:
            killed = kill_some(command, given.kills, given.seconds, given.seed)
        took = between - start, time.perf_counter() - between
        same = command.returncode == 0 and local.read_bytes() == spread.read_bytes()
    print(f"without an executor {took[0]:.0f} s, with Ray {took[1]:.0f} s, {killed} workers killed")
    print("the same bytes" if same else "NOT the same")
    if killed < given.kills:
        print(f"it was over before {given.kills} were killed; take fewer --seconds")
    sys.exit(not same or killed < given.kills)


if __name__ == "__main__":
    main()
