"""The property-graph source: JSON graphs of five libraries.

| flavor | a document has | its text unit |
|---|---|---|
| langchain | nodes, relationships with nodes at their ends, source | the source's id, or MD5 |
| neo4j-graphrag | nodes, relationships with start_node_id, end_node_id | where FROM_CHUNK leads |
| cognee | nodes, edges with source_node_id, target_node_id | none of its own |
| cognee-export | nodes, edges with source, target | the chunks that lead to an entity |
| graphiti | nodes and edges with uuid; edges state a fact | the episodes of an edge |
| llamaindex | nodes and relations by id: `property_graph_store.json` | triplet_source_id |

The MD5 is that of the source's text, as in LangChain's own stores. Cognee writes `cognee-export`
with `cognee.export(format="json")`, and the same as a folder with `format="cogx"`, which has
`entities.jsonl`, `facts.jsonl` and, for other nodes, `nodes.jsonl` and `documents.jsonl`. The type
of an entity is the name of the node that `is_a` leads to. Graphiti's nodes and edges are
`model_dump(mode="json")` of its EntityNode and EntityEdge.

A file holds one document or several: JSON lines, an array, or an object over several lines.
LlamaIndex's file is read at once. A document without a text unit becomes one, named by the file's
name and its number. Nodes that represent texts, and relations with them, are not entities;
embeddings and nested properties are skipped. A node's other properties become attributes, except
those that LlamaIndex copies from the document.
"""

from __future__ import annotations

import codecs
import hashlib
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import GenericAlias
from typing import Any, Literal, TypeAlias, get_origin

import msgspec
from msgspec import field

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord, KBForgeError, listed, quoted
from kbforge.files.fragments import shown
from kbforge.files.io import called, open_input, read_small
from kbforge.files.records import convert
from kbforge_graphs.sources.graphs import GraphEntity, GraphSource, Record, Relation, times_in
from kbforge_plugins.sources.values import JsonValue, json_values, read_values

Flavor: TypeAlias = Literal[
    "langchain", "llamaindex", "neo4j-graphrag", "cognee", "cognee-export", "graphiti"
]
_FLAVORS = "langchain, llamaindex, neo4j-graphrag, cognee or graphiti"
COGX_ENTITIES, COGX_FACTS = "entities.jsonl", "facts.jsonl"
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
    """Graphs of LangChain, LlamaIndex, neo4j-graphrag, Cognee and Graphiti, as JSON.

    Args:
        flavor: the library that wrote the graph, if its keys do not show it.

    """

    def __init__(self, flavor: Flavor | None = None) -> None:
        self._flavor = flavor

    def records(self, path: str, on_bad: OnBad) -> Iterator[Record]:
        if self._flavor == "llamaindex" or (self._flavor is None and _is_llama(path)):
            yield from _of_llama(path)
            return
        if path != "-" and Path(path).is_dir():
            document = _of_cogx(Path(path), on_bad)
            yield from of_document("cognee-export", document, path, PurePath(path).name or "graph")
            return
        stem = "stdin" if path == "-" else PurePath(path).name.partition(".")[0] or "graph"

        def whole(found: JsonValue) -> list[Record]:
            """All records of a document, so that a bad one sets the document aside."""
            flavor = self._flavor or flavor_of(found.value, found.where)
            return list(of_document(flavor, found.value, found.where, f"{stem}-{found.number}"))

        for records in read_values(json_values(path, on_bad), whole, on_bad):
            yield from records


def _of_cogx(folder: Path, on_bad: OnBad) -> dict[str, list[Any]]:
    """A folder of Cognee's exchange format, as a document of its other export."""

    def rows(name: str, needed: bool = False) -> Iterator[Any]:
        if needed or (folder / name).exists():
            yield from (found.value for found in json_values(str(folder / name), on_bad))

    def renamed(row: Any, names: Mapping[str, str], **others: str) -> Any:
        return {names.get(k, k): v for k, v in row.items()} | others if type(row) is dict else row

    entity, document = {"external_id": "id"}, {"external_id": "id", "title": "name"}
    ends = {"subject_ref": "source", "object_ref": "target", "predicate": "relationship_name"}
    return {
        "nodes": [
            *(renamed(row, entity, type=ENTITY) for row in rows(COGX_ENTITIES, True)),
            *rows("nodes.jsonl"),
            *(renamed(row, document, type="DocumentChunk") for row in rows("documents.jsonl")),
        ],
        "edges": [renamed(row, ends) for row in rows(COGX_FACTS, True)],
    }


