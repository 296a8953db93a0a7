"""Entities that recognisers mark in texts: spaCy's and GLiNER's files."""

import json
import sys
import zlib
from collections import Counter

import pytest

from kbforge.registry import install_command
from tests.sources.harness import read

TEXT = "Ada Lovelace met Charles Babbage in London. Ada  Lovelace wrote to Babbage."
MARKS = [(0, 12, "PERSON"), (17, 32, "PERSON"), (36, 42, "GPE"), (44, 57, "PERSON")]


def document(i=1, marks=MARKS, text=TEXT, **more):
    ents = [{"start": start, "end": end, "label": label} for start, end, label in marks]
    return {"text": text, "ents": ents, "tokens": [], **more}


def entities(marks=MARKS):
    return [
        {"start": a, "end": b, "text": TEXT[a:b], "label": label, "score": 0.9}
        for a, b, label in marks
    ]


def test_one_fragment_for_each_entity_of_a_text(written):
    found, _ = read("spacy", written(json.dumps(document()), "news.jsonl"))
    assert [f.to_json() for f in found] == [
        {
            "id": f"news-1#{number}",
            "properties": {"name": [name], "type": [kind], "neighbour": others},
            "source": "news.jsonl",
            "metadata": {"row": 1, "spans": spans, "text": TEXT},
        }
        for number, (name, kind, others, spans) in enumerate(
            [
                ("Ada Lovelace", "PERSON", ["Charles Babbage", "London"], [[0, 12], [44, 57]]),
                ("Charles Babbage", "PERSON", ["London", "Ada Lovelace"], [[17, 32]]),
                ("London", "GPE", ["Charles Babbage", "Ada Lovelace"], [[36, 42]]),
            ],
            1,
        )
    ]


@pytest.mark.parametrize(
    "layout",
    [
        lambda texts: "\n".join(map(json.dumps, texts)),
        json.dumps,
        lambda texts: json.dumps(texts, indent=2),
        lambda texts: "\n".join(json.dumps(text, indent=2) for text in texts),
    ],
)
def test_layouts_of_spacy(written, layout):
    found, _ = read("spacy", written(layout([document(), document(marks=MARKS[:1])]), "in.json"))
    assert [f.id for f in found] == ["in-1#1", "in-1#2", "in-1#3", "in-2#1"]


def test_neighbours_are_the_nearest_ten(written):
    words = [f"N{i:02}" for i in range(40)]
    text = " ".join(words)
    marks = [(4 * i, 4 * i + 3, "X") for i in range(40)]
    found, _ = read("spacy", written(json.dumps(document(marks=marks, text=text)), "in.json"))
    around = [f"N{20 + step:02}" for i in range(1, 6) for step in (i, -i)]
    assert found[20].properties["neighbour"] == tuple(around)
    assert found[0].properties["neighbour"] == tuple(words[1:11])


def test_a_long_text_gives_the_passage_around_the_first_span(written):
    text = "word " * 500 + "Ada Lovelace " + "word " * 500
    found, _ = read(
        "spacy", written(json.dumps(document(marks=[(2500, 2512, "P")], text=text)), "in.json")
    )
    passage = found[0].metadata["text"]
    assert "Ada Lovelace" in passage
    assert 300 < len(passage) < 420
    assert set(passage.split()) == {"word", "Ada", "Lovelace"}


def test_labels_where_asked(written):
    ents = [{"start": 0, "end": 3, "label": "P", "kb_id": "Q7259"}, {"start": 17, "end": 20}]
    file = written(json.dumps({"text": TEXT, "ents": ents}), "in.json")
    found, _ = read("spacy", file)
    assert {f.label for f in found} == {None}
    found, _ = read("spacy", file, label="kb_id")
    assert [f.label for f in found] == ["Q7259", None]
    ents[0]["kb_id"] = 7
    with pytest.raises(Exception, match="kb_id: expected a string, or a list of one, got 7"):
        read("spacy", written(json.dumps({"text": TEXT, "ents": ents}), "in.json"), label="kb_id")


