"""Each format beyond its contract: columns, options, and what it says when it cannot."""

from __future__ import annotations

import builtins
import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from kbforge.contracts import Alternative, Entity, Fragment, Value
from kbforge.errors import KBForgeError, UsageError
from kbforge.kb.read import read_entities
from kbforge.kb.view import EntitiesView
from kbforge.testing import examples
from kbforge_plugins.exporters.graphs import (
    FtmExporter,
    JsonLdExporter,
    Neo4jExporter,
    NQuadsExporter,
)
from kbforge_plugins.exporters.records import JsonlExporter, KBLaMExporter, ParquetExporter
from kbforge_plugins.exporters.tables import MEMBER_COLUMNS, MembersExporter, PairsExporter
from tests.exporters import neo4j_import, readers
from tests.exporters.exporting import exported

ADA = Entity(
    "e1",
    "Ada",
    {"name": (Value("Ada", ("a", "b")), Value("A.", ("c",))), "born": (Value("1815", ("a",)),)},
    ("a", "b", "c"),
    0.5,
    3,
    alternatives=(
        Alternative(0.125, (("a", "b"), ("c",))),
        Alternative(0.0625, (("a",), ("b",), ("c", "z"))),
    ),
    vector=(0.5, -2.0),
    reported=0.75,
)
BOB = Entity(
    "e2", "Bob", {}, ("z",), 0.875, 3, alternatives=(Alternative(0.125, (("c", "z"), ("a",))),)
)
FRAGMENTS = [
    Fragment("a", {"name": ("Ada",), "born": ("1815",)}, (0.5, -2.0), "Q1", "x.csv:1", {"n": [1]}),
    Fragment("b", {"name": ("Ada",)}, source="x.csv:2"),
    Fragment("c", {"name": ("A.",)}, source="https://a.org/c"),
    Fragment("z", {}, (1.0,)),
]


def test_parquet_has_all_that_is_known(tmp_path):
    target = tmp_path / "kb.parquet"
    target.write_bytes(exported(ParquetExporter(), [ADA, BOB], FRAGMENTS))
    ada, bob = pq.read_table(target).to_pylist()
    assert (ada["confidence"], ada["reported"]) == (0.5, 0.75)
    assert (ada["subproblem"], ada["vector"]) == (3, [0.5, -2.0])
    assert ada["alternatives"][1]["groups"] == [["a"], ["b"], ["c", "z"]]
    assert ada["fragments"][0] == {
        "id": "a",
        "source": "x.csv:1",
        "metadata": '{"n":[1]}',
        "vector": [0.5, -2.0],
    }
    assert (bob["reported"], bob["vector"], bob["properties"]) == (None, None, [])


def test_parquet_row_groups_are_bounded(tmp_path):
    long = [
        Entity(f"e{i}", "x", {"n": (Value(f"{i}" * 5_000, ("f",)),)}, ("f",), 1.0, 0)
        for i in range(100)
    ]
    target = tmp_path / "kb.parquet"
    target.write_bytes(exported(ParquetExporter(), long))
    assert pq.ParquetFile(target).num_row_groups > 2
    assert pq.read_table(target).num_rows == 100


def pairs(entities, **options):
    written = exported(PairsExporter(**options), entities).decode()
    return [tuple(row.values()) for row in csv.DictReader(io.StringIO(written, newline=""))]


def test_pairs_within_and_across_entities():
    rows = pairs([ADA, BOB], threshold=0)
    assert rows == [
        ("a", "b", "0.875", "0.0625", "e1"),
        ("a", "c", "0.75", "0.0625", "e1"),
        ("b", "c", "0.75", "0.0625", "e1"),
        # e1 says .0625 to .125, e2 .125 without any rest
        ("c", "z", "0.125", "0.0", ""),
    ]
    assert pairs([ADA, BOB], threshold=0.75) == rows[:1]
    assert pairs([ADA, BOB]) == rows[:3]


@pytest.mark.parametrize("threshold", [-0.1, 1.0, 7.0])
def test_a_threshold_is_a_probability_below_one(threshold):
    with pytest.raises(UsageError, match="exporter pairs: threshold: expected a number"):
        PairsExporter(threshold=threshold)


