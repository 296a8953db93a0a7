from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from kbforge.testing import SourceContract
from tests.contracts.test_sources import PADDING, Lines, Row, parquet_of


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
