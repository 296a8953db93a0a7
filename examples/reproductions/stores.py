"""Stores by the plain default: filled, opened by every reading verb, added to, compared with files.

    KBFORGE_DATA=DATA python examples/reproductions/stores.py --quick     # sets up to 1,000
    KBFORGE_DATA=DATA python examples/reproductions/stores.py --most 100000
    KBFORGE_DATA=DATA python examples/reproductions/stores.py chadwick/chadwick_1M.jsonl.gz

Of each set the last 100 fragments are held back. The others are clustered into a file and into a
store; every verb that reads opens the store; the 100 are added; the store is exported and compared
with a file of all. `bridged` counts fragments that the store has with other fragments than the file
of the same ones: a store makes one entity of two where a new fragment belongs to both. `other`
counts them after the 100, when the store's models are of the fragments before them, the file's of
all. Times are processor seconds, with wall seconds beside them; ratios are of processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shell import data_folder, table

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge_lab.suites.accuracy import SETS

ADDED = 100
QUICK = 1000
HEAD = [
    *("set", "fragments", "likelihood", "file s", "store s", "ratio", "wall ratio", "MB"),
    *("add 100 s", "export s", "slowest verb s", "bridged", "other", "B-cubed F1 file", "store"),
]


class Spent(NamedTuple):
    """Seconds that a command took: of the processor, and of the wall."""

    cpu: float
    wall: float


def main() -> None:
    """Measure, print the table, write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="of the data folder; none is all labelled sets")
    parser.add_argument("--most", type=int, default=100_000, help="fragments of a labelled set")
    parser.add_argument("--quick", action="store_true", help=f"sets of up to {QUICK:,} only")
    parser.add_argument("--likelihood", help="instead of the plain default")
    parser.add_argument("-o", "--output", help="JSON with all figures")
    given = parser.parse_args()
    folder, most = data_folder(), QUICK if given.quick else given.most
    sets: dict[str, list[Fragment]] = {}
    how = [] if given.likelihood is None else ["--likelihood", given.likelihood]
    found: list[dict[str, Any]] = []
    print(f"load {os.getloadavg()[0]:.1f} before\n\n{table(HEAD, [])}", flush=True)
    for name in given.files:
        sets = {name: list(read_fragments(str(folder / name)))}
        found.append(measured(name, sets[name], how))
    for one in () if given.files else SETS:
        if one.fragments <= most and (folder / one.file).is_file():
            found.append(measured(one.name, list(one.read(folder)), how))
    if given.output:
        Path(given.output).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(name: str, fragments: Sequence[Fragment], how: Sequence[str]) -> dict[str, Any]:
    """All figures of a set, its line printed."""
    held = min(ADDED, len(fragments) // 10)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        some, last, whole = (folder / f"{part}.jsonl" for part in ("some", "last", "all"))
        for path, part in (
            (some, fragments[:-held]),
            (last, fragments[-held:]),
            (whole, fragments),
        ):
            write_fragments(part, str(path))
        kb, store = folder / "kb.jsonl", folder / "kb.sqlite"
        into_file, _ = run("cluster", some, "-o", kb, *how)
        into_store, _ = run("cluster", some, "--into", store, *how)
        _, told = run("status", store, "--json")
        exported, _ = run("export", store, "-o", folder / "some.kb.jsonl")
        bridged = apart(partition(kb), partition(folder / "some.kb.jsonl"))
        verbs = reading(store, some, folder)
        adding, _ = run("cluster", last, "--into", store)
        run("export", store, "-o", folder / "all.kb.jsonl")
        run("cluster", whole, "-o", kb, *how)
        other = apart(partition(kb), partition(folder / "all.kb.jsonl"))
        scores = [
            json.loads(run("evaluate", one, whole, "--json")[1])["bcubed_f1_harmonic"]
            if any(x.label for x in fragments)
            else float("nan")
            for one in (kb, store)
        ]
        slowest = max(verbs, key=lambda verb: verbs[verb].cpu)
        figures: dict[str, Any] = {
            "set": name,
            "fragments": len(fragments),
            "likelihood": json.loads(told)["likelihood"],
            "into_file": into_file._asdict(),
            "into_store": into_store._asdict(),
            "ratio": into_store.cpu / into_file.cpu,
            "wall_ratio": into_store.wall / into_file.wall,
            "megabytes": store.stat().st_size / 1e6,
            "adding": {"fragments": held, **adding._asdict()},
            "verbs": {verb: spent._asdict() for verb, spent in verbs.items()},
            "bridged": bridged,
            "other": other,
            "b_cubed_f1": {"file": scores[0], "store": scores[1]},
        }
    line = [
        *(name, f"{len(fragments):,}", figures["likelihood"]),
        *(f"{into_file.cpu:.1f}", f"{into_store.cpu:.1f}"),
        *(f"{figures['ratio']:.2f}", f"{figures['wall_ratio']:.2f}"),
        *(f"{figures['megabytes']:.1f}", f"{adding.cpu:.1f}", f"{exported.cpu:.1f}"),
        *(f"{slowest} {verbs[slowest].cpu:.1f}", f"{bridged:,}", f"{other:,}"),
        *(f"{score:.4f}" for score in scores),
    ]
    print("| " + " | ".join(line) + " |", flush=True)
    return figures


def reading(store: Path, gold: Path, folder: Path) -> dict[str, Spent]:
    """What each verb that reads takes."""
    shown = json.loads(run("show", store, "--top", "1", "--json")[1])
    first, second = (shown["entities"][0]["fragments"] * 2)[:2]
    verbs = {
        "show": ("show", store, "--top", "10"),
        "explain": ("explain", store, "--fragment", first),
        "evaluate": ("evaluate", store, gold),
        "status": ("status", store),
        "changes": ("changes", store, "-o", folder / "changes.jsonl"),
        "report": ("report", store, "-o", folder / "report.html"),
    }
    if first != second:
        verbs["similarity"] = ("show", store, "--similarity", first, second)
    return {verb: run(*command)[0] for verb, command in verbs.items()}


def run(*arguments: object) -> tuple[Spent, str]:
    """What `kbforge ARGUMENTS` takes and prints; the script ends if it fails."""
    command = [sys.executable, "-m", "kbforge.cli.main", *map(str, arguments)]
    begin, before = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, os.times()
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    cpu = after.children_user + after.children_system
    return Spent(cpu - before.children_user - before.children_system, wall), done.stdout


def partition(kb: Path) -> dict[str, int]:
    """By fragment, the number of its entity."""
    out: dict[str, int] = {}
    with kb.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            out |= dict.fromkeys(json.loads(line)["fragments"], number)
    return out


def apart(one: dict[str, int], other: dict[str, int]) -> int:
    """How many fragments the two have with other fragments; they must have the same ones."""
    if one.keys() != other.keys():
        sys.exit(f"expected the same fragments, got {len(one):,} and {len(other):,}")
    sizes: dict[int, int] = defaultdict(int)
    for number in other.values():
        sizes[number] += 1
    groups: dict[int, list[str]] = defaultdict(list)
    for id, number in one.items():
        groups[number].append(id)
    differ = 0
    for ids in groups.values():
        there = {other[id] for id in ids}
        if len(there) > 1 or sizes[min(there)] != len(ids):
            differ += len(ids)
    return differ


if __name__ == "__main__":
    main()
