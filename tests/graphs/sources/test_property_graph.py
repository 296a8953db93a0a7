"""Property graphs as four libraries write them, small ones of our own."""

import hashlib
import json
from typing import Any

import pytest

import kbforge
from tests.graphs.sources.test_graphs import loaded
from tests.sources.harness import ADVICE


def lang_node(name: str, kind: str = "Person", **properties: object) -> dict[str, Any]:
    return {"id": name, "type": kind, "properties": properties}


LANGCHAIN = {
    "nodes": [lang_node("Ada", born=1815, tags=["a", True, {"x": 1}]), lang_node("London", "City")],
    "relationships": [
        {"source": lang_node("Ada"), "target": lang_node("London"), "type": "LIVED_IN"},
        {"source": lang_node("Ada"), "target": lang_node("Byron"), "type": "CHILD_OF"},
    ],
    "source": {"page_content": "Ada lived in London.", "metadata": {"source": "a.txt"}},
}
NEO4J = {
    "nodes": [
        {"id": "c1", "label": "Chunk", "properties": {"text": "Ada lived in London."}},
        {"id": "c1:0", "label": "Person", "properties": {"name": "Ada", "born": "1815"}},
        {"id": "c1:1", "label": "City", "properties": {"name": "London"}},
    ],
    "relationships": [
        {"start_node_id": "c1:0", "end_node_id": "c1", "type": "FROM_CHUNK"},
        {"start_node_id": "c1:1", "end_node_id": "c1", "type": "FROM_CHUNK"},
        {"start_node_id": "c1:0", "end_node_id": "c1:1", "type": "LIVED_IN"},
    ],
}
COGNEE = {
    "nodes": [
        {"id": "1", "name": "Ada", "type": "Person", "description": "A mathematician."},
        {"id": "2", "name": "London", "type": "City", "description": None},
    ],
    "edges": [
        {"source_node_id": "1", "target_node_id": "2", "relationship_name": "lived_in"},
    ],
}
LLAMA = {
    "nodes": {
        "c1": {"label": "text_chunk", "text": "Ada lived in London.", "id_": "c1"},
        "Ada": {
            "label": "Person",
            "embedding": [0.5],
            "name": "Ada",
            "properties": {"triplet_source_id": "c1", "file_name": "a.txt", "born": 1815},
        },
        "London": {"label": "City", "name": "London", "properties": {"triplet_source_id": "c1"}},
    },
    "relations": {
        "Ada_LIVED_IN_London": {
            "label": "LIVED_IN",
            "source_id": "Ada",
            "target_id": "London",
            "properties": {"triplet_source_id": "c1"},
        }
    },
    "triplets": [["Ada", "LIVED_IN", "London"]],
}
OF = {
    "langchain": LANGCHAIN,
    "neo4j-graphrag": NEO4J,
    "cognee": COGNEE,
    "llamaindex": LLAMA,
}
UNITS = {
    "langchain": hashlib.md5(b"Ada lived in London.").hexdigest(),
    "neo4j-graphrag": "c1",
    "cognee": "graph-1",
    "llamaindex": "c1",
}


@pytest.mark.parametrize("flavor", OF)
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("indent", [None, 1])
def test_each_flavor_is_known_by_its_keys(tmp_path, flavor, named, indent):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(OF[flavor], indent=indent))
    options = {"flavor": flavor} if named else {}
    found = {f.names[0]: f for f in loaded("property-graph", path, **options).values()}
    ada, london = found["Ada"], found["London"]
    assert ada.source == london.source == UNITS[flavor]
    assert ada.properties["type"] == ("Person",)
    assert "London" in ada.properties["neighbour"]
    assert london.properties == {"name": ("London",), "type": ("City",), "neighbour": ("Ada",)}
    assert next(r[1].lower() for r in ada.metadata["relations"]) == "lived_in"
    if flavor != "cognee":
        assert ada.properties["born"] == ("1815",)
    assert "file_name" not in ada.properties


def test_ends_without_a_node_and_values_of_properties(tmp_path):
    path = tmp_path / "graph.jsonl"
    path.write_text(json.dumps(LANGCHAIN) + "\n")
    found = {f.names[0]: f for f in loaded("property-graph", path).values()}
    assert found["Byron"].properties == {"name": ("Byron",), "neighbour": ("Ada",)}
    assert found["Ada"].properties["tags"] == ("a", "true")


