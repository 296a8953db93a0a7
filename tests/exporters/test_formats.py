"""Each format beyond its contract: columns, options, and what it says when it cannot."""

import sys

import pyarrow.parquet as pq
import pytest

from kbforge.contracts import Alternative, Entity, Fragment, Value
from kbforge.errors import KBForgeError, UsageError
from kbforge.kb.read import read_entities
from kbforge.testing import examples
from kbforge_plugins.exporters.ftm import FtmExporter
from kbforge_plugins.exporters.records import JsonlExporter, KBLaMExporter, ParquetExporter
from kbforge_plugins.exporters.tables import (
    MEMBER_COLUMNS,
    CsvExporter,
    MembersExporter,
    PairsExporter,
    WideExporter,
)
from tests.exporters import readers
from tests.exporters.exporting import exported, records, rows

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


def test_parquet_has_all_that_is_known():
    ada, bob = exported(ParquetExporter(), [ADA, BOB], FRAGMENTS, pq.read_table).to_pylist()
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


def test_parquet_row_groups_are_bounded():
    long = [
        Entity(f"e{i}", "x", {"n": (Value(f"{i}" * 5_000, ("f",)),)}, ("f",), 1.0, 0)
        for i in range(100)
    ]
    found = exported(ParquetExporter(), long, None, pq.read_metadata)
    assert found.num_row_groups > 2
    assert found.num_rows == 100


def pairs(entities, **options):
    return [tuple(row) for row in rows(PairsExporter(**options), entities)[1:]]


def test_pairs_within_and_across_entities():
    every = pairs([ADA, BOB], threshold=0)
    assert every == [
        ("a", "b", "0.875", "0.0625", "e1"),
        ("a", "c", "0.75", "0.0625", "e1"),
        ("b", "c", "0.75", "0.0625", "e1"),
        # e1 says .0625 to .125, e2 .125 without any rest
        ("c", "z", "0.125", "0.0", ""),
    ]
    assert pairs([ADA, BOB], threshold=0.75) == every[:1]
    assert pairs([ADA, BOB]) == every[:3]


def test_kblam_facts():
    facts = exported(KBLaMExporter(separator=" or "), [ADA, BOB], None, readers.kblam)
    assert len(facts) == 2
    assert facts[0] == {
        "name": "Ada",
        "description_type": "name",
        "description": "Ada or A.",
        "Q": "What is the name of Ada?",
        "A": "The name of Ada is Ada or A..",
        "key_string": "the name of Ada",
    }


@pytest.mark.parametrize(
    ("exporter", "options", "sentence"),
    [
        *((PairsExporter, {"threshold": p}, "threshold: expected a number") for p in (-0.1, 1, 7)),
        (KBLaMExporter, {"separator": ""}, "separator"),
        *(
            (FtmExporter, {"schema": schema}, "schema: expected a FollowTheMoney schema")
            for schema in ("Nothing", "Thing", "Ownership")
        ),
        (FtmExporter, {"properties": ("a=b",)}, "properties: expected attribute="),
        (FtmExporter, {"properties": ("name",)}, "properties: expected attribute="),
        *(
            (table, {"separator": text}, "separator must be one character")
            for table in (CsvExporter, WideExporter)
            for text in ("", "||", "\\")
        ),
    ],
)
def test_impossible_options_are_refused(exporter, options, sentence):
    name = exporter.__name__.removesuffix("Exporter").lower()
    with pytest.raises(UsageError, match=f"exporter {name}: {sentence}"):
        exporter(**options)


def test_ftm_takes_the_properties_that_are_named():
    exporter = FtmExporter(schema="Person", properties=("born=birthDate",), dataset="mine")
    found = exported(exporter, [ADA], FRAGMENTS, readers.ftm)
    assert found["e1"]["a"] == ("x.csv:1", {("name", "Ada"), ("birthDate", "1815")})
    assert {row["dataset"] for row in records(exporter, [ADA], FRAGMENTS)} == {"mine"}


def test_ftm_values_that_are_one_are_stated_once():
    names = Fragment("a", {"name": ("Ada  L.", "Ada L.")})
    entity = Entity("e", "x", {}, ("a",), 1.0, 0)
    found = exported(FtmExporter(), [entity], [names], readers.ftm)
    assert found["e"]["a"][1] == {("name", "Ada  L."), ("notes", "name: Ada L.")}


def test_ftm_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "followthemoney", None)
    with pytest.raises(KBForgeError, match=r": pip install .*\[ftm\]'$"):
        FtmExporter()


def test_more_pairs_than_anyone_can_read(monkeypatch):
    monkeypatch.setattr("kbforge_plugins.exporters.tables._MOST_PAIRS", 2)
    with pytest.raises(KBForgeError, match="expected at most 2 pairs, got more"):
        pairs([ADA, BOB])
    assert len(pairs([ADA, BOB], threshold=0.8)) == 1


def test_entities_as_json_lines_read_back():
    made = exported(
        JsonlExporter(), examples.entities(), None, lambda kb: list(read_entities(str(kb)))
    )
    assert made == examples.entities()


def test_members_are_one_row_a_fragment_entity_by_entity():
    ada = Entity("e1", "Ada", {}, ("b", "a"), 0.5, 3, reported=0.75)
    bob = Entity("e2", "Bob", {}, ("c",), 1.0, 4)
    assert rows(MembersExporter(), [ada, bob]) == [
        list(MEMBER_COLUMNS),
        ["b", "e1", "Ada", "0.5", "0.75"],
        ["a", "e1", "Ada", "0.5", "0.75"],
        ["c", "e2", "Bob", "1.0", ""],
    ]
