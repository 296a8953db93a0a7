"""`kbforge evaluate` as users run it."""

from __future__ import annotations

import json

import pytest


def test_the_table(kbforge, files):
    code, out, err = kbforge("evaluate", "kb.jsonl", "gold.jsonl")
    assert (code, err) == (0, "")
    assert "4 fragments in 2 clusters, gold has 3; exactly right: 1" in out
    assert "B-cubed, mean F1 of the items         0.6667      1.0000      0.7750" in out
    assert max(map(len, out.splitlines())) <= 80


def test_json(kbforge, files):
    code, out, _ = kbforge("evaluate", "kb.jsonl", "gold.jsonl", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["items"], found["clusters"], found["unlabelled"]) == (4, 2, 0)
    assert found["bcubed_precision"] == pytest.approx((3 * 5 / 9 + 1) / 4)
    assert found["pairwise_precision"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("position", [0, 1])
def test_either_side_may_be_standard_input(kbforge, files, tmp_path, position):
    names = ["kb.jsonl", "gold.jsonl"]
    data = (tmp_path / names[position]).read_bytes()
    names[position] = "-"
    code, out, _ = kbforge("evaluate", *names, "--json", stdin=data)
    assert code == 0
    assert json.loads(out)["items"] == 4


def test_partial(kbforge, files, tmp_path):
    half = b"".join((tmp_path / "gold.jsonl").read_bytes().splitlines(keepends=True)[:2])
    code, out, err = kbforge("evaluate", "kb.jsonl", "-", stdin=half)
    assert (code, out) == (2, "")
    assert err == (
        "kbforge: the knowledge base has 2 fragments that the gold file lacks, first "
        '"r3"; use --partial to evaluate the fragments that both have\n'
    )
    code, out, _ = kbforge("evaluate", "kb.jsonl", "-", "--partial", stdin=half)
    assert code == 0
    assert "left out: 2 fragments only in the knowledge base" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-", "-"), "only one of KB and GOLD can be standard input"),
        (("gold.jsonl", "gold.jsonl"), "gold.jsonl:1: name: expected an entity, as kbforge"),
        (("kb.jsonl", "kb.jsonl"), "kb.jsonl:1: expected only the keys"),
        (("none.jsonl", "gold.jsonl"), "cannot read none.jsonl: no such file or directory"),
        (("kb.jsonl", "/dev/null"), "the knowledge base has 4 fragments that the gold file lacks"),
    ],
)
def test_errors_are_one_sentence(kbforge, files, arguments, sentence):
    code, out, err = kbforge("evaluate", *arguments)
    assert code in (1, 2)
    assert out == ""
    assert err.startswith(f"kbforge: {sentence}")
    assert err.count("\n") == 1
