"""Identity as evidence: what the second pass gains on sets whose values name entities.

    KBFORGE_DATA=... python examples/reproductions/identity.py [SET ...] [--orders 5]

A set is clustered by the default with one pass (`--refers none`) and with the second one. The
oracle is a second pass that is told the labels of the entities that values name, also in graphs,
where the default takes one pass. Printed are the F1 of items and of pairs, means over orders of the
fragments, what each second pass adds, and, if orders differ, the range of what it adds to the F1 of
items. A set called `planted:NAME` is the graph that `planted_graph.py` makes of a confusable set:
of it the pairs of namesakes that are apart are printed, too. `--stores 4` fills stores in four
batches, and prints the F1 of both with one pass and with two, and of both after `refit`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from links import MADE, made_up
from planted_graph import planted, share
from shell import data_folder

import kbforge
from kbforge.contracts import Entity, Fragment
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments, stop
from kbforge.fit.identity import renaming_of
from kbforge.jobs.refit import refit
from kbforge.jobs.views import entities_of
from kbforge_graphs.sources.graphrag import GraphRagSource

CONFUSABLE = [
    f"{name}_{part}" for name in ("wd50", "wd200", "dwie50", "dwie100") for part in ("dev", "train")
]
SETS = {
    "dwie": "dwie/dwie_public_traindev.jsonl",
    "dwie_names_dev": "graph_names/dwie_names_dev.jsonl",
    "dwie_names_train": "graph_names/dwie_names_train.jsonl",
    "webnlg": "webnlg/webnlg_1text_per_entry.jsonl.gz",
    "syriaca_places": "more/syriaca/syriaca_places.jsonl",
    **{name: f"confusable/{name}.jsonl" for name in CONFUSABLE},
}
PLANTED = [f"planted:{name}" for name in ("wd200_dev", "wd200_train", "dwie50_dev", "dwie100_dev")]
Labels = Mapping[str, str]


class Scores(NamedTuple):
    """Of a grouping."""

    items: float
    pairs: float
    namesakes: str  # pairs that are apart


def read(name: str) -> tuple[list[Fragment], Labels]:
    """The fragments of a set, and their labels by id; those of the demo's maker by its name."""
    if name in MADE:
        fragments, _ = made_up(name.upper())
        return fragments, {one.id: one.label for one in fragments if one.label}
    if not name.startswith("planted:"):
        fragments = list(read_fragments(str(data_folder() / SETS[name])))
        return fragments, {one.id: one.label for one in fragments if one.label}
    mentions = read_fragments(str(data_folder() / SETS[name.removeprefix("planted:")]))
    with tempfile.TemporaryDirectory() as folder:
        labels = planted(list(mentions), Path(folder))
        return list(GraphRagSource().read([folder], stop)), labels


def scored(entities: Iterable[Entity], fragments: Sequence[Fragment], labels: Labels) -> Scores:
    """How a grouping compares with the labels."""
    entity_of = {f: entity.id for entity in entities for f in entity.fragments}
    ids = [one.id for one in fragments if one.id in labels]
    found = compare([entity_of[id] for id in ids], [labels[id] for id in ids])
    by_name: dict[str, list[str]] = {}
    for one in fragments:
        if one.id in labels:
            by_name.setdefault(one.names[0], []).append(one.id)
    pairs = [
        (a, b)
        for several in by_name.values()
        for a, b in combinations(several, 2)
        if labels[a] != labels[b]
    ]
    return Scores(found.bcubed_f1_item_mean, found.pairwise_f1, share(pairs, entity_of, False))


def passes(fragments: Sequence[Fragment], labels: Labels) -> list[Scores]:
    """One pass, two, and two with the labels of those that values name."""
    one = kbforge.cluster(fragments, refers="none")
    first: dict[str, int] = {}
    keys = [labels.get(x.id) or f"? {x.id}" for x in fragments]
    entities = np.array([first.setdefault(key, n) for n, key in enumerate(keys)])
    renaming = renaming_of(fragments, lambda: entities)
    oracle = one
    if renaming is not None and one.likelihood == "pairs":
        renamed = [renaming.of(fragment) for fragment in fragments]
        oracle = kbforge.cluster(renamed, likelihood="pairs", alpha=one.alpha, refers="none")
    two = kbforge.cluster(fragments)
    return [scored(knowledge.entities, fragments, labels) for knowledge in (one, two, oracle)]


def stored(fragments: Sequence[Fragment], labels: Labels, batches: int) -> list[Scores]:
    """Stores filled by one pass and by two with the first of several batches, to which the others
    are added, and the same after `refit`."""
    before, after = list[Scores](), list[Scores]()
    size = -(-len(fragments) // batches)
    with tempfile.TemporaryDirectory() as folder:
        for refers in ("none", "auto"):
            path = f"{folder}/{refers}.kbforge"
            for begin in range(0, len(fragments), size):
                kbforge.update(path, fragments[begin : begin + size], refers=refers)
            before.append(scored(entities_of(path), fragments, labels))
            if batches > 1:
                refit(path)
                after.append(scored(entities_of(path), fragments, labels))
    return before + after


def main() -> None:
    """Print the figures of each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=[*SETS, *MADE, *PLANTED])
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--stores", type=int, help="fill stores in so many batches instead")
    given = parser.parse_args()
    for name in given.sets:
        fragments, labels = read(name)
        runs = []
        for seed in range(given.orders):
            Random(seed).shuffle(fragments)
            if given.stores:
                figures = stored(fragments, labels, given.stores)
                told = "  ".join(f"{one.items:.4f} / {one.pairs:.4f}" for one in figures)
                print(f"{name:20} {given.stores} batches, one pass and two {told}", flush=True)
            else:
                runs.append(passes(fragments, labels))
        if given.stores:
            continue
        figures = np.array([[scores[:2] for scores in run] for run in runs])
        mean, added = figures.mean(axis=0), figures[:, 1:] - figures[:, :1]
        one, two, oracle = (f"{items:.4f} / {pairs:.4f}" for items, pairs in mean)
        gains = " ".join(f"{items:+.4f} / {pairs:+.4f}" for items, pairs in added.mean(axis=0))
        low, high = added[:, 0, 0].min(), added[:, 0, 0].max()
        print(f"{name:20} one {one}  two {two}  oracle {oracle}  added {gains}", end="")
        print(f" ({low:+.4f} to {high:+.4f})" if low < high else "", end="")
        planted_one = name.startswith("planted:")
        apart = " / ".join(scores.namesakes for scores in runs[0])
        print(f"  namesakes apart {apart}" if planted_one else "", flush=True)


if __name__ == "__main__":
    main()
