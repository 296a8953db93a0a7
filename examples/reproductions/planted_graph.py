"""A graph of GraphRAG's shape with planted homonyms and aliases: KBForge beside equal names.

    KBFORGE_DATA=... python examples/reproductions/planted_graph.py [SET ...]

A mention of a confusable set (wd200_dev by default) is an entity of the text unit that its `source`
names, and each value of its relations is another one there. As GraphRAG does, the graph has one row
for each title in capitals, with all its text units: namesakes are one entity, and an entity with
two names is two. The description of a title is all that its mentions state. `load graphrag` makes
one fragment for each entity in each text unit, which the default clusters. Labels are those of the
mentions; entities that no mention labels are clustered, and not scored. Of mentions with one title
in one text unit the graph shows the first only.

Printed are the F1 of items and of pairs, how many of the pairs of namesakes (one title, two labels)
are apart, and how many of the pairs of aliases (two titles, one label) are together.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from shell import data_folder

import kbforge
from kbforge.contracts import Fragment
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments, stop
from kbforge_graphs.sources.graphrag import ENTITIES, RELATIONSHIPS, GraphRagSource
from kbforge_graphs.sources.graphs import fragment_id

NO_RELATIONS = ("name", "type")


def planted(mentions: Sequence[Fragment], folder: Path) -> dict[str, str]:
    """Write the graph of some mentions; the labels of its fragments."""
    units: dict[str, dict[str, None]] = defaultdict(dict)
    types: dict[str, str] = {}
    stated: dict[str, dict[str, None]] = defaultdict(dict)
    edges: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    labels: dict[str, str] = {}
    for mention in mentions:
        title, unit = mention.names[0].upper(), mention.source or ""
        if fragment_id(unit, title) in labels:
            continue
        labels[fragment_id(unit, title)] = mention.label or ""
        units[title][unit] = None
        types.setdefault(title, mention.properties.get("type", ("",))[0])
        for relation, values in mention.properties.items():
            for value in values if relation not in NO_RELATIONS else ():
                said = f"{title} {relation} {value.upper()}."
                units[value.upper()][unit] = None
                stated[title][said] = None
                edges[title, value.upper()].append((unit, said))
    entities = [
        {
            "id": f"entity-{number}",
            "title": title,
            "type": types.get(title, ""),
            "description": " ".join(stated[title]),
            "text_unit_ids": list(found),
        }
        for number, (title, found) in enumerate(units.items())
    ]
    relationships = [
        {
            "source": head,
            "target": tail,
            "description": " ".join(dict.fromkeys(said for _, said in found)),
            "weight": float(len(found)),
            "text_unit_ids": list(dict.fromkeys(unit for unit, _ in found)),
        }
        for (head, tail), found in edges.items()
    ]
    pq.write_table(pa.Table.from_pylist(entities), folder / ENTITIES)
    pq.write_table(pa.Table.from_pylist(relationships), folder / RELATIONSHIPS)
    return labels


def share(pairs: Sequence[tuple[str, str]], clusters: Mapping[str, object], same: bool) -> str:
    """How many of the pairs are together, or apart."""
    right = sum((clusters[one] == clusters[other]) == same for one, other in pairs)
    return f"{right:,} of {len(pairs):,}"


def report(name: str, fragments: Sequence[Fragment], labels: Mapping[str, str]) -> None:
    """Cluster the fragments, and print how the entities compare with the labels."""
    knowledge = kbforge.cluster(fragments)
    entity_of = {f: entity.id for entity in knowledge.entities for f in entity.fragments}
    title_of = {fragment.id: fragment.names[0] for fragment in fragments}
    scored = [fragment.id for fragment in fragments if fragment.id in labels]
    pairs = list(combinations(scored, 2))
    one_title = [(a, b) for a, b in pairs if title_of[a] == title_of[b] and labels[a] != labels[b]]
    one_label = [(a, b) for a, b in pairs if title_of[a] != title_of[b] and labels[a] == labels[b]]
    print(f"{name}: {len(fragments):,} fragments, {len(scored):,} with a label")
    for method, of in (("equal names", title_of), ("KBForge", entity_of)):
        found = compare([of[f] for f in scored], [labels[f] for f in scored])
        print(
            f"  {method:<12} F1 of items {found.bcubed_f1_item_mean:.3f}, "
            f"of pairs {found.pairwise_f1:.3f}; namesakes apart {share(one_title, of, False)}, "
            f"aliases together {share(one_label, of, True)}"
        )


def main() -> None:
    """Plant and cluster a graph for each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=["wd200_dev"])
    for name in parser.parse_args().sets:
        mentions = list(read_fragments(str(data_folder() / "confusable" / f"{name}.jsonl")))
        with tempfile.TemporaryDirectory() as folder:
            labels = planted(mentions, Path(folder))
            report(name, list(GraphRagSource().read([folder], stop)), labels)


if __name__ == "__main__":
    main()
