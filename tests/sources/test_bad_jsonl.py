"""Malformed lines for the jsonl source, each between two good ones."""

import json

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
    SPREADSHEET,
    UTF8,
    ids_in,
)

GOOD = [
    b'{"id": "a", "properties": {"name": ["Ann"]}}',
    b'{"id": "c", "properties": {"name": ["Cid"]}}',
]


def fragment(**fields: object) -> bytes:
    return json.dumps({"id": "b", "properties": {"name": ["Bo"]}} | fields).encode()


def properties(value: object) -> bytes:
    return fragment(properties=value)


def name(value: object) -> bytes:
    return properties({"name": value})


AT = f"{JSON}invalid JSON at column "
EMPTY = "expected a non-empty string, got an empty one"
VECTOR = "vector: expected finite numbers, got "
KEYS = "expected only the keys entity_id, id, label, metadata, properties, source, vector, got "
ADVICE = " (--id KEY or --set source.name=KEY reads flat objects)"
LIST = "properties: expected an object of lists of strings, got an array"
UTF16 = "(it looks like UTF-16: try --set source.encoding=utf-16)"

CASES = {
    "truncated": (name(["Bo"])[:40], f"{AT}41 (unexpected end of data)"),
    "not JSON": (b"hello", f"{AT}1 (unexpected character, expected a JSON value)"),
    "single quotes": (b"{'id': 'b'}", f"{AT}2 (unexpected character, expected a string key)"),
    "two objects": (b"{} {}", f"{AT}4 (unexpected content after document)"),
    "array": (b"[1]", f"{JSON}an array"),
    "string": (b'"x"', f'{JSON}the string "x"'),
    "number": (b"3", f"{JSON}the number 3"),
    "null": (b"null", f"{JSON}null"),
    "deep nesting": (b"[" * 5000, f"{AT}1026 (depth limit exceeded)"),
    "invalid UTF-8": (name(["?"]).replace(b"?", b"\xff"), f"{UTF8}0xff at byte 38{SPREADSHEET}"),
    "UTF-16": ('{"id": "b"}'.encode("utf-16"), f"{UTF8}0xff at byte 1 {UTF16}"),
    "binary": (bytes(range(128, 256)), f"{UTF8}0x80 at byte 1{SPREADSHEET}"),
    "lone surrogate": (name(["\ud800"]), f"{AT}38 (no low surrogate in string)"),
    "raw NUL": (b'{"id": "b\0"}', f"{AT}10 (unexpected control character in string)"),
    "escaped NUL": (name(["a\0b"]), rf"properties.name: {NO_NUL}a\x00b"),
    "no id": (b'{"properties": {"name": ["Bo"]}}', NO_ID),
    "id a number": (fragment(id=3), "id: expected a string, got the number 3"),
    "id empty": (fragment(id=""), f"id: {EMPTY}"),
    "id too long": (fragment(id="x" * 5000), LONG_ID),
    "id repeated": (fragment(id="a"), AGAIN.format("a")),
    "no properties": (b'{"id": "b"}', NEITHER),
    "empty properties": (properties({}), NEITHER),
    "properties a list": (properties(["Bo"]), LIST),
    "empty attribute": (properties({"": ["Bo"]}), f"an attribute of properties: {EMPTY}"),
    "no values": (name([]), "properties.name: expected at least one value, got an empty list"),
    "value a string": (
        name("Bo"),
        'properties.name: expected a list of strings, got the string "Bo"',
    ),
    "value a number": (name([3]), "properties.name: expected a string, got the number 3"),
    "value null": (name([None]), "properties.name: expected a string, got nothing"),
    "value empty": (name([""]), f"properties.name: {EMPTY}"),
    "value of 1 MB": (name(["x" * 1_000_000]), LONG_VALUE),
    "10,000 attributes": (
        properties({f"a{i}": ["x"] for i in range(10_000)}),
        f"{MANY_ATTRIBUTES}10,000",
    ),
    "20,000 values": (name([str(i) for i in range(20_000)]), MANY_VALUES),
    "unknown key": (fragment(colour="red"), f"{KEYS}colour"),
    "terminal codes in a key": (fragment(**{"\x1b[31m": 1}), rf"{KEYS}\x1b[31m"),
    "flat": (b'{"id": "b", "colour": "red"}', f"{KEYS}colour{ADVICE}"),
    "label a number": (fragment(label=7), "label: expected a string, got the number 7"),
    "source empty": (fragment(source=""), f"source: {EMPTY}"),
    "metadata a list": (fragment(metadata=[1]), "metadata: expected an object, got an array"),
    "vector empty": (fragment(vector=[]), NO_VECTOR),
    "vector of texts": (fragment(vector=["1"]), f'{VECTOR}the string "1"'),
    "vector of booleans": (fragment(vector=[True]), f"{VECTOR}the boolean true"),
    "vector too long": (fragment(vector=[0] * 70_000), LONG_VECTOR),
    "NaN": (
        b'{"id": "b", "vector": [1, NaN]}',
        f"{AT}27 (unexpected character, expected a JSON value)",
    ),
    "infinite number": (
        b'{"id": "b", "vector": [1e999]}',
        f"{AT}24 (number is infinity when parsed as double)",
    ),
}


