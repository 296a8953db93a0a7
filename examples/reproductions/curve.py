"""Time, memory and F1 from ten thousand to ten million made-up people, beside Splink.

    python examples/reproductions/curve.py RUNS.jsonl --splink PYTHON --picture curve.svg
    python examples/reproductions/curve.py RUNS.jsonl

For every size `people.py` makes the records, and both programs cluster them by turns, each from the
file to a file of clusters in a process of its own: `kbforge cluster` as it is without options, from
JSON lines, and Splink (`splink_people.py`) from Parquet, with the threshold of three that has the
best F1 by the labels. Splink runs in an environment of its own:

    python3 -m venv /tmp/rivals && /tmp/rivals/bin/pip install splink duckdb

Each run is added to RUNS.jsonl as it ends, and what is there is not repeated, so the command goes
on where it was interrupted. A program that fails, or takes longer than --seconds, gets no larger
file. Without --splink the script only prints the table and draws. The load of the machine is in the
file: compare programs within a row.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import orjson
import people
from shell import table

from kbforge.evaluation.scores import compare
from kbforge.pictures import save
from kbforge_lab.bench.figures import costs_by_size

Row: TypeAlias = dict[str, Any]
SIZES = "10000,30000,100000,300000,1000000,3000000,10000000"
SIDE = Path(__file__).with_name("splink_people.py")
OURS, THEIRS = "KBForge", "Splink"


class Files(NamedTuple):
    """Of one size, in a folder."""

    lines: Path
    parquet: Path
    clusters: Path
    folder: Path


def main() -> None:
    """Measure what the file lacks; print the table; draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, metavar="RUNS.jsonl", help="one a line")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--splink", metavar="PYTHON", help="interpreter that has Splink")
    parser.add_argument("--repeats", type=int, default=1, help="the table has medians")
    parser.add_argument("--seconds", type=float, default=7200.0, help="that end a curve")
    parser.add_argument("--folder", help="where the data may lie, 6 GB for ten million")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", metavar="FILE", help="PNG or SVG")
    given = parser.parse_args()
    sizes = sorted({int(part) for part in given.sizes.split(",")})
    if given.splink:
        for size in sizes:
            measure(size, given)
    rows = read(given.results)
    print(shown(rows))
    if given.picture:
        points: dict[str, list[tuple[int, float, float]]] = {OURS: [], THEIRS: []}
        for (size, program), costs in medians(rows).items():
            points[program].append((size, costs["wall"], costs["mib"]))
        figure = costs_by_size(points)
        if figure is not None:
            save(figure, given.picture)


