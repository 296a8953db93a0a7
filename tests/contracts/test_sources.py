from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import zipfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from openpyxl import Workbook

from kbforge.errors import KBForgeError
from kbforge.testing import SourceContract

PADDING = "x" * 150
Row = Mapping[str, object]


class Lines(SourceContract):
    """A format of lines."""

    header = b""
    bad: ClassVar[Mapping[str, bytes]] = {}

    @abstractmethod
    def line(self, i: int) -> bytes: ...

    def document(self, n: int) -> bytes:
        return self.header + b"".join(map(self.line, range(n)))

    def bad_documents(self) -> Mapping[str, bytes]:
        first, last = self.header + self.line(0), self.line(1)
        return {what: first + line + last for what, line in self.bad.items()}


class TestJsonl(Lines):
    name = "jsonl"
    filename = "input.jsonl"
    bad: ClassVar = {
        "truncated": b'{"id": "x", "properties": {"na\n',
        "no properties": b'{"id": "x"}\n',
        "a lone surrogate": b'{"id": "x", "properties": {"name": ["\\ud800"]}}\n',
        "not UTF-8": b'{"id": "x", "properties": {"name": ["\xff"]}}\n',
        "not an object": b"3\n",
    }

    def line(self, i: int) -> bytes:
        record = {"id": f"r{i}", "properties": {"name": [f"name {i}"], "note": [PADDING]}}
        return json.dumps(record).encode() + b"\n"


class TestCsv(Lines):
    name = "csv"
    filename = "input.csv"
    options: ClassVar = {"id": "id", "label": "entity"}
    header = b"id,entity,name,note\r\n"
    bad: ClassVar = {
        "a field too few": b"x,e,a\r\n",
        "a field too many": b"x,e,a,b,c\r\n",
        "nothing but an id": b"x,,,\r\n",
        "no id": b",e,a,b\r\n",
        "NUL": b"x,e,a\0b,c\r\n",
        "not UTF-8": b"x,e,\xff,c\r\n",
    }

    def line(self, i: int) -> bytes:
        return f'r{i},e,"nämé, {i}",{PADDING}\r\n'.encode()


def mention(i: int, **changes: object) -> bytes:
    item, name = f"Q{i + 1}", f"Name {i}"
    found = {"uri": item, "surfaceform": name, "boundaries": [0, len(name)]}
    record: dict[str, object] = {"docid": str(i), "uri": item, "title": name}
    record |= {"text": f"{name} {PADDING}", "entities": [found], "triples": []} | changes
    return json.dumps(record).encode() + b"\n"


class TestRebel(Lines):
    name = "rebel"
    filename = "input.jsonl"
    bad: ClassVar = {
        "truncated": b'{"docid": "1", "text": "\n',
        "no text": json.dumps({"docid": "1", "entities": [], "triples": []}).encode() + b"\n",
        "entities of a wrong type": mention(7, entities="none"),
        "a triple of a wrong type": mention(7, triples=[3]),
    }

    def line(self, i: int) -> bytes:
        return mention(i)


class TestTweetNerd(Lines):
    name = "tweetnerd"
    filename = "input.tsv"
    bad: ClassVar = {
        "a field too few": b"1\tphrase\t0\t6\tQ1\n",
        "an offset that is no number": b"1\tphrase\tzero\t6\tQ1\t1\n",
        "not UTF-8": b"1\t\xff\t0\t6\tQ1\t1\n",
    }

    def line(self, i: int) -> bytes:
        phrase = f"phrase {i} {PADDING}"
        return f"{1000 + i}\t{phrase}\t0\t{len(phrase)}\tQ{i % 7 + 1}\t3\n".encode()


COLUMNS = ("id", "entity", "name", "note")


def row(i: int) -> Row:
    return {"id": f"r{i}", "entity": "e", "name": f"name {i}", "note": f"{PADDING} {i}"}


class Tables(SourceContract):
    """A format of rows with the columns `COLUMNS`."""

    options: ClassVar = {"id": "id", "label": "entity"}
    nul = "a\0b"

    @abstractmethod
    def file(self, rows: Sequence[Row]) -> bytes: ...

    def document(self, n: int) -> bytes:
        return self.file(list(map(row, range(n))))

    def bad_documents(self) -> Mapping[str, bytes]:
        bad: Mapping[str, Row] = {
            "no id": {**row(5), "id": None},
            "nothing but an id": {"id": "x"},
            "NUL": {**row(5), "name": self.nul},
        }
        return {what: self.file([row(0), record, row(1)]) for what, record in bad.items()}


class TestParquet(Tables):
    name = "parquet"
    filename = "input.parquet"

    def file(self, rows: Sequence[Row]) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.Table.from_pylist(list(rows), pa.schema([(c, pa.string()) for c in COLUMNS]))
        out = io.BytesIO()
        pyarrow.parquet.write_table(table, out, row_group_size=500, compression="none")
        return out.getvalue()


def parquet_of(rows: Sequence[Row], schema: Mapping[str, object]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    out = io.BytesIO()
    table = pa.Table.from_pylist(list(rows), pa.schema(list(schema.items())))
    pyarrow.parquet.write_table(table, out, row_group_size=500, compression="none")
    return out.getvalue()


class TestHuggingFace(TestParquet):
    name = "hf"


class TestXlsx(Tables):
    name = "xlsx"
    filename = "input.xlsx"
    nul = "a_x0000_b"

    def file(self, rows: Sequence[Row]) -> bytes:
        """A workbook whose size says how much is in it: nothing is compressed."""
        book = Workbook(write_only=True)
        sheet = book.create_sheet()
        for values in (COLUMNS, *([each.get(column) for column in COLUMNS] for each in rows)):
            sheet.append(list(values))
        packed, out = io.BytesIO(), io.BytesIO()
        book.save(packed)
        with zipfile.ZipFile(packed) as whole, zipfile.ZipFile(out, "w") as plain:
            for part in whole.namelist():
                plain.writestr(part, whole.read(part))
        return out.getvalue()


class TestSql(Tables):
    name = "sql"
    filename = "input.db"
    options: ClassVar = {**Tables.options, "query": "SELECT * FROM people"}

    def file(self, rows: Sequence[Row]) -> bytes:
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.execute(f"CREATE TABLE people ({', '.join(COLUMNS)})")
            values = [[each.get(column) for column in COLUMNS] for each in rows]
            database.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", values)
            database.commit()
            return database.serialize()

    def inputs(self, folder: Path, content: bytes) -> list[str]:
        return [f"sqlite:///{path}" for path in super().inputs(folder, content)]

    def test_a_missing_file_is_a_sentence(self, tmp_path: Path) -> None:
        inputs = self.inputs(tmp_path, self.document(1))
        (tmp_path / self.filename).unlink()
        with pytest.raises(KBForgeError):
            self._read(inputs)