WHOLE = "whole numbers 0 <= start < end"
WORDS = "a span of the text with words in it"
BAD_DOCUMENTS = {
    "no text": ({"ents": []}, "text: expected a string, got nothing"),
    "no entities": ({"text": "x"}, "spans: expected a list, got nothing"),
    "groups of spans": ({"text": "x", "spans": {}}, "spans: expected a list, got {}"),
    "entity a text": (document() | {"ents": ["x"]}, 'ents[0]: expected a JSON object, got "x"'),
    "negative": (document(marks=[(-1, 3, "P")]), f"ents[0]: expected {WHOLE}, got -1 and 3"),
    "reversed": (document(marks=[(9, 3, "P")]), f"ents[0]: expected {WHOLE}, got 9 and 3"),
    "a truth value": (
        document(marks=[(0, True, "P")]),
        f"ents[0]: expected {WHOLE}, got 0 and true",
    ),
    "beyond the end": (
        document(marks=[(0, 999, "P")]),
        f"ents[0]: expected {WORDS}, got 0 to 999 of 75 characters",
    ),
    "blank": (
        document(marks=[(47, 49, "P")]),
        f"ents[0]: expected {WORDS}, got 47 to 49 of 75 characters",
    ),
    "label a number": (document(marks=[(0, 3, 5)]), "ents[0].label: expected a string, got 5"),
    "a list": ([1], "expected a JSON object, got [1]"),
    "NUL": (
        document(marks=[(0, 3, "P")], text="A\0a"),
        r"properties.name: expected text without NUL characters, got A\x00a",
    ),
}


@pytest.mark.parametrize("bad", BAD_DOCUMENTS)
def test_bad_documents(bad_record, written, bad):
    record, sentence = BAD_DOCUMENTS[bad]
    good = json.dumps(document(marks=MARKS[:1]))
    file = written("\n".join([good, json.dumps(record), good]), "in.jsonl")
    bad_record(["spacy"], file, f"2: {sentence}", ["in-1#1", "in-3#1"], json.dumps(record).encode())


def test_emerson_as_json(data_dir):
    found, _ = read("spacy", data_dir / "graphs/spacy/emerson_to_json.jsonl")
    assert Counter((f.names, f.properties["type"]) for f in found) == {
        (("Emerson",), ("PERSON",)): 30
    }
    found, _ = read("spacy", data_dir / "graphs/spacy/emerson_annotated_text.jsonl", label="accept")
    assert Counter(f.label for f in found) == {"Q48226": 10, "Q215952": 10, "Q312545": 10}


def test_emerson_as_docbin(data_dir):
    pytest.importorskip("spacy")
    folder = data_dir / "graphs/spacy"
    found, _ = read("spacy", folder / "emerson.spacy", label="kb_id")
    assert Counter(f.label for f in found) == {"Q48226": 10, "Q215952": 10, "Q312545": 10}
    as_json, _ = read("spacy", folder / "emerson_to_json.jsonl")
    assert [f.metadata for f in found] == [f.metadata for f in as_json]
    (tweet,), _ = read("spacy", folder / "demo.spacy")
    assert (tweet.names, tweet.properties["type"]) == (("Ed Sheeran",), ("PERSON",))


@pytest.fixture
def docbin(tmp_path):
    """docbin(labels) -> a DocBin with a text for each label of its first entity."""
    spacy = pytest.importorskip("spacy")
    from spacy.tokens import DocBin, Span

    def make(labels):
        documents = DocBin()
        for label in labels:
            parsed = spacy.blank("en")("Ada met Ben .")
            parsed.ents = [Span(parsed, 0, 1, "PERSON", kb_id=label), Span(parsed, 2, 3, "PERSON")]
            documents.add(parsed)
        documents.to_disk(tmp_path / "in.spacy")
        return tmp_path / "in.spacy"

    return make


def test_a_docbin(docbin, program, tmp_path):
    file = docbin(["Q1", "Q2"])
    ran = program("load", file, "--label", "kb_id", "-o", tmp_path / "out.jsonl")
    assert ran.code == 0
    assert f"{file}: 2 texts, 4 mentions" in ran.err
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(f["id"], f.get("label")) for f in found] == [
        *(("in-1#1", "Q1"), ("in-1#2", None), ("in-2#1", "Q2"), ("in-2#2", None))
    ]
    assert found[0]["properties"] == {"name": ["Ada"], "type": ["PERSON"], "neighbour": ["Ben"]}


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: b"{}",
        lambda content: zlib.compress(b"\x80"),
        lambda content: zlib.compress(zlib.decompress(content).replace(b"ORTH", b"ORTI")),
        lambda content: zlib.compress(zlib.decompress(content)[:-40]),
        lambda content: zlib.compress(b"\xdc" * 900),
    ],
)
def test_damaged_docbins(docbin, program, tmp_path, damage):
    file = docbin(["Q1"])
    file.write_bytes(damage(file.read_bytes()))
    ran = program("load", file, "-o", tmp_path / "out.jsonl")
    if ran.code:
        assert ran.err.startswith(
            f"kbforge: {file}: expected a DocBin of spaCy, got something else"
        )
        assert len(ran.err.splitlines()) == 1
        assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.slow
