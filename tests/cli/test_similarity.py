"""`kbforge show --similarity`, and what `kbforge cluster` keeps for it, as users run them."""

from __future__ import annotations

import orjson
import pytest

from kbforge.kb.read import read_entities
from tests.people import people


@pytest.fixture
def doubtful(tmp_path, monkeypatch):
    """Fragments that leave doubt in the working directory."""
    monkeypatch.chdir(tmp_path)
    lines = (orjson.dumps(fragment.to_json()) + b"\n" for fragment in people(60, 1))
    (tmp_path / "people.jsonl").write_bytes(b"".join(lines))


def test_two_fragments(program, files):
    ran = program("show", "--similarity", "kb.jsonl", "r1", "r3", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json == {
        "fragment": "r1",
        "similar": [
            {
                "fragment": "r3",
                "entity": files[0].id,
                "name": "Ada",
                "probability": 0.75,
                "rest": 0.0,
            }
        ],
    }


def test_all_that_may_be_one(program, files, tmp_path):
    expected = (
        "probability  fragment  entity\n"
        f"      100 %  r2        Ada ({files[0].id})\n"
        f"       75 %  r3        Ada ({files[0].id})\n"
    )
    ran = program("show", "--similarity", "kb.jsonl", "r1")
    assert [line.rstrip() for line in ran.out.decode().splitlines()] == expected.splitlines()
    piped = program("show", "--similarity", "-", "r1", stdin=(tmp_path / "kb.jsonl").read_bytes())
    assert piped.out == ran.out


def test_one_that_is_alone(program, files):
    ran = program("show", "--similarity", "kb.jsonl", "r4")
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err == "no grouping that was kept joins r4 with another fragment\n"


def test_a_map_of_ones_own(program, doubtful):
    job = ("--likelihood", "bigram", "--alpha", "100")
    assert program("calibrate", "people.jsonl", *job, "--confidence", "-o", "map.toml").code == 0
    assert program("cluster", "people.jsonl", *job, "-o", "kb.jsonl").code == 0
    one = next(e for e in read_entities("kb.jsonl") if len(e.fragments) > 1).fragments[0]
    ran = program("show", "--similarity", "kb.jsonl", one, "--confidence-map", "map.toml", "--json")
    assert ran.code == 0, ran.err
    told = ran.json["similar"]
    assert told
    assert all(0 <= pair["calibrated"] <= 1 for pair in told if pair["probability"] > 0.01)
    shown = program("show", "--similarity", "kb.jsonl", one, "--confidence-map", "map.toml")
    assert "calibrated" in shown.out.decode().splitlines()[0]


def test_all_alternatives_leave_no_rest(program, doubtful):
    job = ("cluster", "people.jsonl", "--likelihood", "bigram", "--alpha", "100")
    assert program(*job, "-o", "few.jsonl").code == 0
    assert program(*job, "--alternatives", "all", "-o", "all.jsonl").code == 0
    rests = {}
    for name in ("few", "all"):
        entities = list(read_entities(f"{name}.jsonl"))
        rests[name] = [
            1 - e.probability - sum(a.probability for a in e.alternatives) for e in entities
        ]
    assert max(rests["all"]) == pytest.approx(0, abs=1e-9)
    assert max(rests["few"]) > 1e-3
    assert all(len(e.alternatives) <= 3 for e in read_entities("few.jsonl"))


@pytest.mark.parametrize(("estimate", "alpha"), [("binder", 1), ("vi", 10)])
def test_another_estimate(program, doubtful, estimate, alpha):
    job = ("cluster", "people.jsonl", "--likelihood", "bigram", "--alpha", alpha)
    assert program(*job, "-o", "map.jsonl").code == 0
    ran = program(*job, "--estimate", estimate, "-o", "kb.jsonl", "--json")
    assert ran.code == 0, ran.err
    found = {frozenset(e.fragments): e for e in read_entities("kb.jsonl")}
    taken = {frozenset(e.fragments) for e in read_entities("map.jsonl")}
    assert ran.json["entities"] == len(found)
    assert found.keys() != taken
    assert set().union(*found) == set().union(*taken)
    again = program(*job, "--estimate", estimate, "-o", "again.jsonl")
    assert again.code == 0
    assert list(read_entities("again.jsonl")) == list(found.values())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("kb.jsonl", "r9"), 'the knowledge base has no fragment "r9"'),
        (("kb.jsonl", "r1", "r1"), 'expected two fragments, got "r1" twice'),
        (("gone.jsonl", "r1"), "cannot read gone.jsonl"),
        (("kb.jsonl", "r1", "--confidence-map", "gone.toml"), "cannot read gone.toml"),
        (("-", "r1", "--confidence-map", "-"), "only one of KB and --confidence-map"),
        (("kb.jsonl",), "--similarity: expected the id of a fragment, or of two"),
        (("kb.jsonl", "r1", "--top", "2"), "--top and --similarity exclude each other"),
    ],
)
def test_errors_are_one_sentence(program, files, arguments, sentence):
    ran = program("show", "--similarity", *arguments)
    assert ran.code in (1, 2)
    assert ran.out == b""
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("linkage", ["single", "complete", "average"])
def test_a_tree(program, files, tmp_path, linkage):
    ran = program(
        "show", "--similarity", "kb.jsonl", "r1", "--tree", "tree.svg", "--linkage", linkage
    )
    assert ran.code == 0
    assert ran.err == "wrote tree.svg\n"
    drawn = (tmp_path / "tree.svg").read_text()
    assert all(leaf in drawn for leaf in ("Ada Lovelace (r1)", "Ada, 1815 (r2)", "Ada (r3)"))
    assert "100 %" in drawn


def test_a_tree_of_one_fragment(program, files):
    ran = program("show", "--similarity", "kb.jsonl", "r4", "--tree", "tree.svg")
    assert (ran.code, ran.out) == (2, b"")
    assert "expected 2 to 200 of them, got 1" in ran.err


def test_as_many_entities_as_asked_for(program, doubtful):
    job = ("cluster", "people.jsonl", "--likelihood", "bigram", "--alpha", "100")
    found = program(*job, "-o", "kb.jsonl", "--json").json
    few, many = found["subproblems"], found["fragments"]
    for wanted, expected in ((1, few), (few + 3, few + 3), (many + 9, many)):
        tree = ("--estimate", "average", "--entities", str(wanted))
        assert program(*job, *tree, "-o", "kb.jsonl", "--json").json["entities"] == expected
    ran = program(*job, "--entities", "20", "-o", "kb.jsonl")
    assert ran.code == 2
    assert "expected --estimate single or complete or average" in ran.err
