"""Malformed rows and files for the parquet and hf sources, which give the same sentences.

Nothing here reaches the network.
"""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sources.harness import (
    AGAIN,
    JSON,
    LONG_ID,
    LONG_VALUE,
    LONG_VECTOR,
    MANY_ATTRIBUTES,
    MANY_VALUES,
    NEITHER,
    NO_ID,
    NO_NUL,
    NO_VECTOR,
    NUMBER,
    UTF8,
    ids_in,
)

OPTIONS = ["--id", "id", "--label", "label", "--vector", "x"]
CELL = "expected text, a number, a date or a list of these, got "
ONE = "expected one value, got 2"


@pytest.fixture
def table(tmp_path):
    """table(name=column, ...) -> a file of three rows, with some columns replaced."""

    def write(**columns):
        good = {"id": ["u", "v", "w"], "label": ["1", "2", "3"], "name": ["Uma", "Val", "Wes"]}
        pq.write_table(pa.table(good | {"x": [1.5, 2.5, 3.5]} | columns), tmp_path / "in.parquet")
        return tmp_path / "in.parquet"

    return write


def text_of(raw):
    """A text column that is not checked for UTF-8, as a careless writer makes it."""
    return pa.array([b"u", raw, b"w"], pa.binary()).view(pa.string())


# a column, its three cells of which the middle one is bad, and what is said of it
CELLS = {
    "id null": ("id", ["u", None, "w"], NO_ID),
    "id empty": ("id", ["u", "", "w"], NO_ID),
    "id blank": ("id", ["u", " ", "w"], NO_ID),
    "id too long": ("id", ["u", "x" * 5000, "w"], LONG_ID),
    "id repeated": ("id", ["u", "u", "w"], AGAIN.format("u")),
    "id a list": ("id", [["u"], ["v", "x"], ["w"]], f"id: {ONE}"),
    "id with NUL": ("id", ["u", "v\0", "w"], rf"id: {NO_NUL}v\x00"),
    "label with NUL": ("label", ["u", "v\0", "w"], rf"label: {NO_NUL}v\x00"),
    "label a list": ("label", [["u"], ["v", "x"], ["w"]], f"label: {ONE}"),
    "NUL": ("name", ["u", "v\0", "w"], rf"properties.name: {NO_NUL}v\x00"),
    "value of 1 MB": ("name", ["u", "x" * 1_000_000, "w"], LONG_VALUE),
    "20,000 values": ("name", [["u"], [str(i) for i in range(20_000)], ["w"]], MANY_VALUES),
    "bytes": ("name", [None, b"v", None], f"name: {CELL}bytes"),
    "struct": ("name", [None, {"a": 1}, None], f"name: {CELL}dict"),
    "list of structs": ("name", [None, [{"a": 1}], None], f"name: {CELL}dict"),
    "NaN": ("x", [1.0, float("nan"), 2.0], f"{NUMBER}nan"),
    "infinity": ("x", [1.0, float("inf"), 2.0], f"{NUMBER}inf"),
    "minus infinity": ("x", [1.0, float("-inf"), 2.0], f"{NUMBER}-inf"),
    "number missing": ("x", [1.0, None, 2.0], f"{NUMBER}nothing"),
    "number a word": ("x", ["1", "two", "2"], f"{NUMBER}two"),
    "number empty": ("x", ["1", "", "2"], f"{NUMBER}nothing"),
    "number a text that says true": ("x", ["1", "true", "2"], f"{NUMBER}true"),
    "NaN in a list": ("x", [[1.0], [2.0, float("nan")], [3.0]], f"{NUMBER}nan"),
    "empty list of numbers": ("x", [[1.0], [], [3.0]], NO_VECTOR),
    "70,000 numbers": ("x", [[1.0], [0.0] * 70_000, [3.0]], LONG_VECTOR),
}


@pytest.mark.parametrize("bad", CELLS)
@pytest.mark.parametrize("source", ["parquet", "hf"])
def test_bad_row(bad_record, table, source, bad):
    column, cells, sentence = CELLS[bad]
    bad_record([source, *OPTIONS], table(**{column: cells}), f"2: {sentence}", ["u", "w"])


# Parquet alone.


@pytest.mark.parametrize("raw", [b"B\xff", b"\xed\xa0\x80"])
def test_text_that_is_not_utf8(bad_record, table, raw):
    """Nobody checks the strings of a Parquet file; a bad one spoils its row, not its batch."""
    file = table(name=text_of(raw))
    bad_record(["parquet", *OPTIONS], file, f"2: name: {CELL}bytes", ["u", "w"])


@pytest.mark.parametrize(
    ("columns", "sentence", "kept", "raw"),
    [
        (
            {"name": ["Ann", "?", "Cid"], "age": [30, None, 50]},
            NEITHER,
            ["in-1", "in-3"],
            b'{"name":"?","age":null}',
        ),
        (
            {f"c{i}": ["x" if i == 0 else None, "y"] for i in range(3_000)},
            f"{MANY_ATTRIBUTES}3,000",
            ["in-1"],
            None,
        ),
    ],
    ids=["row without values", "3,000 attributes"],
)
def test_bad_row_without_an_id(bad_record, tmp_path, columns, sentence, kept, raw):
    file = tmp_path / "in.parquet"
    pq.write_table(pa.table(columns), file)
    bad_record(["parquet"], file, f"2: {sentence}", kept, raw)


