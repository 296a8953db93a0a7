"""Malformed documents for the rebel source, each between two good ones."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from tests.sources.harness import check_bad_record, check_refused
from tests.sources.rebel_documents import document, mention

Change = Callable[[dict[str, Any]], object]

JSON = "expected a JSON object, got "


def put(*path: str | int, value: object) -> Change:
    """A document with one field replaced."""

    def change(record: Any) -> None:
        for step in path[:-1]:
            record = record[step]
        record[path[-1]] = value

    return change


def drop(*path: str | int) -> Change:
    def change(record: Any) -> None:
        for step in path[:-1]:
            record = record[step]
        del record[path[-1]]

    return change


def facts(n: int) -> list[object]:
    (triple,) = document(2)["triples"]
    return [triple | {"predicate": {"uri": f"P{i}", "surfaceform": f"p{i}"}} for i in range(n)]


SHAPES: dict[str, tuple[Change, str]] = {
    "no docid": (drop("docid"), "docid: expected a string, got nothing"),
    "docid empty": (put("docid", value=""), "docid: expected a non-empty string, got an empty one"),
    "docid a list": (put("docid", value=[1]), "docid: expected a string, got [1]"),
    "docid a boolean": (put("docid", value=True), "docid: expected a string, got true"),
    "docid too long": (
        put("docid", value="9" * 5000),
        "id: expected at most 4,096 characters, got 5,003",
    ),
    "title a number": (put("title", value=4), "title: expected a string, got 4"),
    "uri a number": (put("uri", value=4), "uri: expected a string, got 4"),
    "no text": (drop("text"), "text: expected a string, got nothing"),
    "text null": (put("text", value=None), "text: expected a string, got nothing"),
    "text a list": (put("text", value=["x"]), 'text: expected a string, got ["x"]'),
    "no entities": (drop("entities"), "entities: expected a list, got nothing"),
    "entities an object": (put("entities", value={}), "entities: expected a list, got {}"),
    "entity a string": (
        put("entities", 0, value="Q1"),
        'entities[0]: expected a JSON object, got "Q1"',
    ),
    "no triples": (drop("triples"), "triples: expected a list, got nothing"),
    "triples a string": (put("triples", value="x"), 'triples: expected a list, got "x"'),
    "triple null": (
        put("triples", 0, value=None),
        "triples[0]: expected a JSON object, got nothing",
    ),
    "no subject": (
        drop("triples", 0, "subject"),
        "triples[0].subject: expected a JSON object, got nothing",
    ),
    "subject a string": (
        put("triples", 0, "subject", value="Q1"),
        'triples[0].subject: expected a JSON object, got "Q1"',
    ),
    "no predicate": (
        drop("triples", 0, "predicate"),
        "triples[0].predicate: expected a JSON object, got nothing",
    ),
    "no object": (
        drop("triples", 0, "object"),
        "triples[0].object: expected a JSON object, got nothing",
    ),
    "surface form a number": (
        put("entities", 0, "surfaceform", value=7),
        "entities[0].surfaceform: expected a string, got 7",
    ),
    "identifier a list": (
        put("entities", 0, "uri", value=["Q1"]),
        'entities[0].uri: expected a string, got ["Q1"]',
    ),
    "one offset": (
        put("entities", 0, "boundaries", value=[1]),
        "entities[0].boundaries: expected two whole numbers, got [1]",
    ),
    "offsets a string": (
        put("entities", 0, "boundaries", value="0-3"),
        'entities[0].boundaries: expected two whole numbers, got "0-3"',
    ),
    "offset a fraction": (
        put("entities", 0, "boundaries", value=[0.5, 1]),
        "entities[0].boundaries: expected two whole numbers, got [0.5,1]",
    ),
    "offset a boolean": (
        put("entities", 0, "boundaries", value=[True, 1]),
        "entities[0].boundaries: expected two whole numbers, got [true,1]",
    ),
    "offsets an object": (
        put("triples", 0, "predicate", "boundaries", value={}),
        "triples[0].predicate.boundaries: expected two whole numbers, got {}",
    ),
    "name with NUL": (
        put("entities", 0, "surfaceform", value="A\0"),
        r"properties.name: expected text without NUL characters, got A\x00",
    ),
    "name of 1 MB": (
        put("entities", 0, "surfaceform", value="x" * 1_000_000),
        "properties.name: expected at most 65,536 characters, got 1,000,000",
    ),
    "value of 1 MB": (
        put("triples", 0, "object", "surfaceform", value="x" * 1_000_000),
        "properties.place of birth: expected at most 65,536 characters, got 1,000,000",
    ),
    "10,000 attributes": (
        put("triples", value=facts(10_000)),
        "properties: expected at most 1,024 attributes, got 10,001",
    ),
    "20,000 names": (
        put("entities", value=[mention("Q2", f"n{i}") for i in range(20_000)]),
        "properties.name: expected at most 10,000 values, got 20,000",
    ),
}

_DOCUMENT = json.dumps(document(2)).encode()
LINES = {
    "truncated": (
        _DOCUMENT[:100],
        f"{JSON}invalid JSON at column 101 (unexpected end of data)",
    ),
    "array": (b"[]", f"{JSON}[]"),
    "number": (b"1", f"{JSON}1"),
    "invalid UTF-8": (b'{"docid": "\xff"}', "expected UTF-8 text, got the byte 0xff at byte 12"),
}


def between_good_ones(line: bytes) -> bytes:
    first, last = (json.dumps(document(i)).encode() for i in (1, 3))
    return b"\n".join([first, line, last])


@pytest.mark.parametrize("bad", SHAPES)
def test_bad_document(program, tmp_path, bad):
    change, sentence = SHAPES[bad]
    record = document(2)
    change(record)
    line = json.dumps(record).encode()
    file = tmp_path / "in.jsonl"
    file.write_bytes(between_good_ones(line))
    check_bad_record(program, ["rebel"], file, f"2: {sentence}", ["1-Q1", "3-Q3"], line)


@pytest.mark.parametrize("bad", LINES)
def test_bad_line(program, tmp_path, bad):
    line, sentence = LINES[bad]
    file = tmp_path / "in.jsonl"
    file.write_bytes(between_good_ones(line))
    check_bad_record(program, ["rebel"], file, f"2: {sentence}", ["1-Q1", "3-Q3"], line)


def test_repeated_document_id(program, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_bytes(between_good_ones(json.dumps(document(1) | {"triples": []}).encode()))
    sentence = '2: id: expected a unique id, got "1-Q1" again'
    check_bad_record(program, ["rebel"], file, sentence, ["1-Q1", "3-Q3"])


@pytest.mark.parametrize("offsets", [[-5, 1], [10**18, 10**19], [7, 3]])
def test_wrong_offsets_are_repaired(program, tmp_path, offsets):
    record = document(2)
    record["entities"][0]["boundaries"] = offsets
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text(json.dumps(record))
    assert program("load", "rebel", file, "-o", output).code == 0
    assert json.loads(output.read_text())["metadata"]["spans"] == [[0, 4]]


def test_not_a_zip(program, tmp_path):
    file = tmp_path / "in.zip"
    file.write_bytes(b"PK?")
    sentence = f"{file}: expected a zip file, got File is not a zip file"
    check_refused(program, ["rebel"], file, sentence)


def test_zip_without_documents(program, tmp_path):
    file = tmp_path / "in.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("README", "hello")
    check_refused(program, ["rebel"], file, f"{file}: expected a .jsonl file in it, got none")


def test_zip_without_the_member(program, tmp_path):
    file = tmp_path / "in.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("en_val.jsonl", "{}")
    reader = ["rebel", "--set", "source.members=en_train.jsonl"]
    sentence = f"{file}: expected en_train.jsonl in it, got en_val.jsonl"
    check_refused(program, reader, file, sentence)


def test_damaged_member(program, tmp_path):
    """What is before the damage is kept."""
    file = tmp_path / "in.zip"
    good = "\n".join(json.dumps(document(i)) for i in range(1, 4_001))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("en.jsonl", good)
    content = bytearray(file.read_bytes())
    spot = content.index(b"Ada3999 is")
    content[spot : spot + 3] = b"Eve"
    file.write_bytes(content)
    output = tmp_path / "out.jsonl"
    ran = program("load", "rebel", file, "-o", output, "--on-error", "quarantine", "--json")
    assert json.loads(ran.out)["set_aside"] == 1
    assert json.loads(ran.out)["fragments"] > 2_000
    sentence = json.loads((tmp_path / "out.jsonl.quarantine.jsonl").read_text())["reason"]
    assert sentence.endswith(
        "expected a whole file, got a damaged or truncated one (Bad CRC-32 for file 'en.jsonl')"
    )


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("min_text=many", "source rebel: min_text: expected a whole number, got many"),
        ("dedupe=perhaps", "source rebel: dedupe: expected true or false, got perhaps"),
    ],
)
def test_bad_options(program, tmp_path, option, sentence):
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(document(1)))
    check_refused(program, ["rebel", "--set", f"source.{option}"], file, sentence, code=2)


def test_missing_relations_file(program, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(document(1)))
    reader = ["rebel", "--set", f"source.relations_file={tmp_path}/none.tsv"]
    sentence = f"cannot read {tmp_path}/none.tsv: no such file or directory"
    check_refused(program, reader, file, sentence)
