"""`kbforge export` as users run it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import orjson
import pytest

PEOPLE = Path(__file__).parents[2] / "examples" / "people" / "people.csv"


def test_jsonl_to_standard_output_is_the_knowledge_base(program, files, tmp_path):
    ran = program("export", "kb.jsonl")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (tmp_path / "kb.jsonl").read_bytes()


def test_csv_to_a_file(program, files, tmp_path):
    ran = program("export", "kb.jsonl", "--format", "csv", "-o", "kb.csv")
    assert (ran.code, ran.out, ran.err) == (0, b"", "wrote 2 entities to kb.csv\n")
    table = (tmp_path / "kb.csv").read_text().splitlines()
    assert len(table) == 1 + 4
    assert table[1] == f'"{files[0].id}","Ada","name","Ada","2","r2|r3","0.75","0",""'


def test_options_reach_the_exporter(program, files):
    ran = program("export", "kb.jsonl", "--format", "csv", "--set", "exporter.separator=;")
    assert ran.code == 0
    assert "r2;r3" in ran.out.decode()


def test_golden_records_and_members(program, files):
    wide = program("export", "kb.jsonl", "--format", "wide", "--policy", "most-stated")
    assert (wide.code, wide.err) == (0, "")
    header, ada, *_ = csv.reader(io.StringIO(wide.out.decode()))
    assert header[:5] == ["entity_id", "entity_name", "confidence", *header[3:5]]
    assert dict(zip(header, ada, strict=True))["name"] == "Ada"
    members = program("export", "kb.jsonl", "--format", "members")
    assert members.code == 0
    rows = list(csv.DictReader(io.StringIO(members.out.decode())))
    assert {row["fragment"] for row in rows if row["name"] == "Ada"} >= {"r2", "r3"}


def test_a_policy_by_source(program, files, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('sources = ["census"]\n[attributes]\nname = "preferred"\nnmae = "all"\n')
    ran = program("export", "kb.jsonl", "--policy", "policy.toml", "--fragments", "gold.jsonl")
    assert ran.code == 0
    assert ran.err == "note: --policy has a rule for nmae, which no entity has\n"
    ada, _ = map(orjson.loads, ran.out.splitlines())
    assert ada["properties"] == {
        "born": [{"value": "1815", "fragments": ["r2"], "count": 1}],
        "name": [{"value": "Ada Lovelace", "fragments": ["r1"], "count": 1}],
    }
    assert ada["fragments"] == ["r1", "r2", "r3"]


def test_pairs_above_a_threshold(program, files):
    ran = program("export", "kb.jsonl", "--format", "pairs", "--set", "exporter.threshold=0.8")
    assert (ran.code, ran.err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(ran.out.decode())))
    assert [(row["left"], row["right"], row["probability"]) for row in rows] == [
        ("r1", "r2", "1.0")
    ]


def test_fragments_bring_their_sources(program, files):
    ran = program("export", "kb.jsonl", "--format", "nquads", "--fragments", "gold.jsonl")
    assert (ran.code, ran.err) == (0, "")
    assert b'"Ada Lovelace" <urn:kbforge:source:census> .' in ran.out


def test_a_folder(program, files, tmp_path):
    ran = program("export", "kb.jsonl", "--format", "neo4j", "-o", "graph", "--json")
    assert ran.json == {"entities": 2, "format": "neo4j", "output": "graph"}
    names = {path.name for path in (tmp_path / "graph").iterdir()}
    assert names == {"entities.csv", "fragments.csv", "members.csv"}


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
        (("--policy", "bset"), "--policy: expected a file, or one of all, latest"),
        (("--policy", "policy.toml"), "--policy uses sources or metadata"),
        (("--format", "members", "--set", "exporter.values=all"), "exporter members has no option"),
        (("--set", "exporter.threshold=0.5"), 'exporter jsonl has no option "threshold"'),
        (
            ("--format", "pairs", "--set", "exporter.threshold=1"),
            "exporter pairs: threshold: expected a number",
        ),
        (("--format", "neo4j"), "exporter neo4j: expected a folder, got standard output"),
        (("--format", "neo4j", "-o", "missing/kb"), "cannot write missing/kb: no such file or"),
        (("--format", "neo4j", "-o", "gold.jsonl"), "exporter neo4j: gold.jsonl: expected no such"),
        (("--format", "ftm", "--fragments", "gone.jsonl"), "cannot read gone.jsonl: no such file"),
        (("--fragments", "kb.jsonl", "--format", "ftm"), "kb.jsonl:1: expected fragments"),
        (("-o", "missing/kb.csv"), "cannot write missing/kb.csv: no such file or directory"),
        (("--json",), "--json and the entities cannot both go to standard output"),
    ],
)
def test_errors_are_one_sentence(program, files, tmp_path, arguments, sentence):
    (tmp_path / "policy.toml").write_text('default = "preferred"\nsources = ["census"]\n')
    ran = program("export", "kb.jsonl", *arguments)
    assert ran.code in (1, 2)
    assert ran.out == b""
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1


def test_a_bad_line_leaves_no_file(program, files, tmp_path):
    good = (tmp_path / "kb.jsonl").read_bytes()
    ran = program("export", "-", "-o", "out.jsonl", stdin=good + b"{}\n")
    assert ran.code == 1
    expected = "an entity, as kbforge cluster writes"
    assert ran.err == f"kbforge: standard input:3: expected {expected}, got an empty object\n"
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("target", [("-o", "made.jsonl"), ("--into", "made.sqlite")])
def test_wide_keeps_the_columns_of_the_table(program, files, tmp_path, target):
    """Cells are empty here and there, and the first record of an entity may lack any of them."""
    header = PEOPLE.read_text().splitlines()[0].split(",")[1:]
    loaded = program("load", "csv", PEOPLE, "--id", "id", "-o", "fragments.jsonl")
    assert loaded.code == 0, loaded.err
    made = program("cluster", "fragments.jsonl", *target)
    assert made.code == 0, made.err
    ran = program("export", target[1], "--format", "wide", "-o", "wide.csv")
    assert ran.code == 0, ran.err
    wide = (tmp_path / "wide.csv").read_text().splitlines()[0].replace('"', "").split(",")
    assert wide[-len(header) :] == header
