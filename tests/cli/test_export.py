"""`kbforge export` as users run it."""

from __future__ import annotations

import csv
import io

import pytest


def test_jsonl_to_standard_output_is_the_knowledge_base(program, files, tmp_path):
    ran = program("export", "kb.jsonl")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (tmp_path / "kb.jsonl").read_bytes()


def test_csv_to_a_file(program, files, tmp_path):
    ran = program("export", "kb.jsonl", "--format", "csv", "-o", "kb.csv")
    assert (ran.code, ran.out, ran.err) == (0, b"", "wrote 2 entities to kb.csv\n")
    table = (tmp_path / "kb.csv").read_text().splitlines()
    assert len(table) == 1 + 4
    assert table[2] == f'"{files[0].id}","Ada","name","Ada","2","r2|r3","0.75","0",""'


def test_options_reach_the_exporter(program, files):
    ran = program("export", "kb.jsonl", "--format", "csv", "--set", "exporter.separator=;")
    assert ran.code == 0
    assert "r2;r3" in ran.out.decode()


def test_golden_records_and_members(program, files):
    wide = program("export", "kb.jsonl", "--format", "wide")
    assert (wide.code, wide.err) == (0, "")
    header, ada, *_ = csv.reader(io.StringIO(wide.out.decode()))
    assert header[:5] == ["entity_id", "entity_name", "confidence", *header[3:5]]
    assert dict(zip(header, ada, strict=True))["name"] == "Ada"
    members = program("export", "kb.jsonl", "--format", "members")
    assert members.code == 0
    rows = list(csv.DictReader(io.StringIO(members.out.decode())))
    assert {row["fragment"] for row in rows if row["name"] == "Ada"} >= {"r2", "r3"}


def test_the_summary(program, files):
    ran = program("export", "kb.jsonl", "-o", "copy.jsonl", "--json")
    assert ran.code == 0
    assert ran.json == {"entities": 2, "format": "jsonl", "output": "copy.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--format", "nope"), 'there is no exporter "nope"; available: '),
        (("--set", "exporter.nope=1"), 'exporter jsonl has no option "nope"'),
        (("--set", "source.a=1"), '--set source.a=1: unknown kind "source"'),
        (("--format", "csv", "--set", "exporter.separator=ab"), "exporter csv: separator must be"),
        (("--format", "csv", "--set", "exporter.guard_formulas=perhaps"), "exporter csv: guard"),
        (("--format", "wide", "--set", "exporter.values=some"), "exporter wide: values: expected"),
        (("--format", "members", "--set", "exporter.values=all"), "exporter members has no option"),
        (("-o", "missing/kb.csv"), "cannot write missing/kb.csv: no such file or directory"),
        (("--json",), "--json and the entities cannot both go to standard output"),
    ],
)
def test_errors_are_one_sentence(program, files, arguments, sentence):
    ran = program("export", "kb.jsonl", *arguments)
    assert ran.code in (1, 2)
    assert ran.out == b""
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1


def test_a_bad_line_leaves_no_file(program, files, tmp_path):
    good = (tmp_path / "kb.jsonl").read_bytes()
    ran = program("export", "-", "-o", "out.jsonl", stdin=good + b"{}\n")
    assert ran.code == 1
    assert ran.err.startswith("kbforge: standard input:3: id: expected an entity")
    assert not (tmp_path / "out.jsonl").exists()
