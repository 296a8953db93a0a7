"""Malformed documents for the rebel source, each between two good ones."""

import json
from typing import Any

import pytest

from tests.sources.harness import (
    AGAIN,
    JSON,
    LONG_VALUE,
    MANY_ATTRIBUTES,
    MANY_VALUES,
    NO_NUL,
    UTF8,
)
from tests.sources.rebel_documents import document, mention

GONE = object()
KEPT = ["1-Q1", "3-Q3"]
NAME = ("entities", 0, "surfaceform")


def changed(*path: str | int, value: Any) -> bytes:
    """A document with one field replaced, or without it."""
    record: Any = document(2)
    inner = record
    for step in path[:-1]:
        inner = inner[step]
    if value is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(record).encode()


def called(path: tuple[str | int, ...]) -> str:
    """A field as errors name it."""
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in path).removeprefix(".")


def facts(n: int) -> list[object]:
    (triple,) = document(2)["triples"]
    return [triple | {"predicate": {"uri": f"P{i}", "surfaceform": f"p{i}"}} for i in range(n)]


TEXT, LIST, OBJECT, OFFSETS = "a string", "a list", "a JSON object", "two whole numbers"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("docid",), GONE, TEXT),
        (("docid",), [1], TEXT),
        (("docid",), True, TEXT),
        (("title",), 4, TEXT),
        (("uri",), 4, TEXT),
        (("text",), GONE, TEXT),
        (("text",), None, TEXT),
        (("text",), ["x"], TEXT),
        (("entities",), GONE, LIST),
        (("entities",), {}, LIST),
        (("entities", 0), "Q1", OBJECT),
        (("triples",), GONE, LIST),
        (("triples",), "x", LIST),
        (("triples", 0), None, OBJECT),
        (("triples", 0, "subject"), GONE, OBJECT),
        (("triples", 0, "subject"), "Q1", OBJECT),
        (("triples", 0, "predicate"), GONE, OBJECT),
        (("triples", 0, "object"), GONE, OBJECT),
        (NAME, 7, TEXT),
        (("entities", 0, "uri"), ["Q1"], TEXT),
        (("entities", 0, "boundaries"), [1], OFFSETS),
        (("entities", 0, "boundaries"), "0-3", OFFSETS),
        (("entities", 0, "boundaries"), [0.5, 1], OFFSETS),
        (("entities", 0, "boundaries"), [True, 1], OFFSETS),
        (("triples", 0, "predicate", "boundaries"), {}, OFFSETS),
    ],
)
def test_bad_field(bad_record, written, path, value, expected):
    got = "nothing" if value in (GONE, None) else json.dumps(value, separators=(",", ":"))
    sentence = f"{called(path)}: expected {expected}, got {got}"
    check_between(bad_record, written, changed(*path, value=value), sentence)


def check_between(bad_record, written, line, sentence, raw=True):
    first, last = (json.dumps(document(i)).encode() for i in (1, 3))
    file = written(b"\n".join([first, line, last]), "in.jsonl")
    bad_record(["rebel"], file, f"2: {sentence}", KEPT, line if raw else None)


BAD = {
    "docid empty": (
        changed("docid", value=""),
        "docid: expected a non-empty string, got an empty one",
    ),
    "docid too long": (
        changed("docid", value="9" * 5000),
        "id: expected at most 4,096 characters, got 5,003",
    ),
    "name with NUL": (changed(*NAME, value="A\0"), rf"properties.name: {NO_NUL}A\x00"),
    "name of 1 MB": (changed(*NAME, value="x" * 1_000_000), LONG_VALUE),
    "value of 1 MB": (
        changed("triples", 0, "object", "surfaceform", value="x" * 1_000_000),
        LONG_VALUE.replace("name", "place of birth"),
    ),
    "10,000 attributes": (changed("triples", value=facts(10_000)), f"{MANY_ATTRIBUTES}10,001"),
    "20,000 names": (
        changed("entities", value=[mention("Q2", f"n{i}") for i in range(20_000)]),
        MANY_VALUES,
    ),
    "truncated": (
        json.dumps(document(2)).encode()[:100],
        f"{JSON}invalid JSON at column 101 (unexpected end of data)",
    ),
    "array": (b"[]", f"{JSON}[]"),
    "number": (b"1", f"{JSON}1"),
    "invalid UTF-8": (b'{"docid": "\xff"}', f"{UTF8}0xff at byte 12"),
    "repeated": (json.dumps(document(1) | {"triples": []}).encode(), AGAIN.format("1-Q1")),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_document(bad_record, written, bad):
    # what is repeated is found behind the reader, and shown as a fragment
    check_between(bad_record, written, *BAD[bad], raw=bad != "repeated")


@pytest.mark.parametrize("offsets", [[-5, 1], [10**18, 10**19], [7, 3]])
def test_wrong_offsets_are_repaired(program, written, tmp_path, offsets):
    file = written(changed("entities", 0, "boundaries", value=offsets), "in.jsonl")
    assert program("load", "rebel", file, "-o", tmp_path / "out.jsonl").code == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["metadata"]["spans"] == [[0, 4]]
