"""Malformed lines for the jsonl source, each between two good ones."""

from __future__ import annotations

import json

import pytest

from tests.sources.harness import check_bad_record, ids_in

GOOD = [
    b'{"id": "a", "properties": {"name": ["Ann"]}}',
    b'{"id": "c", "properties": {"name": ["Cid"]}}',
]


def fragment(**fields: object) -> bytes:
    return json.dumps({"id": "b", "properties": {"name": ["Bo"]}} | fields).encode()


def properties(value: object) -> bytes:
    return fragment(properties=value)


JSON = "expected a JSON object, got "
STRAY = f"{JSON}invalid JSON at column 1 (unexpected character, expected a JSON value)"
NEITHER = "properties: expected at least one property or a vector, got neither"
VECTOR = "vector: expected finite numbers, got "

TRY = "(if the file comes from a spreadsheet, try --encoding cp1252)"

CASES = {
    "truncated": (
        b'{"id": "b", "properties": {"name": ["Bo"',
        f"{JSON}invalid JSON at column 41 (unexpected end of data)",
    ),
    "not JSON": (b"hello", STRAY),
    "single quotes": (
        b"{'id': 'b'}",
        f"{JSON}invalid JSON at column 2 (unexpected character, expected a string key)",
    ),
    "two objects": (
        b"{} {}",
        f"{JSON}invalid JSON at column 4 (unexpected content after document)",
    ),
    "array": (b"[1]", f"{JSON}an array"),
    "string": (b'"x"', f'{JSON}the string "x"'),
    "number": (b"3", f"{JSON}the number 3"),
    "null": (b"null", f"{JSON}null"),
    "deep nesting": (b"[" * 5000, f"{JSON}invalid JSON at column 1026 (depth limit exceeded)"),
    "invalid UTF-8": (
        b'{"id": "b", "properties": {"name": ["\xff"]}}',
        f"expected UTF-8 text, got the byte 0xff at byte 38 {TRY}",
    ),
    "UTF-16": (
        '{"id": "b"}'.encode("utf-16"),
        "expected UTF-8 text, got the byte 0xff at byte 1 "
        "(it looks like UTF-16: try --encoding utf-16)",
    ),
    "binary": (
        bytes(range(128, 256)),
        f"expected UTF-8 text, got the byte 0x80 at byte 1 {TRY}",
    ),
    "lone surrogate": (
        rb'{"id": "b", "properties": {"name": ["\ud800"]}}',
        f"{JSON}invalid JSON at column 38 (no low surrogate in string)",
    ),
    "raw NUL": (
        b'{"id": "b\0"}',
        f"{JSON}invalid JSON at column 10 (unexpected control character in string)",
    ),
    "escaped NUL": (
        properties({"name": ["a\0b"]}),
        r"properties.name: expected text without NUL characters, got a\x00b",
    ),
    "no id": (b'{"properties": {"name": ["Bo"]}}', "id: expected a string, got nothing"),
    "id a number": (fragment(id=3), "id: expected a string, got the number 3"),
    "id empty": (fragment(id=""), "id: expected a non-empty string, got an empty one"),
    "id too long": (fragment(id="x" * 5000), "id: expected at most 4,096 characters, got 5,000"),
    "id repeated": (fragment(id="a"), 'id: expected a unique id, got "a" again'),
    "no properties": (b'{"id": "b"}', NEITHER),
    "empty properties": (properties({}), NEITHER),
    "properties a list": (
        properties(["Bo"]),
        "properties: expected an object of lists of strings, got an array",
    ),
    "empty attribute": (
        properties({"": ["Bo"]}),
        "an attribute of properties: expected a non-empty string, got an empty one",
    ),
    "no values": (
        properties({"name": []}),
        "properties.name: expected at least one value, got an empty list",
    ),
    "value a string": (
        properties({"name": "Bo"}),
        'properties.name: expected a list of strings, got the string "Bo"',
    ),
    "value a number": (
        properties({"name": [3]}),
        "properties.name: expected a string, got the number 3",
    ),
    "value null": (properties({"name": [None]}), "properties.name: expected a string, got nothing"),
    "value empty": (
        properties({"name": [""]}),
        "properties.name: expected a non-empty string, got an empty one",
    ),
    "value of 1 MB": (
        properties({"name": ["x" * 1_000_000]}),
        "properties.name: expected at most 65,536 characters, got 1,000,000",
    ),
    "10,000 attributes": (
        properties({f"a{i}": ["x"] for i in range(10_000)}),
        "properties: expected at most 1,024 attributes, got 10,000",
    ),
    "20,000 values": (
        properties({"name": [str(i) for i in range(20_000)]}),
        "properties.name: expected at most 10,000 values, got 20,000",
    ),
    "unknown key": (
        fragment(colour="red"),
        "expected only the keys entity_id, id, label, metadata, properties, source, vector, "
        "got colour",
    ),
    "terminal codes in a key": (
        fragment(**{"\x1b[31m": 1}),
        "expected only the keys entity_id, id, label, metadata, properties, source, vector, "
        r"got \x1b[31m",
    ),
    "flat": (
        b'{"id": "b", "colour": "red"}',
        "expected only the keys entity_id, id, label, metadata, properties, source, vector, "
        "got colour (--id KEY, --name KEY or --map KEY=ATTRIBUTE reads flat objects)",
    ),
    "label a number": (fragment(label=7), "label: expected a string, got the number 7"),
    "source empty": (fragment(source=""), "source: expected a non-empty string, got an empty one"),
    "metadata a list": (fragment(metadata=[1]), "metadata: expected an object, got an array"),
    "vector empty": (
        fragment(vector=[]),
        "vector: expected a non-empty list of numbers, got an empty list",
    ),
    "vector of texts": (fragment(vector=["1"]), f'{VECTOR}the string "1"'),
    "vector of booleans": (fragment(vector=[True]), f"{VECTOR}the boolean true"),
    "vector too long": (
        fragment(vector=[0] * 70_000),
        "vector: expected at most 65,536 numbers, got 70,000",
    ),
    "NaN": (
        b'{"id": "b", "vector": [1, NaN]}',
        f"{JSON}invalid JSON at column 27 (unexpected character, expected a JSON value)",
    ),
    "infinite number": (
        b'{"id": "b", "vector": [1e999]}',
        f"{JSON}invalid JSON at column 24 (number is infinity when parsed as double)",
    ),
}


