"""Property graphs as four libraries write them, small ones of our own."""

import hashlib
import json
from typing import Any

import pytest

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
