"""Tables of three rows whose middle one is bad: for the parquet and hf sources, which read the
same files and give the same sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NUMBER = "x: expected a finite number, got "
CELL = "expected text, a number, a date or a list of these, got "
NO_ID = "id: expected a string, got nothing"


def between(bad: object, first: object = "u", last: object = "w") -> pa.Array:
    return pa.array([first, bad, last])


def text_of(raw: bytes) -> pa.Array:
    """A text column that is not checked for UTF-8, as a careless writer makes it."""
    return pa.array([b"u", raw, b"w"], pa.binary()).view(pa.string())


BAD_CELLS: dict[str, tuple[dict[str, pa.Array], str]] = {
    "id null": ({"id": between(None)}, NO_ID),
    "id empty": ({"id": between("")}, NO_ID),
    "id blank": ({"id": between(" ")}, NO_ID),
    "id too long": (
        {"id": between("x" * 5000)},
        "id: expected at most 4,096 characters, got 5,000",
    ),
    "id repeated": ({"id": between("u")}, 'id: expected a unique id, got "u" again'),
    "id a list": (
        {"id": pa.array([["u"], ["v", "x"], ["w"]])},
        "id: expected one value, got 2",
    ),
    "id with NUL": (
        {"id": between("v\0")},
        r"id: expected text without NUL characters, got v\x00",
    ),
    "label with NUL": (
        {"label": between("v\0")},
        r"label: expected text without NUL characters, got v\x00",
    ),
    "label a list": (
        {"label": pa.array([["u"], ["v", "x"], ["w"]])},
        "label: expected one value, got 2",
    ),
    "NUL": (
        {"name": between("v\0")},
        r"properties.name: expected text without NUL characters, got v\x00",
    ),
    "value of 1 MB": (
        {"name": between("x" * 1_000_000)},
        "properties.name: expected at most 65,536 characters, got 1,000,000",
    ),
    "20,000 values": (
        {"name": pa.array([["u"], [str(i) for i in range(20_000)], ["w"]])},
        "properties.name: expected at most 10,000 values, got 20,000",
    ),
    "bytes": ({"name": between(b"v", None, None)}, f"name: {CELL}bytes"),
    "struct": ({"name": between({"a": 1}, None, None)}, f"name: {CELL}dict"),
    "list of structs": ({"name": between([{"a": 1}], None, None)}, f"name: {CELL}dict"),
    "NaN": ({"x": between(float("nan"), 1.0, 2.0)}, f"{NUMBER}nan"),
    "infinity": ({"x": between(float("inf"), 1.0, 2.0)}, f"{NUMBER}inf"),
    "minus infinity": ({"x": between(float("-inf"), 1.0, 2.0)}, f"{NUMBER}-inf"),
    "number missing": ({"x": between(None, 1.0, 2.0)}, f"{NUMBER}nothing"),
    "number a word": ({"x": between("two", "1", "2")}, f"{NUMBER}two"),
    "number empty": ({"x": between("", "1", "2")}, f"{NUMBER}nothing"),
    "number a text that says true": ({"x": between("true", "1", "2")}, f"{NUMBER}true"),
    "NaN in a list": (
        {"x": pa.array([[1.0], [2.0, float("nan")], [3.0]])},
        f"{NUMBER}nan",
    ),
    "empty list of numbers": (
        {"x": pa.array([[1.0], [], [3.0]])},
        "vector: expected a non-empty list of numbers, got an empty list",
    ),
    "70,000 numbers": (
        {"x": pa.array([[1.0], [0.0] * 70_000, [3.0]])},
        "vector: expected at most 65,536 numbers, got 70,000",
    ),
}


def write(path: Path, **columns: Any) -> None:
    table = {
        "id": pa.array(["u", "v", "w"]),
        "label": pa.array(["1", "2", "3"]),
        "name": pa.array(["Uma", "Val", "Wes"]),
        "x": pa.array([1.5, 2.5, 3.5]),
    }
    pq.write_table(pa.table(table | columns), path)


READER_OPTIONS = ["--id", "id", "--label", "label", "--vector", "x"]
