"""`kbforge link` as users run it."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.jsonl import groups_in, read_lines
from tests.program import Run

ABT = "id,title,town\n1,Ann Lee,Rome\n2,Bo Ray,Oslo\n3,Cy Day,Bern\n"
BUY = "id,name,town\n1,Bo Ray,Oslo\n8,Ann Lee,Rome\n9,Zed Zulu,Lima\n"
KB = "abt-buy.kb.jsonl"
COLUMNS = ("--id", "id", "--map", "title=name")
ATTRIBUTES = ("--likelihood", "attributes", "--alpha", 0.5)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("abt.csv").write_text(ABT)
    Path("buy.csv").write_text(BUY)
    return tmp_path


def rows(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_two_tables_and_their_links(program: Run, here: Path) -> None:
    ran = program("link", "abt.csv", "buy.csv", *COLUMNS, *ATTRIBUTES, "--links", "links.csv")
    assert "linking abt (3), buy (3)\n" in ran.err
    assert ["abt:1", "buy:8"] in groups_in(KB)
    assert ["abt:3"] in groups_in(KB)
    found = rows("links.csv")
    assert [(x["record"], x["partner"], x["linked"]) for x in found] == [
        ("abt:1", "buy:8", "true"),
        ("abt:2", "buy:1", "true"),
        ("abt:3", "", "false"),
    ]
    assert all(float(x["probability"]) > 0.5 for x in found[:2])
    assert {(x["table"], x["partner_table"]) for x in found} == {("abt", "buy")}


def test_links_as_json_lines_hold_the_same(program: Run, here: Path) -> None:
    job = ("link", "abt.csv", "buy.csv", *COLUMNS, *ATTRIBUTES, "--links")
    program(*job, "links.csv")
    program(*job, "links.jsonl")

    def cell(value: Any) -> str:
        if value is None or isinstance(value, bool):
            return "" if value is None else str(value).lower()
        return str(value)

    lines = [{k: cell(v) for k, v in line.items()} for line in read_lines(Path("links.jsonl"))]
    assert lines == rows("links.csv")


def test_ids_stay_where_no_two_tables_share_one(program: Run, here: Path) -> None:
    Path("buy.csv").write_text(BUY.replace("\n1,", "\n7,"))
    program("link", "abt.csv", "buy.csv", *COLUMNS, *ATTRIBUTES)
    assert ["2", "7"] in groups_in(KB)


def test_tables_may_call_their_ids_differently(program: Run, here: Path) -> None:
    Path("buy.csv").write_text(BUY.replace("id,", "number,").replace("\n1,", "\n7,"))
    ids = ("--id", "id", "--id", "number", "--map", "title=name")
    program("link", "abt.csv", "buy.csv", *ids, *ATTRIBUTES, "--fragments", "both.jsonl")
    both = read_lines(Path("both.jsonl"))
    assert [x["id"] for x in both] == ["1", "2", "3", "7", "8", "9"]
    assert [x["source"] for x in both] == ["abt"] * 3 + ["buy"] * 3
    assert all(set(x["properties"]) == {"name", "town"} for x in both)


def test_fragments_can_be_evaluated(program: Run, here: Path) -> None:
    Path("abt.csv").write_text("id,title,key\n1,Ann Lee,x\n2,Bo Ray,y\n")
    Path("buy.csv").write_text("id,name,key\n1,Bo Ray,y\n8,Ann Lee,x\n")
    job = ("link", "abt.csv", "buy.csv", *COLUMNS, "--label", "key", *ATTRIBUTES)
    program(*job, "--fragments", "both.jsonl")
    assert "key" not in Path(KB).read_text(), "a label is no attribute"
    scores = program("evaluate", KB, "both.jsonl", "--json").json
    assert scores["pairwise_f1"] == 1.0


def test_formats_mix(program: Run, here: Path) -> None:
    lines = [{"id": f"c{k}", "properties": {"name": [n]}} for k, n in enumerate(("Bo Ray", "Xu"))]
    Path("more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("buy.tsv.gz").write_bytes(gzip.compress(BUY.replace(",", "\t").encode()))
    tables = ("abt.csv", "buy.tsv.gz", "more.jsonl")
    program("link", *tables, *COLUMNS, *ATTRIBUTES, "--links", "links.csv")
    assert ["abt:2", "buy:1", "more:c0"] in groups_in("abt-buy-more.kb.jsonl")
    found = rows("links.csv")
    pairs = {(x["table"], x["partner_table"]) for x in found}
    assert pairs == {("abt", "buy"), ("abt", "more"), ("buy", "more")}
    assert [x["record"] for x in found if x["table"] == "buy"] == ["buy:1"]


def test_a_link_is_what_cluster_finds_with_its_option(program: Run, here: Path) -> None:
    job = ("abt.csv", "buy.csv", *COLUMNS, *ATTRIBUTES, "--json", "--fragments", "both.jsonl")
    linked = program("link", *job).json
    same = ("both.jsonl", "--link", "source", *ATTRIBUTES, "-o", "other.jsonl", "--json")
    assert program("cluster", *same).json["log_posterior"] == linked["log_posterior"]
    assert Path(KB).read_bytes() == Path("other.jsonl").read_bytes()


def test_options_of_the_sources(program: Run, here: Path) -> None:
    Path("buy.csv").write_bytes(BUY.replace("Oslo", "Malmö").encode("cp850"))
    encoding = ("--set", "source.encoding=cp850")
    program("link", "abt.csv", "buy.csv", *COLUMNS, *ATTRIBUTES, *encoding)
    assert "Malmö" in Path(KB).read_text()


REFUSALS = {
    "one table": (("abt.csv",), "expected two or more tables, got 1"),
    "standard input": (("abt.csv", "-"), "a table needs a name, and standard input has none"),
    "one name": (("abt.csv", "sub/abt.csv"), 'two tables are called "abt" (abt.csv and sub/abt'),
    "one table twice": (("abt.csv", "abt.csv"), 'two tables are called "abt"'),
    "no ending": (
        ("abt.csv", "README"),
        "README:1: expected JSON lines, got a table; kbforge load csv README",
    ),
    "no file": (("abt.csv", "none.csv"), "cannot read none.csv"),
    "no rows": (("abt.csv", "empty.csv"), "expected rows below the header, got none"),
    "no lines": (("abt.csv", "empty.jsonl"), "empty.jsonl: expected records, got none"),
    "no such column": (
        ("abt.csv", "buy.csv", "--id", "nmae"),
        'no table has a column "nmae" (did you mean "name"?)',
    ),
    "not a pair": (("abt.csv", "buy.csv", "--map", "title"), "expected column=attribute"),
    "an id twice": (
        ("abt.csv", "twice.csv", "--id", "id"),
        'twice.csv:3: id: expected a unique id, got "1" again',
    ),
    "nothing left": (
        ("abt.csv", "buy.csv", "--map", "name=", "--map", "town=", "--id", "id"),
        "buy.csv:2: expected a value besides the id, got none",
    ),
    "nothing in common": (
        ("abt.csv", "buy.csv", "--map", "town=", "--id", "id"),
        'table "abt" shares no attribute with another table; it has title, they have name',
    ),
    "an attribute source": (
        ("abt.csv", "buy.csv", "--map", "town=source"),
        'table "abt" has an attribute "source"',
    ),
    "links over a table": (("abt.csv", "buy.csv", "--links", "buy.csv"), "is an input"),
    "two outputs in one": (
        ("abt.csv", "buy.csv", "-o", "x.jsonl", "--links", "x.jsonl"),
        "are both x.jsonl",
    ),
    "an output of another format": (("abt.csv", "buy.csv", "-o", "kb.csv"), "as JSON lines"),
    "an unknown kind": (("abt.csv", "buy.csv", "--set", "exporter.x=1"), 'kind "exporter"'),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_sentence(program: Run, here: Path, case: str) -> None:
    Path("sub").mkdir()
    Path("sub/abt.csv").write_text(ABT)
    Path("README").write_text(ABT)
    Path("empty.csv").write_text("id,name\n")
    Path("empty.jsonl").write_text("")
    Path("twice.csv").write_text("id,title\n1,Ann\n1,Bo\n")
    arguments, sentence = REFUSALS[case]
    program("link", *arguments).require_refusal(sentence)
    assert not Path(KB).exists()
    assert Path("buy.csv").read_text() == BUY


def test_hostile_ids_do_no_harm_in_a_spreadsheet(program: Run, here: Path) -> None:
    Path("abt.csv").write_text('id,name\n"=cmd|x",Bo Ray\n')
    program("link", "abt.csv", "buy.csv", "--id", "id", *ATTRIBUTES, "--links", "links.csv")
    (link,) = rows("links.csv")
    assert (link["record"], link["partner"]) == ("'=cmd|x", "1")
