"""`kbforge export` as users run it."""

from __future__ import annotations

import json

import pytest


def test_jsonl_to_standard_output_is_the_knowledge_base(kbforge, files, tmp_path):
    code, out, err = kbforge("export", "kb.jsonl")
    assert (code, err) == (0, "")
    assert out.encode() == (tmp_path / "kb.jsonl").read_bytes()


def test_csv_to_a_file(kbforge, files, tmp_path):
    code, out, err = kbforge("export", "kb.jsonl", "--format", "csv", "-o", "kb.csv")
    assert (code, out, err) == (0, "", "wrote 2 entities to kb.csv\n")
    table = (tmp_path / "kb.csv").read_text().splitlines()
    assert len(table) == 1 + 4
    assert table[2] == f"{files[0].id},Ada,name,Ada,2,r2|r3,0.75,0"


def test_options_reach_the_exporter(kbforge, files):
    code, out, _ = kbforge("export", "kb.jsonl", "--format", "csv", "--set", "exporter.separator=;")
    assert code == 0
    assert "r2;r3" in out


def test_the_summary(kbforge, files):
    code, out, _ = kbforge("export", "kb.jsonl", "-o", "copy.jsonl", "--json")
    assert code == 0
    assert json.loads(out) == {"entities": 2, "format": "jsonl", "output": "copy.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--format", "nope"), 'there is no exporter "nope"; available: '),
        (("--set", "exporter.nope=1"), 'exporter jsonl has no option "nope"'),
        (("--set", "source.a=1"), '--set source.a=1: unknown kind "source"'),
        (("--format", "csv", "--set", "exporter.separator=ab"), "exporter csv: separator must be"),
        (("--format", "csv", "--set", "exporter.guard_formulas=perhaps"), "exporter csv: guard"),
        (("-o", "missing/kb.csv"), "cannot write missing/kb.csv: no such file or directory"),
        (("--json",), "--json and the entities cannot both go to standard output"),
    ],
)
def test_errors_are_one_sentence(kbforge, files, arguments, sentence):
    code, out, err = kbforge("export", "kb.jsonl", *arguments)
    assert code in (1, 2)
    assert out == ""
    assert err.startswith(f"kbforge: {sentence}")
    assert err.count("\n") == 1


def test_a_bad_line_leaves_no_file(kbforge, files, tmp_path):
    good = (tmp_path / "kb.jsonl").read_bytes()
    code, _, err = kbforge("export", "-", "-o", "out.jsonl", stdin=good + b"{}\n")
    assert code == 1
    assert err.startswith("kbforge: standard input:3: id: expected an entity")
    assert not (tmp_path / "out.jsonl").exists()
