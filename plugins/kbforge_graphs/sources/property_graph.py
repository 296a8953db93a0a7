"""The property-graph source: JSON graphs of four libraries.

| flavor | a document has | its text unit |
|---|---|---|
| langchain | nodes, relationships with nodes at their ends, source | the source's id, or MD5 |
| neo4j-graphrag | nodes, relationships with start_node_id, end_node_id | where FROM_CHUNK leads |
| cognee | nodes, edges | none of its own |
| llamaindex | nodes and relations by id: `property_graph_store.json` | triplet_source_id |

The MD5 is that of the source's text, as LangChain's own stores take it.

A file holds one document or several: JSON lines, an array, or an object over several lines.
LlamaIndex's file is read as a whole. A document without a text unit of its own is one, called by
the file's name and its number. Nodes that stand for texts, and relations with them, are no
entities; embeddings and nested properties are passed over. A node's other properties become
attributes, except those that LlamaIndex copies from the document.
"""

from __future__ import annotations

import codecs
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord, KBForgeError, listed, quoted
from kbforge.files.fragments import shown
from kbforge.files.io import called, open_input, read_small
from kbforge.files.records import convert
from kbforge_graphs.sources.graphs import GraphEntity, GraphSource, Record, Relation
from kbforge_plugins.sources.values import JsonValue, json_values, read_values

Flavor: TypeAlias = Literal["langchain", "llamaindex", "neo4j-graphrag", "cognee"]
_FLAVORS = "langchain, llamaindex, neo4j-graphrag or cognee"
_MOST_BYTES = 1 << 30
_HEAD = 256
_LLAMA = re.compile(rb'\s*\{\s*"(?:nodes|relations)"\s*:\s*\{')
_OF_DOCUMENT = frozenset(
    {
        *("file_path", "file_name", "file_type", "file_size", "creation_date"),
        *("last_modified_date", "last_accessed_date", "document_id", "doc_id", "ref_doc_id"),
        "triplet_source_id",
    }
)
_TEXTS = frozenset({"Chunk", "Document"})  # labels of neo4j-graphrag's nodes that are no entities


class PropertyGraphSource(GraphSource):
    """Graphs of LangChain, LlamaIndex, neo4j-graphrag and Cognee, as JSON.

    Args:
        flavor: whose graph it is, where its keys do not tell.

    """

    def __init__(self, flavor: Flavor | None = None) -> None:
        super().__init__()
        self._flavor = flavor

    def records(self, path: str, on_bad: OnBad) -> Iterator[Record]:
        if self._flavor == "llamaindex" or (self._flavor is None and _is_llama(path)):
            yield from _of_llama(path)
            return
        stem = "stdin" if path == "-" else PurePath(path).name.partition(".")[0] or "graph"

        def whole(found: JsonValue) -> list[Record]:
            """All records of a document, so that a bad one sets the document aside."""
            document = Document(found.value, found.where, f"{stem}-{found.number}")
            return list(_READERS[self._flavor or _flavor(document)](document))

        for records in read_values(json_values(path, on_bad), whole, on_bad):
            yield from records


class Document:
    """One document: its JSON value, where it is, and the text unit that it makes if it has none."""

    def __init__(self, value: Any, where: str, unit: str) -> None:
        self.value, self.where, self.unit = value, where, unit


def _is_llama(path: str) -> bool:
    return _LLAMA.match(_head(path)) is not None


def _head(path: str) -> bytes:
    """The first bytes of a file behind blanks; none of standard input."""
    if path == "-":
        return b""
    with open_input(path) as stream:
        try:
            return stream.read(_HEAD).removeprefix(codecs.BOM_UTF8).lstrip()
        except (OSError, EOFError, zlib.error):  # whoever reads it says so
            return b""


def _flavor(document: Document) -> Flavor:
    """Whose document it is, by its keys and those of its first node and relation."""
    value = document.value
    if isinstance(value, dict):
        if isinstance(value.get("nodes"), dict):
            expected = "documents of one line or in an array, or --set source.flavor=llamaindex"
            raise BadRecord(document.where, expected, "a graph of LlamaIndex")
        first = _first(value.get("relationships"))
        if "edges" in value:
            return "cognee"
        if "start_node_id" in first or "label" in _first(value.get("nodes")):
            return "neo4j-graphrag"
        if "source" in value or "source" in first or "type" in _first(value.get("nodes")):
            return "langchain"
    expected = f"a document of {_FLAVORS} (--set source.flavor names it)"
    got = f"an object with {listed(list(value), 5)}" if value and isinstance(value, dict) else ""
    raise BadRecord(document.where, expected, got or shown(value))


def _first(items: object) -> Mapping[str, Any]:
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


Id: TypeAlias = str | int
Properties: TypeAlias = dict[str, Any]


class _LangNode(Struct):
    id: Id
    type: str | None = None
    properties: Properties | None = None


class _LangRelation(Struct):
    source: _LangNode
    target: _LangNode
    type: str | None = None


class _LangSource(Struct):
    page_content: str | None = None
    metadata: Properties | None = None
    id: Id | None = None


class _LangDocument(Struct):
    nodes: list[_LangNode] = field(default_factory=list)
    relationships: list[_LangRelation] = field(default_factory=list)
    source: _LangSource | None = None


def _of_langchain(document: Document) -> Iterator[Record]:
    graph = convert(document.value, _LangDocument, document.where)
    units = [_lang_unit(graph.source) or document.unit]
    for node in graph.nodes:
        yield _entity(str(node.id), node.type, node.properties, units, document.where)
    for relation in graph.relationships:
        head, tail = str(relation.source.id), str(relation.target.id)
        yield Relation(head, tail, units, relation.type or "", place=document.where)