@pytest.mark.parametrize("bad", CASES)
def test_bad_line(bad_record, written, bad):
    line, sentence = CASES[bad]
    file = written(b"\n".join([GOOD[0], line, GOOD[1], b""]), "in.jsonl")
    raw = None if bad == "id repeated" else line  # found behind the reader: shown as a fragment
    bad_record(["jsonl"], file, f"2: {sentence}", ["a", "c"], raw)


@pytest.mark.parametrize("filename", ["in.csv", "IN.TSV", "in.csv.gz", "in.parquet"])
def test_a_table_is_said_to_be_one(program, written, filename):
    """Whatever it is called: by its content. It is clustered if its name says the same."""
    file = written("id,name\n1,Ann\n", filename)
    made = f"{file.name.partition('.')[0]}.jsonl"
    ran = program("show", file)
    assert ran.code == 1
    advice = (
        f"load csv {file} -o {made} turns it into fragments"
        if filename == "in.parquet"
        else f"cluster {file} -o kb.jsonl makes a knowledge base"
    )
    assert ran.err == (
        f"kbforge: {file}:1: expected entities, as kbforge cluster writes, got a table; "
        f"kbforge {advice}\n"
    )


@pytest.mark.parametrize("filename", ["in.csv", "IN.TSV", "in.csv.gz"])
def test_a_table_is_clustered_by_its_ending(program, written, tmp_path, filename):
    """As `load` and `cluster` do one after the other: the same entities, byte for byte."""
    file = written("id,name\n1,Ann Lee\n2,Ann Lee\n3,Bo Ek\n", filename)
    loaded = tmp_path / "loaded.jsonl"
    program("load", "csv", file, "--id", "id", "-o", loaded)
    alike = ("--likelihood", "names", "-o", "-")
    ran = program("cluster", file, *alike)
    assert ran.code == 0, ran.err
    assert ran.out == program("cluster", loaded, *alike).out
    assert ran.out.count(b"\n") == 2


def test_over_long_line(bad_record, written):
    """Only the line is lost, and only its first bytes are ever held."""
    most = 16 << 20
    file = written(GOOD[0] + b"\n" + b"x" * 2 * most + b"\n" + GOOD[1] + b"\n", "in.jsonl")
    sentence = f"2: expected a line of at most {most:,} bytes, got a longer one"
    bad_record(["jsonl"], file, sentence, ["a", "c"], b"x" * (most + 1))


def test_all_bad_lines_at_once(program, written, tmp_path):
    """Every bad line of the table between good ones: none takes a good one with it."""
    good = [b'{"id": "g%d", "properties": {"name": ["N"]}}' % i for i in range(len(CASES) + 1)]
    bad = [line for line, _ in CASES.values()]
    lines = [line for pair in zip(good, bad, strict=False) for line in pair]
    # without its namesake the repeated id is a good one
    file, output = written(b"\n".join([*lines, good[-1]]), "in.jsonl"), tmp_path / "out.jsonl"
    ran = program("load", "jsonl", file, "-o", output, "--on-error", "quarantine", "--json")
    kept = [i for i in ids_in(output) if i.startswith("g")]
    assert kept == [f"g{i}" for i in range(len(good))]
    assert json.loads(ran.out)["set_aside"] == len(CASES) - 1
