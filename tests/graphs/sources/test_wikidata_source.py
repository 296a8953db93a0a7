"""Wikidata's JSON: what becomes of an entity, the faults of old dumps, and real files."""

import bz2
import gzip
import json

import pytest

from kbforge.errors import BadRecord
from tests.sources.harness import read

FILES = "graphs/wikidata"


def texts(**by_language):
    return {
        language: {"language": language, "value": text} for language, text in by_language.items()
    }


def statement(kind, value, rank="normal"):
    snak = {"snaktype": "value", "property": "P1", "datavalue": {"type": kind, "value": value}}
    return {"mainsnak": snak, "rank": rank, "type": "statement"}


def item(number, **changes):
    entity = {
        "type": "item",
        "id": f"Q{number}",
        "labels": texts(en=f"Name {number}", de=f"Nahme {number}"),
        "aliases": {"en": [{"language": "en", "value": f"N. {number}"}]},
        "descriptions": texts(en="a thing"),
        "claims": {},
        "sitelinks": {},
    }
    return entity | changes


def dump(*entities):
    return "[\n" + ",\n".join(map(json.dumps, entities)) + "\n]\n"


def one(written, entity, **options):
    ((fragment,), counts) = read("wikidata", written(dump(entity), "in.json"), **options)
    return fragment, counts


def test_an_item(written):
    fragment, _ = one(written, item(7))
    assert fragment.to_json() == {
        "id": "Q7",
        "properties": {"name": ["Name 7", "N. 7"], "description": ["a thing"]},
        "label": "Q7",
        "source": "wikidata",
    }


@pytest.mark.parametrize(
    ("languages", "names"),
    [
        ("de", ["Nahme 7"]),
        ("de,en", ["Nahme 7", "Name 7", "N. 7"]),
        ("", ["Name 7", "Nahme 7", "N. 7"]),
        ("en,mul", ["Name 7", "Seven", "N. 7"]),
    ],
)
def test_languages(written, languages, names):
    labels = texts(en="Name 7", de="Nahme 7") | (texts(mul="Seven") if "mul" in languages else {})
    fragment, _ = one(written, item(7, labels=labels), languages=languages)
    assert list(fragment.names) == names


def time(text, precision):
    return "time", {"time": text, "precision": precision, "timezone": 0}


VALUES = {
    "text": (("string", "ab "), "ab"),
    "entity": (("wikibase-entityid", {"entity-type": "item", "numeric-id": 5, "id": "Q5"}), "Q5"),
    "entity of an old dump": (
        ("wikibase-entityid", {"entity-type": "item", "numeric-id": 5}),
        "Q5",
    ),
    "property of an old dump": (
        ("wikibase-entityid", {"entity-type": "property", "numeric-id": 5}),
        "P5",
    ),
    "sense": (("wikibase-entityid", {"entity-type": "sense", "id": "L1-S1"}), "L1-S1"),
    "day": (time("+1952-03-11T00:00:00Z", 11), "1952-03-11"),
    "day of an old dump": (time("+00000001952-03-11T00:00:00Z", 11), "1952-03-11"),
    "month": (time("+1952-03-00T00:00:00Z", 10), "1952-03"),
    "year": (time("+1952-00-00T00:00:00Z", 9), "1952"),
    "decade": (time("+1950-00-00T00:00:00Z", 8), "195X"),
    "century": (time("+1901-00-00T00:00:00Z", 7), "19XX"),
    "before Christ": (time("-0043-03-15T00:00:00Z", 11), "-0043-03-15"),
    "quantity": (("quantity", {"amount": "+1.96", "unit": "1"}), "1.96"),
    "words": (("monolingualtext", {"text": "Ada", "language": "en"}), "Ada"),
    "place": (("globecoordinate", {"latitude": 51.25, "longitude": -0.5}), "51.25,-0.5"),
}


@pytest.mark.parametrize("what", VALUES)
def test_values(written, what):
    (kind, value), text = VALUES[what]
    entity = item(7, claims={"P1": [statement(kind, value)]})
    fragment, _ = one(written, entity, claims="P1=said")
    assert fragment.properties["said"] == (text,)


