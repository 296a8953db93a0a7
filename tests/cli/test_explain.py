"""`kbforge explain` as users run it."""

from __future__ import annotations

import json
import math
import re
import shutil

import pytest

from kbforge.files.fragments import read_fragments
from kbforge.kb.fragments import fragments_of
from kbforge.kb.read import read_entities
from kbforge.models.calibration import read_calibration
from kbforge.models.resolve import make_likelihood
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
        assert program("train-attributes", "people.jsonl", "-o", "model").code == 0
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


def test_people_get_a_table(program, knowledge):
    ran = program("explain", "kb.jsonl", "--fragment", "0-0", "--likelihood", "model")
    shown = ran.out.decode()
    assert ran.code == 0
    assert "0-0 is in" in shown
    assert "0-0 could be in" in shown
    assert shown.count("total") == 2
    assert re.search(rf"log \d+ - log {knowledge:.4g} ", shown), "the prior as it comes about"


def test_numbers_of_the_table_add_up(program, knowledge):
    ran = program("explain", "kb.jsonl", "--fragment", "0-0", "--likelihood", "model")
    for table in ran.out.decode().split("\n\n")[:2]:
        *parts, total = [float(found) for found in re.findall(r" ([+-]\d+\.\d\d) *$", table, re.M)]
        assert len(parts) > 1
        assert sum(parts) == pytest.approx(total, abs=0.005 * (len(parts) + 1) + 1e-9)


def test_a_fragment_that_is_alone_is_said_to_be(program, knowledge):
    with open("people.jsonl", "a") as file:
        properties = {"name": ["zbigniew quux"], "town": ["reykjavik"]}
        file.write(json.dumps({"id": "lone", "properties": properties}) + "\n")
    assert program("cluster", "people.jsonl", "--likelihood", "model", "-o", "kb.jsonl").code == 0
    ran = program(
        "explain", "kb.jsonl", "--fragment", "lone", "--likelihood", "model", "--rivals", "0"
    )
    assert ran.out.decode().startswith("lone is alone in zbigniew quux (e-")


def test_an_empty_knowledge_base_has_nothing_to_explain(program, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    ran = program("explain", tmp_path / "empty.jsonl", "--fragment", "a")
    assert (ran.code, ran.err) == (1, "kbforge: the knowledge base is empty\n")


def test_a_knowledge_base_can_carry_its_explanations(program, knowledge):
    ran = program("explain", "kb.jsonl", "-o", "explained.jsonl", "--likelihood", "model")
    assert ran.code == 0
    before, after = list(read_entities("kb.jsonl")), list(read_entities("explained.jsonl"))
    assert [e.id for e in after] == [e.id for e in before]
    for entity in after:
        assert entity.explanations is not None
        alone = len(entity.fragments) == 1
        assert set(entity.explanations) == (set() if alone else set(entity.fragments))
    with open("explained.jsonl") as file:
        lines = [json.loads(line) for line in file]
    lines[0]["explanations"] = {"somebody": {"prior": 0.0, "attributes": {}, "total": 0.0}}
    with open("bad.jsonl", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
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
            (
                "--fragment",
                "0-0",
                "--likelihood",
                "beta-bernoulli",
            ),
            "likelihood beta-bernoulli does not tell what each attribute says; attributes does",
        ),
        (("-o", "e.jsonl", "--json"), "--json goes with --fragment"),
        ((), "give --fragment for one explanation or --output for all of them"),
    ],
)
def test_what_cannot_be_explained_is_said(program, knowledge, arguments, sentence):
    ran = program("explain", "kb.jsonl", *arguments)
    assert ran.code != 0
    assert sentence in ran.err
