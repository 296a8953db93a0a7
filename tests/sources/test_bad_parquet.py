"""Malformed rows and files for the parquet source."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sources.harness import check_bad_record, check_refused, ids_in
from tests.sources.tables import BAD_CELLS, CELL, READER_OPTIONS, text_of, write

READER = ["parquet", *READER_OPTIONS]
NO_FOOTER = (
    "expected a Parquet file, got something else (Parquet magic bytes not found in footer. "
    "Either the file is corrupted or this is not a parquet file.)"
)


@pytest.mark.parametrize("bad", BAD_CELLS)
def test_bad_row(program, tmp_path, bad):
    columns, sentence = BAD_CELLS[bad]
    file = tmp_path / "in.parquet"
    write(file, **columns)
    check_bad_record(program, READER, file, f"2: {sentence}", ["u", "w"])


@pytest.mark.parametrize("raw", [b"B\xff", b"\xed\xa0\x80"])
def test_text_that_is_not_utf8(program, tmp_path, raw):
    """Nobody checks the strings of a Parquet file; a bad one spoils its row, not its batch."""
    file = tmp_path / "in.parquet"
    write(file, name=text_of(raw))
    check_bad_record(program, READER, file, f"2: name: {CELL}bytes", ["u", "w"])


def test_row_without_values(program, tmp_path):
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({"name": ["Ann", None, "Cid"], "age": [30, None, 50]}), file)
    sentence = "2: properties: expected at least one property or a vector, got neither"
    raw = b'{"name":null,"age":null}'
    check_bad_record(program, ["parquet"], file, sentence, ["in-1", "in-3"], raw)


def test_3_000_attributes(program, tmp_path):
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table({f"c{i}": ["x" if i == 0 else None, "y"] for i in range(3_000)}), file)
    sentence = "2: properties: expected at most 1,024 attributes, got 3,000"
    check_bad_record(program, ["parquet"], file, sentence, ["in-1"])


def test_a_date_beyond_all_years_spoils_its_row_if_it_is_read(program, tmp_path):
    file, output = tmp_path / "in.parquet", tmp_path / "out.jsonl"
    moments = pa.array([0, 2**62, 10**15], pa.timestamp("us"))
    pq.write_table(pa.table({"id": pa.array(["a", "b", "c"]), "at": moments}), file)
    sentence = (
        "2: at: expected a date from year 1 to 9999, or any other value, got the timestamp[us] "
        "4611686018427387904"
    )
    check_bad_record(program, ["parquet", "--id", "id"], file, sentence, ["a", "c"])
    left_out = ("load", "parquet", file, "--name", "id", "--map", "at=", "-o", output)
    assert program(*left_out).code == 0
    assert len(ids_in(output)) == 3


def whole(tmp_path) -> bytes:
    write(tmp_path / "whole.parquet")
    return (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda b: b"",
            "expected a Parquet file, got something else (Parquet file size is 0 bytes)",
        ),
        (lambda b: b[: len(b) // 2], NO_FOOTER),
        (lambda b: b[:-8], NO_FOOTER),
    ],
    ids=["empty", "half", "no footer"],
)
def test_bad_file(program, tmp_path, damage, sentence):
    file = tmp_path / "in.parquet"
    file.write_bytes(damage(whole(tmp_path)))
    check_refused(program, READER, file, f"{file}: {sentence}")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--vector", "z"], 'expected a column "z", got the columns id, label, name, x'),
        (["--label", "gold"], 'expected a column "gold", got the columns id, label, name, x'),
        (["--id", "key"], 'expected a column "key", got the columns id, label, name, x'),
        (["--map", "age=years"], 'expected a column "age", got the columns id, label, name, x'),
    ],
)
def test_missing_column(program, tmp_path, options, sentence):
    file = tmp_path / "in.parquet"
    write(file)
    check_refused(program, ["parquet", *options], file, f"{file}: {sentence}")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["id", "id"], 'expected distinct column names, got "id" 2 times'),
        (["id", ""], "expected a name for every column, got none for column 2"),
    ],
)
def test_bad_column_names(program, tmp_path, names, sentence):
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table([pa.array(["a"]), pa.array(["b"])], names=names), file)
    check_refused(program, ["parquet"], file, f"{file}: {sentence}")


def test_damage_costs_one_row_group(program, tmp_path):
    file, output = tmp_path / "in.parquet", tmp_path / "out.jsonl"
    names = [f"name{i:04d}" for i in range(300)]
    pq.write_table(pa.table({"name": names}), file, row_group_size=100, compression="gzip")
    content = bytearray(file.read_bytes())
    second = pq.ParquetFile(file).metadata.row_group(1).column(0)
    start = second.dictionary_page_offset + 30
    content[start : start + 40] = bytes(40)
    file.write_bytes(content)
    ran = program("load", "parquet", file, "-o", output, "--on-error", "quarantine", "--json")
    assert json.loads(ran.out)["set_aside"] == 1
    assert ids_in(output) == [f"in-{i}" for i in [*range(1, 101), *range(201, 301)]]
    reason = json.loads((tmp_path / "out.jsonl.quarantine.jsonl").read_text())["reason"]
    assert reason.startswith(f"{file}:101: expected readable rows, got damage up to row 200 (")
