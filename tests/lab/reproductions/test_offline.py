"""Offline clusterers on the Gaussian benchmark: what the split-SMC paper reports of them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from kbforge.contracts import Fragment, Problem
from kbforge.evaluation.scores import compare
from kbforge_plugins.clusterers.agglomerative import Agglomerative
from kbforge_plugins.likelihoods.gaussian import Gaussian

PROBLEM = Problem(Gaussian(a=2, b=0.5, mu=0, lam=0.0002), alpha=20.0)


@pytest.mark.data
def test_agglomerative_clustering_finds_the_published_optimum(data_dir: Path) -> None:
    """-1425 (0) and F1 .87, whatever the order."""
    with open(data_dir / "gauss/gauss700.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    fragments = [
        Fragment(f"p{i}", {}, (float(row["x"]), float(row["y"])), label=row["label"])
        for i, row in enumerate(rows)
    ]
    found = Agglomerative().cluster(fragments, PROBLEM, np.random.default_rng(0))
    assert found.log_posterior == pytest.approx(-1425, abs=1)
    scores = compare(found.labels(), [row["label"] for row in rows])
    assert scores.bcubed_f1_item_mean == pytest.approx(0.87, abs=0.006)
