"""Formats by the names of files: `load`, `export`, `cluster` and Python."""

from __future__ import annotations

import csv
import gzip
import io

import pyarrow.parquet as pq
import pytest

import kbforge
from kbforge.errors import UsageError


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
        ran = program("export", "kb.jsonl", "-o", name)
        assert ran.code == 0, ran.err
        assert (tmp_path / name).read_bytes().startswith(begin), name
    assert program("export", "kb.jsonl", "-o", "out.csv.gz").code == 0
    packed = gzip.decompress((tmp_path / "out.csv.gz").read_bytes())
    assert packed == (tmp_path / "out.csv").read_bytes()
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 2


def test_a_format_that_is_named_wins(program, files, tmp_path):
    assert program("export", "kb.jsonl", "--format", "wide", "-o", "out.csv").code == 0
    header = next(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert header[1] == "entity_name"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("out.doc", "out.doc: expected an ending that an exporter takes (.csv, .json, "),
        ("out.csv.zst", "out.csv.zst: expected an output without compression or with .gz"),
    ],
)
def test_an_unknown_ending_is_one_sentence(program, files, tmp_path, name, sentence):
    ran = program("export", "kb.jsonl", "-o", name)
    assert ran.code == 2
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("verb", "name", "sentence"),
    [
        (
            "cluster",
            "kb.csv",
            "-o kb.csv: a knowledge base is written as JSON lines, got the ending .csv; kbforge "
            "cluster gold.jsonl -o kb.jsonl, and then kbforge export kb.jsonl -o kb.csv",
        ),
        (
            "cluster",
            "kb.sqlite",
            "-o kb.sqlite: a knowledge base is written as JSON lines, got the ending .sqlite; "
            "kbforge cluster gold.jsonl --into kb.sqlite creates a store",
        ),
        (
            "load",
            "f.parquet",
            "-o f.parquet: fragments are written as JSON lines, got the ending .parquet; name a "
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
        (("people.xls",), "people.xls: expected an ending that a source takes (.arrow, .csv, "),
        (("-",), "standard input has no ending that says its format; name the source, as in"),
        (("a.csv", "b.jsonl"), "a.csv is for the source csv and b.jsonl for jsonl; load files"),
    ],
)
def test_what_cannot_be_told(program, given, sentence):
    ran = program("load", *given)
    assert ran.code in (1, 2)
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1


def test_python_goes_by_the_ending(tmp_path):
    (tmp_path / "people.csv").write_text("id;name\n1;Ann\n2;Ann\n")
    fragments = kbforge.load(tmp_path / "people.csv", id="id")
    assert [x.id for x in fragments] == ["1", "2"]
    kb = kbforge.cluster(fragments, likelihood="attributes", alpha=1.0)
    kbforge.export(kb.entities, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().startswith('"entity_id"')
    with pytest.raises(UsageError, match="expected an ending that an exporter takes"):
        kbforge.export(kb.entities, tmp_path / "out.doc")