def _lang_unit(source: _LangSource | None) -> str:
    if source is None:
        return ""
    for unit in (source.id, (source.metadata or {}).get("id")):
        if isinstance(unit, str | int) and unit != "":
            return str(unit)
    if not source.page_content:
        return ""
    content = source.page_content.encode(errors="surrogatepass")
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class _NeoNode(Struct):
    id: Id
    label: str | None = None
    properties: Properties | None = None


class _NeoRelation(Struct):
    start_node_id: Id
    end_node_id: Id
    type: str | None = None


class _NeoDocument(Struct):
    nodes: list[_NeoNode]
    relationships: list[_NeoRelation] = field(default_factory=list)


def _of_neo4j(document: Document) -> Iterator[Record]:
    graph = convert(document.value, _NeoDocument, document.where)
    texts = {str(node.id) for node in graph.nodes if node.label in _TEXTS}
    units: dict[str, list[str]] = {}
    between = []
    for relation in graph.relationships:
        head, tail = str(relation.start_node_id), str(relation.end_node_id)
        if relation.type == "FROM_CHUNK" and head not in texts:
            units.setdefault(head, []).append(tail)
            texts.add(tail)
        else:
            between.append((head, tail, relation.type or ""))
    for node in graph.nodes:
        key = str(node.id)
        if key not in texts:
            of_it = units.get(key, [document.unit])
            yield _entity(key, node.label, node.properties, of_it, document.where)
    for head, tail, kind in between:
        if head in texts or tail in texts:
            continue
        shared = [unit for unit in units.get(head, ()) if unit in units.get(tail, ())]
        of_it = shared or units.get(head) or units.get(tail) or [document.unit]
        yield Relation(head, tail, of_it, kind, place=document.where)


class _CogneeNode(Struct):
    id: Id
    name: str | None = None
    type: str | None = None
    description: str | None = None


class _CogneeEdge(Struct):
    source_node_id: Id
    target_node_id: Id
    relationship_name: str | None = None
    description: str | None = None


class _CogneeGraph(Struct):
    nodes: list[_CogneeNode]
    edges: list[_CogneeEdge] = field(default_factory=list)


def _of_cognee(document: Document) -> Iterator[Record]:
    graph = convert(document.value, _CogneeGraph, document.where)
    units = [document.unit]
    for node in graph.nodes:
        said = {"name": node.name, "description": node.description}
        yield _entity(str(node.id), node.type, said, units, document.where)
    for edge in graph.edges:
        yield Relation(
            head=str(edge.source_node_id),
            tail=str(edge.target_node_id),
            units=units,
            type=edge.relationship_name or "",
            description=edge.description or "",
            place=document.where,
        )


class _LlamaNode(Struct):
    label: str | None = None
    name: str | None = None
    properties: Properties | None = None


class _LlamaRelation(Struct):
    source_id: str
    target_id: str
    label: str | None = None
    properties: Properties | None = None


class _LlamaStore(Struct):
    nodes: dict[str, _LlamaNode]
    relations: dict[str, _LlamaRelation] = field(default_factory=dict)


def _of_llama(path: str) -> Iterator[Record]:
    content = read_small(path, "a property graph of LlamaIndex", _MOST_BYTES)
    try:
        store = msgspec.json.decode(content, type=_LlamaStore)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        got = f"something else ({quoted(str(error), 160)})"
        raise KBForgeError(
            f"{quoted(called(path), 400)}: expected a property graph of LlamaIndex, got {got}"
        ) from error
    texts = {key for key, node in store.nodes.items() if node.label == "text_chunk"}
    for key, node in store.nodes.items():
        if key not in texts:
            said = {k: v for k, v in (node.properties or {}).items() if not _is_copied(k)}
            said = {"name": node.name, **said}
            yield _entity(key, node.label, said, _llama_units(node.properties), called(path))
    for relation in store.relations.values():
        if not {relation.source_id, relation.target_id} & texts:
            yield Relation(
                head=relation.source_id,
                tail=relation.target_id,
                units=_llama_units(relation.properties),
                type=relation.label or "",
                place=called(path),
            )


def _is_copied(key: str) -> bool:
    return key.startswith("_") or key in _OF_DOCUMENT


def _llama_units(properties: Properties | None) -> list[str]:
    unit = (properties or {}).get("triplet_source_id")
    return [unit] if isinstance(unit, str) and unit else []


_READERS: Mapping[Flavor, Callable[[Document], Iterator[Record]]] = {
    "langchain": _of_langchain,
    "neo4j-graphrag": _of_neo4j,
    "cognee": _of_cognee,
}


def _entity(
    key: str,
    kind: str | None,
    properties: Properties | None,
    units: Sequence[str],
    where: str,
) -> GraphEntity:
    said = {attribute: _texts(value) for attribute, value in (properties or {}).items()}
    name, description = said.pop("name", []), said.pop("description", [])
    return GraphEntity(
        key=key,
        name=name[0] if name else key,
        units=units,
        type=kind or "",
        description="\n".join(description),
        properties={attribute: values for attribute, values in said.items() if values},
        place=where,
    )


def _texts(value: object) -> list[str]:
    """A property's values as texts; none for null and for objects."""
    match value:
        case str():
            return [value.strip()] if value.strip() else []
        case bool():
            return [str(value).lower()]
        case int() | float():
            return [str(value)]
        case list():
            return [text for item in value if not isinstance(item, list) for text in _texts(item)]
    return []
