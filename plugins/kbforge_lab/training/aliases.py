"""Trains the weights of the likelihood `aliases` on labelled graphs of language models.

    python -m kbforge_lab.training.aliases GRAPHS -o WEIGHTS.json [--without NAME ...]

GRAPHS has a folder for each graph of `aliases.json`, which has the labels: for each graph the names
of each entity that has several, and pairs of names that are not judged, as digests of exact names.
All other pairs that the likelihood compares are of different entities. A person who read the names
and their descriptions judged all that contain each other, are alike or are said to be the same.

    red     aselai-cpu/graphrag-ms at e5b5cb2c, output: people and offices of China
    edo     piyo123/learning-microsoft-graphrag at 9af6b263, output: Japan about 1600
    johnny  khmelkoff/jm_project at b316f968, output: a short story
    lenny   traversaal-ai/lennyhub-rag at 1471464e, rag_storage: talks about products

A logistic model with a normal prior of unit variance is fitted to the features of the pairs. The
graphs that figures are reported for are not among these (docs/results.md).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbforge import registry
from kbforge.contracts import FloatArray
from kbforge.files.fragments import stop
from kbforge.texts import digest_of
from kbforge_graphs.likelihoods.aliases.evidence import WEIGHTS, Evidence

LABELS = Path(__file__).with_suffix(".json")
_STEPS = 50
_CLOSE = 1e-10


def examples(folder: Path, labels: Mapping[str, Any]) -> Iterator[tuple[dict[str, float], bool]]:
    """The features of each judged pair of names of a graph, and whether they are of one entity."""
    source = "lightrag" if [*folder.glob("*.graphml")] else "graphrag"
    evidence = Evidence(registry.create("sources", source).read([str(folder)], stop))
    entity = {name: group for group, names in enumerate(labels["same"]) for name in names}
    unsure = {frozenset(entity.get(name, -name) for name in pair) for pair in labels["open"]}
    for pair in evidence.terms:
        one, other = (entity.get(digest_of(name), -digest_of(name)) for name in pair)
        if one == other or {one, other} not in unsure:
            yield evidence.features(pair), one == other


def fitted(features: Sequence[Mapping[str, float]], same: Sequence[bool]) -> dict[str, float]:
    """The weights of the features by Newton's method, nats."""
    names = sorted({name for found in features for name in found})
    x = np.array([[found.get(name, 0.0) for name in names] for found in features])
    y, weights = np.array(same, np.float64), np.zeros(len(names))
    for _ in range(_STEPS):
        likely: FloatArray = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (y - likely) - weights
        curve = (x.T * (likely * (1 - likely))) @ x + np.eye(len(names))
        step = np.linalg.solve(curve, slope)
        weights = weights + step
        if np.abs(step).max() < _CLOSE:
            break
    return dict(zip(names, weights.tolist(), strict=True))


def main() -> None:
    """Fit and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graphs", type=Path)
    parser.add_argument("-o", dest="output", type=Path, required=True)
    parser.add_argument("--without", nargs="*", default=[])
    given = parser.parse_args()
    labels = json.loads(LABELS.read_text("utf-8"))
    chosen = [name for name in labels if name not in given.without]
    found = [pair for name in chosen for pair in examples(given.graphs / name, labels[name])]
    weights = fitted(*zip(*found, strict=True))
    kept = {
        attribute: {name: round(weights.get(name, 0.0), 2) for name in features}
        for attribute, features in WEIGHTS.items()
    }
    given.output.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    alike = sum(same for _, same in found)
    print(f"{len(found):,} pairs of {len(chosen)} graphs, {alike} the same")


if __name__ == "__main__":
    main()
