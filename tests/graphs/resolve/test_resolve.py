"""A graph resolved and written back: what a plan says, nothing lost, and all of it undone."""

import base64
import csv
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide
from kbforge.jobs.update import add_fragments
from kbforge_graphs.resolve import graph as graph_module
from kbforge_graphs.resolve.graph import Graph, least_change, undo, write
from kbforge_graphs.resolve.plan import Grouping, Plan
from tests.graphs.resolve.shapes import SEP, SHAPES, contents


class Given(Grouping):
    """A grouping without a store; fragments are together or not."""

    def __init__(self, groups: Mapping[str, object]) -> None:
        of = dict[object, list[str]]()
        for id, group in groups.items():
            of.setdefault(group, []).append(id)
        self.entities = list(of.values())
        self._group = groups

    def together(self, some: Sequence[str], others: Sequence[str]) -> float:
        pairs = [(a, b) for a in some for b in others]
        return sum(self._group[a] == self._group[b] for a, b in pairs) / len(pairs)


def resolved(folder: Path, out: Path, group: Callable[[str, str], object]) -> dict[str, Any]:
    """Write a graph whose mentions, by name and text unit, are in these groups."""
    graph = Graph(str(folder))
    shape = graph.shape
    groups = {
        fragment.id: group(shape.name_of(graph.keys[fragment.id]), fragment.source or "")
        for fragment in graph.fragments
    }
    plan = Plan(Given(groups), graph.keys, graph.recorded, shape.new_key, 0.0)
    return write(graph, plan, str(out), "kb.sqlite")


def apart(name: str, unit: str) -> str:
    return name


def as_meant(name: str, unit: str) -> tuple[str, str]:
    """SCROOGE is one with MR. SCROOGE; VICTORIA of u2 is a city."""
    name = name.removeprefix("MR. ")
    return name, unit if name == "VICTORIA" else ""


@pytest.fixture(params=SHAPES)
def folder(request, tmp_path):
    return SHAPES[request.param](tmp_path / "graph")


def test_what_does_not_change_is_written_as_it_was(folder, tmp_path):
    before = contents(folder)
    report = resolved(folder, tmp_path / "out", apart)
    assert contents(tmp_path / "out") == before == contents(folder)
    assert report["joined"] == report["parted"] == []


def test_the_report(folder, tmp_path):
    told = resolved(folder, tmp_path / "out", as_meant)
    (joined,) = told["joined"]
    assert (joined["into"]["name"], joined["joined"]["name"]) == ("SCROOGE", "MR. SCROOGE")
    assert all(joined[k]["mention"].strip('"').endswith("SCROOGE") for k in ("into", "joined"))
    assert joined["into"]["mention"] != joined["joined"]["mention"]
    (part,) = told["parted"]
    assert part["parted"]["name"] == "VICTORIA"
    assert part["into"]["name"] in ("VICTORIA (2)", "VICTORIA")  # where names need not differ
    assert part["into"]["id"] != part["parted"]["id"]
    assert told["after"]["relations of an entity with itself"] == 1
    assert told["before"]["entities"] in (5, 9)  # Cognee has other nodes, too
    assert told["after"]["entities"] == told["before"]["entities"]


