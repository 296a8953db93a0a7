"""Records with several attributes: `kbforge cluster` as it is, no labels, beside exact match.

    KBFORGE_DATA=... python examples/reproductions/records.py results.jsonl [SET ...]
    python examples/reproductions/records.py results.jsonl --alphas "splink 5k" "splink 20k"
    python examples/reproductions/records.py results.jsonl --splink PYTHON "splink 50k"
    python examples/reproductions/records.py results.jsonl --table records

Every run clusters a whole set with the defaults of `kbforge cluster`. Labels are read to score,
never to cluster. Records come in the order of the file; those of Splink's data also in one shuffled
order, and its subsets are whole gold clusters in order of first appearance. `exact match` joins
records that agree in all attributes, case folded, and `exact name` those of equal names.

A run is a process with one thread, so that its peak of memory is its own. It is ended after four
minutes of processor time and scored on the records it got to, whose number the table has. --alphas
clusters at multiples of the learned alpha. --splink runs `splink_side.py` with the interpreter on
the same records; where its training fails there is no row. Finished runs are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from shell import data_folder, table

from kbforge.contracts import Fragment, Interrupted, Progress
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge.fit.choices import RunOptions
from kbforge.fit.prepare import prepare
from kbforge_lab.bench.baselines import group
from kbforge_lab.suites.accuracy import first_entities

SECONDS = 240.0
DEMO_THRESHOLD = 0.95
PATIENCE = 60.0
"""Learning cannot be interrupted: a run that does not end by itself is killed so much later."""
FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)
PEOPLE = "splink_hist50k/historical_50k.jsonl.gz"
PAPERS = "products_biblio"


@dataclass(frozen=True)
class Records:
    """A labelled set: the file, and how many records of its first entities at least."""

    file: str
    first: int | None = None
    orders: tuple[str, ...] = ("file",)


BOTH = ("file", "shuffled")
SETS = {
    "splink 5k": Records(PEOPLE, 5_000, BOTH),
    "splink 20k": Records(PEOPLE, 20_000, BOTH),
    "splink 50k": Records(PEOPLE, orders=BOTH),
    "restaurant": Records("restaurant/restaurant_864.jsonl"),
    "cora": Records("cora/cora_1879.jsonl"),
    "rldata500": Records("rldata/rldata500.jsonl"),
    "rldata10000": Records("rldata/rldata10000.jsonl"),
    "chadwick 10k": Records("chadwick/chadwick_10k.jsonl.gz"),
    "abt-buy": Records(f"{PAPERS}/abt_buy.jsonl"),
    "amazon-google": Records(f"{PAPERS}/amazon_google.jsonl"),
    "dblp-acm": Records(f"{PAPERS}/dblp_acm.jsonl"),
    "walmart-amazon": Records(f"{PAPERS}/walmart_amazon.jsonl"),
    "cddb": Records("cddb/cddb_9763.jsonl"),
    "webnlg": Records("webnlg/webnlg_1text_per_entry.jsonl.gz"),
    "wd50": Records("confusable/wd50_dev.jsonl"),
    "dwie50": Records("confusable/dwie50_dev.jsonl"),
}


def main() -> None:
    """Run what is missing, or print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    parser.add_argument("--alphas", action="store_true", help="at multiples of the learned alpha")
    parser.add_argument("--splink", metavar="PYTHON", help="interpreter that has Splink")
    parser.add_argument("--table", choices=list(TABLES), help="print it as Markdown")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.measure:
        print(json.dumps(measure(**json.loads(options.measure))))
        return
    if options.table:
        print(TABLES[options.table](finished(options.results)))
        return
    for name in options.sets or SETS:
        if options.alphas:
            run(options.results, {"name": name, "order": "file", "factors": list(FACTORS)})
            continue
        for order in SETS[name].orders:
            run(options.results, {"name": name, "order": order, "factors": [1.0]})
            if options.splink and order == "file":
                splink(options.results, name, options.splink)


def run(results: Path, job: dict[str, Any]) -> None:
    """One process of ours, and its rows."""
    done = {key(row) for row in finished(results)}
    about = ("kbforge", job["name"], job["order"])
    left = [factor for factor in job["factors"] if (*about, factor) not in done]
    if not left:
        return
    command = [sys.executable, __file__, str(results), "--measure"]
    out = limited([*command, json.dumps(job | {"factors": left})], SECONDS * len(left))
    failed = {**job, "method": "kbforge", "factor": left[0], "complete": False}
    append(results, json.loads(out) if out else [failed])


