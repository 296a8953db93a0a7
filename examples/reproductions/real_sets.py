"""Real labelled sets: greedy, SMC and split SMC with the bigram model, beside trivial baselines.

    KBFORGE_DATA=... python examples/reproductions/real_sets.py results.jsonl [SET ...]
    python examples/reproductions/real_sets.py results.jsonl --table summary
    python examples/reproductions/real_sets.py results.jsonl --table full

Each run is `kbforge calibrate --calibrator bcubed` on labelled fragments of entities that are not
in the test, then `kbforge cluster` with every default but likelihood and alpha, then `kbforge
evaluate`. The confusable sets have train files; of others one entity in two is held out (about
4,000 fragments at most), and alpha is scaled by the sizes of the two: if entities keep coming at
the same rate, the concentration grows with the number of fragments. A run over its time is
interrupted and scored on the fragments it got to. Finished runs in the file are not repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from shell import data_folder, kbforge, kbforge_json, table

from kbforge.contracts import Fragment
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge.fit.alpha import read_calibration
from kbforge_lab.bench.baselines import group
from kbforge_lab.suites.accuracy import first_entities
from kbforge_lab.suites.plan import Baseline

CLUSTERERS = ("greedy", "smc", "split-smc")
Trivial: TypeAlias = Baseline | Literal["all together"]
BASELINES: tuple[Trivial, ...] = ("all apart", "all together", "exact name")
HELD_OUT = 4_000
RECORD = "first_name,surname,dob,birth_place,postcode_fake,occupation"


@dataclass(frozen=True)
class RealSet:
    """A labelled set and how to test on it."""

    test: str
    train: str | None = None
    attributes: str = "name"
    prefix: int | None = None  # whole entities in file order until at least so many fragments
    high: float = 1e12  # largest alpha to try: long strings need larger ones than names
    seconds: float = 600.0


SETS = {
    **{
        family: RealSet(f"confusable/{family}_dev.jsonl", f"confusable/{family}_train.jsonl")
        for family in ("wd50", "wd200", "dwie50", "dwie100")
    },
    "dwie": RealSet("dwie/dwie_public_traindev.jsonl"),
    "splink 5k": RealSet("splink_hist50k/historical_50k.jsonl.gz", attributes=RECORD, prefix=5_000),
    "splink 20k": RealSet(
        "splink_hist50k/historical_50k.jsonl.gz", attributes=RECORD, prefix=20_000
    ),
    "splink 50k": RealSet("splink_hist50k/historical_50k.jsonl.gz", attributes=RECORD),
    "chadwick 10k": RealSet("chadwick/chadwick_10k.jsonl.gz"),
    "chadwick 100k": RealSet("chadwick/chadwick_100k.jsonl.gz"),
    "chadwick 1M": RealSet("chadwick/chadwick_1M.jsonl.gz", seconds=200.0),
    "cora": RealSet("cora/cora_1879.jsonl"),
    "rldata500": RealSet("rldata/rldata500.jsonl"),
    "rldata10000": RealSet("rldata/rldata10000.jsonl", high=1e40),
    "restaurant": RealSet("restaurant/restaurant_864.jsonl"),
    "abt-buy": RealSet("products_biblio/abt_buy.jsonl", high=1e40),
    "amazon-google": RealSet("products_biblio/amazon_google.jsonl", high=1e40),
    "walmart-amazon": RealSet("products_biblio/walmart_amazon.jsonl", high=1e40, seconds=150.0),
    "dblp-acm": RealSet("products_biblio/dblp_acm.jsonl", high=1e40),
    "cddb": RealSet("cddb/cddb_9763.jsonl", high=1e40),
    "webnlg": RealSet("webnlg/webnlg_1text_per_entry.jsonl.gz"),
}


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("sets", nargs="*", metavar="SET", default=list(SETS))
    parser.add_argument("--table", choices=["summary", "full"], help="print it as Markdown")
    options = parser.parse_args()
    if options.table:
        done = finished(options.results)
        print(full(done) if options.table == "full" else summary(done))
        return
    for name in options.sets or SETS:
        run_set(name, options.results)


def run_set(name: str, results: Path) -> None:
    """All rows of one set."""
    done = finished(results)
    if all((name, row) in done for row in (*BASELINES, *CLUSTERERS)):
        return
    real = SETS[name]
    with tempfile.TemporaryDirectory() as folder:
        train, test = splits(real, Path(folder))
        fragments = list(read_fragments(str(test)))
        for baseline in BASELINES:
            if (name, baseline) not in done:
                append(results, {"set": name, "row": baseline, **trivial(fragments, baseline)})
        model = ["--likelihood", "bigram", "--set", f"likelihood.attributes={real.attributes}"]
        calibration = Path(folder) / "calibration.toml"
        search = [
            "--calibrator",
            "bcubed",
            "--between",
            f"10,{real.high}",
            "--set",
            "particles=20",
        ]
        kbforge("calibrate", train, *model, *search, "-o", calibration)
        found = read_calibration(str(calibration))
        growth = 1.0 if real.train else len(fragments) / found.fragments
        for clusterer in CLUSTERERS:
            if (name, clusterer) in done:
                continue
            kb = Path(folder) / "kb.jsonl"
            job = [test, "-o", kb, *model, "--alpha", found.alpha * growth]
            job += ["--set", f"clusterer={clusterer}"]
            summary = capped(real.seconds, "cluster", *job)
            scored = kb if summary["complete"] else Path(f"{kb}.partial")
            scores = kbforge_json("evaluate", scored, test, "--partial")
            row = {"set": name, "row": clusterer, "of": len(fragments), **summary, **scores}
            append(results, row)


def splits(real: RealSet, folder: Path) -> tuple[Path, Path]:
    """The calibration and the test file; no entity is in both."""
    data = data_folder()
    if real.train is not None:
        return data / real.train, data / real.test
    fragments = list(read_fragments(str(data / real.test)))
    if real.prefix is not None:
        fragments = first_entities(fragments, real.prefix)
    chosen = {f.label for f in islice(held_out(fragments), HELD_OUT)}
    train, test = folder / "train.jsonl", folder / "test.jsonl"
    write_fragments([f for f in fragments if f.label in chosen], train)
    write_fragments([f for f in fragments if f.label not in chosen], test)
    return train, test


def held_out(fragments: Sequence[Fragment]) -> Iterator[Fragment]:
    """The fragments of one entity in two, the same ones every time."""
    for fragment in fragments:
        digest = hashlib.blake2b(str(fragment.label).encode(), digest_size=4).digest()
        if digest[0] % 2 == 0:
            yield fragment


def trivial(fragments: Sequence[Fragment], baseline: Trivial) -> dict[str, Any]:
    """The scores of a baseline."""
    if baseline == "all together":
        predicted: list[Hashable] = [0] * len(fragments)
    else:
        predicted = group(baseline, fragments, linked=False)
    scores = compare(predicted, [fragment.label for fragment in fragments]).to_json()
    return {"of": len(fragments), "fragments": len(fragments), "complete": True, **scores}


def capped(seconds: float, *arguments: object) -> Any:
    """The summary of a `kbforge` command, interrupted as by Ctrl-C when its time is over."""
    command = [sys.executable, "-m", "kbforge.cli.main", *map(str, arguments), "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as running:
        try:
            out, err = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            out, err = running.communicate()
    if not out:
        sys.exit(err.decode())
    return json.loads(out)


def append(results: Path, row: dict[str, Any]) -> None:
    """Keep a finished row."""
    with open(results, "a") as file:
        file.write(json.dumps(row) + "\n")
    print(row["set"], row["row"], f"{row['bcubed_f1_item_mean']:.3f}", file=sys.stderr)


def finished(results: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows that are there, by set and row."""
    if not results.exists():
        return {}
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    order = list(SETS)
    rows.sort(key=lambda row: order.index(row["set"]))
    return {(row["set"], row["row"]): row for row in rows}