def test_graphrag(tmp_path):
    resolved(SHAPES["graphrag"](tmp_path / "graph"), tmp_path / "out", as_meant)
    found = contents(tmp_path / "out")
    rows = {name: value[0] for name, value in found.items() if name.endswith(".parquet")}
    by_title = {row["title"]: row for row in rows["entities.parquet"]}
    assert [*by_title] == ["VICTORIA", "ALBERT", "SCROOGE", "MARLEY", "VICTORIA (2)"]
    assert by_title["SCROOGE"] == {
        "id": "id-SCROOGE", "human_readable_id": 2, "title": "SCROOGE", "type": "PERSON",
        "description": "SCROOGE.\nMR. SCROOGE.", "text_unit_ids": ["u3"], "frequency": 1,
    }  # fmt: skip
    city, queen = by_title["VICTORIA (2)"], by_title["VICTORIA"]
    assert (queen["id"], queen["text_unit_ids"]) == ("id-VICTORIA", ["u1"])
    assert (city["text_unit_ids"], city["human_readable_id"]) == (["u2"], 5)
    edges = {(row["source"], row["target"]): row for row in rows["relationships.parquet"]}
    assert {pair: (row["weight"], row["text_unit_ids"]) for pair, row in edges.items()} == {
        ("VICTORIA", "ALBERT"): (2.0, ["u1"]),
        ("VICTORIA (2)", "ALBERT"): (2.0, ["u2"]),
        ("SCROOGE", "MARLEY"): (5.0, ["u3"]),
        ("SCROOGE", "SCROOGE"): (5.0, ["u3"]),
    }
    joined = edges["SCROOGE", "MARLEY"]
    assert joined["id"] == "r1"
    assert joined["description"] == "SCROOGE and MARLEY.\nMARLEY and MR. SCROOGE."
    of_city = edges["VICTORIA (2)", "ALBERT"]["id"]
    units = {row["id"]: row for row in rows["text_units.parquet"]}
    assert units["u1"]["entity_ids"] == ["id-VICTORIA", "id-ALBERT"]
    assert units["u2"]["entity_ids"] == [city["id"]]
    assert units["u2"]["relationship_ids"] == [of_city]
    assert units["u3"]["relationship_ids"] == ["r1", "r3"]
    (community,) = rows["communities.parquet"]
    assert community["relationship_ids"] == ["r0", of_city, "r1", "r3"]
    assert rows["covariates.parquet"][0]["subject_id"] == "SCROOGE"
    assert rows["covariates.parquet"][0]["object_id"] == "NONE"
    assert found["lancedb/index"] == b"\0"


def test_degrees_of_graphrag_follow(tmp_path):
    folder = SHAPES["graphrag"](tmp_path / "graph")
    for name, columns in (("entities", {"degree": 9}), ("relationships", {"combined_degree": 9})):
        table = pq.read_table(folder / f"{name}.parquet")
        rows = [row | columns for row in table.to_pylist()]
        pq.write_table(type(table).from_pylist(rows), folder / f"{name}.parquet")
    resolved(folder, tmp_path / "out", as_meant)
    found = contents(tmp_path / "out")
    degrees = {row["title"]: row["degree"] for row in found["entities.parquet"][0]}
    # those that stay have the figure that the tool wrote
    assert degrees == {"VICTORIA": 9, "VICTORIA (2)": 1, "ALBERT": 2, "SCROOGE": 9, "MARLEY": 1}
    combined = {row["id"]: row["combined_degree"] for row in found["relationships.parquet"][0]}
    assert combined["r1"] == 3


def test_lightrag(tmp_path):
    resolved(SHAPES["lightrag"](tmp_path / "graph"), tmp_path / "out", as_meant)
    found = contents(tmp_path / "out")
    graph = networkx.read_graphml(tmp_path / "out" / "graph_chunk_entity_relation.graphml")
    assert [*graph.nodes] == ["VICTORIA", "ALBERT", "SCROOGE", "MARLEY", "VICTORIA (2)"]
    assert graph.nodes["SCROOGE"]["description"] == f"SCROOGE.{SEP}MR. SCROOGE."
    assert graph.nodes["VICTORIA (2)"] == {
        "entity_id": "VICTORIA (2)", "entity_type": "person", "description": "VICTORIA.",
        "source_id": "u2", "created_at": 17,
    }  # fmt: skip
    assert graph.edges["SCROOGE", "MARLEY"] == {
        "weight": 5.0, "description": f"SCROOGE and MARLEY.{SEP}MARLEY and MR. SCROOGE.",
        "keywords": "SCROOGE,kin,MARLEY", "source_id": "u3",
    }  # fmt: skip
    chunks = found["kv_store_entity_chunks.json"]
    assert "MR. SCROOGE" not in chunks
    assert chunks["VICTORIA (2)"] == {
        "chunk_ids": ["u2"], "count": 1, "create_time": 1, "_id": "VICTORIA (2)"
    }  # fmt: skip
    assert set(found["kv_store_relation_chunks.json"]) == {
        "ALBERT<SEP>VICTORIA", "ALBERT<SEP>VICTORIA (2)", "MARLEY<SEP>SCROOGE",
        "SCROOGE<SEP>SCROOGE",
    }  # fmt: skip
    names = found["kv_store_full_entities.json"]["d"]
    assert names["entity_names"] == ["VICTORIA", "VICTORIA (2)", "ALBERT", "SCROOGE", "MARLEY"]
    assert names["count"] == 5
    assert found["kv_store_full_relations.json"]["d"]["relation_pairs"] == [
        ["VICTORIA", "ALBERT"], ["VICTORIA (2)", "ALBERT"], ["SCROOGE", "MARLEY"],
        ["MARLEY", "SCROOGE"], ["SCROOGE", "SCROOGE"],
    ]  # fmt: skip