def measure(
    name: str, order: str, factors: list[float], seconds: float = SECONDS
) -> list[dict[str, Any]]:
    """Learn once, cluster at each multiple of alpha; rows with scores and costs."""
    held = fragments_of(name, order)
    choices = RunOptions()
    begin, started = time.perf_counter(), time.process_time()
    prepared = prepare(held, choices)
    learning, learning_cpu = time.perf_counter() - begin, time.process_time() - started
    rows = []
    for factor in factors:
        spec = replace(prepared.spec, alpha=prepared.alpha * factor)
        until = time.process_time() + seconds - learning_cpu

        def on_step(progress: Progress, until: float = until) -> None:
            if time.process_time() > until:
                raise Interrupted

        begin, started = time.perf_counter(), time.process_time()
        rng = np.random.default_rng(choices.seed)
        posterior = prepared.clusterer.cluster(held, spec, rng, on_step)
        row = {
            "method": "kbforge",
            "name": name,
            "order": order,
            "factor": factor,
            "alpha": spec.alpha,
            "of": len(held),
            "fragments": posterior.n_fragments,
            "complete": posterior.complete,
            "learning_seconds": learning,
            "learning_cpu_seconds": learning_cpu,
            "seconds": time.perf_counter() - begin,
            "cpu_seconds": time.process_time() - started,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        reached = held[: posterior.n_fragments]
        rows.append(row | scores(posterior.labels(), reached) | baselines(reached))
    return rows


def baselines(held: Sequence[Fragment]) -> dict[str, Any]:
    """Scores of exact match and of exact name."""
    exact = scores([folded(fragment) for fragment in held], held)
    names = scores(group("exact name", held, False), held)
    return {"exact_match": exact, "exact_name": names}


def folded(fragment: Fragment) -> Hashable:
    """All that a record says, case folded."""
    return tuple(
        (attribute, tuple(sorted({value.casefold() for value in values})))
        for attribute, values in sorted(fragment.properties.items())
    )


def scores(predicted: Sequence[Hashable], held: Sequence[Fragment]) -> dict[str, Any]:
    """The scores that the tables show."""
    found = compare(predicted, [fragment.label for fragment in held])
    return {
        "precision": found.bcubed_precision,
        "recall": found.bcubed_recall,
        "f1": found.bcubed_f1_harmonic,
        "f1_item_mean": found.bcubed_f1_item_mean,
        "pairwise_f1": found.pairwise_f1,
        "clusters": found.clusters,
        "gold_clusters": found.gold_clusters,
    }


def fragments_of(name: str, order: str) -> list[Fragment]:
    """The records of a set without their labels' order showing: as the file has them, or mixed."""
    chosen = SETS[name]
    held = list(read_fragments(str(data_folder() / chosen.file)))
    if chosen.first is not None:
        held = first_entities(held, chosen.first)
    if order == "shuffled":
        random.Random(0).shuffle(held)
    return held


def splink(results: Path, name: str, python: str) -> None:
    """Splink on the same records, in the order of the file; one row a threshold."""
    if ("splink", name, "file", None) in {key(row) for row in finished(results)}:
        return
    held = fragments_of(name, "file")
    with tempfile.TemporaryDirectory() as folder:
        test = Path(folder) / "test.jsonl"
        write_fragments(held, test)
        side = str(Path(__file__).with_name("splink_side.py"))
        out = limited([python, side, str(test)], SECONDS, may_fail=True)
    if not out:
        append(results, [{"method": "splink", "name": name, "order": "file", "complete": False}])
        return
    found = json.loads(out)
    ids = [fragment.id for fragment in held]
    row = {"method": "splink", "name": name, "order": "file", "of": len(held), "complete": True}
    row |= {k: v for k, v in found.items() if k != "clusters"}
    rows = []
    for threshold, cluster_of in found["clusters"].items():
        scored = scores([cluster_of[i] for i in ids], held)
        rows.append(row | {"threshold": float(threshold)} | scored)
    append(results, rows)


def limited(command: list[str], seconds: float, may_fail: bool = False) -> str:
    """Standard output of a command; "" if it took more processor time and was ended, or failed."""
    most = int(seconds + PATIENCE)
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1)),
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) or (done.returncode and may_fail):
        return ""
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return done.stdout


