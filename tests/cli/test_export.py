"""`kbforge export` and `kbforge report` as users run them, and formats by the names of files."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from openpyxl import load_workbook

import kbforge
from kbforge.errors import UsageError
from tests.people import write_people
from tests.program import Run

PEOPLE = Path(__file__).parents[2] / "examples" / "people" / "people.csv"


def test_jsonl_to_standard_output_is_the_knowledge_base(program, files, tmp_path):
    ran = program("export", "kb.jsonl")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (tmp_path / "kb.jsonl").read_bytes()


def test_csv_to_a_file(program, files, tmp_path):
    ran = program("export", "kb.jsonl", "--format", "csv", "-o", "kb.csv")
    assert (ran.code, ran.out, ran.err) == (0, b"", "wrote 4 rows of 2 entities to kb.csv\n")
    table = (tmp_path / "kb.csv").read_text().splitlines()
    assert len(table) == 1 + 4
    assert table[1] == f'"{files[0].id}","Ada","name","Ada","2","r2|r3","0.75","0",""'


@pytest.mark.parametrize(
    ("options", "rows", "said"),
    [
        (("--format", "members"), 4, "4 rows of 2 entities"),
        (("--format", "wide"), 2, "2 rows of 2 entities"),
        (("--format", "pairs"), 3, "3 rows of 2 entities"),
        (("--format", "jsonl"), None, "2 entities"),
    ],
)
def test_the_verb_counts_what_it_wrote(program, files, tmp_path, options, rows, said):
    ran = program("export", "kb.jsonl", *options, "-o", "out.txt")
    assert ran.err == f"wrote {said} to out.txt\n"
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert len(lines) == (2 if rows is None else 1 + rows)
    told = program("export", "kb.jsonl", *options, "-o", "out.txt", "--json").json
    assert (told["entities"], told.get("rows")) == (2, rows)


TABLES = ("csv", "contradictions", "members", "pairs", "relations", "wide")


@pytest.mark.parametrize("name", TABLES)
def test_the_extension_chooses_the_writer_of_every_table(program, files, tmp_path, name):
    plain = program("export", "kb.jsonl", "--format", name).out.decode()
    rows = [[cell or None for cell in row] for row in csv.reader(io.StringIO(plain))]
    ran = program("export", "kb.jsonl", "--format", name, "-o", "kb.XLSX")
    assert f"wrote {len(rows) - 1} row" in ran.err
    (sheet,) = load_workbook(tmp_path / "kb.XLSX").worksheets
    cells = [[None if c is None else str(c) for c in row] for row in sheet.values]
    assert cells == [[c and c.removesuffix(".0") for c in row] for row in rows]
    assert program("export", "kb.jsonl", "--format", name, "-o", "kb.parquet").code == 0
    assert pq.read_table(tmp_path / "kb.parquet").num_rows == len(rows) - 1
    ran = program("export", "kb.jsonl", "--format", name, "-o", "new.jsonl.gz")
    assert ran.code == 2
    assert "-o new.jsonl.gz: a table is written as .csv, .parquet or .xlsx, got" in ran.err
    assert not (tmp_path / "new.jsonl.gz").exists()


def test_a_table_without_rows_says_why(program, files):
    for name, said in (
        ("relations", "no value names an entity"),
        ("contradictions", "no value is"),
    ):
        ran = program("export", "kb.jsonl", "--format", name)
        assert ran.out.count(b"\n") == 1
        assert said in ran.err


def test_options_reach_the_exporter(program, files):
    ran = program("export", "kb.jsonl", "--format", "csv", "--set", "exporter.separator=;")
    assert "r2;r3" in ran.out.decode()


def test_golden_records_and_members(program, files):
    wide = program("export", "kb.jsonl", "--format", "wide", "--policy", "most-stated")
    assert (wide.code, wide.err) == (0, "")
    header, ada, *_ = csv.reader(io.StringIO(wide.out.decode()))
    assert header[:5] == ["entity_id", "entity_name", "confidence", *header[3:5]]
    assert dict(zip(header, ada, strict=True))["name"] == "Ada"
    members = program("export", "kb.jsonl", "--format", "members")
    rows = list(csv.DictReader(io.StringIO(members.out.decode())))
    assert {row["id"] for row in rows if row["entity_name"] == "Ada"} >= {"r2", "r3"}


def test_a_policy_by_source(program, files, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('sources = ["census"]\n[attributes]\nname = "preferred"\nnmae = "all"\n')
    ran = program("export", "kb.jsonl", "--policy", "policy.toml", "--fragments", "gold.jsonl")
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
    assert ran.json == {"entities": 2, "format": "jsonl", "output": "copy.jsonl"}


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
    program("load", "csv", PEOPLE, "--id", "id", "-o", "fragments.jsonl")
    program("cluster", "fragments.jsonl", *target)
    program("export", target[1], "--format", "wide", "-o", "wide.csv")
    wide = (tmp_path / "wide.csv").read_text().splitlines()[0].replace('"', "").split(",")
    assert wide[-len(header) :] == header


def test_export_goes_by_the_ending(program, files, tmp_path):
    begins = {
        "out.csv": b'"entity_id",',
        "out.JSONL": b'{"id":',
        "out.json": b'{"id":',
        "out": b'{"id":',
        "out.nq": b"<urn:kbforge:",
        "out.jsonld": b'{"@context"',
        "out.parquet": b"PAR1",
    }
    for name, begin in begins.items():
        program("export", "kb.jsonl", "-o", name)
        assert (tmp_path / name).read_bytes().startswith(begin), name
    program("export", "kb.jsonl", "-o", "out.csv.gz")
    packed = gzip.decompress((tmp_path / "out.csv.gz").read_bytes())
    assert packed == (tmp_path / "out.csv").read_bytes()
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 2


def test_a_format_that_is_named_wins(program, files, tmp_path):
    program("export", "kb.jsonl", "--format", "wide", "-o", "out.csv")
    header = next(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert header[1] == "entity_name"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("out.doc", "out.doc: expected an extension that an exporter takes (.csv, .graphml, "),
        ("out.csv.zst", "out.csv.zst: expected an output without compression or with .gz"),
    ],
)
def test_an_unknown_ending_is_one_sentence(program, files, tmp_path, name, sentence):
    program("export", "kb.jsonl", "-o", name).require_refusal(f"kbforge: {sentence}", 2)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("verb", "name", "sentence"),
    [
        (
            "cluster",
            "kb.csv",
            "-o kb.csv: a knowledge base is written as JSON lines, got the extension .csv; kbforge "
            "cluster gold.jsonl -o kb.jsonl, and then kbforge export kb.jsonl -o kb.csv",
        ),
        (
            "cluster",
            "kb.sqlite",
            "-o kb.sqlite: a knowledge base is written as JSON lines, got the extension .sqlite; "
            "kbforge cluster gold.jsonl --into kb.sqlite creates a store",
        ),
        (
            "load",
            "f.parquet",
            "-o f.parquet: fragments are written as JSON lines, got the extension .parquet; name a "
            "file that ends in .jsonl",
        ),
    ],
)
def test_json_lines_under_another_name_are_refused(program, files, tmp_path, verb, name, sentence):
    ran = program(verb, "gold.jsonl", "-o", name)
    assert (ran.code, ran.err) == (2, f"kbforge: {sentence}\n")
    assert not (tmp_path / name).exists()


def test_load_goes_by_the_ending(program, files, tmp_path):
    (tmp_path / "people.TSV").write_text("id\tname\n1\tAnn\n")
    by_ending = program("load", "people.TSV", "--id", "id")
    by_name = program("load", "csv", "people.TSV", "--id", "id")
    assert by_ending.out == by_name.out != b""
    assert program("load", "gold.jsonl").out == (tmp_path / "gold.jsonl").read_bytes()


def test_a_source_wins_against_a_file_of_its_name(program, files, tmp_path):
    (tmp_path / "csv").write_text("id,name\n1,Ann\n")
    ran = program("load", "csv")
    sentence = "load csv: expected files after the source; for a file of that name, ./csv"
    assert (ran.code, ran.err) == (2, f"kbforge: {sentence}\n")
    assert program("load", "csv", "csv", "--id", "id").ids == ["1"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("cvs", "people.csv"), 'there is no source "cvs" (did you mean "csv"?); available: csv, '),
        (("people.xls",), "people.xls: expected an extension that a source takes (.arrow, .csv, "),
        (("-",), "standard input has no extension that implies its format; name the source, as in"),
        (("a.csv", "b.jsonl"), "a.csv is for the source csv and b.jsonl for jsonl; load files"),
    ],
)
def test_what_cannot_be_told(program, given, sentence):
    program("load", *given).require_refusal(f"kbforge: {sentence}", 1, 2)


def test_python_goes_by_the_ending(tmp_path):
    (tmp_path / "people.csv").write_text("id;name\n1;Ann\n2;Ann\n")
    fragments = kbforge.load(tmp_path / "people.csv", id="id")
    assert [x.id for x in fragments] == ["1", "2"]
    kb = kbforge.cluster(fragments, likelihood="attributes", alpha=1.0)
    kbforge.export(kb.entities, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().startswith('"entity_id"')
    with pytest.raises(UsageError, match="expected an extension that an exporter takes"):
        kbforge.export(kb.entities, tmp_path / "out.doc")


CLUSTER = ("--likelihood", "attributes", "--alpha", "30")


@pytest.fixture
def store(program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "people.jsonl")
    program("cluster", "people.jsonl", "--into", "kb.sqlite", *CLUSTER)
    return tmp_path / "kb.sqlite"


def test_a_store_is_a_page(program: Run, store: Path) -> None:
    ran = program("report", "kb.sqlite", "-o", "page.html")
    assert (ran.out, ran.err) == (b"", "wrote page.html\n")
    page = Path("page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    for section in ("How it was made", "Sizes", "Calibration", "Changes of the last run", "Runs"):
        assert f"<h2>{section}</h2>" in page
    assert "people.jsonl" in page  # what the run was given
    assert program("report", "kb.sqlite", "-o", "-").out.decode() == page


def test_a_store_and_a_file_of_its_entities_tell_the_same(program: Run, store: Path) -> None:
    program("export", "kb.sqlite", "-o", "kb.jsonl")
    by_store = program("report", "kb.sqlite", "--labels", "--json").json
    by_file = program("report", "kb.jsonl", "--fragments", "people.jsonl", "--json").json
    assert by_store.pop("runs") == 1
    assert by_file.pop("runs") == 0
    assert by_store.pop("drift") == 0
    assert by_file.pop("drift") is None
    assert by_file == by_store
    assert by_store["output"] == "report.html"
    assert 0 < by_store["right"] <= by_store["with_labels"] == by_store["entities"]
    assert "<h1><bdi>kb.jsonl</bdi></h1>" in Path("report.html").read_text()


def test_standard_input_and_a_title(program: Run, store: Path) -> None:
    kb = program("export", "kb.sqlite").out
    program("report", "-", stdin=kb)
    assert "<title>standard input - KBForge report</title>" in Path("report.html").read_text()
    program("report", "-", "--title", "Folk & co", stdin=kb)
    assert "<title>Folk &amp; co - KBForge report</title>" in Path("report.html").read_text()
    assert program("report", "-", "--json", stdin=kb).json["right"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("kb.sqlite", "--fragments", "people.jsonl"), 2, "--fragments: kb.sqlite is a store"),
        (("people.jsonl", "--labels"), 2, "--labels: people.jsonl has no labels"),
        (("kb.sqlite", "-o", "-", "--json"), 2, "--json and the page cannot both go"),
        (("kb.sqlite", "-o", "kb.sqlite"), 2, "the output kb.sqlite is an input"),
        (("kb.sqlite", "-o", "no/page.html"), 1, "cannot write no/page.html"),
        (("people.jsonl",), 1, "people.jsonl:1: "),
        (("nowhere.jsonl",), 1, "nowhere.jsonl"),
    ],
)
def test_what_cannot_be_told_is_one_sentence(
    program: Run, store: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    program("report", *arguments).require_refusal(said, code)
    assert not Path("report.html").exists()
