"""Small files that unpack to large ones, or that take a parser hours.

Sizes are in MiB of what they unpack to, so that a test may make small ones.
"""

import bz2
import gzip
import io
import random
import zipfile
from collections.abc import Callable, Iterator

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

MIB = 1 << 20
_SHEET = "xl/worksheets/sheet1.xml"
_STRINGS = "xl/sharedStrings.xml"
_HEAD = (
    b'<?xml version="1.0"?><worksheet '
    b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    b'<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c>'
    b'<c r="B1" t="inlineStr"><is><t>name</t></is></c></row>'
)
_OF_STRINGS = (
    b'<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-'
    b'officedocument.spreadsheetml.sharedStrings+xml"/>'
)
_TAIL = b"</sheetData></worksheet>"


def book(part: str, pieces: Iterator[bytes], stated: int | None = None) -> bytes:
    """A spreadsheet of which one part is these pieces; `stated` is what it says of their size."""
    plain, out = io.BytesIO(), io.BytesIO()
    made = openpyxl.Workbook()
    made.active.append(("id", "name"))
    made.active.append((1, "Ann"))
    made.save(plain)
    of_strings = _OF_STRINGS if part == _STRINGS else b""
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name == "[Content_Types].xml":  # no program writes strings that nothing refers to
                new.writestr(name, old.read(name).replace(b"</Types>", of_strings + b"</Types>"))
            elif name != part:
                new.writestr(name, old.read(name))
        with new.open(part, "w", force_zip64=True) as file:
            for piece in pieces:
                file.write(piece)
    content = out.getvalue()
    if stated is not None:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            true = archive.getinfo(part).file_size
        content = content.replace(true.to_bytes(4, "little"), stated.to_bytes(4, "little"))
    return content


def _cell(size: int) -> Iterator[bytes]:
    yield _HEAD + b'<row r="2"><c r="A2" t="inlineStr"><is><t>'
    yield from [b"A" * MIB] * size
    yield b"</t></is></c></row>" + _TAIL


def _hidden(size: int) -> Iterator[bytes]:
    """A cell whose text looks like rows."""
    yield _HEAD + b'<row r="2"><c r="A2" t="inlineStr"><is><t><![CDATA['
    yield from [(b"<row >" + b"A" * 4090) * (MIB // 4096)] * size
    yield b"]]></t></is></c></row>" + _TAIL


def _rows(size: int, row: bytes = b"<row/>") -> Iterator[bytes]:
    yield _HEAD
    yield from [row * (MIB // len(row))] * size
    yield _TAIL


def _numbered(size: int) -> Iterator[bytes]:
    yield _HEAD
    number = 2
    for _ in range(size):
        yield b"".join(b'<row r="%d" ht="12"/>' % n for n in range(number, number + MIB // 28))
        number += MIB // 28
    yield _TAIL


def _high(size: int) -> Iterator[bytes]:
    """Rows that say their height, a thousand a unit: no more than a sheet may have."""
    yield _HEAD
    for number in range(2, 1000 * size):
        yield b'<row r="%d" ht="%d" customHeight="1"/>' % (number, 10 + number % 7)
    yield _TAIL


def _strings(size: int) -> Iterator[bytes]:
    yield b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    yield from [b"<si><t>a</t></si>" * (MIB // 17)] * size
    yield b"</sst>"


def _columns(**columns: pa.Array) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd")
    return out.getvalue()


def _shared(size: int) -> pa.Array:
    """A text of 512 KiB that many rows share."""
    text = random.Random(1).randbytes(1 << 18).hex()
    return pa.DictionaryArray.from_arrays(np.zeros(2048 * size, np.int32), [text])


def _list(size: int) -> pa.Array:
    zeros = pa.array(np.zeros(size * MIB // 4, np.int32))
    return pa.ListArray.from_arrays(pa.array([0, len(zeros)], pa.int32()), zeros)


def _packed_bz2(piece: bytes, size: int) -> bytes:
    whole, rest = divmod(size, 64)
    return bz2.compress(piece * 64) * whole + bz2.compress(piece * rest)


def _packed_gzip(piece: bytes, size: int) -> bytes:
    return gzip.compress(piece * 16) * (size // 16)


BOMBS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "a cell": ("people.xlsx", lambda size: book(_SHEET, _cell(size))),
    "a cell that lies": ("people.xlsx", lambda size: book(_SHEET, _cell(size), 1000)),
    "a cell that looks like rows": ("people.xlsx", lambda size: book(_SHEET, _hidden(size))),
    "empty rows": ("people.xlsx", lambda size: book(_SHEET, _rows(size))),
    "empty cells": ("people.xlsx", lambda size: book(_SHEET, _rows(size, b"<row><c/></row>"))),
    "numbered rows": ("people.xlsx", lambda size: book(_SHEET, _numbered(size))),
    "high rows": ("people.xlsx", lambda size: book(_SHEET, _high(size))),
    "strings": ("people.xlsx", lambda size: book(_STRINGS, _strings(size))),
    "styles": ("people.xlsx", lambda size: book("xl/styles.xml", _rows(size, b"<a/>"))),
    "empty lines": ("people.jsonl", lambda size: _packed_bz2(b"\n" * MIB, size)),
    "empty lines of a table": ("people.csv", lambda size: _packed_bz2(b"\n" * MIB, size)),
    "blank lines": ("people.jsonl", lambda size: _packed_bz2(b" " * (MIB - 1) + b"\n", size)),
    "empty rows of a table": (
        "people.csv",
        lambda size: gzip.compress(b"id,name\n") + _packed_gzip(b",\n" * (MIB // 2), size),
    ),
    "a line": ("people.jsonl", lambda size: _packed_bz2(b"a" * MIB, size)),
    "an array of nothing": (
        "people.json",
        lambda size: gzip.compress(b"[\n") + _packed_gzip(b"\n" * MIB, size),
    ),
    "an array of junk": (
        "people.json",
        lambda size: gzip.compress(b"[") + _packed_gzip(b"a" * MIB, size),
    ),
    "a comment": (
        "graph.graphml",
        lambda size: gzip.compress(b"<graphml><!--") + _packed_gzip(b"a" * MIB, size),
    ),
    "a text of a table": (
        "people.parquet",
        lambda size: _columns(name=pa.array(["A" * (size * MIB)])),
    ),
    "a text that rows share": ("people.parquet", lambda size: _columns(name=_shared(size))),
    "a long list": ("people.parquet", lambda size: _columns(name=_list(size))),
    "dots": ("pipeline.toml", lambda size: b"a" + b".a" * (200 * size) + b" = 1\n"),
    "dots in quotes": ("policy.toml", lambda size: b'"a"' + b' . "a"' * (100 * size) + b" = 1\n"),
}
"""Name -> the file's name, and its content for a size."""