def measure(size: int, given: argparse.Namespace) -> None:
    """Run both programs on a file of a size, as often as the results lack."""
    due = [
        program
        for turn in range(given.repeats)
        for program in (OURS, THEIRS)
        if not ended(rows := read(given.results), program)
        if sum(row["size"] == size and row["program"] == program for row in rows) <= turn
    ]
    if not due:
        return
    with tempfile.TemporaryDirectory(prefix="curve-", dir=given.folder) as name:
        folder = Path(name)
        lines, parquet, out = (folder / f"people.{end}" for end in ("jsonl", "parquet", "out"))
        files = Files(lines, parquet, out, folder)
        people.write(size, [files.lines, files.parquet], given.seed)
        for program in due:
            if ended(read(given.results), program):
                continue
            load = os.getloadavg()[0]
            row = run(program, files, given.splink, given.seconds)
            row |= {"f1": scores(program, files)} if "failed" not in row else {}
            row = {"size": size, "program": program, "load": round(load, 2), **row}
            with given.results.open("a") as results:
                results.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def read(results: Path) -> list[Row]:
    """The runs so far."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def ended(rows: list[Row], program: str) -> bool:
    """Whether a program gets no further file."""
    return any("failed" in row for row in rows if row["program"] == program)


def run(program: str, files: Files, splink: str, most: float) -> Row:
    """Wall and processor seconds and the peak of a program, or why it has none."""
    if program == OURS:
        cluster = ["-m", "kbforge.cli.main", "cluster", str(files.lines)]
        command = [sys.executable, *cluster, "-o", str(files.clusters), "--json"]
    else:
        command = [splink, str(SIDE), str(files.parquet), str(files.clusters), str(files.folder)]
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complaint:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=said, stderr=complaint)
        while not (done := os.wait4(process.pid, os.WNOHANG))[0]:
            time.sleep(0.01)
            if time.perf_counter() - begin > most:
                process.kill()
                os.wait4(process.pid, 0)
                return {"failed": f"more than {most:g} s"}
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(done[1])
        for file in (said, complaint):
            file.seek(0)
        if process.returncode:
            last = complaint.read().decode(errors="replace").strip().splitlines()[-1:]
            return {"failed": f"exit code {process.returncode}: {' '.join(last)}"[:200]}
        found = json.loads(said.read())
    cpu, mib = done[2].ru_utime + done[2].ru_stime, done[2].ru_maxrss / 1024
    if program == OURS:
        stages = {name: value for name, value in found.items() if name.startswith("seconds_")}
        return {"wall": wall, "cpu": cpu, "mib": mib, "likelihood": found["likelihood"], **stages}
    # thresholds after the first serve the comparison alone
    return {"wall": wall - found["seconds"], "cpu": cpu - found["cpu"], "mib": found["mib"]}


def scores(program: str, files: Files) -> dict[str, tuple[float, float]]:
    """F1 of items and of pairs, by threshold where there are some."""
    from pyarrow.parquet import read_table

    gold = read_table(files.parquet, columns=["label"])["label"].to_pylist()
    groupings: dict[str, list[Any]] = {}
    if program == OURS:
        cluster_of = groupings[""] = [-1] * len(gold)
        with files.clusters.open("rb") as lines:
            for number, line in enumerate(lines):
                for fragment in orjson.loads(line)["fragments"]:
                    cluster_of[int(fragment[1:])] = number
    else:
        # records are numbered in the order of the file
        found = read_table(files.clusters)
        places = [int(fragment[1:]) for fragment in found["id"].to_pylist()]
        for threshold in found.column_names[1:]:
            cluster_of = groupings[threshold] = [-1] * len(gold)
            for place, cluster in zip(places, found[threshold].to_pylist(), strict=True):
                cluster_of[place] = cluster
    out = {}
    for threshold, cluster_of in groupings.items():
        score = compare(cluster_of, gold)
        out[threshold] = score.bcubed_f1_item_mean, score.pairwise_f1
    return out


def medians(rows: list[Row]) -> dict[tuple[int, str], Row]:
    """The costs, by size and program, of what has some."""
    runs: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        if "failed" not in row:
            runs.setdefault((row["size"], row["program"]), []).append(row)
    return {
        key: {cost: median(row[cost] for row in held) for cost in ("wall", "cpu", "mib")}
        | {"f1": max(held[0]["f1"].values())}
        for key, held in sorted(runs.items())
    }


def shown(rows: list[Row]) -> str:
    """A Markdown table with a line for each size."""
    found = medians(rows)
    failed = {(row["size"], row["program"]): row["failed"] for row in rows if "failed" in row}
    lines = []
    for size in sorted({row["size"] for row in rows}):
        line = [f"{size:,}"]
        for program in (OURS, THEIRS):
            one = found.get((size, program))
            if one is None:
                line += [failed.get((size, program), "-"), "", ""]
                continue
            items, pairs = (f"{score:.3f}"[1:] for score in one["f1"])
            cost = f"{one['wall']:,.1f} ({one['cpu']:,.1f})"
            line += [cost, f"{one['mib']:,.0f}", f"{items} / {pairs}"]
        lines.append(line)
    head = [f"{p}: {what}" for p in (OURS, THEIRS) for what in ("s (processor)", "MiB", "F1")]
    return table(["records", *head], lines)


if __name__ == "__main__":
    main()