def test_documents_of_an_array_are_text_units(tmp_path):
    path = tmp_path / "graphs.json"
    path.write_text(json.dumps([COGNEE, COGNEE]))
    found = loaded("property-graph", path)
    assert sorted(found) == ["graphs-1#1", "graphs-1#2", "graphs-2#1", "graphs-2#2"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{}", "FILE:1: expected a document of langchain, llamaindex, neo4j-graphrag, cognee or "
         "graphiti (--set source.flavor names it), got {}"),
        ('{"nodes": {"a": {"label": 3}}}', "FILE: expected a property graph of LlamaIndex, got "
         "something else (Expected `str | null`, got `int` - at `$.nodes[...].label`)"),
        ('{"nodes": {"a": ', "FILE: expected a property graph of LlamaIndex, got something else "
         "(Input data was truncated)"),
        ('[{"nodes": [], "edges"', "FILE:1: expected a whole JSON value, got the end of the file"),
        ('{"nodes": [{"uuid": "1", "name": 3}], "edges": []}', "FILE:1: nodes.name: expected "
         "another value, got 3"),
    ],
)  # fmt: skip
def test_bad_graphs(written, program, content, sentence):
    file = written(content, "in.json")
    ran = program("load", "property-graph", file, "-o", file.parent / "out.jsonl")
    advice = f"; {ADVICE}" if sentence.startswith("FILE:1") else ""
    assert ran.err == f"kbforge: {sentence.replace('FILE', str(file))}{advice}\n"
    assert ran.code == 1


def test_another_flavor_is_a_sentence(written, program):
    file = written(json.dumps(COGNEE), "in.json")
    job = ("load", "property-graph", file, "-o", "-", "--set")
    ran = program(*job, "source.flavor=neo4j-graphrag")
    assert ran.code in (0, 1)
    ran = program(*job, "source.flavor=neo4")
    assert "expected one of langchain, llamaindex, neo4j-graphrag, cognee" in ran.err
    assert ran.code == 2


def test_relations_have_times(tmp_path):
    edge = {"source_node_uuid": "a", "name": "WORKS_FOR", "fact": "f", "episodes": ["e"]}
    graphiti = {
        "nodes": [
            {"uuid": key, "name": name, "labels": ["Entity"]}
            for key, name in (("a", "Ada"), ("b", "Acme"), ("c", "Beta"), ("d", "Gamma"))
        ],
        "edges": [
            {**edge, "target_node_uuid": "b", "valid_at": "2015-01-01T00:00:00Z"}
            | {"invalid_at": "2019-01-01T00:00:00Z", "created_at": "2024-01-01T00:00:00Z"},
            {**edge, "target_node_uuid": "b", "valid_at": "2021-01-01T00:00:00Z"},
            {**edge, "target_node_uuid": "c", "valid_at": None, "created_at": "2019-05-01"},
            {**edge, "target_node_uuid": "d"},
        ],
    }
    (tmp_path / "graph.json").write_text(json.dumps(graphiti))
    found = {f.names[0]: f for f in loaded("property-graph", tmp_path / "graph.json").values()}
    ada, acme, beta, gamma = (found[name] for name in ("Ada", "Acme", "Beta", "Gamma"))
    times = {
        "Acme": [
            ["2015-01-01T00:00:00Z", "2019-01-01T00:00:00Z"],
            ["2021-01-01T00:00:00Z", ""],
        ],
        "Beta": [["2019-05-01", ""]],
    }
    assert ada.metadata["times"] == {"neighbour": times}
    assert acme.metadata["times"] == {"neighbour": {"Ada": times["Acme"]}}
    assert beta.metadata["times"] == {"neighbour": {"Ada": times["Beta"]}}
    assert "times" not in gamma.metadata
    relations = [["Ada", "WORKS_FOR", name] for name in ("Acme", "Beta", "Gamma")]
    assert ada.metadata["relations"] == relations
    file = tmp_path / "kb.jsonl"
    kbforge.cluster(list(found.values())).write(file)
    (entity,) = (e for e in kbforge.read_entities(file) if e.name == "Ada")
    said = {v.value: (v.first, v.last, v.until) for v in entity.properties["neighbour"]}
    began, again = "2015-01-01T00:00:00Z", "2021-01-01T00:00:00Z"
    assert said == {
        "Acme": (began, again, None),
        "Beta": ("2019-05-01", "2019-05-01", None),
        "Gamma": (None, None, None),
    }


@pytest.mark.parametrize("flavor", ["langchain", "neo4j-graphrag", "llamaindex"])
def test_times_are_properties_of_relations_elsewhere(tmp_path, flavor):
    graph = json.loads(json.dumps(OF[flavor]))
    relations = graph["relationships" if "relationships" in graph else "relations"]
    for one in relations.values() if isinstance(relations, dict) else relations:
        one["properties"] = one.get("properties", {}) | {"valid_at": "2015", "invalid_at": "2016"}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    found = {f.names[0]: f for f in loaded("property-graph", tmp_path / "graph.json").values()}
    times = found["London"].metadata["times"]
    assert times == {"neighbour": {"Ada": [["2015", "2016"]]}}
