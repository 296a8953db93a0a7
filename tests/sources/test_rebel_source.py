"""REBEL's documents: each rule on a document of our own, and the published sample's figures."""

import json
from collections import Counter

import pytest

from kbforge import registry
from kbforge.files.fragments import stop
from kbforge_plugins.sources.mentions import nearest
from tests.sources import harness
from tests.sources.rebel_documents import FILLER, fact, mention


def read(tmp_path, *documents, **options):
    """(fragments, the source's counts)."""
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, documents)))
    return harness.read("rebel", file, **options)


ROME = mention("Q220", "Rome", 20)


def page(**fields):
    """A page about Ada Li that also mentions Rome, pronouns, a date and a number."""
    ada, she = mention("Q1", "Ada Li"), mention("Q1", "She", 27)
    born = mention("1901-05-24T00:00:00Z^^http://www.w3.org/2001/XMLSchema#dateTime", "24 May 1901")
    three = mention("3^^http://www.w3.org/2001/XMLSchema#decimal", "three", 80)
    record = {
        "docid": "7",
        "title": "Ada Li",
        "uri": "Q1",
        "text": f"Ada Li is a poet of Rome. She was born on 24 May 1901. {FILLER}",
        "entities": [ROME, ada, she, born, three, mention("None", "poet", 12), mention("", "x")],
        "triples": [
            fact(ada, "P569", "date of birth", born),
            fact(she, "P551", "residence", ROME),
            fact(ada, "P551", "residence", mention("Q220", "the city")),
            fact(ada, "P551", "residence", ROME),
            fact(ada, "P106", "occupation", mention("None", "poet", 12)),
            fact(ROME, "P1082", "population", three),
        ],
    }
    return record | fields


def test_one_fragment_an_entity_with_its_own_facts(tmp_path):
    (rome, ada), counts = read(tmp_path, page())
    assert (rome.id, rome.label, rome.source) == ("7-Q220", "Q220", "rebel")
    assert rome.properties == {"name": ("Rome",), "population": ("three",)}
    assert (ada.id, ada.label) == ("7-Q1", "Q1")
    assert ada.properties == {
        "name": ("Ada Li",),
        "date of birth": ("24 May 1901",),
        "residence": ("Rome", "the city"),
        "occupation": ("poet",),
    }
    assert ada.metadata == {
        "document": "7",
        "title": "Ada Li",
        "page": "Q1",
        "spans": [[0, 6], [26, 29]],
    }
    assert counts["documents"] == 1


def test_order_and_bytes_are_stable(tmp_path):
    assert read(tmp_path, page()) == read(tmp_path, page())


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"text": FILLER + "It may refer to:"}, "documents that list meanings"),
        ({"text": "Ada Li is a poet."}, "documents too short"),
        ({"uri": "Q99"}, "documents without their own entity"),
    ],
)
def test_documents_that_are_left_out(tmp_path, fields, rule):
    found, counts = read(tmp_path, page(**fields))
    assert found == []
    assert counts[rule] == 1


def test_shorter_documents_on_request(tmp_path):
    found, _ = read(tmp_path, page(text="Ada Li is a poet of Rome."), min_text=10)
    assert len(found) == 2


@pytest.mark.parametrize("pronoun", ["it", "He", "SHE", "they", " ", ""])
def test_an_entity_with_pronouns_alone_is_left_out(tmp_path, pronoun):
    record = page()
    record["entities"][0] = mention("Q220", pronoun, 20)
    found, counts = read(tmp_path, record)
    assert [f.label for f in found] == ["Q1"]
    assert counts["entities without a name"] == 1


def test_repeats_are_left_out_whatever_the_order_of_values(tmp_path):
    again = page(docid="8")
    again["triples"] = again["triples"][::-1]
    found, counts = read(tmp_path, page(), again)
    assert [f.id for f in found] == ["7-Q220", "7-Q1"]
    assert counts["repeated fragments"] == 2
    found, counts = read(tmp_path, page(), again, dedupe=False)
    assert len(found) == 4


@pytest.mark.parametrize("relations", ["residence,population", "P551,P1082"])
def test_relations(tmp_path, relations):
    (rome, ada), _ = read(tmp_path, page(), relations=relations)
    assert list(rome.properties) == ["name", "population"]
    assert list(ada.properties) == ["name", "residence"]


def test_a_relation_called_name_does_not_mix_with_the_names(tmp_path):
    record = page()
    record["triples"] = [fact(mention("Q1", "Ada Li"), "P2561", "name", mention("None", "A."))]
    (_, ada), _ = read(tmp_path, record)
    assert ada.properties == {"name": ("Ada Li",), "P2561": ("A.",)}


def test_wrong_offsets_are_realigned(tmp_path):
    record = page()
    record["entities"][0]["boundaries"] = [22, 26]
    (rome, _), counts = read(tmp_path, record)
    assert rome.metadata["spans"] == [[20, 24]]
    assert counts["mentions realigned"] == 2  # and "She", which our own page has one too far


def test_a_name_that_is_not_in_the_text_is_kept_without_a_span(tmp_path):
    record = page()
    record["entities"][0]["surfaceform"] = "Roma"
    (rome, _), counts = read(tmp_path, record)
    assert rome.names == ("Roma",)
    assert rome.metadata["spans"] == []
    assert counts["mentions not found in the text"] == 1


def test_nearest():
    starts = {0: 0, 1: 0, 3: 0, 4: 6, 5: 6, 6: 6, 9: 6, 10: 12, 99: 12}
    assert {start: nearest("ab....ab....ab", "ab", start) for start in starts} == starts
    assert nearest("abc", "x", 1) is None
    assert nearest("abc", "", 1) is None


@pytest.mark.data
def test_the_published_sample(data_dir):
    """The figures that the benchmark's rules give for the authors' sample of 1,000 documents."""
    inputs = [str(data_dir / "rebel" / "rebel_1000_docs.jsonl")]
    source = registry.create("sources", "rebel", {"dedupe": False})
    every = list(source.read(inputs, stop))
    assert len(every) == 7_040
    sizes = Counter(f.label for f in every)
    assert len(sizes) == 5_675
    assert max(sizes.values()) == 35
    assert sum(1 for size in sizes.values() if size == 1) == 5_155
    assert round(sum(list(f.properties) == ["name"] for f in every) / len(every), 3) == 0.735
    assert len({f.id for f in every}) == 7_040
    source = registry.create("sources", "rebel")
    assert sum(1 for _ in source.read(inputs, stop)) == 7_040 - 1_026
    assert source.counts["repeated fragments"] == 1_026
    assert source.counts["mentions not found in the text"] == 0