def test_vectors_stay_with_their_entities(tmp_path):
    resolved(SHAPES["lightrag"](tmp_path / "graph"), tmp_path / "out", as_meant)
    vectors = contents(tmp_path / "out")["vdb_entities.json"]
    matrix = np.frombuffer(base64.b64decode(vectors["matrix"]), np.float32).reshape(-1, 3)
    of = {row["entity_name"]: matrix[at].tolist() for at, row in enumerate(vectors["data"])}
    assert of == {
        "VICTORIA": [0, 1, 2], "ALBERT": [3, 4, 5], "SCROOGE": [6, 7, 8], "MARLEY": [12, 13, 14],
        "VICTORIA (2)": [0, 1, 2],
    }  # fmt: skip
    ids = [row["__id__"] for row in vectors["data"]]
    assert ids[:2] == ["ent-VICTORIA", "ent-ALBERT"]
    assert ids[-1].startswith("ent-")
    assert len(set(ids)) == 5
    relations = contents(tmp_path / "out")["vdb_relationships.json"]
    assert [(row["src_id"], row["tgt_id"]) for row in relations["data"]] == [
        ("VICTORIA", "ALBERT"), ("VICTORIA (2)", "ALBERT"), ("SCROOGE", "MARLEY"),
        ("SCROOGE", "SCROOGE"),
    ]  # fmt: skip


def test_nano_graphrag_keeps_its_quotes(tmp_path):
    resolved(SHAPES["nano"](tmp_path / "graph"), tmp_path / "out", as_meant)
    graph = networkx.read_graphml(tmp_path / "out" / "graph_chunk_entity_relation.graphml")
    assert '"VICTORIA (2)"' in graph
    assert '"MR. SCROOGE"' not in graph
    report = contents(tmp_path / "out")["kv_store_community_reports.json"]["0"]
    assert report["report_string"] == "SCROOGE."
    assert report["nodes"][:2] == ['"VICTORIA"', '"VICTORIA (2)"']


def test_an_edge_of_graphiti_is_a_statement(tmp_path):
    folder = SHAPES["graphiti"](tmp_path / "graph")
    file = folder / "graph.json"
    value = json.loads(file.read_text())
    same = {**value["edges"][1], "uuid": "r9", "source_node_uuid": "n-MR. SCROOGE"}
    later = {**same, "uuid": "r10", "valid_at": "2026-01-01T00:00:00Z"}
    value["edges"] += [same, later]
    file.write_text(json.dumps(value))
    resolved(folder, tmp_path / "out", as_meant)
    found = contents(tmp_path / "out")["graph.json"]
    city = found["nodes"][-1]
    assert (city["name"], city["name_embedding"]) == ("VICTORIA", [0.1, 1 / 3])
    edges = {edge["uuid"]: edge for edge in found["edges"]}
    assert [*edges][1:] == [*(n for n in edges if n not in ("r0", *["r1", "r2", "r3", "r10"])),
                            "r1", "r2", "r3", "r10"]  # fmt: skip
    assert edges["r10"]["source_node_uuid"] == "n-SCROOGE"
    assert edges["r10"]["valid_at"] == later["valid_at"]
    (of_city,) = [e for e in found["edges"] if e["source_node_uuid"] == city["uuid"]]
    assert of_city["episodes"] == ["u2"]
    episodes = {episode["uuid"]: episode["entity_edges"] for episode in found["episodes"]}
    assert episodes["u2"] == [of_city["uuid"]]
    mentioned = {(e["source_node_uuid"], e["target_node_uuid"]) for e in found["episodic_edges"]}
    assert {("u1", "n-VICTORIA"), ("u2", city["uuid"]), ("u3", "n-SCROOGE")} < mentioned
    assert len(mentioned) == len(found["episodic_edges"]) == 5


