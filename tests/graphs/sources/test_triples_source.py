"""Triples as tables, JSON, CoreNLP's JSON and RDF become entities of text units."""

import json

import pytest

from tests.sources.harness import read

ROWS = [
    ("Warsaw", "capital of", "Poland", "chunk-1"),
    ("Warszawa", "lies on", "Vistula", "chunk-2"),
    ("Warsaw", "county seat of", "Kosciusko", "chunk-3"),
    ("Warsaw", "lies on", "Vistula", "chunk-1"),
]
NAMES = ("head", "relation", "tail", "context")
OBJECTS = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
FILES = {
    "in.csv": "\n".join(map(",".join, [NAMES, *ROWS])),
    "in.tsv": "\n".join(map("\t".join, [NAMES, *ROWS])),
    "in.jsonl": "\n".join(map(json.dumps, OBJECTS)),
    "in.json": json.dumps(OBJECTS, indent=2),
    "in.nq": "\n".join(
        " ".join(f"<http://x.org/{term.replace(' ', '_')}>" for term in row) + " ." for row in ROWS
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_one_fragment_for_each_entity_in_each_context(written, name):
    found, counts = read("triples", written(FILES[name] + "\n", name))
    named = {(f.names[0], f.source.rpartition("/")[2]): f for f in found}
    assert {key: f.properties["neighbour"] for key, f in named.items()} == {
        ("Warsaw", "chunk-1"): ("Poland", "Vistula"),
        ("Poland", "chunk-1"): ("Warsaw",),
        ("Vistula", "chunk-1"): ("Warsaw",),
        ("Warszawa", "chunk-2"): ("Vistula",),
        ("Vistula", "chunk-2"): ("Warszawa",),
        ("Warsaw", "chunk-3"): ("Kosciusko",),
        ("Kosciusko", "chunk-3"): ("Warsaw",),
    }
    kinds = [kind for _, kind, _ in named["Warsaw", "chunk-1"].metadata["relations"]]
    assert kinds == ["capital of", "lies on"]
    assert counts == {}


def test_the_note_counts_entities_relations_and_text_units(program, written, tmp_path):
    file = written(FILES["in.csv"], "in.csv")
    ran = program("load", "triples", file, "-o", tmp_path / "out.jsonl")
    assert ran.code == 0
    assert f"{file}: 5 entities, 4 relations, 3 text units" in ran.err.splitlines()


def test_columns_of_other_names_and_without_a_header(written):
    rows = "\n".join(map("\t".join, ROWS))
    by_name, _ = read("triples", written(FILES["in.csv"], "in.csv"))
    other = written("h\tr\tt\tcontext\n" + rows, "other.tsv")
    found, _ = read("triples", other, head="h", relation="r", tail="t")
    assert [f.to_json() for f in found] == [f.to_json() for f in by_name]
    found, _ = read("triples", written(rows, "bare.tsv"), columns="head,relation,tail,context")
    assert [f.to_json() for f in found] == [f.to_json() for f in by_name]


def test_a_csv_file_without_a_header(written):
    found, _ = read("csv", written("a,Ann\nb,Bo\n"), columns="id,name", id="id")
    assert [(f.id, f.names) for f in found] == [("a", ("Ann",)), ("b", ("Bo",))]


def test_without_a_context_equal_names_are_one_fragment(written):
    file = written(
        '{"head": "A", "type": "r", "tail": "B"}\n{"head": "C", "type": "r", "tail": "A"}',
        "in.jsonl",
    )
    found, _ = read("triples", file, relation="type")
    assert [(f.id, f.properties["neighbour"]) for f in found] == [
        ("A", ("B", "C")),
        ("B", ("A",)),
        ("C", ("A",)),
    ]


def test_a_list_for_each_text(written):
    triple = {"head": "A", "type": "r", "tail": "B"}
    found, _ = read(
        "triples", written(json.dumps([[triple], [triple]]), "in.json"), relation="type"
    )
    assert [f.id for f in found] == ["in-1#A", "in-1#B", "in-2#A", "in-2#B"]


def test_openie(written):
    openie = [{"subject": "Ada", "subjectSpan": [0, 1], "relation": "met", "object": "Ben"}]
    document = {"sentences": [{"index": 0, "openie": openie}, {"index": 1, "openie": []}]}
    found, _ = read("triples", written(json.dumps(document, indent=2), "in.json"))
    assert [f.id for f in found] == ["in-1.1#Ada", "in-1.1#Ben"]
    assert found[0].metadata["relations"] == [["Ada", "met", "Ben"]]


def test_a_context_may_be_the_text(written):
    text = "Warsaw is the capital of Poland, and it lies on the Vistula, a long river. " * 3
    rows = [{"head": "Warsaw", "relation": r, "tail": "x", "context": text} for r in "ab"]
    found, _ = read("triples", written("\n".join(map(json.dumps, rows)), "in.jsonl"))
    assert len(found) == 2
    unit, _, name = found[0].id.partition("#")
    assert (len(unit), name) == (16, "Warsaw")


def test_words_for_nothing(written):
    file = written("head,relation,tail\nA,r,NONE\n,r,B\nA,,B\n")
    found, counts = read("triples", file)
    assert [f.id for f in found] == ["A", "B"]
    assert counts == {"triples without a head or a tail": 2}


RDF = r"""# towns
<http://x.org/Q270> <http://www.w3.org/2000/01/rdf-schema#label> "Warsaw"@en .
<http://x.org/Q270> <http://www.w3.org/2000/01/rdf-schema#label> "Warszawa"@pl .
<http://x.org/Q270> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x.org/City> .
<http://x.org/Q270> <http://x.org/population> "1863056"^^<http://www.w3.org/2001/XMLSchema#int> .
<http://x.org/Q270> <http://x.org/capital_of> <http://x.org/Poland> . # a comment
_:b1 <http://x.org/says> "a \"b\" \u00e9\U0001F600" .
<http://x.org/caf%C3%A9_noir> <http://x.org/in> <http://x.org/Q270>.
"""


def test_rdf(written):
    found, _ = read("triples", written(RDF, "in.nt"))
    by_name = {f.names[0]: f.properties for f in found}
    assert by_name == {
        "Warsaw": {
            "name": ("Warsaw",),
            "type": ("City",),
            "other name": ("Warszawa",),
            "population": ("1863056",),
            "neighbour": ("Poland", "café noir"),
        },
        "Poland": {"name": ("Poland",), "neighbour": ("Warsaw",)},
        "b1": {"name": ("b1",), "says": ('a "b" é😀',)},
        "café noir": {"name": ("café noir",), "neighbour": ("Warsaw",)},
    }


STATEMENT = "a statement of N-Triples, such as <subject> <predicate> <object> ."
BAD = {
    "nt": {
        "a word": ("nonsense", f"expected {STATEMENT}, got nonsense"),
        "no end": (
            "<http://x/a> <http://x/b> <http://x/c>",
            f"expected {STATEMENT}, got <http://x/a> <http://x/b> <http://x/c>",
        ),
        "an escape": (
            r'<http://x/a> <http://x/b> "\q" .',
            r"expected an escape of N-Triples, got \q",
        ),
        "a code": (
            r'<http://x/a> <http://x/b> "\UFFFFFFFF" .',
            r"expected an escape of N-Triples, got \UFFFFFFFF",
        ),
        "empty": (
            '<http://x/a> <http://x/b> "" .',
            "expected a literal with text in it, got an empty one",
        ),
    },
    "jsonl": {
        "a list as head": (
            '{"head": ["A"], "relation": "r", "tail": "B"}',
            'head: expected a text, got ["A"]',
        ),
        "a number": ("3", "expected a JSON object, got 3"),
        "no openie": ('{"sentences": [{}]}', "openie: expected a list, got nothing"),
        "NUL": (
            r'{"head": "A\u0000", "relation": "r", "tail": "B"}',
            r"properties.name: expected text without NUL characters, got A\x00",
        ),
    },
}
GOOD = {
    "nt": [f"<http://x/{s}> <http://x/r> <http://x/{s}2> ." for s in ("one", "two")],
    "jsonl": [json.dumps({"head": s, "relation": "r", "tail": f"{s}2"}) for s in ("one", "two")],
}


@pytest.mark.parametrize(("ending", "bad"), [(e, b) for e, some in BAD.items() for b in some])
def test_bad_triples(bad_record, written, ending, bad):
    line, sentence = BAD[ending][bad]
    first, last = GOOD[ending]
    file = written("\n".join([first, line, last]), f"in.{ending}")
    start = "http://x/" if ending == "nt" else ""
    ids = [f"{start}{name}" for name in ("one", "one2", "two", "two2")]
    bad_record(["triples"], file, f"2: {sentence}", ids)


def test_a_column_that_is_missing(refused, written):
    sentence = 'FILE:1: expected a column "relation", got the columns head, tail'
    refused(["triples"], written("head,tail\nA,B\n"), sentence)


def test_a_file_without_an_ending(refused, written):
    sentence = (
        "FILE: the extension does not imply how its triples are written; "
        "--set source.format=csv, json or nt does"
    )
    refused(["triples"], written("head,relation,tail\nA,r,B\n", "in.txt"), sentence, code=2)