def test_ranks_and_values_that_say_nothing(written):
    claims = {
        "P1": [statement("string", "old", "deprecated"), statement("string", "usual")],
        "P2": [statement("string", "usual"), statement("string", "best", "preferred")],
        "P3": [{"mainsnak": {"snaktype": "somevalue"}}, {"mainsnak": {"snaktype": "novalue"}}],
        "P4": [statement("musical-notation", "c"), statement("tabular-data", {})],
    }
    fragment, counts = one(written, item(7, claims=claims), claims="P1,P2,P3,P4,P9")
    found = {k: v for k, v in fragment.properties.items() if k.startswith("P")}
    assert found == {"P1": ("usual",), "P2": ("best",)}
    assert counts['values of the type "musical-notation" left out'] == 1


def test_qualifiers_say_when(written):
    def held(value, rank="normal", **qualifiers):
        snaks = {
            number: [
                {"snaktype": "value", "datavalue": dict(zip(("type", "value"), t, strict=True))}
            ]
            for number, t in qualifiers.items()
        }
        return statement("string", value, rank) | {"qualifiers": snaks}

    year = {n: time(f"+{n}-00-00T00:00:00Z", 9) for n in (2010, 2015, 2017)}
    claims = {
        "P1": [
            held("a", P580=year[2010], P582=year[2015]),
            held("a", P580=year[2017]),
            held("b", P585=year[2015]),
            held("c") | {"qualifiers": []},
            held("a", "deprecated", P585=year[2015]),
        ]
    }
    fragment, _ = one(written, item(7, claims=claims), claims="P1=job")
    assert fragment.properties["job"] == ("a", "b", "c")
    times = {"a": [["2010", "2015"], ["2017", ""]], "b": [["2015", ""]]}
    assert fragment.metadata == {"times": {"job": times}}
    bad = {"P1": [held("a") | {"qualifiers": {"P580": [{"snaktype": 5}]}}]}
    with pytest.raises(BadRecord, match="P580"):
        one(written, item(7, claims=bad), claims="P1=job")


def test_claims_of_one_attribute_and_of_the_name(written):
    claims = {"P1": [statement("string", "b")], "P2": [statement("string", "a")]}
    fragment, _ = one(written, item(7, claims=claims), claims="P2=x,P1=x")
    assert fragment.properties["x"] == ("a", "b")
    fragment, _ = one(written, item(7, claims=claims), claims="P1=name")
    assert fragment.names == ("Name 7", "N. 7", "b")


def test_kinds_of_entities(written):
    lexeme = {"type": "lexeme", "id": "L1", "lemmas": texts(en="bank"), "claims": []}
    file = written(dump(item(1), item(2, type="property", id="P2"), lexeme), "in.json")
    found, counts = read("wikidata", file)
    assert [f.id for f in found] == ["Q1"]
    assert counts == {
        "properties left out (see --set source.types)": 1,
        "lexemes left out (see --set source.types)": 1,
    }
    found, _ = read("wikidata", file, types="")
    assert [(f.id, f.names[0]) for f in found] == [
        ("Q1", "Name 1"),
        ("P2", "Name 2"),
        ("L1", "bank"),
    ]


def test_empty_lists_are_empty_objects(written):
    entity = item(7, aliases=[], descriptions=[], claims=[], sitelinks=[])
    fragment, _ = one(written, entity, claims="P1")
    assert fragment.properties == {"name": ("Name 7",)}
    found, counts = read("wikidata", written(dump(item(7, labels=[], aliases=[], descriptions=[]))))
    assert (found, sum(counts.values())) == ([], 1)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_packed_dumps_and_other_layouts(written, pack):
    entities = [item(i) for i in range(1, 9)]
    for text in (
        dump(*entities),
        json.dumps(entities),
        "\n".join(map(json.dumps, entities)),
        json.dumps({"entities": {entity["id"]: entity for entity in entities}}, indent=4),
    ):
        found, _ = read("wikidata", written(pack(text.encode()), "in.json"))
        assert [f.id for f in found] == [f"Q{i}" for i in range(1, 9)]


