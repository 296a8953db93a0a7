"""`kbforge explain` as users run it."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import pytest

from kbforge import __version__
from kbforge.files.fragments import read_fragments
from kbforge.fit.alpha import read_calibration
from kbforge.kb.entities import fragments_of
from kbforge.kb.read import read_entities
from kbforge.models.bundle import make_likelihood
from tests.jsonl import read_lines, write_lines
from tests.people import write_people


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder for what is made once and copied for each test."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def knowledge(program, made, tmp_path, monkeypatch):
    """people.jsonl, the model model/ of it, and the knowledge base kb.jsonl; returns alpha."""
    if not (made / "kb.jsonl").exists():
        monkeypatch.chdir(made)
        write_people(made / "people.jsonl")
        program("train-attributes", "people.jsonl", "-o", "model")
        done = program("cluster", "people.jsonl", "--likelihood", "model", "-o", "kb.jsonl")
        assert done.code == 0
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return read_calibration("model/calibration.toml").alpha


def test_an_explanation_adds_up_to_the_odds_of_joining(program, knowledge):
    likelihood = make_likelihood("model")
    stated = {fragment.id: fragment for fragment in read_fragments("people.jsonl")}
    likelihood.fit(list(stated.values()))
    ran = program("explain", "kb.jsonl", "--fragment", "0-0", "--likelihood", "model", "--json")
    own, rival = ran.json["entities"]
    assert (own["own"], rival["own"]) == (True, False)
    for found in (own, rival):
        entity = next(e for e in read_entities("kb.jsonl") if e.id == found["entity"])
        others = [stated[id] for id in entity.fragments if id != "0-0"]
        assert found["others"] == len(others)
        x = stated["0-0"]
        joined, apart, alone = likelihood.log_marginal([[*others, x], others, [x]])
        odds = math.log(len(others)) + joined - apart - math.log(knowledge) - alone
        explanation = found["explanation"]
        assert explanation["total"] == pytest.approx(odds, abs=1e-8)
        parts = explanation["prior"] + sum(explanation["attributes"].values())
        assert parts == pytest.approx(explanation["total"], abs=1e-8)
    assert own["explanation"]["total"] > rival["explanation"]["total"]


def test_people_get_a_table_whose_numbers_add_up(program, knowledge):
    ran = program("explain", "kb.jsonl", "--fragment", "0-0", "--likelihood", "model")
    shown = ran.out.decode()
    assert "0-0 is in" in shown
    assert "0-0 could be in" in shown
    assert shown.count("total") == 2
    assert re.search(rf"log \d+ - log {knowledge:.4g} ", shown), "the prior as it comes about"
    for table in shown.split("\n\n")[:2]:
        *parts, total = [float(found) for found in re.findall(r" ([+-]\d+\.\d\d) *$", table, re.M)]
        assert len(parts) > 1
        assert sum(parts) == pytest.approx(total, abs=0.005 * (len(parts) + 1) + 1e-9)


def test_a_fragment_that_is_alone_is_said_to_be(program, knowledge):
    properties = {"name": ["zbigniew quux"], "town": ["reykjavik"]}
    lone = {"id": "lone", "properties": properties}
    write_lines("people.jsonl", [*read_lines("people.jsonl"), lone])
    by = ("--likelihood", "model")
    program("cluster", "people.jsonl", *by, "-o", "kb.jsonl")
    ran = program("explain", "kb.jsonl", "--fragment", "lone", *by, "--rivals", "0")
    assert ran.out.decode().startswith("lone is alone in zbigniew quux (e-")


def test_an_empty_knowledge_base_has_nothing_to_explain(program, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    ran = program("explain", tmp_path / "empty.jsonl", "--fragment", "a")
    assert (ran.code, ran.err) == (1, "kbforge: the knowledge base is empty\n")


def test_a_knowledge_base_can_carry_its_explanations(program, knowledge):
    program("explain", "kb.jsonl", "-o", "explained.jsonl", "--likelihood", "model")
    before, after = list(read_entities("kb.jsonl")), list(read_entities("explained.jsonl"))
    assert [e.id for e in after] == [e.id for e in before]
    for entity in after:
        assert entity.explanations is not None
        alone = len(entity.fragments) == 1
        assert set(entity.explanations) == (set() if alone else set(entity.fragments))
    lines = read_lines("explained.jsonl")
    lines[0]["explanations"] = {"somebody": {"prior": 0.0, "attributes": {}, "total": 0.0}}
    write_lines("bad.jsonl", lines)
    bad = program("show", "bad.jsonl")
    assert bad.code != 0
    assert "explanations" in bad.err
    assert "fragments of this entity" in bad.err


def test_fragments_come_back_from_the_provenance_of_values(knowledge):
    stated = {fragment.id: fragment for fragment in read_fragments("people.jsonl")}
    found = [fragment for entity in read_entities("kb.jsonl") for fragment in fragments_of(entity)]
    assert {fragment.id for fragment in found} == set(stated)
    for fragment in found:
        assert dict(fragment.properties) == dict(stated[fragment.id].properties)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--fragment", "nobody"), 'no fragment "nobody"'),
        (
            ("--fragment", "0-0", "--likelihood", "gaussian"),
            "gaussian does not explain what each attribute contributes; attributes does",
        ),
        (("-o", "e.jsonl", "--json"), "--json requires --fragment"),
        ((), "give --fragment for one explanation or --output for all of them"),
    ],
)
def test_what_cannot_be_explained_is_said(program, knowledge, arguments, sentence):
    ran = program("explain", "kb.jsonl", *arguments)
    assert ran.code != 0
    assert sentence in ran.err


QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart" / "fragments.jsonl"


@pytest.fixture
def scored(program, made, tmp_path, monkeypatch):
    """kb.jsonl and kb.sqlite of the same fragments, made by pairs with alpha 2."""
    if not (made / "pairs.jsonl").exists():
        monkeypatch.chdir(made)
        lines = QUICKSTART.read_text().splitlines(keepends=True)[:80]
        Path("mentions.jsonl").write_text("".join(lines))
        by = ("--likelihood", "pairs", "--alpha", "2", "--seed", "3")
        program("cluster", "mentions.jsonl", *by, "-o", "pairs.jsonl")
        program("cluster", "mentions.jsonl", *by, "--into", "pairs.sqlite")
    for name in ("pairs.jsonl", "pairs.sqlite"):
        shutil.copy(made / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    together = (entity for entity in read_entities("pairs.jsonl") if len(entity.fragments) > 1)
    return next(together).fragments[0]


@pytest.mark.parametrize("kb", ["pairs.jsonl", "pairs.sqlite"])
def test_a_knowledge_base_is_explained_by_what_made_it(program, scored, kb):
    given = ("--likelihood", "pairs", "--alpha", "2")
    own = program("explain", kb, "--fragment", scored, "--json")
    named = program("explain", "pairs.jsonl", "--fragment", scored, *given, "--json")
    assert own.json == named.json
    assert "explained by" not in own.err + named.err
    shown = program("explain", kb, "--fragment", scored).out.decode()
    assert "score" in shown
    assert "nats" not in shown


@pytest.mark.parametrize("kb", ["pairs.jsonl", "pairs.sqlite"])
@pytest.mark.parametrize(
    ("given", "by"),
    [
        (("--likelihood", "attributes", "--alpha", "5"), "attributes with alpha 5"),
        (("--alpha", "7"), "pairs with alpha 7"),
    ],
)
def test_what_is_given_instead_is_said(program, scored, kb, given, by):
    ran = program("explain", kb, "--fragment", scored, *given)
    assert f"explained by {by}; the knowledge base was made by pairs with alpha 2" in ran.err


def test_a_knowledge_base_says_how_it_was_made(program, scored):
    first, *rest = read_lines("pairs.jsonl")
    made = first["made"]
    assert {key: made[key] for key in ("kbforge", "likelihood", "alpha", "seed")} == {
        "kbforge": __version__,
        "likelihood": "pairs",
        "alpha": 2.0,
        "seed": 3,
    }
    assert re.fullmatch("[0-9a-f]{64}", made["model"])
    assert not any("made" in entity for entity in rest)
    for kb in ("pairs.jsonl", "pairs.sqlite"):
        assert program("show", kb, "--top", "1", "--json").json["made"] == made
    assert program("export", "pairs.sqlite", "-o", "-").lines[0]["made"] == made
    assert program("status", "pairs.sqlite", "--json").json["kbforge"] == __version__


def test_another_model_explains_nothing(program, scored):
    first, *rest = read_lines("pairs.jsonl")
    first["made"]["model"] = "0" * 64
    write_lines("old.jsonl", [first, *rest])
    ran = program("explain", "old.jsonl", "--fragment", scored)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "was made with the model pairs, which has changed; restore it" in ran.err
    program("explain", "old.jsonl", "--fragment", scored, "--likelihood", "pairs")


def test_joined_files_are_explained_by_what_is_named(program, scored):
    lines = read_lines("pairs.jsonl")
    lines[1]["made"] = {"kbforge": "9", "likelihood": "names", "alpha": 1.0, "seed": 0}
    write_lines("two.jsonl", lines)
    ran = program("explain", "two.jsonl", "--fragment", scored)
    assert (ran.code, "was made in 2 ways" in ran.err) == (2, True)
    program("explain", "two.jsonl", "--fragment", scored, "--likelihood", "names")


MADE = {"kbforge": "0", "likelihood": "pairs", "alpha": 1, "seed": 0}


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {key: value for key, value in MADE.items() if key != "seed"},
        MADE | {"alpha": 0},
        MADE | {"seed": -1},
        MADE | {"kbforge": 0},
        MADE | {"options": {"x": {"y": []}}},
        MADE | {"choices": {"link": None}},
    ],
)
def test_how_it_was_made_is_checked(program, scored, wrong):
    first, *rest = read_lines("pairs.jsonl")
    first["made"] = wrong
    write_lines("bad.jsonl", [first, *rest])
    ran = program("show", "bad.jsonl")
    assert ran.code == 1
    assert "bad.jsonl:1" in ran.err
    assert "made" in ran.err
