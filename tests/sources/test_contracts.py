"""The laws of sources, for each of ours."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from kbforge.testing.source import SourceContract
from tests.sources.readers import READERS


class _ByLine(SourceContract):
    """A source whose records are lines."""

    def document(self, n: int) -> bytes:
        return READERS[self.name].content(n)

    def bad_documents(self) -> Mapping[str, bytes]:
        """The second of three records replaced by something else."""
        header = READERS[self.name].header_lines
        lines = self.document(3).split(b"\n")
        out = {}
        for what, line in self.bad_lines().items():
            lines[header + 1] = line
            out[what] = b"\n".join(lines)
        return out

    def bad_lines(self) -> Mapping[str, bytes]:
        raise NotImplementedError


class TestJsonl(_ByLine):
    name = "jsonl"

    def bad_lines(self) -> Mapping[str, bytes]:
        return {"no JSON": b"oops", "no properties": b'{"id": "x"}', "UTF-8": b'"\xff"'}


class TestCsv(_ByLine):
    name = "csv"
    options = {"id": "id"}  # noqa: RUF012

    def bad_lines(self) -> Mapping[str, bytes]:
        return {"ragged": b"f2,N2", "no id": b",N2,x", "quote": b'f2,"N2,x', "UTF-8": b"f2,\xff,x"}


class TestRebel(_ByLine):
    name = "rebel"

    def bad_lines(self) -> Mapping[str, bytes]:
        return {"no JSON": b"oops", "no text": b'{"docid": "2"}', "array": b"[]"}


class TestTweetNerd(_ByLine):
    name = "tweetnerd"

    def bad_lines(self) -> Mapping[str, bytes]:
        return {"fields": b"2\tN2", "offset": b"2\tN2\tx\t9\tQ2\t3", "entity": b"2\tN\t0\t9\tZ\t3"}


class _Parquet(SourceContract):
    """A source that reads Parquet files."""

    filename = "input.parquet"
    options = {"id": "id"}  # noqa: RUF012

    def document(self, n: int) -> bytes:
        return _parquet([{"id": f"f{i}", "name": f"N{i}", "note": f"{i} " * 60} for i in range(n)])

    def bad_documents(self) -> Mapping[str, bytes]:
        good = [{"id": "a", "name": "Ann"}, {"id": "c", "name": "Cid"}]
        bad = {"no id": {"id": None, "name": "Bo"}, "NUL": {"id": "b", "name": "B\0"}}
        return {what: _parquet([good[0], row, good[1]]) for what, row in bad.items()}


def _parquet(rows: list[dict[str, object]]) -> bytes:
    """A file as large as its text: plain encoding, no compression."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, sink, row_group_size=1_000, compression="none", use_dictionary=False)
    return bytes(sink.getvalue())


class TestParquet(_Parquet):
    name = "parquet"


class TestHuggingFace(_Parquet):
    name = "hf"
