from __future__ import annotations

import io
import json
import zipfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from openpyxl import Workbook

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


class TestSpacy(Lines):
    name = "spacy"
    filename = "input.jsonl"
    bad: ClassVar = {
        "truncated": b'{"text": "Ada", "ents": [\n',
        "no text": b'{"ents": []}\n',
        "offsets beyond the text": b'{"text": "x", "ents": [{"start": 0, "end": 9}]}\n',
        "a lone surrogate": b'{"text": "\\ud800", "ents": [{"start": 0, "end": 1}]}\n',
    }

    def line(self, i: int) -> bytes:
        text, ents = f"Ada{i} {PADDING}", [{"start": 0, "end": 3 + len(str(i)), "label": "P"}]
        return json.dumps({"text": text, "ents": ents}).encode() + b"\n"


class TestTriples(Lines):
    """Each triple is about an entity that is its own neighbour, so that it gives one fragment."""

    name = "triples"
    filename = "input.jsonl"
    bad: ClassVar = {
        "truncated": b'{"head": "A", "rel\n',
        "a head of a wrong type": b'{"head": {}, "relation": "r", "tail": "A"}\n',
        "no object": b"3\n",
    }

    def line(self, i: int) -> bytes:
        name = f"Ada {i}"
        triple = {"head": name, "relation": f"is {PADDING}", "tail": name, "context": f"c{i}"}
        return json.dumps(triple).encode() + b"\n"


class TestTriplesOfRdf(Lines):
    name = "triples"
    filename = "input.nt"
    bad: ClassVar = {
        "truncated": b"<http://x.org/a> <http://x.org/\n",
        "no statement": b"a b c .\n",
        "not UTF-8": b'<http://x.org/a> <http://x.org/b> "\xff" .\n',
    }

    def line(self, i: int) -> bytes:
        return f'<http://x.org/{i}> <http://x.org/note> "{PADDING} {i}" .\n'.encode()


class TestGliner(Lines):
    name = "gliner"
    filename = "input.json"
    header = b"[\n"
    bad: ClassVar = {
        "truncated": b'[{"start": 0, "end": 3, "te\n',
        "no text": b'[{"start": 0, "end": 3}],\n',
        "no list": b"3,\n",
    }

    def line(self, i: int) -> bytes:
        entity = {"start": 0, "end": 3, "text": f"Ada {i} {PADDING}", "label": "P"}
        return json.dumps([entity]).encode() + b",\n"

    def document(self, n: int) -> bytes:
        return super().document(n) + b"]\n"

    def bad_documents(self) -> Mapping[str, bytes]:
        return {what: text + b"]\n" for what, text in super().bad_documents().items()}


class TestWikidata(TestGliner):
    name = "wikidata"
    options: ClassVar = {"claims": "P1"}
    bad: ClassVar = {
        "truncated": b'{"type": "item", "id": "Q9", "lab\n',
        "no id": b'{"type": "item", "labels": {}},\n',
        "claims of a wrong type": b'{"type": "item", "id": "Q9", "claims": {"P1": 3}},\n',
        "no object": b"3,\n",
    }

    def line(self, i: int) -> bytes:
        labels = {"en": {"language": "en", "value": f"Ada {i} {PADDING}"}}
        entity = {"type": "item", "id": f"Q{i + 1}", "labels": labels, "claims": []}
        return json.dumps(entity).encode() + b",\n"


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


class TestGraphRag(SourceContract):
    name = "graphrag"
    filename = "output"

    def document(self, n: int) -> bytes:
        return self.entities([self.entity(i) for i in range(n)])

    def entity(self, i: int) -> Row:
        return {"title": f"NAME {i}", "description": f"{PADDING} {i}", "text_unit_ids": [f"t{i}"]}

    def entities(self, rows: Sequence[Row]) -> bytes:
        import pyarrow as pa

        columns = {"title": pa.string(), "description": pa.string()}
        return parquet_of(rows, {**columns, "text_unit_ids": pa.list_(pa.string())})

    def bad_documents(self) -> Mapping[str, bytes]:
        bad: Mapping[str, Row] = {
            "no title": {**self.entity(5), "title": None},
            "an empty title": {**self.entity(5), "title": ""},
            "NUL": {**self.entity(5), "title": "a\0b"},
            "a text unit without an id": {**self.entity(5), "text_unit_ids": [""]},
        }
        return {
            what: self.entities([self.entity(0), record, self.entity(1)])
            for what, record in bad.items()
        }

    def inputs(self, folder: Path, content: bytes) -> list[str]:
        import pyarrow as pa

        output = folder / self.filename
        output.mkdir(exist_ok=True)
        (output / "entities.parquet").write_bytes(content)
        ends = {"source": pa.string(), "target": pa.string()}
        (output / "relationships.parquet").write_bytes(parquet_of([], ends))
        return [str(output)]


class TestLightRag(SourceContract):
    name = "lightrag"
    filename = "graph.graphml"

    def node(self, i: int) -> str:
        return f'<node id="Name {i}">{self.data(f"{PADDING} {i}", f"chunk-{i}")}</node>'

    def data(self, description: str, chunk: str) -> str:
        return f'<data key="d0">{description}</data><data key="d1">{chunk}</data>'

    def graph(self, elements: Sequence[str]) -> bytes:
        keys = "".join(
            f'<key id="d{i}" for="node" attr.name="{name}" attr.type="string"/>'
            for i, name in enumerate(("description", "source_id"))
        )
        lines = "\n".join(elements)
        return f"<graphml>{keys}<graph>\n{lines}\n</graph></graphml>\n".encode()

    def document(self, n: int) -> bytes:
        return self.graph([self.node(i) for i in range(n)])

    def bad_documents(self) -> Mapping[str, bytes]:
        bad = {
            "no id": f"<node>{self.data(PADDING, 'chunk-5')}</node>",
            "an empty id": f'<node id="">{self.data(PADDING, "chunk-5")}</node>',
            "an edge without a target": '<edge source="Name 0"/>',
        }
        return {
            what: self.graph([self.node(0), element, self.node(1)]) for what, element in bad.items()
        }


class TestPropertyGraph(Lines):
    name = "property-graph"
    filename = "graph.jsonl"
    bad: ClassVar = {
        "truncated": b'{"nodes": [{"id": "x"\n',
        "a node without an id": b'{"nodes": [{"type": "x"}], "relationships": []}\n',
        "of no library": b'{"x": 1}\n',
        "not an object": b"3\n",
    }

    def line(self, i: int) -> bytes:
        node = {"id": f"Name {i}", "type": "Person", "properties": {"note": PADDING}}
        source = {"page_content": f"Text {i}", "metadata": {}}
        return json.dumps({"nodes": [node], "relationships": [], "source": source}).encode() + b"\n"


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
