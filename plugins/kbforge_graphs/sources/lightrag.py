"""The lightrag source: the GraphML graph of LightRAG or nano-graphrag.

An input is the folder of its storage, or the graph's file. The id of a node is the entity's name,
`source_id` its text chunks. LightRAG limits that list and marks this in `truncate`; then the chunks
come from `kv_store_entity_chunks.json` and `kv_store_relation_chunks.json` beside the graph.

Lists are joined by `<SEP>`. nano-graphrag puts names, types and descriptions in quotes, which are
removed. The type `UNKNOWN` means none.

XML is parsed piece by piece, and a document type is refused, so a small file cannot expand through
entities, and nothing is fetched.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from xml.parsers import expat

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.fragments import parse_json, read_each
from kbforge.files.io import called, damage_of, open_input, read_small
from kbforge_graphs.sources.graphs import GraphEntity, GraphSource, Record, Relation

GRAPH = "graph_chunk_entity_relation.graphml"
SEPARATOR = "<SEP>"
_STEP = 1 << 16  # bytes
_MOST_TEXT = 1 << 24  # characters of one node or edge
_MOST_BETWEEN = 1 << 25  # bytes between two nodes or edges
_MOST_STORE = 1 << 30  # bytes
_STORES = {GraphEntity: "kv_store_entity_chunks.json", Relation: "kv_store_relation_chunks.json"}


class LightRagSource(GraphSource):
    """LightRAG's or nano-graphrag's storage folder, or the GraphML file in it."""

    endings: ClassVar = (".graphml",)

    def records(self, path: str, on_bad: OnBad) -> Iterator[Record]:
        file = path
        if path != "-" and Path(path).is_dir():
            file = os.fspath(Path(path) / GRAPH)
            if not Path(file).is_file():
                expected = f"a folder of LightRAG with {GRAPH}"
                raise KBForgeError(
                    f"{quoted(path, 400)}: expected {expected}, got a folder without it"
                )
        store = cache(json_object)  # each is read when it is first asked

        def chunks(kind: type[Record], key: str) -> list[str] | None:
            return _all_chunks(store(Path(file).parent / _STORES[kind]), key)

        yield from read_each(
            elements(file, on_bad),
            lambda element: _record(element, chunks),
            lambda element: repr(element.attributes).encode(),
            on_bad,
        )


def json_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is no file."""
    if not file.is_file():
        return {}
    value = parse_json(read_small(str(file), "a JSON file of a graph", _MOST_STORE), str(file))
    if not isinstance(value, dict):
        raise BadRecord(str(file), "a JSON object", type(value).__name__)
    return value


