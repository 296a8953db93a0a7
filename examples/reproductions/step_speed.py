"""Two trees of KBForge against each other: how long the same clustering takes in each.

    KBFORGE_DATA=... python examples/reproductions/step_speed.py OLD_PYTHON NEW_PYTHON [ROUNDS]

Each argument is an interpreter that has one of the trees installed. The runs alternate, as does
which tree goes first. Seconds are `seconds_clustering` of `kbforge cluster --json`: without
imports, reading and fitting; CPU is the user time of the process. The rates of the attribute model
are learned once, by the old tree. The two trees must find the same log posterior.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gaussian import PRIOR, shuffled
from shell import data_folder, table

from kbforge.files.fragments import read_fragments, write_fragments

ROUNDS = 5
RECORDS = 20_000
NAMES = "chadwick/chadwick_100k.jsonl.gz"
PEOPLE = "splink_hist50k/historical_50k.jsonl.gz"


def run(python: str, *arguments: object) -> tuple[Any, float]:
    """What `kbforge ARGUMENTS --json` prints, and the seconds of user time it took."""
    # -P: the folder that this is run in may hold one of the trees
    command = [python, "-P", "-m", "kbforge.cli.main", *map(str, arguments), "--json"]
    with tempfile.TemporaryFile() as out:
        redirect = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1)]
        child = os.posix_spawn(python, command, os.environ, file_actions=redirect)
        _, status, used = os.wait4(child, 0)
        if status:
            sys.exit(f"{python}: {' '.join(map(str, arguments))}: it failed")
        out.seek(0)
        return json.loads(out.read()), used.ru_utime


def jobs(folder: Path, python: str) -> dict[str, list[object]]:
    """By name, the arguments of each run but for the output."""
    files = {}
    for name in (NAMES, PEOPLE):
        files[name] = folder / name.replace("/", "-").removesuffix(".gz")
        fragments = read_fragments(str(data_folder() / name), limit=RECORDS)
        write_fragments(list(fragments), files[name])
    run(python, "train-attributes", files[PEOPLE], "-o", folder / "model")
    prior = [word for k, v in PRIOR.items() for word in ("--set", f"likelihood.{k}={v}")]
    points = ["cluster", shuffled(folder, "0"), "--likelihood", "gaussian", "--alpha", 20, *prior]
    return {
        "700 Gaussians": points,
        "20k names, bigrams": ["cluster", files[NAMES], "--likelihood", "bigram"],
        "20k records, attributes": ["cluster", files[PEOPLE], "--likelihood", folder / "model"],
    }


def compare(
    name: str, job: Sequence[object], pythons: Sequence[str], rounds: int, folder: Path
) -> list[str]:
    """A row of the table."""
    seconds: dict[str, list[float]] = {python: [] for python in pythons}
    used: dict[str, list[float]] = {python: [] for python in pythons}
    found = set()
    for number in range(rounds):
        for python in pythons if number % 2 == 0 else reversed(pythons):
            summary, cpu = run(python, *job, "-o", folder / "kb.jsonl")
            seconds[python].append(summary["seconds_clustering"])
            used[python].append(cpu)
            found.add(summary["log_posterior"])
    if len(found) > 1:
        sys.exit(f"{name}: the trees differ: log posteriors {sorted(found)}")
    row = [name]
    for times in (seconds, used):
        old, new = (statistics.median(times[python]) for python in pythons)
        row += [f"{old:.2f}", f"{new:.2f}", f"{new / old:.3f}"]
    return row


def main() -> None:
    """Print the table."""
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: step_speed.py OLD_PYTHON NEW_PYTHON [ROUNDS]")
    pythons = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) == 4 else ROUNDS
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for job, arguments in jobs(folder, pythons[0]).items():
            times = 3 * rounds if "Gaussians" in job else rounds
            rows.append(compare(job, arguments, pythons, times, folder))
            print(" ".join(rows[-1]), file=sys.stderr)
    head = ["", "old, s", "new, s", "ratio", "old, s CPU", "new, s CPU", "ratio"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