def test_a_date_beyond_all_years_spoils_its_row_if_it_is_read(program, bad_record, tmp_path):
    file, output = tmp_path / "in.parquet", tmp_path / "out.jsonl"
    moments = pa.array([0, 2**62, 10**15], pa.timestamp("us"))
    pq.write_table(pa.table({"id": pa.array(["a", "b", "c"]), "at": moments}), file)
    sentence = (
        "2: at: expected a date from year 1 to 9999, or any other value, got the timestamp[us] "
        "4611686018427387904"
    )
    bad_record(["parquet", "--id", "id"], file, sentence, ["a", "c"])
    left_out = ("load", "parquet", file, "--name", "id", "--map", "at=", "-o", output)
    assert program(*left_out).code == 0
    assert len(ids_in(output)) == 3


NO_FOOTER = (
    "Parquet magic bytes not found in footer. Either the file is corrupted or this is not a "
    "parquet file."
)


@pytest.mark.parametrize(
    ("size", "reason"),
    [(0, "Parquet file size is 0 bytes"), (0.5, NO_FOOTER), (-8, NO_FOOTER)],
    ids=["empty", "half", "no footer"],
)
def test_bad_parquet_file(refused, table, size, reason):
    file = table()
    whole = file.read_bytes()
    file.write_bytes(whole[: int(size * len(whole)) if size >= 0 else size])
    sentence = f"FILE: expected a Parquet file, got something else ({reason})"
    refused(["parquet", *OPTIONS], file, sentence)


@pytest.mark.parametrize(
    ("option", "column"),
    [("--vector", "z"), ("--label", "gold"), ("--id", "key"), ("--map", "age=years")],
)
def test_missing_column(refused, table, option, column):
    missing = column.partition("=")[0]
    sentence = f'FILE: expected a column "{missing}", got the columns id, label, name, x'
    refused(["parquet", option, column], table(), sentence)


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


# Files that `datasets` parses.


JSON_READER = ["hf", "--id", "id", "--vector", "x"]
FIRST, LAST = b'{"id":"a","name":"Ann","x":1}\n', b'{"id":"c","name":"Cid","x":2}\n'
AT = f"{JSON}invalid JSON at column "
ROWS = ":1: expected rows that datasets can read, got "


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (b'{"id":"b","name":"Bo","x":"two"}', f"{NUMBER}two"),
        (b'{"id":"b","name":"Bo","x":NaN}', f"{NUMBER}nan"),
        (b'{"id":"b","name":"Bo"}', f"{NUMBER}nothing"),
        (b'{"id":"b","name":{"a":1},"x":1}', f"name: {CELL}dict"),
        (b'{"id":"b","name":"B\\u0000","x":1}', rf"properties.name: {NO_NUL}B\x00"),
        (b'{"id":"a","name":"Bo","x":1}', AGAIN.format("a")),
    ],
)
def test_bad_json_row(bad_record, written, row, sentence):
    file = written(FIRST + row + b"\n" + LAST, "in.jsonl")
    bad_record(JSON_READER, file, f"2: {sentence}", ["a", "c"])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"id":"b"', f"{AT}10 (unexpected end of data)"),
        (b"hello", f"{AT}1 (unexpected character, expected a JSON value)"),
        (b'{"id":"\xff"}', f"{UTF8}0xff at byte 8"),
        (b'{"id":"\\ud800"}', f"{AT}8 (no low surrogate in string)"),
        (b"[" * 3000, f"{AT}1026 (depth limit exceeded)"),
    ],
)
def test_lines_that_stop_datasets(refused, written, line, sentence):
    """A block with such a line is lost to `datasets`, so nothing is ever set aside."""
    refused(JSON_READER, written(FIRST + line + b"\n" + LAST, "in.jsonl"), f"FILE:2: {sentence}")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("in.jsonl", b"", f"{ROWS}none"),
        ("in.csv", b"", f"{ROWS}EmptyDataError: No columns to parse from file"),
        (
            "in.parquet",
            b"xx",
            f"{ROWS}ArrowInvalid: Parquet file size is 2 bytes, smaller than the minimum "
            "file footer (8 bytes)",
        ),
        ("in.arrow", b"xx", f"{ROWS}ArrowInvalid: Corrupted message, only 2 bytes available"),
        (
            "in.csv",
            b"id,name,x\na,b,1\nb,c,1,2,3\n",
            f"{ROWS}ParserError: Error tokenizing data. C error: Expected 3 fields in line 3, "
            "saw 5",
        ),
        ("in.csv", b"id,name\na,b\n", ':1: expected a column "x", got the columns id, name'),
        (
            "in.jsonl.gz",
            gzip.compress(FIRST * 10, mtime=0)[:-20],
            f"{ROWS}EOFError: Compressed file ended before the end-of-stream marker was reached",
        ),
    ],
)
def test_bad_hf_file(refused, written, name, content, sentence):
    refused(JSON_READER, written(content, name), f"FILE{sentence}")


def test_unknown_ending(refused, written):
    sentence = (
        "cannot read FILE: expected a file that ends in one of .json, .jsonl, .csv, .tsv, "
        ".parquet, .arrow"
    )
    refused(["hf"], written("hello", "in.txt"), sentence)


def test_standard_input(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentence = (
        "the hf source reads files and data sets of the hub, not standard input; "
        "use the jsonl, csv or parquet source"
    )
    refused(["hf"], "-", sentence)