def _is_llama(path: str) -> bool:
    """Whether a file begins as LlamaIndex's do; standard input is not looked at."""
    if path == "-" or Path(path).is_dir():
        return False
    with open_input(path) as stream:
        try:
            head = stream.read(_HEAD)
        except (OSError, EOFError, zlib.error):  # whoever reads it says so
            return False
    return _LLAMA.match(head.removeprefix(codecs.BOM_UTF8).lstrip()) is not None


def flavor_of(value: Any, where: str) -> Flavor:
    """The library that wrote a document, inferred from its keys and those of its first node and
    relation."""
    if isinstance(value, dict):
        if isinstance(value.get("nodes"), dict):
            expected = "documents of one line or in an array, or --set source.flavor=llamaindex"
            raise BadRecord(where, expected, "a graph of LlamaIndex")
        first, edge = _first(value.get("relationships")), _first(value.get("edges"))
        if "edges" in value and ("uuid" in _first(value.get("nodes")) or "uuid" in edge):
            return "graphiti"
        if "edges" in value:
            return "cognee-export" if "source" in edge else "cognee"
        if "start_node_id" in first or "label" in _first(value.get("nodes")):
            return "neo4j-graphrag"
        if "source" in value or "source" in first or "type" in _first(value.get("nodes")):
            return "langchain"
    expected = f"a document of {_FLAVORS} (--set source.flavor names it)"
    got = f"an object with {listed(list(value), 5)}" if value and isinstance(value, dict) else ""
    raise BadRecord(where, expected, got or shown(value))


def _first(items: object) -> Mapping[str, Any]:
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


def _shape(required: Mapping[str, Any], called: Any = None, **optional: Any) -> Any:
    """A JSON object with these keys; an optional one that is not there is null, or empty.

    `called` has the keys of fields that have other names here.
    """
    empty: dict[Any, Any] = {list: field(default_factory=list), dict: field(default_factory=dict)}
    others = [(key, kind, empty.get(get_origin(kind))) for key, kind in optional.items()]
    return msgspec.defstruct("Shape", [*required.items(), *others], rename=called)


def _many(shape: Any) -> Any:
    return GenericAlias(list, (shape,))


def _by_id(shape: Any) -> Any:
    return GenericAlias(dict, (str, shape))


_ID, _TEXT, _PROPERTIES = str | int, str | None, dict[str, Any] | None
_TYPED = {"type": _TEXT, "properties": _PROPERTIES}
_LANG_NODE = _shape({"id": _ID}, **_TYPED)
_LANG_SOURCE = _shape({}, page_content=_TEXT, metadata=_PROPERTIES, id=_ID | None)
_COGNEE_NODE = _shape({"id": _ID}, name=_TEXT, type=_TEXT, description=_TEXT)
_GRAPHITI_NODE = _shape(
    {"id": str},
    called={"id": "uuid", "type": "labels", "description": "summary", "properties": "attributes"},
    name=_TEXT,
    type=list[str] | None,
    description=_TEXT,
    properties=_PROPERTIES,
)
_LLAMA_NODE = _shape({}, label=_TEXT, name=_TEXT, properties=_PROPERTIES)


def _link(head: str, tail: str, kind: str, end: Any = _ID, **optional: Any) -> Any:
    """A relation, whose ends and type have these keys."""
    called = {"head": head, "tail": tail, "type": kind}
    return _shape({"head": end, "tail": end}, called, **{"type": _TEXT, **optional})


def _graph(node: Any, link: Any, called: str = "edges") -> Any:
    return _shape({"nodes": _many(node)}, {"links": called}, links=_many(link))


_DOCUMENTS: Mapping[Flavor, Any] = {
    "langchain": _shape(
        {},
        {"links": "relationships"},
        nodes=_many(_LANG_NODE),
        links=_many(_link("source", "target", "type", _LANG_NODE, **_TYPED)),
        source=_LANG_SOURCE | None,
    ),
    "neo4j-graphrag": _graph(
        _shape({"id": _ID}, {"type": "label"}, **_TYPED),
        _link("start_node_id", "end_node_id", "type", **_TYPED),
        "relationships",
    ),
    "cognee": _graph(_COGNEE_NODE, _link("source_node_id", "target_node_id", "relationship_name")),
    "cognee-export": _graph(_COGNEE_NODE, _link("source", "target", "relationship_name")),
    "graphiti": _graph(
        _GRAPHITI_NODE,
        _link(
            "source_node_uuid",
            "target_node_uuid",
            "name",
            str,
            episodes=list[str] | None,
            **dict.fromkeys(("valid_at", "created_at", "invalid_at", "expired_at"), _TEXT),
        ),
    ),
}
_LLAMA_LINK = _link("source_id", "target_id", "label", str, properties=_PROPERTIES)
_LLAMA_STORE = _shape({"nodes": _by_id(_LLAMA_NODE)}, relations=_by_id(_LLAMA_LINK))
ENTITY = "Entity"
"""The type of Cognee's nodes that are entities, and a label of all of Graphiti's."""


