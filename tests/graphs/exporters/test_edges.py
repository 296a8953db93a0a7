"""Every format of graphs has the edges of a knowledge base, between the ids of entities."""

import csv
import io
from urllib.parse import unquote

import networkx
import pyarrow.parquet as pq
import pytest
import rdflib
from hypothesis import given

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.kb.edges import edges_of
from tests.exporters import readers as records
from tests.exporters.exporting import exported
from tests.graphs.exporters import neo4j_import
from tests.kb.test_edges import entity, knowledge, value
from tests.profile import examples


def statements(graph):
    """(head, relation, tail) of the edges."""

    def name(term, kind):
        assert str(term).startswith(f"urn:kbforge:{kind}:")
        return unquote(str(term).split(":", 3)[3])

    return {
        (name(s, "entity"), name(p, "edge"), name(o, "entity"))
        for s, p, o in graph.triples((None, None, None))
        if str(p).startswith("urn:kbforge:edge:")
    }


def nquads(path):
    graph = rdflib.Dataset(default_union=True)
    graph.parse(data=path.read_bytes(), format="nquads")
    return statements(graph)


def jsonld(path):
    graph = rdflib.Graph()
    graph.parse(data=path.read_bytes(), format="json-ld")
    return statements(graph)


def neo4j(path):
    _, related = neo4j_import.read(path)
    rows = [row for row in related if row[2] != "BELONGS_TO"]
    assert all(len(fragments) == count for *_, count, fragments, _ in rows)
    return {(head, kind, tail): p for head, tail, kind, p, *_ in rows}


def relations(path):
    rows = csv.DictReader(io.StringIO(path.read_text()))
    return {
        (row["head_id"], row["relation"], row["tail_id"]): float(row["probability"]) for row in rows
    }


def parquet(path):
    return {
        (row["head_id"], row["relation"], row["tail_id"]): row["probability"]
        for row in pq.read_table(path).to_pylist()
    }


def triples(path):
    rows = csv.DictReader(io.StringIO(path.read_text()))
    return {(r["head_id"], r["relation"], r["tail_id"]): float(r["weight"]) for r in rows}


def graphml(path):
    graph = networkx.read_graphml(path)
    ids = dict(graph.nodes(data="canonical_id"))
    return {(ids[a], of["relation"], ids[b]): of["weight"] for a, b, of in graph.edges(data=True)}


def there(entities):
    ids = {one.id for one in entities}
    return [e for one in entities for e in edges_of(one) if e.tail in ids]


FORMATS = [("neo4j", neo4j), ("relations", relations)]


@pytest.mark.parametrize(("kind", "read"), FORMATS)
@given(entities=knowledge())
@examples(40)
def test_edges_have_their_probability(kind, read, entities):
    found = exported(registry.create("exporters", kind), entities, None, read)
    assert found == {(e.head, e.relation, e.tail): e.probability for e in there(entities)}


@pytest.mark.parametrize(("kind", "read"), [("nquads", nquads), ("jsonld", jsonld)])
@given(entities=knowledge())
@examples(40)
def test_rdf_states_what_is_more_probable_than_not(kind, read, entities):
    """Even to what is not there: it may be elsewhere on the web."""
    found = exported(registry.create("exporters", kind), entities, None, read)
    edges = [e for one in entities for e in edges_of(one)]
    assert found == {(e.head, e.relation, e.tail) for e in edges if e.probability > 0.5}


@pytest.mark.parametrize(("kind", "read"), [("triples", triples), ("graphml", graphml)])
@given(entities=knowledge())
@examples(40)
def test_edges_have_their_weight(kind, read, entities):
    found = exported(registry.create("exporters", kind), entities, None, read)
    assert found == {(e.head, e.relation, e.tail): len(e.fragments) for e in there(entities)}


@pytest.fixture
def ada():
    lodz = [value("Univ. Lodz", ("f1", "f2"), ("lodz", 0.8)), value("UL", ("f2",), ("lodz", 0.6))]
    return [
        entity("ada", "Ada", name=[value("Ada", ("f1", "f2"))], employer=lodz),
        entity("lodz", "University of Łódź", name=[value("University of Łódź", ("u",))]),
    ]


def test_a_statement_stands_in_the_graphs_of_its_sources(ada):
    fragments = [Fragment(id, {"name": ("x",)}, source=f"s-{id}") for id in ("f1", "f2", "u")]
    lines = exported(registry.create("exporters", "nquads"), ada, fragments).decode().splitlines()
    edge = "<urn:kbforge:entity:ada> <urn:kbforge:edge:employer> <urn:kbforge:entity:lodz>"
    found = [line for line in lines if line.startswith(edge)]
    assert found == [f"{edge} <urn:kbforge:source:s-{f}> ." for f in ("f1", "f2")]


def test_kblam_calls_an_entity_by_its_name(ada):
    facts = exported(registry.create("exporters", "kblam"), ada, None, records.kblam)
    assert {(f["name"], f["description_type"]): f["description"] for f in facts} == {
        ("Ada", "name"): "Ada",
        ("Ada", "employer"): "University of Łódź",
        ("University of Łódź", "name"): "University of Łódź",
    }
    facts = exported(registry.create("exporters", "kblam"), ada[:1], None, records.kblam)
    assert facts[1]["description"] == "Univ. Lodz; UL"  # nobody says what it is called


def test_a_row_of_the_table(ada):
    (row,) = exported(
        registry.create("exporters", "relations"), ada, None, lambda path: relations_rows(path)
    )
    assert row == {
        "head_id": "ada",
        "head": "Ada",
        "relation": "employer",
        "tail_id": "lodz",
        "tail": "University of Łódź",
        "probability": "0.8",
        "statements": "2",
        "fragments": "f1|f2",
        "values": "Univ. Lodz|UL",
    }


def relations_rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.mark.parametrize("kind", ["relations", "neo4j", "triples", "graphml"])
def test_what_is_left_out_is_told(kind, ada, tmp_path):
    from kbforge.kb.view import EntitiesView

    exporter = registry.create("exporters", kind)
    exporter.export(EntitiesView(lambda: iter(ada[:1])), str(tmp_path / "kb"))
    assert ["1 relation" in note and "not there" in note for note in exporter.notes] == [True]
    assert not (tmp_path / "kb" / "relations.csv").exists()
    exporter.export(EntitiesView(lambda: iter(ada)), str(tmp_path / "kb"))
    assert list(exporter.notes) == []


@pytest.mark.parametrize("kind", ["relations", "members", "pairs", "wide", "csv"])
def test_tables_are_parquet_if_they_are_called_so(kind, ada, tmp_path):
    from kbforge.kb.view import EntitiesView

    exporter = registry.create("exporters", kind)
    for ending in ("csv", "parquet"):
        exporter.export(EntitiesView(lambda: iter(ada)), str(tmp_path / f"t.{ending}"))
    table = pq.read_table(tmp_path / "t.parquet")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert exporter.n_rows == table.num_rows == len(rows) > 0
    for row, other in zip(table.to_pylist(), rows, strict=True):
        assert {name: "" if cell is None else str(cell) for name, cell in row.items()} == other
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    numbers = {"confidence", "reported", "probability", "rest", "statements", "count", "subproblem"}
    for name, kind_of in kinds.items():
        is_number = name in numbers or (kind, name) == ("wide", "fragments")
        assert (kind_of != "string") == is_number, name
