"""Good files of any size for every source, for the tests that hold for all of them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tests.sources.rebel_documents import document


@dataclass(frozen=True)
class Reader:
    """How to call a source, and what to feed it.

    Attributes:
        arguments: what follows `kbforge load`.
        suffix: of its files.
        content: a file of n good records with the ids of `ids(n)`.
        header_lines: lines before the first record.
        by_line: whether a record is a line, so that damage costs only what comes after it.

    """

    arguments: list[str]
    suffix: str
    content: Callable[[int], bytes]
    identifier: str
    header_lines: int = 0
    by_line: bool = True

    def ids(self, n: int) -> list[str]:
        return [self.identifier.format(i) for i in range(1, n + 1)]


FILLING = "a value that is long enough to weigh something, " * 3


def jsonl(n: int) -> bytes:
    records = ({"id": f"f{i}", "properties": {"name": [f"N{i}", FILLING]}} for i in range(1, n + 1))
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def csv(n: int) -> bytes:
    rows = "".join(f'f{i},N{i},"{FILLING}"\n' for i in range(1, n + 1))
    return f"id,name,note\n{rows}".encode()


def rebel(n: int) -> bytes:
    return b"".join(json.dumps(document(i)).encode() + b"\n" for i in range(1, n + 1))


def tweetnerd(n: int) -> bytes:
    rows = (f"{i}\tN{i} {FILLING.strip()}\t0\t9\tQ{i}\t3\n" for i in range(1, n + 1))
    return "".join(rows).encode()


def wikidata(n: int) -> bytes:
    return b"".join(
        json.dumps(
            {
                "id": f"Q{i}",
                "type": "item",
                "labels": {"en": {"language": "en", "value": f"Ada {i} {FILLING}"}},
            }
        ).encode()
        + b"\n"
        for i in range(1, n + 1)
    )


def parquet(n: int) -> bytes:
    out = io.BytesIO()
    numbers = range(1, n + 1)
    table = {
        "id": [f"f{i}" for i in numbers],
        "name": [f"N{i}" for i in numbers],
        "note": [f"{i} {FILLING}" for i in numbers],
    }
    pq.write_table(pa.table(table), out, row_group_size=1_000)
    return out.getvalue()


READERS = {
    "jsonl": Reader(["jsonl"], ".jsonl", jsonl, "f{}"),
    "csv": Reader(["csv", "--id", "id"], ".csv", csv, "f{}", header_lines=1),
    "rebel": Reader(["rebel"], ".jsonl", rebel, "{0}-Q{0}"),
    "tweetnerd": Reader(["tweetnerd"], ".tsv", tweetnerd, "{0}-0-9-Q{0}"),
    "wikidata": Reader(["wikidata"], ".json", wikidata, "Q{}"),
    "parquet": Reader(["parquet", "--id", "id"], ".parquet", parquet, "f{}", by_line=False),
    "hf": Reader(["hf", "--id", "id"], ".csv", csv, "f{}", by_line=False),
}
BY_LINE = [name for name, reader in READERS.items() if reader.by_line]


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def zstandard(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(content)
    return bytes(sink.getvalue())
