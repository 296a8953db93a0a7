"""Values that are entities: how many values get the entity that they name.

    KBFORGE_DATA=... python examples/reproductions/links.py [SET ...]

A set is clustered twice: into its labels, and by the default. Of the values that name an entity of
the file, and whose entity is known, *recall* are those that are linked to it, and *precision* is
the share of right ones among the links. An entity is right if most of its fragments have the
label. ECE is the expected calibration error of the links' probabilities.

Which entity a value names is known

- in texts (dwie, dwie_names_dev, webnlg, wd200_dev) from the text itself, if all fragments of that
  name in it have one label;
- in graphs (graphrag, graphrag_dulce) from the gold of names, with `graphs/gold`;
- in the files of examples/quickstart (demo, practice) from their maker. Names come with typos and
  in several spellings, and two places may have one name.
"""

from __future__ import annotations

import argparse
import json
import runpy
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from shell import data_folder

import kbforge
from kbforge.contracts import Entity, Fragment
from kbforge.evaluation.reliability import calibration_error
from kbforge.files.fragments import read_fragments, stop
from kbforge.texts import normalised
from kbforge_graphs.sources.graphrag import GraphRagSource

TEXTS = {
    "dwie": "dwie/dwie_public_traindev.jsonl",
    "dwie_names_dev": "graph_names/dwie_names_dev.jsonl",
    "webnlg": "webnlg/webnlg_1text_per_entry.jsonl.gz",
    "wd200_dev": "confusable/wd200_dev.jsonl",
}
GRAPHS = ("graphrag", "graphrag_dulce")
MADE = ("demo", "practice")
Truth = Mapping[tuple[str, str, str], str]
"""The label that a value means, by fragment, attribute and value."""


def of_texts(path: Path) -> tuple[list[Fragment], Truth]:
    """A labelled set, and what the texts say that its values mean."""
    fragments = list(read_fragments(str(path)))
    named: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for one in fragments:
        for name in one.names:
            named[one.source, normalised(name)].add(one.label or one.id)
    truth = {}
    for one in fragments:
        for attribute, values in one.properties.items():
            for value in values if attribute != "name" else ():
                labels = named.get((one.source, normalised(value)), set()) - {one.label}
                if len(labels) == 1:
                    truth[one.id, attribute, value] = next(iter(labels))
    return fragments, truth


def of_graph(folder: Path, name: str) -> tuple[list[Fragment], Truth]:
    """A graph, and the gold of its names."""
    rows = (folder / "gold" / f"{name}.names.jsonl").read_text(encoding="utf-8").splitlines()
    told = [json.loads(row) for row in rows]
    gold = {row["name"]: row["label"] for row in told if row["status"] == "sure"}
    fragments = [
        replace(one, label=gold.get(one.names[0], one.names[0]))
        for one in GraphRagSource().read([str(folder / name)], stop)
    ]
    truth = {
        (one.id, "neighbour", value): gold[value]
        for one in fragments
        for value in one.properties.get("neighbour", ())
        if value in gold and gold[value] != one.label
    }
    return fragments, truth


def made_up(world: str) -> tuple[list[Fragment], Truth]:
    """A file of the demo, and what its maker means by its values."""
    make = runpy.run_path(str(Path(__file__).parent.parent / "quickstart" / "generate.py"))
    fragments, truth = list[Fragment](), dict[tuple[str, str, str], str]()
    for one in make["made"](world):
        said = {attribute: tuple(values) for attribute, values in one.properties.items()}
        fragments.append(Fragment(one.id, said, label=one.label, source=one.source))
        for attribute, label in one.means.items():
            truth[one.id, attribute, said[attribute][0]] = label
    return fragments, truth


def scored(entities: Sequence[Entity], fragments: Sequence[Fragment], truth: Truth) -> str:
    """Precision, recall and ECE of the links, and how many there are."""
    label = {one.id: one.label for one in fragments}
    main = {
        entity.id: Counter(label[id] for id in entity.fragments).most_common(1)[0][0]
        for entity in entities
    }
    named = {normalised(name) for one in fragments for name in one.names}
    linkable = {key for key in truth if normalised(key[2]) in named}
    sure, right, links = list[float](), list[bool](), 0
    for entity in entities:
        for attribute, values in entity.properties.items():
            for value in values if attribute != "name" else ():
                links += value.count * bool(value.meanings)
                for id in value.fragments:
                    if value.meanings and (id, attribute, value.value) in linkable:
                        sure.append(value.meanings[0].probability)
                        right.append(
                            main[value.meanings[0].entity] == truth[id, attribute, value.value]
                        )
    error = calibration_error(np.array(sure), np.array(right, np.float64), 10) if sure else 0.0
    n = max(len(right), 1)
    return (
        f"links {links:6,}  known {len(truth):6,}, in the file {len(linkable):6,}  "
        f"precision {sum(right) / n:.4f}  recall {sum(right) / max(len(linkable), 1):.4f}  "
        f"ECE {error:.4f}"
    )


def main() -> None:
    """Print the figures of each set, by its labels and by the default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=[*TEXTS, *GRAPHS, *MADE])
    for name in parser.parse_args().sets:
        if name in TEXTS:
            fragments, truth = of_texts(data_folder() / TEXTS[name])
        elif name in GRAPHS:
            fragments, truth = of_graph(data_folder() / "graphs", name)
        else:
            fragments, truth = made_up(name.upper())
        by_label = [replace(one, properties={"name": (one.label or one.id,)}) for one in fragments]
        gold = kbforge.cluster(by_label, likelihood="names", alpha=1.0)
        kept = replace(gold, fragments=fragments)
        print(f"{name:15} labels   {scored(kept.entities, fragments, truth)}", flush=True)
        print(f"{name:15} default  {scored(kbforge.cluster(fragments).entities, fragments, truth)}")


if __name__ == "__main__":
    main()