def test_chunks_of_cognee_lead_to_the_parted_entity(tmp_path):
    resolved(SHAPES["cognee"](tmp_path / "graph"), tmp_path / "out", as_meant)
    found = contents(tmp_path / "out")["export.json"]
    city = found["nodes"][-1]
    assert (city["name"], city["type"]) == ("VICTORIA", "Entity")
    edges = Counter((e["source"], e["relationship_name"], e["target"]) for e in found["edges"])
    assert max(edges.values()) == 1
    assert {("u1", "contains", "n-VICTORIA"), ("u2", "contains", city["id"])} < edges.keys()
    assert ("u1", "contains", city["id"]) not in edges
    assert (city["id"], "is_a", "t-person") in edges


def test_counts_of_cognees_folder(tmp_path):
    resolved(SHAPES["cogx"](tmp_path / "graph"), tmp_path / "out", as_meant)
    found = contents(tmp_path / "out")
    counts = found["manifest.json"]["counts"]
    assert counts["entity"] == len(found["entities.jsonl"]) == 5
    assert counts["fact"] == len(found["facts.jsonl"])
    assert counts["document"] == 3


def test_triples_come_back_as_a_table(tmp_path):
    file = tmp_path / "capitals.csv"
    rows = ["head,relation,tail,context", "Warsaw,capital of,Poland,u1",
            "Warszawa,capital of,Poland,u2", "Warsaw,lies in,Poland,u1"]  # fmt: skip
    file.write_text("\n".join(rows))
    resolved(file, tmp_path / "out", lambda name, unit: "W" if name[0] == "W" else name)
    with (tmp_path / "out" / "triples.csv").open(encoding="utf-8", newline="") as lines:
        assert list(csv.reader(lines)) == [
            ["head", "relation", "tail", "weight", "context"],
            ["Warsaw", "capital of", "Poland", "2.0", "u1|u2"],
            ["Warsaw", "lies in", "Poland", "1.0", "u1"],
        ]


def test_what_the_survivor_lacks_is_taken_from_the_others(tmp_path):
    """COGX leaves out what is null, and a column may be null."""
    folder = SHAPES["cogx"](tmp_path / "graph")
    file = folder / "entities.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[2].pop("description")
    rows[3]["aliases"] = ["Ebenezer"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    resolved(folder, tmp_path / "out", as_meant)
    (kept,) = [
        row for row in contents(tmp_path / "out")["entities.jsonl"] if row["name"] == "SCROOGE"
    ]
    assert (kept["description"], kept["aliases"]) == ("MR. SCROOGE.", ["Ebenezer"])
    folder = SHAPES["graphrag"](tmp_path / "tables")
    for name in ("entities", "relationships"):
        table = pq.read_table(folder / f"{name}.parquet")
        rows = table.to_pylist()
        rows[1 if name == "relationships" else 2] |= {"text_unit_ids": None, "description": None}
        pq.write_table(type(table).from_pylist(rows, table.schema), folder / f"{name}.parquet")
    resolved(folder, tmp_path / "out2", lambda name, unit: name.removeprefix("MR. "))
    found = contents(tmp_path / "out2")
    for table, name in (("entities", "title"), ("relationships", "source")):
        kept = next(row for row in found[f"{table}.parquet"][0] if row[name] == "SCROOGE")
        assert kept["text_unit_ids"] == ["u3"]
        assert "MR. SCROOGE" in kept["description"]


@given(st.sampled_from([*SHAPES]), st.randoms(use_true_random=False))
def test_nothing_is_lost(tmp_path_factory, shape, rng):
    """Whatever the grouping: weights, texts, units and vectors of the input are in the output."""
    top = tmp_path_factory.mktemp("graph")
    folder = SHAPES[shape](top / "graph")
    resolved(folder, top / "out", lambda name, unit: rng.randrange(4))
    old, new = (said(contents(place)) for place in (folder, top / "out"))
    assert new["weight"] == pytest.approx(old["weight"])
    assert new["texts"] >= old["texts"]


def said(files: Mapping[str, object]) -> dict[str, object]:
    """The sum of all weights, and what descriptions, facts and lists of units say."""
    texts, weight = set[str](), 0.0

    def walk(value: object, name: str) -> None:
        nonlocal weight
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, key)
        elif isinstance(value, list | tuple):
            for inner in value:
                walk(inner, name)
        elif name == "weight" and isinstance(value, float):
            weight += value
        elif isinstance(value, str) and name in SAID:
            texts.update(re.split(f"\n|{SEP}|,", value))

    for file, value in files.items():
        walk(value, file)
    return {"texts": texts - {""}, "weight": weight}


