from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import ClassVar

from openpyxl import Workbook

from kbforge.testing import SourceContract

PADDING = "x" * 150


class TestJsonl(SourceContract):
    name = "jsonl"
    filename = "input.jsonl"

    def document(self, n: int) -> bytes:
        return b"".join(self._line(i) for i in range(n))

    def bad_documents(self) -> Mapping[str, bytes]:
        bad = {
            "truncated": b'{"id": "x", "properties": {"na\n',
            "no properties": b'{"id": "x"}\n',
            "a lone surrogate": b'{"id": "x", "properties": {"name": ["\\ud800"]}}\n',
            "not UTF-8": b'{"id": "x", "properties": {"name": ["\xff"]}}\n',
            "not an object": b"3\n",
        }
        return {what: self._line(0) + line + self._line(1) for what, line in bad.items()}

    @staticmethod
    def _line(i: int) -> bytes:
        record = {"id": f"r{i}", "properties": {"name": [f"name {i}"], "note": [PADDING]}}
        return json.dumps(record).encode() + b"\n"


class TestCsv(SourceContract):
    name = "csv"
    filename = "input.csv"
    options: ClassVar = {"id": "id", "label": "entity"}

    def document(self, n: int) -> bytes:
        return b"id,entity,name,note\r\n" + b"".join(self._row(i) for i in range(n))

    def bad_documents(self) -> Mapping[str, bytes]:
        bad = {
            "a field too few": b"x,e,a\r\n",
            "a field too many": b"x,e,a,b,c\r\n",
            "nothing but an id": b"x,,,\r\n",
            "no id": b",e,a,b\r\n",
            "NUL": b"x,e,a\0b,c\r\n",
            "not UTF-8": b"x,e,\xff,c\r\n",
        }
        header = b"id,entity,name,note\r\n"
        return {what: header + self._row(0) + row + self._row(1) for what, row in bad.items()}

    @staticmethod
    def _row(i: int) -> bytes:
        return f'r{i},e,"nämé, {i}",{PADDING}\r\n'.encode()


def parquet(rows: Sequence[Mapping[str, object]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    schema = pa.schema([(column, pa.string()) for column in ("id", "entity", "name", "note")])
    out = io.BytesIO()
    pyarrow.parquet.write_table(
        pa.Table.from_pylist(list(rows), schema=schema), out, row_group_size=500, compression="none"
    )
    return out.getvalue()


def row(i: int) -> dict[str, object]:
    return {"id": f"r{i}", "entity": "e", "name": f"name {i}", "note": f"{PADDING} {i}"}


class TestParquet(SourceContract):
    name = "parquet"
    filename = "input.parquet"
    options: ClassVar = {"id": "id", "label": "entity"}

    def document(self, n: int) -> bytes:
        return parquet([row(i) for i in range(n)])

    def bad_documents(self) -> Mapping[str, bytes]:
        bad = {
            "no id": row(5) | {"id": None},
            "nothing but an id": {"id": "x"},
            "NUL": row(5) | {"name": "a\0b"},
        }
        return {what: parquet([row(0), record, row(1)]) for what, record in bad.items()}


def spreadsheet(rows: Sequence[Mapping[str, object]]) -> bytes:
    """A workbook whose size says how much is in it: nothing is compressed."""
    book = Workbook(write_only=True)
    sheet = book.create_sheet()
    columns = ("id", "entity", "name", "note")
    for values in (columns, *([each.get(column) for column in columns] for each in rows)):
        sheet.append(list(values))
    packed, out = io.BytesIO(), io.BytesIO()
    book.save(packed)
    with zipfile.ZipFile(packed) as whole, zipfile.ZipFile(out, "w") as plain:
        for part in whole.namelist():
            plain.writestr(part, whole.read(part))
    return out.getvalue()


class TestXlsx(SourceContract):
    name = "xlsx"
    filename = "input.xlsx"
    options: ClassVar = {"id": "id", "label": "entity"}

    def document(self, n: int) -> bytes:
        return spreadsheet([row(i) for i in range(n)])

    def bad_documents(self) -> Mapping[str, bytes]:
        bad = {
            "no id": row(5) | {"id": None},
            "nothing but an id": {"id": "x"},
            "NUL": row(5) | {"name": "a_x0000_b"},
        }
        return {what: spreadsheet([row(0), record, row(1)]) for what, record in bad.items()}


class TestHuggingFace(TestParquet):
    name = "hf"


class TestRebel(SourceContract):
    name = "rebel"
    filename = "input.jsonl"

    def document(self, n: int) -> bytes:
        return b"".join(self._line(i) for i in range(n))

    def bad_documents(self) -> Mapping[str, bytes]:
        bad = {
            "truncated": b'{"docid": "1", "text": "\n',
            "no text": json.dumps({"docid": "1", "entities": [], "triples": []}).encode() + b"\n",
            "entities of a wrong type": self._line(7, entities="none"),
            "a triple of a wrong type": self._line(7, triples=[3]),
        }
        return {what: self._line(0) + line + self._line(1) for what, line in bad.items()}

    @staticmethod
    def _line(i: int, **changes: object) -> bytes:
        item, name = f"Q{i + 1}", f"Name {i}"
        mention = {"uri": item, "surfaceform": name, "boundaries": [0, len(name)]}
        record = {"docid": str(i), "uri": item, "title": name, "text": f"{name} {PADDING}"}
        record |= {"entities": [mention], "triples": []} | changes  # type: ignore[assignment]
        return json.dumps(record).encode() + b"\n"


class TestTweetNerd(SourceContract):
    name = "tweetnerd"
    filename = "input.tsv"

    def document(self, n: int) -> bytes:
        return b"".join(self._row(i) for i in range(n))

    def bad_documents(self) -> Mapping[str, bytes]:
        bad = {
            "a field too few": b"1\tphrase\t0\t6\tQ1\n",
            "an offset that is no number": b"1\tphrase\tzero\t6\tQ1\t1\n",
            "not UTF-8": b"1\t\xff\t0\t6\tQ1\t1\n",
        }
        return {what: self._row(0) + line + self._row(1) for what, line in bad.items()}

    @staticmethod
    def _row(i: int) -> bytes:
        phrase = f"phrase {i} {PADDING}"
        return f"{1000 + i}\t{phrase}\t0\t{len(phrase)}\tQ{i % 7 + 1}\t3\n".encode()
