"""The way back: no relation is lost, namesakes part, and relations follow the merged entities."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import networkx
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.contracts import Entity, Value
from kbforge.errors import UsageError
from kbforge.files.fragments import stop
from kbforge.kb.view import EntitiesView
from kbforge_graphs.sources.graphs import fragment_id
from tests.graphs.writing import write_graphrag

TABLES = ("entities", "relationships", "text_units")


def entity(name: str, fragments: Iterable[str], entity_id: str = "") -> Entity:
    ids = tuple(fragments)
    values = {"name": (Value(name, ids),)}
    return Entity(entity_id or f"e-{ids[0]}", name, values, ids, 0.5, 0)


def merged(
    graph: Path, entities: list[Entity], target: Path, kind: str = "graphrag", **options: object
) -> Any:
    exporter = registry.create("exporters", kind, {"graph": str(graph), **options})
    exporter.export(EntitiesView(lambda: iter(entities)), str(target))
    return exporter


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        name: pq.read_table(folder / f"{name}.parquet").to_pylist()
        for name in TABLES
        if (folder / f"{name}.parquet").exists()
    }


@pytest.fixture
def graph(tmp_path):
    """VICTORIA is a queen in u1 and a city in u2; SCROOGE has two names."""
    names = {
        "VICTORIA": ["u1", "u2"], "ALBERT": ["u1"], "SCROOGE": ["u3"], "MR. SCROOGE": ["u3"],
        "MARLEY": ["u3"],
    }  # fmt: skip
    edges = [
        ("VICTORIA", "ALBERT", 4.0, ["u1", "u2"]),
        ("SCROOGE", "MARLEY", 2.0, ["u3"]),
        ("MR. SCROOGE", "MARLEY", 3.0, ["u3"]),
        ("MR. SCROOGE", "SCROOGE", 5.0, ["u3"]),
    ]
    return write_graphrag(
        tmp_path / "output",
        [
            {"id": f"old-{title}", "title": title, "description": f"{title}.",
             "text_unit_ids": units}
            for title, units in names.items()
        ],
        [
            {"id": f"r{i}", "source": a, "target": b, "weight": w, "text_unit_ids": units}
            for i, (a, b, w, units) in enumerate(edges)
        ],
        [{"id": unit, "text": f"text of {unit}", "entity_ids": []} for unit in ("u1", "u2", "u3")],
    )  # fmt: skip


@pytest.fixture
def knowledge():
    return [
        entity("VICTORIA", ["u1#VICTORIA"], "queen"),
        entity("ALBERT", ["u1#ALBERT", "u2#ALBERT"], "albert"),
        entity("VICTORIA", ["u2#VICTORIA"], "city"),
        entity("SCROOGE", ["u3#SCROOGE", "u3#MR. SCROOGE"], "scrooge"),
        entity("MARLEY", ["u3#MARLEY"], "marley"),
    ]


def test_graphrag(graph, knowledge, tmp_path):
    exporter = merged(graph, knowledge, tmp_path / "merged")
    found = tables(tmp_path / "merged")
    by_id = {row["id"]: row for row in found["entities"]}
    assert {i: row["title"] for i, row in by_id.items()} == {
        "queen": "VICTORIA",
        "albert": "ALBERT",
        "city": "VICTORIA (city)",
        "scrooge": "SCROOGE",
        "marley": "MARLEY",
    }
    assert by_id["scrooge"]["description"] == "SCROOGE.\nMR. SCROOGE."
    assert by_id["scrooge"]["degree"] == 2
    assert by_id["albert"]["text_unit_ids"] == ["u1", "u2"]
    relations = {(r["source"], r["target"]): r for r in found["relationships"]}
    assert {pair: r["weight"] for pair, r in relations.items()} == {
        ("VICTORIA", "ALBERT"): 2.0,
        ("VICTORIA (city)", "ALBERT"): 2.0,
        ("SCROOGE", "MARLEY"): 5.0,
        ("SCROOGE", "SCROOGE"): 5.0,
    }
    assert relations["SCROOGE", "MARLEY"]["id"] == "r1"
    assert relations["SCROOGE", "MARLEY"]["combined_degree"] == 3
    assert len({row["id"] for row in found["relationships"]}) == 4
    (first, second, third) = found["text_units"]
    assert first["entity_ids"] == ["queen", "albert"]
    assert second["relationship_ids"] == [relations["VICTORIA (city)", "ALBERT"]["id"]]
    assert third["text"] == "text of u3"
    assert exporter.notes == [
        "4 relations of the graph became 4 between merged entities",
        "1 relation joins two names of one entity, and so the entity with itself",
    ]


def test_graphml_is_read_by_lightrag_and_by_others(graph, knowledge, tmp_path):
    merged(graph, knowledge, tmp_path / "merged.graphml", "graphml")
    read = networkx.read_graphml(tmp_path / "merged.graphml")
    assert read.nodes["VICTORIA (city)"]["canonical_id"] == "city"
    assert read.edges["SCROOGE", "MARLEY"]["weight"] == 5.0
    fragments = registry.create("sources", "lightrag").read(
        [str(tmp_path / "merged.graphml")], stop
    )
    assert {f.id: f.properties.get("neighbour") for f in fragments} == {
        "u1#VICTORIA": ("ALBERT",),
        "u1#ALBERT": ("VICTORIA",),
        "u2#ALBERT": ("VICTORIA (city)",),
        "u2#VICTORIA (city)": ("ALBERT",),
        "u3#SCROOGE": ("MARLEY",),
        "u3#MARLEY": ("SCROOGE",),
    }


def test_triples(graph, knowledge, tmp_path):
    merged(graph, knowledge, tmp_path / "t.csv", "triples")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["head_id"], r["tail_id"], r["weight"], r["context"]) for r in rows] == [
        ("queen", "albert", "2.0", "u1"),
        ("city", "albert", "2.0", "u2"),
        ("scrooge", "marley", "5.0", "u3"),
        ("scrooge", "scrooge", "5.0", "u3"),
    ]


def test_what_is_in_no_entity_keeps_its_name(graph, knowledge, tmp_path):
    exporter = merged(graph, knowledge[:3], tmp_path / "merged")
    found = tables(tmp_path / "merged")
    assert sum(row["weight"] for row in found["relationships"]) == 14
    assert ("MR. SCROOGE", "MARLEY") in {(r["source"], r["target"]) for r in found["relationships"]}
    assert "are in no entity of the knowledge base" in exporter.notes[-1]


def test_a_graph_is_needed_and_has_the_shape(graph, tmp_path, program):
    for kind, options in (
        ("graphrag", {}),
        ("graphml", {"graph": "-"}),
        ("triples", {"source": "lightrag"}),
    ):
        with pytest.raises(UsageError, match="give --graph FOLDER"):
            registry.create("exporters", kind, options)
    (tmp_path / "g.graphml").write_text('<graphml><graph><node id="a"/></graph></graphml>')
    with pytest.raises(UsageError, match="expected a folder of GraphRAG"):
        merged(tmp_path / "g.graphml", [], tmp_path / "out")
    with pytest.raises(UsageError, match="expected graphrag, lightrag"):
        merged(graph, [], tmp_path / "out", source="csv")


def test_the_whole_way(graph, tmp_path, program):
    fragments, kb, out = (tmp_path / name for name in ("f.jsonl", "kb.jsonl", "merged"))
    program("load", "graphrag", graph, "-o", fragments)
    program("cluster", fragments, "--likelihood", "names", "-o", kb)
    ran = program("export", kb, "--format", "graphrag", "--graph", graph, "-o", out)
    assert "4 relations of the graph became 4 between merged entities" in ran.err
    refused = program("export", kb, "--format", "graphrag", "--graph", graph, "-o", graph)
    assert refused.code == 2
    assert "is an input" in refused.err


TITLES = ("A", "B", "C", "D")
UNITS = ("u1", "u2", "u3")
mentions = st.lists(st.sampled_from(UNITS), max_size=3, unique=True)
weights = st.integers(1, 100).map(float)
relations = st.lists(st.tuples(st.sampled_from(TITLES), st.sampled_from(TITLES), weights, mentions))


@given(relations, st.randoms(use_true_random=False))
def test_no_weight_is_lost(tmp_path_factory, edges, rng):
    """Whatever the grouping of the fragments, and even if some are in no entity."""
    folder = tmp_path_factory.mktemp("graph")
    rows = [
        {"source": a, "target": b, "weight": w, "text_unit_ids": units} for a, b, w, units in edges
    ]
    write_graphrag(folder, [{"title": title} for title in TITLES], rows)
    groups: dict[int, list[str]] = {}
    for unit in ("", *UNITS):
        for title in TITLES:
            groups.setdefault(rng.randrange(6), []).append(fragment_id(unit, title))
    kept = [entity(f"E{number % 2}", ids) for number, ids in groups.items() if number]
    merged(folder, kept, folder / "merged")
    found = tables(folder / "merged")["relationships"]
    pairs = [(row["source"], row["target"]) for row in found]
    assert len(set(pairs)) == len(pairs)
    total = sum(w for _, _, w, _ in edges)
    assert sum(row["weight"] for row in found) == pytest.approx(total)


@pytest.mark.data
@pytest.mark.parametrize("folder", ["graphrag", "graphrag_dulce"])
def test_real_graphs_come_back_as_they_were(data_dir, tmp_path, folder):
    """If each title is one entity, all that is told of entities and relationships stays."""
    graph = data_dir / "graphs" / folder
    titles = by_title(graph)
    merged(graph, [entity(title, ids) for title, ids in titles.items()], tmp_path / "merged")
    old, new = tables(graph), tables(tmp_path / "merged")
    for before, after in zip(old["relationships"], new["relationships"], strict=True):
        assert {**before, "text_unit_ids": sorted(before["text_unit_ids"])} == {
            **after,
            "text_unit_ids": sorted(after["text_unit_ids"]),
        }
    of_title = {row["title"]: row for row in new["entities"]}
    for before in old["entities"]:
        after = of_title[before["title"]]
        assert before["degree"] == after["degree"]
        assert before["description"] == after["description"]
        assert set(before["text_unit_ids"]) <= set(after["text_unit_ids"])
    for before, after in zip(old["text_units"], new["text_units"], strict=True):
        assert before["text"] == after["text"]
        assert sorted(before["relationship_ids"]) == sorted(after["relationship_ids"])


@pytest.mark.data
@pytest.mark.parametrize("folder", ["graphrag", "graphrag_dulce"])
def test_real_graphs_keep_their_weight_when_titles_merge(data_dir, tmp_path, folder):
    graph = data_dir / "graphs" / folder
    groups: dict[str, list[str]] = {}
    for title, ids in by_title(graph).items():
        groups.setdefault(title.split()[-1], []).extend(ids)
    merged(graph, [entity(word, ids) for word, ids in groups.items()], tmp_path / "merged")
    old, new = tables(graph), tables(tmp_path / "merged")
    assert len(new["relationships"]) < len(old["relationships"])
    weight = sum(row["weight"] for row in old["relationships"])
    assert sum(row["weight"] for row in new["relationships"]) == pytest.approx(weight)


def by_title(graph: Path, source: str = "graphrag") -> Mapping[str, list[str]]:
    titles: dict[str, list[str]] = {}
    for fragment in registry.create("sources", source).read([str(graph)], stop):
        titles.setdefault(fragment.names[0], []).append(fragment.id)
    return titles


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("folder", ["nano_graphrag", "lightrag_lenny"])
def test_real_graphs_of_lightrag_come_back(data_dir, tmp_path, folder):
    """Nodes, edges and their weights, if each name is one entity, and weights if some merge."""
    graph = data_dir / "graphs" / folder
    old = networkx.read_graphml(graph / "graph_chunk_entity_relation.graphml")
    target = tmp_path / "merged.graphml"
    titles = by_title(graph, "lightrag")
    merged(graph, [entity(title, ids) for title, ids in titles.items()], target, "graphml")
    new = networkx.read_graphml(target)
    assert type(new) is networkx.Graph
    assert len(new.nodes) == len(old.nodes)
    assert len(new.edges) == len(old.edges)
    weight = old.size("weight")
    assert new.size("weight") == pytest.approx(weight)
    groups: dict[str, list[str]] = {}
    for title, ids in titles.items():
        groups.setdefault(title.split()[0].lower(), []).extend(ids)
    merged(graph, [entity(word, ids) for word, ids in groups.items()], target, "graphml")
    new = networkx.read_graphml(target)
    assert type(new) is networkx.Graph
    assert len(new.edges) < len(old.edges)
    assert new.size("weight") == pytest.approx(weight)
