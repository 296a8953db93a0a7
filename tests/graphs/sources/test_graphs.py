"""Graphs become one fragment for each entity in each text unit."""

import json
from pathlib import Path

import pytest

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.errors import BadRecord, KBForgeError
from kbforge.files.fragments import stop
from kbforge_graphs.sources.graphs import GraphEntity, Relation, fragment_id
from tests.graphs.writing import write_graphrag

UNIT = "ab" * 64


def loaded(source: str, path: Path, **options: object) -> dict[str, Fragment]:
    reader = registry.create("sources", source, options)
    return {fragment.id: fragment for fragment in reader.read([str(path)], stop)}


def counts_of(source: str, path: Path) -> tuple[int, int, int, int, int]:
    """(entities, relations, ends without an entity, fragments, text units) of a graph."""
    reader = registry.create("sources", source)
    records = list(reader.records(str(path), stop))
    entities = {record.key for record in records if isinstance(record, GraphEntity)}
    relations = [record for record in records if isinstance(record, Relation)]
    ends = {end for relation in relations for end in (relation.head, relation.tail)}
    fragments = list(reader.read([str(path)], stop))
    units = {fragment.source for fragment in fragments}
    found = (len(entities), len(relations), len(ends - entities), len(fragments), len(units))
    assert len(records) == found[0] + found[1]
    return found


@pytest.mark.data
@pytest.mark.parametrize(
    ("source", "folder", "expected"),
    [
        ("graphrag", "graphrag", (529, 978, 32, 843, 42)),
        ("graphrag", "graphrag_dulce", (39, 107, 2, 64, 5)),
        ("lightrag", "nano_graphrag", (374, 186, 0, 592, 42)),
        ("lightrag", "lightrag_lenny", (3_442, 3_782, 0, 6_921, 721)),
    ],
)
def test_real_graphs(data_dir, source, folder, expected):
    assert counts_of(source, data_dir / "graphs" / folder) == expected


@pytest.mark.data
def test_a_capped_list_of_chunks_is_read_whole(data_dir):
    reader = registry.create("sources", "lightrag")
    records = reader.records(str(data_dir / "graphs" / "lightrag_lenny"), stop)
    assert max(len(record.units) for record in records if isinstance(record, GraphEntity)) == 407


@pytest.mark.data
def test_quotes_of_nano_graphrag_are_no_part_of_names(data_dir):
    fragments = loaded("lightrag", data_dir / "graphs" / "nano_graphrag").values()
    values = [v for f in fragments for found in f.properties.values() for v in found]
    assert not [value for value in values if value[0] == value[-1] == '"']
    assert not [value for value in values if value in ("UNKNOWN", "")]


@pytest.fixture
def graph(tmp_path):
    """Two namesakes in two texts, an end without an entity, a pair stated in both directions."""
    return write_graphrag(
        tmp_path / "output",
        [
            {"title": "VICTORIA", "type": "PERSON", "description": "Queen; a city.",
             "text_unit_ids": [UNIT, "u2"]},
            {"title": "ALBERT", "type": "NONE", "description": "A prince.",
             "text_unit_ids": [UNIT]},
        ],
        [
            {"source": "VICTORIA", "target": "ALBERT", "weight": 2.0, "text_unit_ids": [UNIT]},
            {"source": "ALBERT", "target": "VICTORIA", "weight": 1.0, "text_unit_ids": [UNIT]},
            {"source": "VICTORIA", "target": "MELBOURNE", "text_unit_ids": ["u2"]},
            {"source": "ALBERT", "target": "ALBERT", "text_unit_ids": ["u3"]},
        ],
    )  # fmt: skip


def test_one_fragment_for_each_entity_in_each_text_unit(graph):
    found = loaded("graphrag", graph)
    queen, prince, city, end, other = (
        found[fragment_id(*pair)]
        for pair in (
            (UNIT, "VICTORIA"),
            (UNIT, "ALBERT"),
            ("u2", "VICTORIA"),
            ("u2", "MELBOURNE"),
            ("u3", "ALBERT"),
        )
    )
    assert len(found) == 5
    assert queen.id == "abababababababab#VICTORIA"
    assert queen.source == UNIT
    person = {"name": ("VICTORIA",), "type": ("PERSON",)}
    # the description of two texts is of both namesakes, so only one of them states it
    of_both = ("Queen; a city.",)
    assert queen.properties == {**person, "description": of_both, "neighbour": ("ALBERT",)}
    assert queen.metadata == {"entity": "VICTORIA"}
    assert city.properties == {**person, "neighbour": ("MELBOURNE",)}
    assert city.metadata == {"entity": "VICTORIA", "description": "Queen; a city."}
    assert prince.properties["description"] == ("A prince.",)
    assert "type" not in prince.properties
    assert end.properties == {"name": ("MELBOURNE",), "neighbour": ("VICTORIA",)}
    assert other.properties == {"name": ("ALBERT",)}


def test_what_was_added_is_told(graph, program, tmp_path):
    ran = program("load", "graphrag", graph, "-o", tmp_path / "out.jsonl")
    assert ran.code == 0
    assert "fragments of relations' ends without an entity: 1\n" in ran.err
    assert "fragments of relations' ends in a text unit that their entity lacks: 1\n" in ran.err
    assert f"{graph}: 2 entities, 4 relations, 3 text units\n" in ran.err
    assert "1 name at the ends of relations, without an entity of that name, became" in ran.err
    assert "MELBOURNE" in ran.err