def append(results: Path, rows: list[dict[str, Any]]) -> None:
    """Keep finished rows."""
    with open(results, "a") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            f1 = f"{row['f1']:.4f}" if "f1" in row else "over time"
            print(row["method"], row["name"], row["order"], f1, file=sys.stderr)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a row is about."""
    return row["method"], row["name"], row["order"], row.get("factor")


def finished(results: Path) -> list[dict[str, Any]]:
    """The rows that are there, in the order of the sets."""
    if not results.exists():
        return []
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    order = list(SETS)
    return sorted(rows, key=lambda row: (order.index(row["name"]), row["order"]))


def records_table(rows: list[dict[str, Any]]) -> str:
    """One line a set and order, at the learned alpha, with what others reach."""
    head = ["set", "records", "P", "R", "F1", "mean F1", "pairwise F1", "entities", "gold"]
    head += [
        "exact match",
        "exact name",
        "Splink",
        "Splink, best",
        "learning s",
        "clustering s",
        "peak MiB",
    ]
    lines = []
    for row in rows:
        if row["method"] != "kbforge" or row["factor"] != 1.0:
            continue
        name = row["name"] if row["order"] == "file" else f"{row['name']}, shuffled"
        if "f1" not in row:
            lines.append([name, "over time", *[""] * (len(head) - 2)])
            continue
        part = "" if row["complete"] else f" of {row['of']:,}"
        lines.append(
            [
                name,
                f"{row['fragments']:,}{part}",
                *scored(row),
                f"{row['exact_match']['f1']:.3f}",
                f"{row['exact_name']['f1']:.3f}",
                *splink_scores(rows, row),
                f"{row['learning_cpu_seconds']:.1f}",
                f"{row['cpu_seconds']:.1f}",
                f"{row['peak_mib']:,.0f}",
            ]
        )
    return table(head, lines)


def splink_scores(rows: list[dict[str, Any]], ours: dict[str, Any]) -> list[str]:
    """Splink's F1 on the same records, at its demo's threshold and at the best one on gold."""
    found = {
        row["threshold"]: row["f1"]
        for row in rows
        if row["method"] == "splink" and row["name"] == ours["name"] and "f1" in row
    }
    if not found or ours["order"] != "file":
        return ["", ""]
    return [f"{found[DEMO_THRESHOLD]:.3f}", f"{max(found.values()):.3f}"]


def splink_table(rows: list[dict[str, Any]]) -> str:
    """On Splink's own data: ours and Splink's at its demo's threshold and at the best on gold."""
    head = ["set", "method", "P", "R", "F1", "mean F1", "pairwise F1", "entities", "gold"]
    head += ["CPU seconds", "seconds", "peak MiB"]
    lines = []
    for name in (name for name, chosen in SETS.items() if chosen.file == PEOPLE):
        theirs = [r for r in rows if r["method"] == "splink" and r["name"] == name and "f1" in r]
        if not theirs:
            continue
        ours = [r for r in rows if key(r) == ("kbforge", name, "file", 1.0) and "f1" in r]
        for row in ours:
            cpu = row["learning_cpu_seconds"] + row["cpu_seconds"]
            wall = row["learning_seconds"] + row["seconds"]
            lines.append([name, "KBForge", *scored(row), *costs(cpu, wall, row["peak_mib"])])
        best = max(theirs, key=lambda row: row["f1"])
        chosen = {f"Splink at {best['threshold']:g}, the best on gold": best}
        for row in theirs:
            if row["threshold"] == DEMO_THRESHOLD:
                chosen = {"Splink at .95": row, **chosen}
        for method, row in chosen.items():
            spent = costs(row["cpu_seconds"], row["seconds"], row["peak_mib"])
            lines.append([name, method, *scored(row), *spent])
    return table(head, lines)


def alphas_table(rows: list[dict[str, Any]]) -> str:
    """F1 and entities at multiples of the learned alpha."""
    head = ["set", "alpha, times the learned", "alpha", "P", "R", "F1", "mean F1", "pairwise F1"]
    head += ["entities", "gold", "entities / gold"]
    lines = []
    for name in SETS:
        at = [r for r in rows if r["method"] == "kbforge" and r["name"] == name and "f1" in r]
        at = sorted((r for r in at if r["order"] == "file"), key=lambda r: float(r["factor"]))
        if len(at) < 2:
            continue
        for row in at:
            share = f"{row['clusters'] / row['gold_clusters']:.2f}"
            cells = [f"{row['factor']:g}", f"{row['alpha']:,.4g}", *scored(row), share]
            lines.append([name, *cells])
    return table(head, lines)


def scored(row: dict[str, Any]) -> list[str]:
    """Precision, recall, the three F1, entities found and gold."""
    parts = ("precision", "recall", "f1", "f1_item_mean", "pairwise_f1")
    return [
        *(f"{row[part]:.3f}" for part in parts),
        f"{row['clusters']:,}",
        f"{row['gold_clusters']:,}",
    ]


def costs(cpu: float, wall: float, peak_mib: float) -> list[str]:
    """Processor seconds, wall seconds, peak of memory."""
    return [f"{cpu:.1f}", f"{wall:.1f}", f"{peak_mib:,.0f}"]


TABLES = {"records": records_table, "splink": splink_table, "alphas": alphas_table}


if __name__ == "__main__":
    main()
