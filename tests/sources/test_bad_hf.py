"""Malformed rows and files for the hf source. Nothing here reaches the network."""

from __future__ import annotations

import gzip

import pytest

from tests.sources.harness import check_bad_record, check_refused
from tests.sources.tables import BAD_CELLS, CELL, NUMBER, READER_OPTIONS, write

READER = ["hf", *READER_OPTIONS]
JSON_READER = ["hf", "--id", "id", "--vector", "x"]
FIRST, LAST = b'{"id":"a","name":"Ann","x":1}\n', b'{"id":"c","name":"Cid","x":2}\n'
JSON = "expected a JSON object, got invalid JSON at column "
ROWS = "expected rows that datasets can read, got "


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.mark.parametrize("bad", BAD_CELLS)
def test_bad_row(program, tmp_path, bad):
    columns, sentence = BAD_CELLS[bad]
    file = tmp_path / "in.parquet"
    write(file, **columns)
    check_bad_record(program, READER, file, f"2: {sentence}", ["u", "w"])


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (b'{"id":"b","name":"Bo","x":"two"}', f"{NUMBER}two"),
        (b'{"id":"b","name":"Bo","x":NaN}', f"{NUMBER}nan"),
        (b'{"id":"b","name":"Bo"}', f"{NUMBER}nothing"),
        (b'{"id":"b","name":{"a":1},"x":1}', f"name: {CELL}dict"),
        (
            b'{"id":"b","name":"B\\u0000","x":1}',
            r"properties.name: expected text without NUL characters, got B\x00",
        ),
        (b'{"id":"a","name":"Bo","x":1}', 'id: expected a unique id, got "a" again'),
    ],
)
def test_bad_json_row(program, tmp_path, row, sentence):
    file = tmp_path / "in.jsonl"
    file.write_bytes(FIRST + row + b"\n" + LAST)
    check_bad_record(program, JSON_READER, file, f"2: {sentence}", ["a", "c"])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"id":"b"', f"{JSON}10 (unexpected end of data)"),
        (b"hello", f"{JSON}1 (unexpected character, expected a JSON value)"),
        (b'{"id":"\xff"}', "expected UTF-8 text, got the byte 0xff at byte 8"),
        (b'{"id":"\\ud800"}', f"{JSON}8 (no low surrogate in string)"),
        (b"[" * 3000, f"{JSON}1026 (depth limit exceeded)"),
    ],
)
def test_lines_that_stop_datasets(program, tmp_path, line, sentence):
    """A block with such a line is lost to `datasets`, so nothing is ever set aside."""
    file = tmp_path / "in.jsonl"
    file.write_bytes(FIRST + line + b"\n" + LAST)
    check_refused(program, JSON_READER, file, f"{file}:2: {sentence}")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("in.jsonl", b"", f":1: {ROWS}none"),
        ("in.csv", b"", f":1: {ROWS}EmptyDataError: No columns to parse from file"),
        (
            "in.parquet",
            b"xx",
            f":1: {ROWS}ArrowInvalid: Parquet file size is 2 bytes, smaller than the minimum "
            "file footer (8 bytes)",
        ),
        ("in.arrow", b"xx", f":1: {ROWS}ArrowInvalid: Corrupted message, only 2 bytes available"),
        (
            "in.csv",
            b"id,name,x\na,b,1\nb,c,1,2,3\n",
            f":1: {ROWS}ParserError: Error tokenizing data. C error: Expected 3 fields in line 3, "
            "saw 5",
        ),
        ("in.csv", b"id,name\na,b\n", ':1: expected a column "x", got the columns id, name'),
        (
            "in.jsonl.gz",
            gzip.compress(FIRST * 10, mtime=0)[:-20],
            f":1: {ROWS}EOFError: Compressed file ended before the end-of-stream marker was "
            "reached",
        ),
    ],
)
def test_bad_file(program, tmp_path, name, content, sentence):
    file = tmp_path / name
    file.write_bytes(content)
    check_refused(program, JSON_READER, file, f"{file}{sentence}")


def test_unknown_ending(program, tmp_path):
    file = tmp_path / "in.txt"
    file.write_bytes(b"hello")
    sentence = (
        f"cannot read {file}: expected a file that ends in one of .json, .jsonl, .csv, .tsv, "
        ".parquet, .arrow"
    )
    check_refused(program, ["hf"], file, sentence)


def test_standard_input(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentence = (
        "the hf source reads files and data sets of the hub, not standard input; "
        "use the jsonl, csv or parquet source"
    )
    check_refused(program, ["hf"], "-", sentence)