def _all_chunks(store: Mapping[str, Any], key: str) -> list[str] | None:
    """All chunks of a key; None if the store does not have it."""
    entry = store.get(key)
    found = entry.get("chunk_ids") if isinstance(entry, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        return None
    return list(filter(None, found))


def _record(element: Element, chunks: Callable[[type[Record], str], list[str] | None]) -> Record:
    data, place = element.data, element.place
    units = _parts(data.get("source_id", ""))
    if element.kind == "node":
        key = element.attribute("id")
        return GraphEntity(
            key=key,
            name=_bare(key),
            units=(chunks(GraphEntity, key) if data.get("truncate") else None) or units,
            type=_bare(data.get("entity_type", "")),
            description="\n".join(_parts(data.get("description", ""))),
            place=place,
        )
    head, tail = element.attribute("source"), element.attribute("target")
    pair = SEPARATOR.join(sorted((head, tail)))
    return Relation(
        head=head,
        tail=tail,
        units=(chunks(Relation, pair) if data.get("truncate") else None) or units,
        weight=_weight(data.get("weight", ""), place),
        place=place,
    )


def _parts(text: str) -> list[str]:
    parts = (_bare(part.strip()) for part in text.split(SEPARATOR))
    return list(dict.fromkeys(filter(None, parts)))


def _bare(text: str) -> str:
    """A text without the quotes around it; some have more on one side."""
    if len(text) > 2 and text[0] == text[-1] == '"':
        return text.strip('"') or text
    return text


def _weight(text: str, place: str) -> float:
    try:
        return float(text or "1") if "_" not in text else float("nan")
    except ValueError:
        raise BadRecord(place, "a number", f'"{quoted(text, 40)}"', "weight") from None


class Element:
    """A node or an edge of GraphML, with its data by the names of their keys."""

    def __init__(self, kind: str, attributes: Mapping[str, str], place: str) -> None:
        self.kind, self.attributes, self.place = kind, attributes, place
        self.data: dict[str, str] = {}
        self.size = 0

    def attribute(self, name: str) -> str:
        """A required attribute."""
        if name not in self.attributes:
            raise BadRecord(self.place, f'a {self.kind} with "{name}"', "none")
        return self.attributes[name]


def elements(path: str, on_bad: OnBad) -> Iterator[Element]:
    """The nodes and edges of a GraphML file, one at a time.

    If the file is damaged or truncated, `on_bad` is called, and reading ends. KBForgeError: the
    file cannot be opened, or is not GraphML. BadRecord: it has a document type, or little of it is
    nodes and edges.
    """
    graph, between = _Graph(called(path)), 0
    with open_input(path) as stream:
        while True:
            try:
                piece = stream.read(_STEP)
            except (OSError, EOFError, zlib.error) as error:
                on_bad(BadRecord(graph.place, "a whole file", damage_of(error)), b"")
                return
            try:
                graph.parser.Parse(piece, not piece)
            except (expat.ExpatError, ValueError, LookupError) as error:
                reason = BadRecord(graph.place, "GraphML", f"something else ({quoted(str(error))})")
                if not graph.is_one:
                    raise reason from error
                yield from graph.take()
                on_bad(reason, b"")
                return
            between += len(piece)
            for element in graph.take():
                between = 0
                yield element
            if not piece:
                return
            if between > _MOST_BETWEEN:  # such as one comment, which the parser holds whole
                expected = f"a node or an edge within {_MOST_BETWEEN:,} bytes"
                raise BadRecord(graph.place, expected, "none")


class _Graph:
    """Receives the events of a parser."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.is_one = False
        self._keys: dict[str, str] = {}
        self._open: Element | None = None
        self._field: str | None = None
        self._text: list[str] = []
        self._ready: list[Element] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    @property
    def place(self) -> str:
        """Where the parser is."""
        return f"{self._name}:{self.parser.CurrentLineNumber}"

    def take(self) -> list[Element]:
        """The elements completed so far, each once."""
        ready, self._ready = self._ready, []
        return ready

    def _refuse(self, *_: object) -> None:
        raise BadRecord(self.place, "GraphML without a document type", "a document type")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        kind = tag.rpartition(" ")[2]
        if not self.is_one:
            if kind != "graphml":
                raise BadRecord(self.place, "GraphML", f"XML with <{quoted(kind, 40)}>")
            self.is_one = True
        if kind == "key":
            self._keys[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif kind in ("node", "edge"):
            self._open = Element(kind, attributes, self.place)
        elif kind == "data" and self._open is not None:
            key = attributes.get("key", "")
            self._field, self._text = self._keys.get(key, key), []

    def _end(self, tag: str) -> None:
        kind = tag.rpartition(" ")[2]
        if self._open is None:
            return
        if kind == "data" and self._field is not None:
            self._open.data[self._field] = "".join(self._text)
            self._field = None
        elif kind == self._open.kind:
            self._ready.append(self._open)
            self._open = None

    def _characters(self, text: str) -> None:
        if self._open is None or self._field is None:
            return
        self._open.size += len(text)
        if self._open.size > _MOST_TEXT:
            expected = f"at most {_MOST_TEXT:,} characters of a {self._open.kind}"
            raise BadRecord(self.place, expected, "more")
        self._text.append(text)