def of_document(flavor: Flavor, value: Any, where: str, unit: str) -> Iterator[Record]:
    """The records of a document, which is the text unit `unit` if it has none of its own."""
    graph = convert(value, _DOCUMENTS[flavor], where)
    ends = ([getattr(end, "id", end) for end in (link.head, link.tail)] for link in graph.links)
    links = [(*map(str, of), link) for of, link in zip(ends, graph.links, strict=True)]
    units: dict[str, list[str]] = {}
    texts: set[str] = set()
    kinds = {str(node.id): _kind(node.type) for node in graph.nodes}
    if flavor == "langchain":
        unit = _lang_unit(graph.source) or unit
    elif flavor == "neo4j-graphrag":
        texts = {str(node.id) for node in graph.nodes if node.type in _TEXTS}
        for head, tail, link in links:
            if link.type == "FROM_CHUNK" and head not in texts:
                units.setdefault(head, []).append(tail)
                texts.add(tail)
    elif flavor == "cognee-export" and ENTITY in kinds.values():
        texts = {key for key, type_of_it in kinds.items() if type_of_it != ENTITY}
        names = {str(node.id): node.name or "" for node in graph.nodes}
        kinds = {**kinds, **dict.fromkeys(kinds.keys() - texts, "")}
        for head, tail, link in links:
            if head in texts and kinds[head] == "DocumentChunk" and tail not in texts:
                units.setdefault(tail, []).append(head)
            elif tail in texts and link.type == "is_a":
                kinds[head] = names[tail]
    elif flavor == "graphiti":
        for head, tail, link in links:
            for end in (head, tail):
                units.setdefault(end, []).extend(link.episodes or ())
    for node in graph.nodes:
        if (key := str(node.id)) not in texts:
            stated = {k: getattr(node, k) for k in ("name", "description") if hasattr(node, k)}
            stated |= getattr(node, "properties", None) or {}
            yield _entity(key, kinds[key], stated, units.get(key) or [unit], where)
    for head, tail, link in links:
        if head not in texts and tail not in texts:
            shared = [one for one in units.get(head, ()) if one in units.get(tail, ())]
            own = getattr(link, "episodes", None)
            of_it = own or shared or units.get(head) or units.get(tail) or [unit]
            about = getattr(link, "properties", None) or msgspec.structs.asdict(link)
            yield Relation(
                *(head, tail, of_it, link.type or ""), place=where, times=times_in(about)
            )


def _kind(stated: str | list[str] | None) -> str:
    """A node's type: of several labels the first that not all have."""
    if isinstance(stated, list):
        return next((label for label in stated if label != ENTITY), "")
    return stated or ""


def _lang_unit(source: Any) -> str:
    if source is None:
        return ""
    for unit in (source.id, (source.metadata or {}).get("id")):
        if isinstance(unit, str | int) and unit != "":
            return str(unit)
    if not source.page_content:
        return ""
    content = source.page_content.encode(errors="surrogatepass")
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _of_llama(path: str) -> Iterator[Record]:
    content = read_small(path, "a property graph of LlamaIndex", _MOST_BYTES)
    try:
        store = msgspec.json.decode(content, type=_LLAMA_STORE)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        got = f"something else ({quoted(str(error), 160)})"
        raise KBForgeError(
            f"{quoted(called(path), 400)}: expected a property graph of LlamaIndex, got {got}"
        ) from error
    texts = {key for key, node in store.nodes.items() if node.label == "text_chunk"}
    for key, node in store.nodes.items():
        if key not in texts:
            stated = (node.properties or {}).items()
            said = {k: v for k, v in stated if k[:1] != "_" and k not in _OF_DOCUMENT}
            said = {"name": node.name, **said}
            yield _entity(key, node.label, said, _llama_units(node.properties), called(path))
    for relation in store.relations.values():
        if not {relation.head, relation.tail} & texts:
            units, times = _llama_units(relation.properties), times_in(relation.properties or {})
            of_it = relation.head, relation.tail, units, relation.type or ""
            yield Relation(*of_it, place=called(path), times=times)


def _llama_units(properties: Mapping[str, Any] | None) -> list[str]:
    unit = (properties or {}).get("triplet_source_id")
    return [unit] if isinstance(unit, str) and unit else []


def _entity(
    key: str,
    kind: str | None,
    properties: Mapping[str, Any] | None,
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
