"""Aliases in real graphs of language models: how many pairs of names the default joins.

    KBFORGE_DATA=... python examples/reproductions/aliases.py [GRAPH ...]

A graph of GraphRAG is loaded and clustered as the command line does it. The entity of a name is the
one that has most of its fragments. Precision, recall and F1 are of pairs of names whose label is
sure; pairs that are disputed are not scored. `graphrag` is A Christmas Carol.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from shell import data_folder

import kbforge
from kbforge.contracts import Fragment
from kbforge.files.fragments import stop
from kbforge_graphs.sources.graphrag import GraphRagSource


def joined(fragments: Sequence[Fragment], entity_of: Mapping[str, str]) -> set[tuple[str, str]]:
    """The pairs of names whose entity is the same."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for fragment in fragments:
        found[fragment.names[0]][entity_of[fragment.id]] += 1
    held: dict[str, list[str]] = defaultdict(list)
    for name, entities in sorted(found.items()):
        held[min(entities, key=lambda entity: (-entities[entity], entity))].append(name)
    return {pair for names in held.values() for pair in combinations(names, 2)}


def rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main() -> None:
    """Cluster each graph and print how its pairs of names compare with the gold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["graphrag", "graphrag_dulce"])
    folder = data_folder() / "graphs"
    for graph in parser.parse_args().graphs:
        named = rows(folder / "gold" / f"{graph}.names.jsonl")
        gold = {row["name"]: row["label"] for row in named if row["status"] == "sure"}
        disputed = [{*row["labels"]} for row in rows(folder / "gold" / f"{graph}.disputes.jsonl")]
        fragments = list(GraphRagSource().read([str(folder / graph)], stop))
        entities = kbforge.cluster(fragments).entities
        entity_of = {f: entity.id for entity in entities for f in entity.fragments}
        labels = [(gold[a], gold[b]) for a, b in joined(fragments, entity_of) if {a, b} <= {*gold}]
        right = sum(one == other for one, other in labels)
        wrong = sum(one != other and {one, other} not in disputed for one, other in labels)
        there = sum(n * (n - 1) // 2 for n in Counter(gold.values()).values())
        f1 = 2 * right / (right + wrong + there)
        print(f"{graph}: {there} pairs of aliases; {right} joined, {wrong} wrongly; F1 {f1:.3f}")


if __name__ == "__main__":
    main()