@pytest.mark.parametrize("bad", CASES)
def test_bad_line(program, tmp_path, bad):
    line, sentence = CASES[bad]
    file = tmp_path / "in.jsonl"
    file.write_bytes(b"\n".join([GOOD[0], line, GOOD[1], b""]))
    raw = None if bad == "id repeated" else line  # found behind the reader: shown as a fragment
    check_bad_record(program, ["jsonl"], file, f"2: {sentence}", ["a", "c"], raw)


@pytest.mark.parametrize(
    "filename",
    ["in.csv", "IN.TSV", "in.csv.gz", "in.parquet"],
)
def test_a_table_is_said_to_be_one(program, tmp_path, filename):
    """Whatever it is called: by its content."""
    file = tmp_path / filename
    file.write_bytes(b"id,name\n1,Ann\n")
    for verb in ("cluster", "show"):
        ran = program(verb, file)
        assert ran.code == 1
        assert ran.err == (
            f"kbforge: {file}:1: expected JSON lines, got a table "
            f"(kbforge load csv {file} -o {file.name.partition('.')[0]}.jsonl makes fragments of "
            "it)\n"
        )


def test_over_long_line(program, tmp_path, monkeypatch):
    """Only the line is lost, and only its first bytes are ever held."""
    monkeypatch.setattr("kbforge.files.io.MAX_LINE_BYTES", 100)
    file = tmp_path / "in.jsonl"
    file.write_bytes(GOOD[0] + b"\n" + b"x" * 1_000 + b"\n" + GOOD[1] + b"\n")
    sentence = "2: expected a line of at most 100 bytes, got a longer one"
    check_bad_record(program, ["jsonl"], file, sentence, ["a", "c"], b"x" * 101)


def test_all_bad_lines_at_once(program, tmp_path):
    """Every bad line of the table between good ones: none takes a good one with it."""
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    good = [b'{"id": "g%d", "properties": {"name": ["N"]}}' % i for i in range(len(CASES) + 1)]
    lines = [
        line for pair in zip(good, [c[0] for c in CASES.values()], strict=False) for line in pair
    ]
    # without its namesake the repeated id is a good one
    file.write_bytes(b"\n".join([*lines, good[-1]]))
    ran = program("load", "jsonl", file, "-o", output, "--on-error", "quarantine", "--json")
    kept = [i for i in ids_in(output) if i.startswith("g")]
    assert kept == [f"g{i}" for i in range(len(good))]
    assert json.loads(ran.out)["set_aside"] == len(CASES) - 1
