"""`kbforge evaluate` as users run it."""

from __future__ import annotations

import pytest


def test_the_table(program, files):
    ran = program("evaluate", "kb.jsonl", "gold.jsonl")
    assert (ran.code, ran.err) == (0, "")
    table = ran.out.decode()
    assert "4 fragments in 2 clusters, gold has 3; exactly right: 1" in table
    assert "B-cubed, mean F1 of the items         0.6667      1.0000      0.7750" in table
    assert max(map(len, table.splitlines())) <= 80


def test_json(program, files):
    ran = program("evaluate", "kb.jsonl", "gold.jsonl", "--json")
    found = ran.json
    assert ran.code == 0
    assert (found["items"], found["clusters"], found["unlabelled"]) == (4, 2, 0)
    assert found["bcubed_precision"] == pytest.approx((3 * 5 / 9 + 1) / 4)
    assert found["pairwise_precision"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("position", [0, 1])
def test_either_side_may_be_standard_input(program, files, tmp_path, position):
    names = ["kb.jsonl", "gold.jsonl"]
    data = (tmp_path / names[position]).read_bytes()
    names[position] = "-"
    ran = program("evaluate", *names, "--json", stdin=data)
    assert ran.code == 0
    assert ran.json["items"] == 4


def test_partial(program, files, tmp_path):
    half = b"".join((tmp_path / "gold.jsonl").read_bytes().splitlines(keepends=True)[:2])
    ran = program("evaluate", "kb.jsonl", "-", stdin=half)
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err == (
        "kbforge: the knowledge base has 2 fragments that the gold file lacks, first "
        '"r3"; use --partial to evaluate the fragments that both have\n'
    )
    ran = program("evaluate", "kb.jsonl", "-", "--partial", stdin=half)
    assert ran.code == 0
    assert "left out: 2 fragments only in the knowledge base" in ran.out.decode()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-", "-"), "only one of KB and GOLD can be standard input"),
        (
            ("gold.jsonl", "gold.jsonl"),
            "gold.jsonl:1: expected entities, as kbforge cluster writes",
        ),
        (
            ("kb.jsonl", "kb.jsonl"),
            "kb.jsonl:1: expected fragments, one JSON object a line",
        ),
        (("none.jsonl", "gold.jsonl"), "cannot read none.jsonl: no such file or directory"),
        (("kb.jsonl", "/dev/null"), "the knowledge base has 4 fragments that the gold file lacks"),
    ],
)
def test_errors_are_one_sentence(program, files, arguments, sentence):
    ran = program("evaluate", *arguments)
    assert ran.code in (1, 2)
    assert ran.out == b""
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1
