"""`kbforge show` as users run it."""

from __future__ import annotations

import json

import pytest


def test_the_largest_entities_are_shown_with_their_sources(program, files):
    ran = program("show", "kb.jsonl", "--fragments", "gold.jsonl", "--top", 1)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.decode() == (
        f"Ada ({files[0].id})\n"
        "  3 fragments, confidence 75 % as reported, subproblem 0\n"
        "\n"
        "  attribute  value         count  stated by\n"
        "  name       Ada               2  r2, r3\n"
        "             Ada Lovelace      1  r1 (census)\n"
        "  born       1815              1  r2\n"
        "\n"
        "  other groupings, as reported\n"
        "    25 %  2 entities: r3 | r1, r2\n"
        "\n"
    )


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (("--fragment", "r4"), 1),
        (("--fragment", "r3"), 0),
        (("--ambiguous", "--top", "1"), 0),
        (("--top", "1"), 0),
    ],
)
def test_json_shows_the_chosen_entity_whole(program, files, arguments, number):
    ran = program("show", "kb.jsonl", *arguments, "--json")
    assert ran.code == 0
    assert ran.json == {"entities": [files[number].to_json()], "sources": {}}


def test_an_id_chooses(program, files):
    ran = program("show", "kb.jsonl", "--id", files[1].id)
    assert ran.code == 0
    assert ran.out.decode().startswith(f"Zoë ({files[1].id})\n")


def test_a_pipe_can_be_shown(program, files, tmp_path):
    ran = program("show", "-", stdin=(tmp_path / "kb.jsonl").read_bytes())
    assert ran.code == 0
    assert ran.out.decode().count("fragment") == 2


def test_an_empty_knowledge_base_is_no_error(program):
    ran = program("show", "-")
    assert (ran.code, ran.out, ran.err) == (0, b"", "the knowledge base is empty\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--id", "Q1"), 'the knowledge base has no entity "Q1"'),
        (("--fragment", "Q1"), 'the knowledge base has no fragment "Q1"'),
        (("--id", "a", "--fragment", "b"), "--id and --fragment exclude each other"),
        (("--fragments", "/dev/null"), '--fragments lacks the fragment "r1"'),
        (("--fragments", "none"), "cannot read none: no such file"),
    ],
)
def test_errors_are_one_sentence(program, files, arguments, sentence):
    ran = program("show", "kb.jsonl", *arguments)
    assert ran.code in (1, 2)
    assert ran.out == b""
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1


def test_only_one_input_can_be_standard_input(program):
    ran = program("show", "-", "--fragments", "-")
    assert (ran.code, ran.err) == (
        2,
        "kbforge: only one of KB and --fragments can be standard input\n",
    )


@pytest.mark.parametrize("kb", ["two.jsonl", "-"])
def test_what_another_grouping_joins_with_has_a_name(program, tmp_path, monkeypatch, kb):
    value = {"value": "Roszkiewy", "fragments": ["b"], "count": 1}
    alone = {"id": "e-2", "name": "Roszkiewy", "properties": {"name": [value]}, "fragments": ["b"]}
    rival = {"probability": 0.2, "groups": [["a", "b"]]}
    known = {"value": "Petra", "fragments": ["a"], "count": 1}
    petra = {
        "id": "e-1", "name": "Petra", "properties": {"name": [known]}, "fragments": ["a"],
        "alternatives": [rival],
    }  # fmt: skip
    lines = [{**e, "confidence": 0.8, "subproblem": 0} for e in (petra, alone)]
    monkeypatch.chdir(tmp_path)
    content = "\n".join(map(json.dumps, lines)).encode()
    (tmp_path / "two.jsonl").write_bytes(content)
    ran = program("show", kb, "--fragment", "a", stdin=content if kb == "-" else b"")
    assert (ran.code, ran.err) == (0, "")
    assert "20 %  joined with Roszkiewy (b)" in ran.out.decode()
