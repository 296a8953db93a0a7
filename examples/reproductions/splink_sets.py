"""Splink on the labelled sets of the suite `accuracy`, with settings that suit any table.

    KBFORGE_DATA=... python examples/reproductions/splink_sets.py results.jsonl --splink PYTHON
    python examples/reproductions/splink_sets.py results.jsonl

PYTHON is an interpreter of an environment with splink and duckdb, which are no part of this
project; it gets the sets that are named after it, or all plain ones of up to --most fragments. A
set that Splink does not finish in --seconds, or at all, gets a row without figures. Sets in the
file are not repeated. Without --splink the script prints the table: F1 of items and of pairs at a
probability of .5, and at the best of thirteen thresholds, which the labels choose for each measure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from shell import data_folder, table

from kbforge.evaluation.scores import compare
from kbforge.files.fragments import write_fragments
from kbforge_lab.suites.accuracy import SETS, LabelledSet

SIDE = Path(__file__).with_name("splink_side.py")
THRESHOLD = 0.5
MOST = 40_000


def main() -> None:
    """Run the sets that are not in the file, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--splink", metavar="PYTHON", help="interpreter that has Splink")
    parser.add_argument("--seconds", type=float, default=300.0, help="of a set, by the clock")
    parser.add_argument("--most", type=int, default=MOST, help="fragments of a set")
    options = parser.parse_intermixed_args()
    rows = read(options.results)
    if options.splink is None:
        print(printed(rows))
        return
    folder, done = data_folder(), {row["set"] for row in rows}
    for one in SETS:
        wanted = one.name in options.sets or (one.kind == "plain" and not options.sets)
        if wanted and one.name not in done and one.fragments <= options.most:
            row = run(one, folder, options.splink, options.seconds)
            with options.results.open("a") as results:
                results.write(json.dumps(row) + "\n")


def read(results: Path) -> list[dict[str, Any]]:
    """The rows of the sets that are done."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def run(one: LabelledSet, folder: Path, python: str, seconds: float) -> dict[str, Any]:
    """The scores of a set by threshold; `failed` says why there are none."""
    fragments = one.read(folder)
    row: dict[str, Any] = {"set": one.name, "fragments": len(fragments)}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "records.jsonl"
        write_fragments(fragments, file)
        command = [python, str(SIDE), str(file), "--any"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return row | {"failed": f"more than {seconds:g} s"}
    if done.returncode:
        return row | {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    gold = [fragment.label for fragment in fragments]
    scores = {}
    for threshold, cluster_of in json.loads(done.stdout)["clusters"].items():
        found = compare([cluster_of[fragment.id] for fragment in fragments], gold)
        scores[threshold] = found.bcubed_f1_item_mean, found.pairwise_f1
    return row | {"seconds": time.monotonic() - began, "f1": scores}


def printed(rows: list[dict[str, Any]]) -> str:
    """A Markdown table with a line for each set."""
    head = ["set", "fragments", "items at .5", "best", "pairs at .5", "best", "s"]
    lines = []
    for row in rows:
        line = [row["set"], f"{row['fragments']:,}"]
        if "f1" in row:
            items, pairs = zip(*row["f1"].values(), strict=True)
            here = row["f1"][str(THRESHOLD)]
            figures = here[0], max(items), here[1], max(pairs)
            line += [*(f"{one:.3f}" for one in figures), f"{row['seconds']:.0f}"]
        else:
            line += [row["failed"], "", "", "", ""]
        lines.append(line)
    return table(head, lines)


if __name__ == "__main__":
    main()