def test_kblam_facts(tmp_path):
    target = tmp_path / "kb.json"
    target.write_bytes(exported(KBLaMExporter(separator=" or "), [ADA, BOB]))
    assert readers.kblam(target)[0] == {
        "name": "Ada",
        "description_type": "name",
        "description": "Ada or A.",
        "Q": "What is the name of Ada?",
        "A": "The name of Ada is Ada or A..",
        "key_string": "the name of Ada",
    }
    assert len(json.loads(target.read_bytes())) == 2
    with pytest.raises(UsageError, match="exporter kblam: separator"):
        KBLaMExporter(separator="")


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
        (NQuadsExporter, {"base": "no iri"}, "exporter nquads: base: expected the beginning"),
        (NQuadsExporter, {"base": "urn:<x>"}, "exporter nquads: base: expected the beginning"),
        (JsonLdExporter, {"base": ""}, "exporter jsonld: base: expected the beginning"),
        (JsonLdExporter, {"type": "@id"}, "exporter jsonld: type: expected a name"),
        (
            FtmExporter,
            {"schema": "Nothing"},
            "exporter ftm: schema: expected a FollowTheMoney schema",
        ),
        (
            FtmExporter,
            {"schema": "Thing"},
            "exporter ftm: schema: expected a FollowTheMoney schema",
        ),
        (
            FtmExporter,
            {"schema": "Ownership"},
            "exporter ftm: schema: expected a FollowTheMoney schema",
        ),
        (FtmExporter, {"properties": ("a=b",)}, "exporter ftm: properties: expected attribute="),
        (FtmExporter, {"properties": ("name",)}, "exporter ftm: properties: expected attribute="),
    ],
)
def test_impossible_options_are_refused(exporter, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        exporter(**options)


def test_ftm_takes_the_properties_that_are_named(tmp_path):
    target = tmp_path / "kb.csv"
    exporter = FtmExporter(schema="Person", properties=("born=birthDate",), dataset="mine")
    target.write_bytes(exported(exporter, [ADA], FRAGMENTS))
    assert readers.ftm(target)["e1"]["a"] == (
        "x.csv:1",
        {("name", "Ada"), ("birthDate", "1815")},
    )
    rows = list(csv.DictReader(io.StringIO(target.read_text())))
    assert {row["dataset"] for row in rows} == {"mine"}


def test_ftm_values_that_are_one_are_stated_once(tmp_path):
    names = Fragment("a", {"name": ("Ada  L.", "Ada L.")})
    entity = Entity("e", "x", {}, ("a",), 1.0, 0)
    target = tmp_path / "kb.csv"
    target.write_bytes(exported(FtmExporter(), [entity], [names]))
    assert readers.ftm(target)["e"]["a"][1] == {("name", "Ada  L."), ("notes", "name: Ada L.")}


def test_ftm_says_what_to_install(monkeypatch):
    found = builtins.__import__

    def without(name, *given, **named):
        if name == "followthemoney":
            raise ImportError(name)
        return found(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(KBForgeError, match=r"pip install 'kbforge\[ftm\]'"):
        FtmExporter()


def test_neo4j_files(tmp_path):
    target = tmp_path / "graph"
    Neo4jExporter().export(EntitiesView(lambda: iter([ADA, BOB]), FRAGMENTS), str(target))
    nodes, related = neo4j_import.read(target)
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
    header = (target / "members.csv").read_text().splitlines()[0]
    assert header == '":START_ID(Fragment)",":END_ID(Entity)",":TYPE"'


def test_neo4j_attributes_have_names_of_their_own(tmp_path):
    values = (Value("v", ("f",)),)
    odd = {"a:b": values, "a b": values, "confidence": values, "": values, "source": values}
    entity = Entity("e", "x", odd, ("f",), 1.0, 0)
    Neo4jExporter().export(EntitiesView(lambda: iter([entity])), str(tmp_path / "graph"))
    columns, _ = neo4j_import.records(tmp_path / "graph" / "entities.csv", ";")
    arrays = [name for name, kind, _ in columns if kind == "string[]"]
    assert arrays == ["_", "a_b", "a_b_2", "confidence_2", "source"]


def test_more_pairs_than_anyone_can_read(monkeypatch):
    monkeypatch.setattr("kbforge_plugins.exporters.tables._MOST_PAIRS", 2)
    with pytest.raises(KBForgeError, match="expected at most 2 pairs, got more"):
        pairs([ADA, BOB])
    assert len(pairs([ADA, BOB], threshold=0.8)) == 1


# Entity JSON lines beyond their contract: the reader takes them back.


def test_what_is_exported_reads_back(tmp_path):
    path = tmp_path / "kb.jsonl"
    path.write_bytes(exported(JsonlExporter(), examples.entities()))
    assert list(read_entities(str(path))) == examples.entities()


# Members: one row a fragment, entity by entity.


def test_one_row_a_fragment():
    ada = Entity("e1", "Ada", {}, ("b", "a"), 0.5, 3, reported=0.75)
    bob = Entity("e2", "Bob", {}, ("c",), 1.0, 4)
    written = exported(MembersExporter(), [ada, bob]).decode()
    assert list(csv.reader(io.StringIO(written, newline=""))) == [
        list(MEMBER_COLUMNS),
        ["b", "e1", "Ada", "0.5", "0.75"],
        ["a", "e1", "Ada", "0.5", "0.75"],
        ["c", "e2", "Bob", "1.0", ""],
    ]


# The reader that stands for neo4j-admin can refuse.


@pytest.mark.parametrize("header", ["a:text", ":ID(Per son)", "a[]", ":string[]", "a:ID:ID", "{a}"])
def test_headers_that_are_none(header):
    with pytest.raises(AssertionError):
        neo4j_import.fields([(header, True)])


@pytest.mark.parametrize("header", ["a", "a:string[]", ":ID", "id:ID(Person)", ":IGNORE", "a:long"])
def test_headers_that_are(header):
    assert neo4j_import.fields([(header, True)])


def test_files_that_do_not_hold_together(tmp_path):
    (tmp_path / "a.csv").write_text('":ID(A)",":LABEL"\n"1","A"\n')
    rows = tmp_path / "b.csv"
    rows.write_text('":START_ID(A)",":END_ID(A)",":TYPE"\n"1","1","x"\n')
    assert neo4j_import.read(tmp_path)[1] == [("1", "1", "x")]
    for wrong in ('"1","2","x"', '"1","1",', '"1","1"', '"1","1","x" '):
        rows.write_text(f'":START_ID(A)",":END_ID(A)",":TYPE"\n{wrong}\n')
        with pytest.raises((AssertionError, KeyError)):
            neo4j_import.read(tmp_path)
    rows.write_text('":ID(A)",":LABEL"\n"1","A"\n')
    with pytest.raises(AssertionError):
        neo4j_import.read(tmp_path)