def test_a_graph_without_text_units(tmp_path):
    graph = write_graphrag(tmp_path, [{"title": "A"}], [{"source": "A", "target": "B"}])
    assert {i: f.source for i, f in loaded("graphrag", graph).items()} == {
        "A": tmp_path.name,
        "B": tmp_path.name,
    }


def test_a_hub_has_a_bounded_number_of_neighbours(tmp_path):
    relations = [{"source": "HUB", "target": f"N{i}"} for i in range(1_004)]
    reader = registry.create("sources", "graphrag")
    graph = write_graphrag(tmp_path, [{"title": "HUB"}], relations)
    (hub, *_) = reader.read([str(graph)], stop)
    assert hub.properties["neighbour"] == tuple(f"N{i}" for i in range(1_000))
    assert reader.counts["neighbours beyond the first 1,000 of an entity"] == 4


@pytest.mark.parametrize("name", ["entities.parquet", "relationships.parquet"])
def test_a_folder_that_lacks_a_table(graph, refused, name):
    (graph / name).unlink()
    refused(
        ["graphrag"],
        graph,
        f"FILE: expected a folder of GraphRAG with {name}, got a folder without it",
    )


def graphml(body: str, prolog: str = "") -> str:
    names = ("entity_type", "description", "source_id", "weight", "truncate")
    keys = "".join(f'<key id="{n}" for="all" attr.name="{n}"/>' for n in names)
    return f"<?xml version='1.0'?>{prolog}<graphml>{keys}<graph>{body}</graph></graphml>"


def data(**values: str) -> str:
    return "".join(f'<data key="{key}">{text}</data>' for key, text in values.items())


SEP = "&lt;SEP&gt;"


def test_lightrag_with_the_stores_beside_it(tmp_path):
    cut = data(entity_type="UNKNOWN", source_id="c1", truncate="FIFO 1/2")
    said = f'"a king"{SEP}"a king"{SEP}"a father"'
    (tmp_path / "graph_chunk_entity_relation.graphml").write_text(
        graphml(
            f'<node id="Ann">{cut}</node>'
            f'<node id="&quot;BOB&quot;">'
            f"{data(entity_type='&quot;PERSON&quot;', description=said, source_id='c2')}</node>"
            f'<edge source="&quot;BOB&quot;" target="Ann">'
            f"{data(source_id='c2', weight='3.5')}</edge>"
            f'<edge source="Ann" target="Ann">{data(source_id="c1")}</edge>'
        )
    )
    store = {"Ann": {"chunk_ids": ["c1", "c2"], "count": 2}}
    (tmp_path / "kv_store_entity_chunks.json").write_text(json.dumps(store))
    found = loaded("lightrag", tmp_path)
    assert {key: fragment.properties for key, fragment in found.items()} == {
        "c1#Ann": {"name": ("Ann",)},
        "c2#Ann": {"name": ("Ann",), "neighbour": ("BOB",)},
        'c2#"BOB"': {
            "name": ("BOB",),
            "type": ("PERSON",),
            "description": ("a king\na father",),
            "neighbour": ("Ann",),
        },
    }


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            graphml('<node id="&b;"/>', LAUGHS),
            "FILE:1: expected GraphML without a document type, got a document type",
        ),
        (
            graphml("", '<!DOCTYPE x SYSTEM "file:///etc/passwd">'),
            "FILE:1: expected GraphML without a document type, got a document type",
        ),
        ("<svg/>", "FILE:1: expected GraphML, got XML with <svg>"),
        (graphml(""), "FILE: expected entities and relations, got none"),
        (
            "Ann,Bob\n",
            "FILE:1: expected GraphML, got something else (syntax error: line 1, column 0)",
        ),
    ],
)
def test_hostile_graphml(written, refused, content, sentence):
    refused(["lightrag"], written(content, "in.graphml"), sentence)


def test_truncated_graphml_gives_what_was_whole(tmp_path):
    path = tmp_path / "in.graphml"
    path.write_text(graphml('<node id="a"/>\n<node id="b"/>\n<node id="c"/>')[:-25])
    reader, bad = registry.create("sources", "lightrag"), []
    found = list(reader.read([str(path)], lambda error, raw: bad.append(error)))
    assert [fragment.id for fragment in found] == ["a", "b"]
    assert "in.graphml:3: expected GraphML, got something else" in str(bad[0])
    with pytest.raises(BadRecord):
        list(reader.read([str(path)], stop))


def test_a_node_of_endless_text_is_refused(written):
    path = written(graphml(f'<node id="a">{data(description="x" * 2**25)}</node>'), "g.graphml")
    with pytest.raises(BadRecord, match="at most 16,777,216 characters of a node, got more"):
        loaded("lightrag", path)


@pytest.mark.parametrize("store", [b"{", b"[]", b'{"Ann": 3}'])
def test_a_damaged_store_of_chunks(tmp_path, store):
    node = f'<node id="Ann">{data(source_id="c1", truncate="FIFO 1/2")}</node>'
    (tmp_path / "graph_chunk_entity_relation.graphml").write_text(graphml(node))
    (tmp_path / "kv_store_entity_chunks.json").write_bytes(store)
    if store.startswith(b'{"'):  # the store does not have it
        assert list(loaded("lightrag", tmp_path)) == ["c1#Ann"]
    else:
        with pytest.raises(KBForgeError, match=r"entity_chunks\.json: expected a JSON"):
            loaded("lightrag", tmp_path)
