"""Each format of graphs beyond its contract: columns, options, and what it refuses."""

import json

import pytest

from kbforge.contracts import Entity, Value
from kbforge.errors import UsageError
from kbforge_graphs.exporters.linked import JsonLdExporter, Neo4jExporter, NQuadsExporter
from tests.exporters.exporting import exported
from tests.exporters.test_formats import ADA, BOB, FRAGMENTS
from tests.graphs.exporters import neo4j_import


def test_nquads_put_each_statement_into_the_graph_of_its_source():
    lines = exported(NQuadsExporter(base="urn:x:"), [ADA], FRAGMENTS).decode().splitlines()
    entity, born = "<urn:x:entity:e1>", "<urn:x:attribute:born>"
    assert f'{entity} {born} "1815" <urn:x:source:x.csv%3A1> .' in lines
    assert f'<urn:x:fragment:a> {born} "1815" <urn:x:source:x.csv%3A1> .' in lines
    assert '<urn:x:fragment:c> <urn:x:attribute:name> "A." <https://a.org/c> .' in lines
    assert f'{entity} <urn:x:relation:name> "Ada" .' in lines
    double = "http://www.w3.org/2001/XMLSchema#double"
    assert f'{entity} <urn:x:relation:confidence> "0.5"^^<{double}> .' in lines
    # two fragments of other sources say that she is called Ada
    assert sum(line.startswith(f'{entity} <urn:x:attribute:name> "Ada"') for line in lines) == 2
    without = exported(NQuadsExporter(), [ADA]).decode()
    assert "source" not in without


def test_jsonld_needs_no_address_to_be_read():
    document = json.loads(exported(JsonLdExporter(type="Person"), [ADA], FRAGMENTS))
    (node,) = document["@graph"]
    assert all(not isinstance(term, str) or ":" in term for term in document["@context"].values())
    assert (node["@type"], node["name"], node["alternateName"]) == ("Person", "Ada", ["A."])
    assert node["fragment"][2] == {
        "@id": "urn:kbforge:fragment:c",
        "source": "https://a.org/c",
        "urn:kbforge:attribute:name": ["A."],
    }


@pytest.mark.parametrize(
    ("exporter", "options", "sentence"),
    [
        (NQuadsExporter, {"base": "no iri"}, "base: expected the beginning"),
        (NQuadsExporter, {"base": "urn:<x>"}, "base: expected the beginning"),
        (JsonLdExporter, {"base": ""}, "base: expected the beginning"),
        (JsonLdExporter, {"type": "@id"}, "type: expected a name"),
    ],
)
def test_impossible_options_are_refused(exporter, options, sentence):
    name = exporter.__name__.removesuffix("Exporter").lower()
    with pytest.raises(UsageError, match=f"exporter {name}: {sentence}"):
        exporter(**options)


def test_neo4j_files():
    nodes, related = exported(Neo4jExporter(), [ADA, BOB], FRAGMENTS, neo4j_import.read)
    assert nodes["Entity"]["e1"] == {
        "entityName": "Ada",
        "confidence": 0.5,
        "reported": 0.75,
        "subproblem": 3,
        "born": ["1815"],
        "name": ["Ada", "A."],
    }
    assert nodes["Fragment"]["a"] == {
        "source": "x.csv:1",
        "metadata": '{"n":[1]}',
        "born": ["1815"],
        "name": ["Ada"],
    }
    assert related[-1] == ("z", "e2", "BELONGS_TO")
    members = exported(Neo4jExporter(), [ADA], None, lambda kb: (kb / "members.csv").read_text())
    assert members.splitlines()[0] == '":START_ID(Fragment)",":END_ID(Entity)",":TYPE"'


def test_neo4j_attributes_have_names_of_their_own():
    values = (Value("v", ("f",)),)
    odd = {"a:b": values, "a b": values, "confidence": values, "": values, "source": values}
    entity = Entity("e", "x", odd, ("f",), 1.0, 0)
    columns, _ = exported(
        Neo4jExporter(), [entity], None, lambda kb: neo4j_import.records(kb / "entities.csv", ";")
    )
    arrays = [name for name, kind, _ in columns if kind == "string[]"]
    assert arrays == ["a_b", "a_b_2", "confidence_2", "_", "source"]


# The reader that stands for neo4j-admin can refuse.


def test_headers():
    for good in ("a", "a:string[]", ":ID", "id:ID(Person)", ":IGNORE", "a:long"):
        assert neo4j_import.fields([(good, True)])
    for wrong in ("a:text", ":ID(Per son)", "a[]", ":string[]", "a:ID:ID", "{a}"):
        with pytest.raises(AssertionError):
            neo4j_import.fields([(wrong, True)])


def test_files_that_do_not_hold_together(tmp_path):
    (tmp_path / "a.csv").write_text('":ID(A)",":LABEL"\n"1","A"\n')
    related = tmp_path / "b.csv"
    related.write_text('":START_ID(A)",":END_ID(A)",":TYPE"\n"1","1","x"\n')
    assert neo4j_import.read(tmp_path)[1] == [("1", "1", "x")]
    for wrong in ('"1","2","x"', '"1","1",', '"1","1"', '"1","1","x" '):
        related.write_text(f'":START_ID(A)",":END_ID(A)",":TYPE"\n{wrong}\n')
        with pytest.raises((AssertionError, KeyError)):
            neo4j_import.read(tmp_path)
    related.write_text('":ID(A)",":LABEL"\n"1","A"\n')
    with pytest.raises(AssertionError):
        neo4j_import.read(tmp_path)