def summary(done: dict[tuple[str, str], dict[str, Any]]) -> str:
    """One line a set: F1 of each method; entities and speed of split SMC."""
    head = ["set", "fragments", "entities", *BASELINES, *CLUSTERERS]
    rows = []
    for name in SETS:
        runs = {row: done[name, row] for row in (*BASELINES, *CLUSTERERS) if (name, row) in done}
        if "split-smc" not in runs:
            continue
        split = runs["split-smc"]
        cells = [name, f"{split['of']:,}", f"{runs['exact name']['gold_clusters']:,}"]
        for row in (*BASELINES, *CLUSTERERS):
            part = "" if runs[row]["complete"] else f" ({runs[row]['fragments']:,})"
            cells.append(f"{runs[row]['bcubed_f1_item_mean']:.3f}{part}")
        found = f"{split['clusters']:,}"
        rows.append([*cells, found, f"{split['seconds']:,.1f}"])
    return table([*head, "split-smc finds", "in seconds"], rows)


def full(done: dict[tuple[str, str], dict[str, Any]]) -> str:
    """One line a run."""
    head = ["set", "method", "fragments", "precision", "recall", "F1", "pairwise F1"]
    head += ["entities", "gold", "exactly right", "seconds", "clustered/s"]
    return table(head, [line(row) for row in done.values()])


def line(row: dict[str, Any]) -> list[str]:
    """The cells of one run."""
    partial = "" if row["complete"] else f" of {row['of']:,}"
    timed = "seconds" in row
    return [
        row["set"],
        row["row"],
        f"{row['fragments']:,}{partial}",
        f"{row['bcubed_precision']:.3f}",
        f"{row['bcubed_recall']:.3f}",
        f"{row['bcubed_f1_item_mean']:.3f}",
        f"{row['pairwise_f1']:.3f}",
        f"{row['clusters']:,}",
        f"{row['gold_clusters']:,}",
        f"{row['exact_clusters']:,}",
        f"{row['seconds']:,.1f}" if timed else "",
        f"{row['clustered_per_second']:,.0f}" if timed else "",
    ]


if __name__ == "__main__":
    main()