SAID = ("description", "fact", "edge_text", "fact_text", "keywords", "summary", "source_id",
        "text_unit_ids", "chunk_ids", "episodes")  # fmt: skip


# --- the verb -------------------------------------------------------------------------------------


def test_merged_undone_and_merged_again(folder, tmp_path, program):
    """The store remembers; what is undone equals what came in, record by record."""
    before = contents(folder)
    out, store = tmp_path / "out", tmp_path / "out.sqlite"
    job = ("resolve", "graph", folder, "-o", out, "--likelihood", "names", "--json")
    first = json.loads(program(*job).out)
    ids = {}
    for line in program("export", store, "-o", "-").out.splitlines():
        ids |= {id.rpartition("#")[2].strip('"').removeprefix("n-"): id
                for id in json.loads(line)["fragments"]}  # fmt: skip
    assert program("decide", store, "same", ids["SCROOGE"], ids["MR. SCROOGE"]).code == 0
    merged = json.loads(program(*job).out)
    (joined,) = [one for one in merged["joined"] if one not in first["joined"]]
    assert joined["probability"] == 1
    assert {joined["into"]["name"], joined["joined"]["name"]} == {"SCROOGE", "MR. SCROOGE"}
    assert merged["after"]["entities"] < merged["before"]["entities"]
    names = [one["joined"]["name"] for one in merged["joined"]]
    names += [one["parted"]["name"] for one in merged["parted"]]
    undone = program(*job, *(word for name in names for word in ("--undo", name)))
    told = json.loads(undone.out)
    assert told["joined"] == told["parted"] == []
    assert contents(out) == before == contents(folder)
    again = json.loads(program(*job).out)  # it stays undone
    assert again["joined"] == []
    assert "nothing is left to undo" in program(*job, "--undo", names[0]).err
    refused = program(*job, "--undo", "ALBERT")
    assert refused.code == 2
    assert "ALBERT is in no merge and no parting" in refused.err


def test_a_decision_joins_whole_entities_and_is_undone_as_one(tmp_path, program):
    folder = SHAPES["graphrag"](tmp_path / "graph")
    before, out, store = contents(folder), tmp_path / "out", tmp_path / "out.sqlite"
    job = ("resolve", "graph", folder, "-o", out, "--likelihood", "names")
    program(*job)
    ids = [id for id, key in Graph(str(folder)).keys.items() if key in ("VICTORIA", "SCROOGE")]
    assert len(ids) == 3
    assert program("decide", store, "same", ids[0], ids[-1]).code == 0
    told = json.loads(program(*job, "--json").out)
    assert [(one["joined"]["name"], one["into"]["name"]) for one in told["joined"]] == [
        ("SCROOGE", "VICTORIA")
    ]
    assert told["parted"] == []
    ran = program(*job, "--undo", "scrooge")
    assert ran.code == 2
    assert 'no merge and no parting of this graph (did you mean "SCROOGE"?)' in ran.err
    ran = program(*job, "--undo", "SCROOGE")
    assert "1 decision withdrawn in" in ran.err
    assert contents(out) == before
    (line,) = program("decide", store, "--list").out.splitlines()
    said = b'decision 1 (same "u1#VICTORIA" "u3#SCROOGE") in run 2, undone in run 3, by '
    assert line.startswith(said)


