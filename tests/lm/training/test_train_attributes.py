"""`kbforge train-attributes` as users run it."""

import re
import tomllib

import pytest

from kbforge.fit.alpha import read_calibration
from tests.people import write_people


@pytest.fixture
def people(tmp_path):
    return write_people(tmp_path / "people.jsonl")


@pytest.fixture
def few_people(tmp_path):
    """Training on them takes little time."""
    return write_people(tmp_path / "few.jsonl", 8)


def test_a_model_is_learned_without_labels_shown_and_used(program, people, tmp_path):
    model, kb = tmp_path / "model", tmp_path / "kb.jsonl"
    ran = program("train-attributes", people, "-o", model)
    shown = ran.out.decode()
    for attribute, kind in (("name", "text"), ("born", "date"), ("town", "text")):
        row = next(line for line in shown.splitlines() if line.startswith(attribute))
        assert kind in row
    followed = re.findall(r"(\w+)\s+(\d+\.\d)%,", shown)
    assert all(float(share) >= 1 for _, share in followed), "what is rare is summed up"
    assert "others" in shown
    assert "others" not in dict(followed), "and comes last"
    assert "without labels" in ran.err
    assert "index: finds the right one of 40 entities" in ran.err
    program("cluster", people, "--likelihood", model, "-o", kb)
    scores = program("evaluate", kb, people, "--json").json
    assert scores["bcubed_f1_harmonic"] > 0.9


def test_rates_can_be_edited_in_a_copy(program, few_people, tmp_path):
    model, kb = tmp_path / "model", tmp_path / "kb.jsonl"
    program("train-attributes", few_people, "-o", model)
    text = (model / "rates.toml").read_text()
    assert tomllib.loads(text)["attributes"]["born"]["kind"] == "date"
    edited = tmp_path / "edited.toml"
    edited.write_text(text.replace("concentration = ", "concentration = 1"))
    common = ("cluster", few_people, "--likelihood", model, "-o", kb, "--json")
    before = program(*common).json["log_posterior"]
    after = program(*common, "--set", f"likelihood.rates={edited}").json["log_posterior"]
    assert after != before


def test_json_has_what_was_learned(program, people, tmp_path):
    found = program("train-attributes", people, "-o", tmp_path / "model", "--labels", "--json").json
    assert found["labelled"] is True
    calibration = read_calibration(str(tmp_path / "model" / "calibration.toml"))
    assert calibration.alpha == found["alpha"]
    assert calibration.value == pytest.approx(40), "as many entities as the labels tell"
    assert found["index"]["entities"] == 40
    assert found["index"]["recall"] > 0.9
    born = found["attributes"]["born"]
    assert born["kind"] == "date"
    assert sum(born["weights"].values()) == pytest.approx(1)
    assert 0.5 < born["weights"]["copy"] < 1


def test_the_kind_of_an_attribute_can_be_named(program, few_people, tmp_path):
    job = ("train-attributes", few_people, "-o", tmp_path / "m", "--json")
    ran = program(*job, "--kind", "town=code")
    assert ran.json["attributes"]["town"]["kind"] == "code"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--kind", "town=text", "--kind", "town=code"), '--kind: the attribute "town" is named'),
        (("--kind", "town"), '--kind: expected ATTRIBUTE=KIND, got "town"'),
        (("--kind", "town=city"), '--kind: there is no kind "city"; kinds: text, title,'),
        (
            ("--kind", "twon=text"),
            '--kind: no fragment has an attribute "twon"; attributes: born, name, town\n',
        ),
    ],
)
def test_what_cannot_be_is_said(program, people, tmp_path, arguments, sentence):
    ran = program("train-attributes", people, "-o", tmp_path / "m", *arguments)
    assert ran.code != 0
    assert sentence in ran.err
    assert not (tmp_path / "m").exists()


def test_labels_must_be_there_to_be_learned_from(program, people, tmp_path):
    bare = tmp_path / "bare.jsonl"
    bare.write_text(people.read_text().replace('"label"', '"source"'))
    ran = program("train-attributes", bare, "-o", tmp_path / "m", "--labels")
    assert ran.code != 0
    assert "--labels: no fragment has a label" in ran.err


def test_a_place_that_is_not_there_is_found_out_before_training(program, tmp_path):
    blank = b'{"id": "a", "properties": {"name": [" "]}}'  # which training refuses
    ran = program("train-attributes", "-", "-o", tmp_path / "no" / "m", stdin=blank)
    assert ran.code == 1
    assert f"cannot write {tmp_path}/no/m: no such file or directory" in ran.err


def test_blanks_are_nothing_to_train_on(program, tmp_path):
    line = b'{"id": "a", "properties": {"name": [" "]}}'
    ran = program("train-attributes", "-", "-o", tmp_path / "m", stdin=line)
    ran.require_refusal("no attributes to train on, or blank ones only", 1)


def test_attributes_are_shown_on_one_line_each(program, tmp_path):
    lines = b'{"id": "a", "properties": {"na\\nme\\u001b[1m": ["x"]}}'
    ran = program("train-attributes", "-", "-o", tmp_path / "m", stdin=lines)
    assert r"na\nme\x1b[1m" in ran.out.decode()