BAD = {
    "no id": ({"id": None}, "id: expected a string, got nothing"),
    "no type": ({"type": 3}, "type: expected a string, got 3"),
    "labels a list": ({"labels": ["x"]}, 'labels: expected a JSON object, got ["x"]'),
    "label a text": ({"labels": {"en": "x"}}, 'labels.en: expected a JSON object, got "x"'),
    "label without a value": (
        {"labels": {"en": {"value": None}}},
        "labels.en.value: expected a string, got nothing",
    ),
    "claims a text": ({"claims": "x"}, 'claims: expected a JSON object, got "x"'),
    "statements an object": ({"claims": {"P1": {}}}, "claims.P1: expected a list, got {}"),
    "rank": (
        {"claims": {"P1": [statement("string", "x", "best")]}},
        "claims.P1: expected preferred, normal or deprecated, got best",
    ),
    "no snak": (
        {"claims": {"P1": [{"rank": "normal"}]}},
        "claims.P1.mainsnak: expected a JSON object, got nothing",
    ),
    "value of a wrong type": (
        {"claims": {"P1": [statement("string", {"a": 1})]}},
        'claims.P1.mainsnak.datavalue.value: expected a value of the type string, got {"a":1}',
    ),
    "time of a wrong type": (
        {"claims": {"P1": [statement(*time("yesterday", 11))]}},
        "claims.P1.mainsnak.datavalue.value: expected a value of the type time, got "
        '{"time":"yesterday","precision":11,"time…',
    ),
    "unknown entity": (
        {"claims": {"P1": [statement("wikibase-entityid", {"numeric-id": 5})]}},
        "claims.P1.mainsnak.datavalue.value: expected a value of the type wikibase-entityid, got "
        '{"numeric-id":5}',
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_entities(bad_record, written, bad):
    changes, sentence = BAD[bad]
    file = written(dump(item(1), item(2, **changes), item(3)), "in.json")
    bad_record(["wikidata", "--set", "source.claims=P1"], file, f"3: {sentence}", ["Q1", "Q3"])


def test_a_cut_line_of_a_dump(bad_record, written):
    text = "[\n" + json.dumps(item(1)) + ",\n" + json.dumps(item(2))[:99] + "\n"
    text += json.dumps(item(3)) + "\n]\n"
    sentence = "3: expected a JSON object, got invalid JSON at column 100 (unexpected end of data)"
    bad_record(["wikidata"], written(text, "in.json"), sentence, ["Q1", "Q3"])


def test_claims_are_properties(refused, written):
    refused(
        ["wikidata", "--set", "source.claims=born"],
        written(dump(item(1))),
        'claims: expected properties such as P31 or P569=born, got "born"',
        code=2,
    )


@pytest.mark.parametrize(
    ("name", "statements"),
    [("sample-dump-20150815.json.gz", 149), ("mock-dump-with-bugs.json", 148)],
)
def test_old_dumps(data_dir, name, statements):
    """101 entities without labels: 55 items and 46 properties, all claims by number only."""
    file = data_dir / FILES / name
    found, counts = read("wikidata", file, types="", claims="P31")
    (nothing,) = counts.values()
    assert len(found) + nothing == 101
    values = [value for f in found for value in f.properties["P31"]]
    assert len(values) == statements
    assert all(value.startswith("Q") for value in values)
    items, counts = read("wikidata", file, claims="P31")
    properties = counts.pop("properties left out (see --set source.types)")
    assert (len(items) + sum(counts.values()), properties) == (55, 46)


def test_files_of_one_entity(data_dir):
    names = ("wd_Q42.json", "wd_P279.json", "wd_L3354.json")
    found, _ = read(
        "wikidata", *(data_dir / FILES / n for n in names), types="", claims="P31,P569=born,P2048"
    )
    assert [(f.id, f.names[0]) for f in found] == [
        ("Q42", "Douglas Adams"),
        ("P279", "subclass of"),
        ("L3354", "bank"),
    ]
    assert found[0].properties["born"] == ("1952-03-11",)
    assert found[0].properties["P31"] == ("Q5",)
    assert found[0].properties["P2048"] == ("1.96",)


def test_a_dump_with_a_lexeme(data_dir):
    file = data_dir / FILES / "mock-dump-for-testing.json"
    found, counts = read("wikidata", file, types="", languages="de")
    assert [f.id for f in found] == ["Q1", "Q8", "P16"]
    assert found[0].names == ("Universum", "Weltall", "All", "Kosmos", "Weltraum")
    assert sum(counts.values()) == 1
