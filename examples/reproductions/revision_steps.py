"""What splits and merges by hashes add to a pass of revision, on the 700 Gaussian points.

Each order of the points is clustered with P particles and revised once, with that step and without.

    python examples/reproductions/revision_steps.py --particles 1 --orders 16
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from kbforge.clustering import revise
from kbforge.contracts import Fragment, ModelSpec
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian

ALPHA = 20.0


def main() -> None:
    """Print a line an order, then the means: log posterior and processor seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--particles", type=int, default=1)
    parser.add_argument("--orders", type=int, default=16)
    given = parser.parse_args()
    points = read_points()
    table = []
    print("order", "without", "s", "with", "s", sep="\t")
    for order in range(given.orders):
        shuffled = np.random.default_rng(order).permutation(len(points))
        items = [points[i] for i in shuffled]
        with patch.object(revise, "split_or_merge", lambda state, fragment: 0.0):
            without = run(items, given.particles)
        table.append([*without, *run(items, given.particles)])
        print(order, *(f"{each:.2f}" for each in table[-1]), sep="\t")
    print("mean", *(f"{each:.2f}" for each in np.mean(table, axis=0)), sep="\t")


def read_points() -> list[Fragment]:
    """The published points, from the folder that KBFORGE_DATA names."""
    path = Path(os.environ["KBFORGE_DATA"]) / "gauss" / "gauss700.csv"
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [Fragment(f"p{i}", {}, (float(r["x"]), float(r["y"]))) for i, r in enumerate(rows)]


def run(items: list[Fragment], particles: int) -> tuple[float, float]:
    """Log posterior, and processor seconds."""
    begin = time.process_time()
    clusterer = SplitSmc(particles=particles, revise=1)
    found = clusterer.cluster(items, ModelSpec(Gaussian(), ALPHA), np.random.default_rng(0))
    return found.log_posterior, time.process_time() - begin


if __name__ == "__main__":
    main()
