"""The training of the weights of aliases, on a small graph."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.texts import digest_of
from kbforge_lab.training.aliases import examples, fitted
from tests.graphs.writing import write_graphrag


def test_judged_pairs_of_a_graph(tmp_path):
    names = ["SCROOGE", "MR. SCROOGE", "MRS. SCROOGE", "THE PORTER", "PORTER"]
    rows = [
        {"title": name, "type": "PERSON", "description": "", "text_unit_ids": [f"u{at}"]}
        for at, name in enumerate(names)
    ]
    folder = write_graphrag(tmp_path, rows, [])

    def digests(*names: str) -> list[int]:
        return [digest_of(name.casefold()) for name in names]

    labels = {
        "same": [digests("SCROOGE", "MR. SCROOGE")],
        "open": [digests("THE PORTER", "PORTER")],
    }
    found = [*examples(folder, labels)]
    (alias,) = (features for features, same in found if same)
    assert alias["title"] == 1
    assert sum("unlike" in features for features, same in found if not same) == 1
    assert not any("same" in features for features, _ in found)


def test_weights_are_where_the_posterior_is_flat():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    same = rng.random(400) < 1 / (1 + np.exp(-2 * x[:, 0]))
    weights = fitted([{"a": a, "b": b} for a, b in x.tolist()], same.tolist())
    found = np.array([weights["a"], weights["b"]])
    likely = 1 / (1 + np.exp(-x @ found))
    assert x.T @ (same - likely) == pytest.approx(found, abs=1e-8)
    assert weights["a"] > 1.2
    assert abs(weights["b"]) < 0.5
