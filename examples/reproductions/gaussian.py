"""The Gaussian benchmark of the split-SMC paper, through the command line.

    KBFORGE_DATA=... python examples/reproductions/gaussian.py

700 points from 80 clusters, in three shuffles. The published code's log posteriors and F1 (mean
of per-item F1) on the same shuffles stand beside ours.
"""

from __future__ import annotations

import csv
import json
import statistics
import tempfile
from pathlib import Path

from shell import data_folder, kbforge, kbforge_json, table

PUBLISHED = {
    ("smc", "0"): (-1541.79, 0.7678),
    ("smc", "1"): (-1474.17, 0.8504),
    ("smc", "2"): (-1537.54, 0.7923),
    ("split-smc", "0"): (-1445.57, 0.8563),
    ("split-smc", "1"): (-1422.44, 0.8887),
    ("split-smc", "2"): (-1421.05, 0.8860),
}
PRIOR = {"a": 2, "b": 0.5, "mu": 0, "lam": 0.0002}
REPEATS = 5


LOAD = ("--vector", "x,y", "--label", "label")


def points_in_order(folder: Path, order: str) -> Path:
    """The points in one of the published orders, as CSV."""
    source = data_folder() / "gauss"
    with open(source / "gauss700.csv", newline="") as file:
        head, *rows = csv.reader(file)
    indices = json.loads((source / "orders.json").read_text())[order]
    points = folder / f"points{order}.csv"
    with open(points, "w", newline="") as file:
        csv.writer(file).writerows([head, *(rows[i] for i in indices)])
    return points


def shuffled(folder: Path, order: str) -> Path:
    """The points in one of the published orders, as fragments."""
    fragments = folder / f"fragments{order}.jsonl"
    kbforge("load", "csv", points_in_order(folder, order), *LOAD, "-o", fragments)
    return fragments


def main() -> None:
    """Print the table."""
    settings = [word for k, v in PRIOR.items() for word in ("--set", f"likelihood.{k}={v}")]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for (clusterer, order), (log_posterior, f1) in PUBLISHED.items():
            fragments, kb = shuffled(folder, order), folder / "kb.jsonl"
            job = ["cluster", fragments, "-o", kb, "--likelihood", "gaussian", "--alpha", 20]
            job += ["--set", f"clusterer={clusterer}", "--set", "particles=100", *settings]
            runs = [kbforge_json(*job) for _ in range(REPEATS)]
            scores = kbforge_json("evaluate", kb, fragments)
            rows.append(
                [
                    f"{clusterer} {order}",
                    f"{log_posterior:.2f}",
                    f"{runs[0]['log_posterior']:.2f}",
                    f"{f1:.4f}",
                    f"{scores['bcubed_f1_item_mean']:.4f}",
                    f"{statistics.median(run['seconds'] for run in runs):.3f}",
                ]
            )
    head = ["order", "published log posterior", "ours", "published F1", "ours", "seconds (median)"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