def test_undoing_a_merge_is_one_decision(tmp_path):
    """Each of two names has mentions in both texts, which a store with one name for all joins."""
    graph, store = Graph(str(SHAPES["graphrag"](tmp_path / "graph"))), str(tmp_path / "s.sqlite")
    alike = [replace(x, properties={"name": ("ONE",)}) for x in graph.fragments]
    add_fragments(store, alike, RunOptions(likelihood="names"))
    assert len(graph.plan(store).nodes) == 1
    assert undo(graph, store, ["ALBERT"], 0.0) == "1 decision made"
    assert not graph.plan(store).changes("ALBERT")
    assert graph.plan(store).of_key["VICTORIA"] == graph.plan(store).of_key["SCROOGE"]
    assert undo(graph, store, ["VICTORIA"], 0.0).endswith("made")
    assert len(graph.plan(store).nodes) == len(graph.recorded)


@pytest.mark.parametrize("again", [["VICTORIA", "ALBERT"], []])
def test_an_interrupted_undo_goes_on(tmp_path, monkeypatch, again):
    """With the same names or in the next run: as many decisions as without the interruption."""
    graph = Graph(str(SHAPES["graphrag"](tmp_path / "graph")))
    alike = [replace(x, properties={"name": ("ONE",)}) for x in graph.fragments]
    stores = [str(tmp_path / name) for name in ("whole.sqlite", "broken.sqlite")]
    for store in stores:
        add_fragments(store, alike, RunOptions(likelihood="names"))
    undo(graph, stores[0], ["VICTORIA", "ALBERT"], 0.0)

    def broken(store, decisions, **more):
        decide(store, decisions[:1], **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(graph_module, "decide", broken)
    with pytest.raises(KeyboardInterrupt):
        undo(graph, stores[1], ["VICTORIA", "ALBERT"], 0.0)
    monkeypatch.undo()
    assert undo(graph, stores[1], again, 0.0).endswith("made")
    plans = [graph.plan(store) for store in stores]
    whole, continued = (sorted(sorted(node.mentions) for node in plan.nodes) for plan in plans)
    assert whole == continued
    assert undo(graph, stores[1], [], 0.0) == ""


def test_a_store_remembers_how_sure_changes_are(tmp_path, program):
    store = str(tmp_path / "out.sqlite")
    folder = SHAPES["graphrag"](tmp_path / "graph")
    job = ("resolve", "graph", folder, "-o", tmp_path / "out", "--likelihood", "names", "--json")
    for words, least in ((), 0), (("--at-least", ".75"), 0.75), ((), 0.75), (("--at-least", 0), 0):
        assert json.loads(program(*job, *words).out)["at_least"] == least
        assert least_change(store, None) == least


def test_only_sure_changes(tmp_path, program):
    """A merge below the probability asked is not made; one above it is."""
    folder = SHAPES["graphrag"](tmp_path / "graph")
    graph = Graph(str(folder))
    groups = {id: key.removeprefix("MR. ") for id, key in graph.keys.items()}

    class Doubtful(Given):
        def together(self, some: Sequence[str], others: Sequence[str]) -> float:
            return 0.7 * super().together(some, others)

    for least, count in ((0.69, 1), (0.71, 0)):
        plan = Plan(Doubtful(groups), graph.keys, graph.recorded, graph.shape.new_key, least)
        assert sum(len(node.probability) for node in plan.nodes) == count


def test_a_name_that_is_parted_below_the_probability_stays_whole(tmp_path):
    graph = Graph(str(SHAPES["graphrag"](tmp_path / "graph")))
    groups = {id: as_meant(key, id[:2]) for id, key in graph.keys.items()}

    class Doubtful(Given):
        def together(self, some: Sequence[str], others: Sequence[str]) -> float:
            return max(0.4, super().together(some, others))

    for least, count in ((0.59, 1), (0.61, 0)):
        plan = Plan(Doubtful(groups), graph.keys, graph.recorded, graph.shape.new_key, least)
        assert len(plan.parted) == count


def test_what_is_no_graph_is_one_sentence(tmp_path, program):
    folder = SHAPES["graphrag"](tmp_path / "graph")
    (tmp_path / "project" / "output").mkdir(parents=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(folder / "entities.parquet", tmp_path / "project" / "output")
    for path, words in (
        (tmp_path / "nothing", "(Graphiti, Cognee), got no such folder or file"),
        (tmp_path / "project", f"got output; give {tmp_path / 'project' / 'output'}"),
        (empty, "expected entities.parquet (GraphRAG)"),
    ):
        ran = program("resolve", "graph", path, "-o", tmp_path / "out")
        assert ran.code in (1, 2)
        assert words in ran.err
        assert ran.err.count("\n") == 1
    ran = program("resolve", "graph", folder, "-o", folder)
    assert ran.code == 2
    assert "is an input" in ran.err
    for place in (folder / "out", tmp_path / "out" / ".." / "graph" / "out"):
        ran = program("resolve", "graph", folder, "-o", place)
        assert ran.code == 2
        assert "is in the graph's folder" in ran.err
    shutil.copyfile(
        SHAPES["nano"](tmp_path / "nano") / "graph_chunk_entity_relation.graphml",
        folder / "graph_chunk_entity_relation.graphml",
    )
    ran = program("resolve", "graph", folder, "-o", tmp_path / "out")
    assert ran.code == 2
    assert "has files of graphrag and lightrag; name one with --source" in ran.err
    ran = program("resolve", "graph", folder, "--source", "lightrag", "-o", tmp_path / "out")
    assert ran.code == 0


@pytest.mark.parametrize(
    ("shape", "file", "content"),
    [
        ("lightrag", "kv_store_full_entities.json", '{"d": null}'),
        ("lightrag", "kv_store_relation_chunks.json", '{"a<SEP>b": 3}'),
        ("lightrag", "vdb_entities.json", '{"data": [{"entity_name": ["x"]}], "matrix": "?"}'),
        ("lightrag", "vdb_entities.json", "[]"),
        ("graphrag", "text_units.parquet", "PAR1"),
        ("graphiti", "graph.json", '{"nodes": [{"uuid": "a"}], "edges": [3]}'),
        ("cogx", "manifest.json", "{"),
    ],
)
def test_damage_is_one_sentence(tmp_path, program, shape, file, content):
    folder = SHAPES[shape](tmp_path / "graph")
    (folder / file).write_text(content)
    ran = program("resolve", "graph", folder, "-o", tmp_path / "out", "--likelihood", "names")
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("kbforge: ")
    assert "Traceback" not in ran.err
    assert not (tmp_path / "out").exists()


# --- real graphs ----------------------------------------------------------------------------------

REAL = (
    *("graphrag", "graphrag_dulce", "nano_graphrag"),
    pytest.param("lightrag_lenny", marks=pytest.mark.slow),
)


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_graphs_come_back(data_dir, tmp_path, name):
    folder = data_dir / "graphs" / name
    resolved(folder, tmp_path / "same", apart)
    before = contents(folder)
    assert contents(tmp_path / "same") == before
    resolved(folder, tmp_path / "out", lambda name, unit: (name.split()[-1], unit[-1:]))
    old, new = said(before), said(contents(tmp_path / "out"))
    assert new["weight"] == pytest.approx(old["weight"])
    assert new["texts"] >= old["texts"]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["graphrag", "graphrag_dulce", "nano_graphrag"])
def test_all_of_a_real_graph_is_undone(data_dir, tmp_path, program, name):
    folder, out = data_dir / "graphs" / name, tmp_path / "out"
    job = ("resolve", "graph", folder, "-o", out, "--json")
    told = json.loads(program(*job).out)
    assert told["joined"]
    names = [one["joined"]["name"] for one in told["joined"]]
    names += [one["parted"]["name"] for one in told["parted"]]
    program(*job, *(word for name in names for word in ("--undo", name)))
    assert contents(out) == contents(folder)