def test_a_docbin_that_unpacks_without_end(written, refused):
    pytest.importorskip("spacy")
    pack = zlib.compressobj()
    content = b"".join(pack.compress(bytes(1 << 24)) for _ in range(65)) + pack.flush()
    most = max(1 << 25, 100 * len(content))
    sentence = f"FILE: expected a DocBin of at most {most:,} bytes unpacked, got a larger one"
    refused(["spacy"], written(content, "in.spacy"), sentence)


def test_a_docbin_without_spacy(written, refused, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "spacy"] or ["spacy"]:
        monkeypatch.setitem(sys.modules, name, None)
    how = install_command("spacy")
    sentence = f"FILE: a DocBin needs spaCy, which is not installed: {how}"
    refused(["spacy"], written(b"x", "in.spacy"), sentence)


def test_other_labels_of_a_docbin(docbin, refused):
    sentence = "FILE: a DocBin has the labels kb_id and id, got accept"
    refused(["spacy", "--label", "accept"], docbin(["Q1"]), sentence)


GLINER = {
    "an array of lists": json.dumps([entities(), entities(MARKS[:1])]),
    "indented": json.dumps([entities(), entities(MARKS[:1])], indent=1),
    "a list a line": "\n".join(map(json.dumps, [entities(), entities(MARKS[:1])])),
    "objects": "\n".join(
        json.dumps({"text": TEXT, "entities": found}) for found in (entities(), entities(MARKS[:1]))
    ),
}


@pytest.mark.parametrize("layout", GLINER)
def test_layouts_of_gliner(written, layout):
    found, _ = read("gliner", written(GLINER[layout], "in.json"))
    assert [f.id for f in found] == ["in-1#1", "in-1#2", "in-1#3", "in-2#1"]
    assert found[0].names == ("Ada Lovelace",)
    assert found[0].metadata["spans"] == [[0, 12], [44, 57]]
    assert found[0].metadata.get("text") == (TEXT if layout == "objects" else None)


def test_the_entities_of_one_text(written):
    found, _ = read("gliner", written(json.dumps(entities()), "in.json"))
    assert [f.id for f in found] == ["in-1#1", "in-1#2", "in-1#3"]


def test_relations_come_first_among_neighbours(written):
    ada, babbage, london, _ = entities()
    head, tail = ({k: e[k] for k in ("start", "end", "text")} for e in (ada, london))
    relation = {
        "head": head | {"type": "PERSON", "entity_idx": 0},
        "tail": tail | {"type": "GPE", "entity_idx": 2},
        "relation": "lived in",
        "score": 0.8,
    }
    record = {"entities": [ada, babbage, london], "relations": [relation]}
    found, _ = read("gliner", written(json.dumps(record), "in.json"))
    assert found[0].properties["neighbour"] == ("London", "Charles Babbage")
    assert found[2].properties["neighbour"] == ("Ada Lovelace", "Charles Babbage")
    stated = [["Ada Lovelace", "lived in", "London"]]
    assert [f.metadata.get("relations") for f in found] == [stated, None, stated]
    found, _ = read("gliner", written(json.dumps([[relation]]), "in.json"))
    assert [f.names[0] for f in found] == ["Ada Lovelace", "London"]


def test_the_least_score(written):
    sure, unsure = entities(MARKS[:2])
    unsure["score"] = 0.2
    found, counts = read("gliner", written(json.dumps([[sure, unsure]])), min_score=0.5)
    assert [f.names[0] for f in found] == ["Ada Lovelace"]
    assert counts == {"entities and relations below min_score": 1}


BAD_ENTITIES = {
    "no text": ({"start": 0, "end": 3, "label": "P"}, "[0].text: expected a string, got nothing"),
    "no offsets": ({"text": "x", "label": "P"}, f"[0]: expected {WHOLE}, got nothing and nothing"),
    "a score": (entities()[0] | {"score": "high"}, '[0].score: expected a number, got "high"'),
    "no tail": (
        {"head": entities()[0], "relation": "r"},
        "[0].tail: expected a JSON object, got nothing",
    ),
    "a text": ("x", 'expected a list of entities, got "x"'),
}


@pytest.mark.parametrize("bad", BAD_ENTITIES)
def test_bad_entities(bad_record, written, bad):
    record, sentence = BAD_ENTITIES[bad]
    good = json.dumps(entities(MARKS[:1]))
    file = written("\n".join([good, json.dumps([record]), good]), "in.jsonl")
    bad_record(["gliner"], file, f"2: {sentence}", ["in-1#1", "in-3#1"])
