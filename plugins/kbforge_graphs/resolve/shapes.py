"""The shapes of graphs: the files of a tool, read into records and written back.

| shape | nodes and relations | what refers to them |
|---|---|---|
| GraphRAG | entities.parquet, relationships.parquet | text units, communities, claims |
| LightRAG, nano-graphrag | a GraphML file | JSON stores by name, and vectors |
| Cognee, as a folder | entities.jsonl, facts.jsonl | counts in manifest.json |
| Graphiti, Cognee, as a file | lists in one JSON object | Graphiti's episodes |
| triples | any file of the source triples; written as CSV | nothing |

Every other file of a folder is copied. Texts that a model wrote about communities describe the old
entities, and a note says so.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

import orjson

from kbforge import registry
from kbforge.contracts import OnBad
from kbforge.errors import KBForgeError, UsageError, listed, option, quoted
from kbforge.files.cells import csv_writer, safe
from kbforge.files.fragments import stop
from kbforge_graphs.resolve.plan import Plan
from kbforge_graphs.resolve.rewrite import Follow, Layout, Record, Rewriter, made_id, refer
from kbforge_graphs.sources.graphrag import ENTITIES, RELATIONSHIPS, TEXT_UNITS
from kbforge_graphs.sources.graphs import GraphEntity, GraphSource, Relation
from kbforge_graphs.sources.graphs import Record as Stated
from kbforge_graphs.sources.lightrag import GRAPH, SEPARATOR, json_object
from kbforge_graphs.sources.property_graph import (
    COGX_ENTITIES,
    COGX_FACTS,
    flavor_of,
    of_document,
)
from kbforge_plugins.sources.parquet import rows_of
from kbforge_plugins.sources.values import json_values

_STALE = "what a model wrote about communities describes the graph before; let its tool write again"


class Shape(GraphSource):
    """A graph in the files of a tool, and a source of what the tool's own source read there.

    Args:
        path: its folder or file.

    Raises:
        KBForgeError: it cannot be read.
        BadRecord: the first bad record.

    """

    name: ClassVar[str]
    tables: ClassVar = ("", "")  # of nodes and of relations
    node: Layout
    edge: Layout

    def __init__(self, path: Path) -> None:
        self.folder = path if path.is_dir() else path.parent
        self.files = sorted(path.iterdir()) if path.is_dir() else [path]
        self.notes: list[str] = []
        self.stated: list[Stated] = self.told(path)
        self.names = {x.key: x.name for x in self.stated if isinstance(x, GraphEntity)}
        self.nodes: list[Record] = []
        self.edges: list[Record] = []
        self.open(path)

    def told(self, path: Path) -> list[Stated]:
        """What the source of the shape reads."""
        return list(registry.create("sources", self.name).records(str(path), stop))

    def records(self, path: str, on_bad: OnBad) -> Iterator[Stated]:
        return iter(self.stated)

    def open(self, path: Path) -> None:
        """Read the records of nodes and relations."""
        self.nodes, self.edges = (self.rows(name) for name in self.tables)

    def write(self, out: Path, rewriter: Rewriter) -> None:
        """Write the files that differ from the input's; nodes and edges are then what they hold."""
        self.resolve(rewriter)
        for name, rows in zip(self.tables, (self.nodes, self.edges), strict=True):
            self.save(out / name, rows)

    def rows(self, name: str) -> list[Record]:
        """The records of a table."""
        if name.endswith(".jsonl"):
            return [found.value for found in json_values(str(self.folder / name), stop)]
        with rows_of(str(self.folder / name), stop) as (columns, rows):
            return [dict(zip(columns, cells, strict=True)) for _, cells in rows]

    def save(self, file: Path, rows: Sequence[Record]) -> None:
        """Write a table with the columns that it had."""
        if file.suffix == ".jsonl":
            file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pq.read_schema(self.folder / file.name)
        pq.write_table(pa.Table.from_pylist(list(rows), schema), file)

    def new_key(self, key: str, number: int) -> str:
        """A key for another node of a name: `VICTORIA (2)`."""
        return f'{key[:-1]} ({number})"' if key.endswith('"') else f"{key} ({number})"

    def write_all(self, out: Path, plan: Plan) -> Rewriter:
        """Write the resolved graph into a folder."""
        for file in self.files:
            if file.is_dir():
                shutil.copytree(file, out / file.name, symlinks=True)
            else:
                shutil.copyfile(file, out / file.name)
        rewriter = Rewriter(plan)
        try:
            self.write(out, rewriter)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            got = f"others ({type(error).__name__}: {quoted(str(error), 100)})"
            place = quoted(str(self.folder), 400)
            raise KBForgeError(f"{place}: expected files of {self.name}, got {got}") from error
        return rewriter

    def resolve(self, rewriter: Rewriter) -> None:
        """Rewrite nodes and edges."""
        stated = [record for record in self.stated if isinstance(record, Relation)]
        self.nodes = rewriter.nodes(self.nodes, self.node)
        self.edges = rewriter.edges(self.edges, self.edge, stated)


class GraphRag(Shape):
    """GraphRAG's output folder.

    Titles stay unique: another VICTORIA is `VICTORIA (2)`, with an id of her own. Ids of text units
    and communities are followed; so are titles of claims, by their text unit.
    """

    name = "graphrag"
    tables = (ENTITIES, RELATIONSHIPS)
    node = Layout(
        key="title",
        id="id",
        number="human_readable_id",
        units="text_unit_ids",
        texts={"description": "\n", "text_unit_ids": ""},
        counts={"frequency": "text_unit_ids"},
    )
    edge = node._replace(key="", ends=("source", "target"), weight="weight", counts={})

    def write(self, out: Path, rewriter: Rewriter) -> None:
        key_of = {row.get("id"): row["title"] for row in self.nodes}
        super().write(out, rewriter)
        node_ids, edges, keys = rewriter.node_ids, rewriter.edge_ids_of, rewriter.plan.nodes_at

        def nodes(id: str, unit: str) -> list[str]:
            new = keys(key_of[id], unit) if id in key_of else ()
            return [node_ids[key] for key in new] or [id]

        ids: Mapping[str, Follow] = {"entity_ids": nodes, "relationship_ids": edges}
        claims = dict.fromkeys(("subject_id", "object_id"), keys)
        for name, unit, follow in (
            (TEXT_UNITS, "id", ids),
            ("communities.parquet", "", ids),
            ("covariates.parquet", "text_unit_id", claims),
        ):
            if (self.folder / name).is_file():
                self.save(out / name, [refer(row, follow, unit) for row in self.rows(name)])
        if (self.folder / "community_reports.parquet").exists():
            self.notes.append(_STALE)

    def resolve(self, rewriter: Rewriter) -> None:
        before = _degrees(self.edges)
        super().resolve(rewriter)
        after = _degrees(self.edges)
        for rows, column, ends in (
            (self.nodes, "degree", ("title",)),
            (self.edges, "combined_degree", self.edge.ends),
        ):
            for at, row in enumerate(rows):
                if column in row and any(before[row[end]] != after[row[end]] for end in ends):
                    rows[at] = {**row, column: sum(after[row[end]] for end in ends)}


def _degrees(edges: Iterable[Record]) -> Counter[str]:
    """How many others each title is connected with, as GraphRAG counts: itself, too."""
    pairs = {(row["source"], row["target"]) for row in edges}
    return Counter(one for one, _ in {*pairs, *((b, a) for a, b in pairs)})


class LightRag(Shape):
    """The storage folder of LightRAG or nano-graphrag, or its GraphML file.

    Names are keys, and edges have no direction. The stores of LightRAG name entities as keys, in
    lists, and in pairs; its vectors (`vdb_*.json`) are rows of a matrix in the order of the data. A
    node that parts from another has a copy of its vector.
    """

    name = "lightrag"
    _texts: ClassVar = {
        **dict.fromkeys(("description", "source_id", "file_path"), SEPARATOR),
        "keywords": ",",
        "chunk_ids": "",
    }
    node = Layout(key="id", units="source_id", texts=_texts, copies=("entity_id",))
    edge = Layout(ends=("source", "target"), units="source_id", weight="weight", texts=_texts)
    _chunks = Layout(units="chunk_ids", texts=_texts, counts={"count": "chunk_ids"})

    def open(self, path: Path) -> None:
        self._file = path / GRAPH if path.is_dir() else path
        # the source has read it: it is GraphML without a document type
        self._tree = ElementTree.parse(self._file)
        root = self._tree.getroot()
        self._space = root.tag.rpartition("}")[0] + "}" if root.tag[:1] == "{" else ""
        self._keys = list(root.iter(f"{self._space}key"))
        names = {key.get("id"): key.get("attr.name", "") for key in self._keys}
        self._elements: dict[int, tuple[Record, ElementTree.Element]] = {}
        for kind, records in (("node", self.nodes), ("edge", self.edges)):
            for element in root.iter(self._space + kind):
                data = {
                    names.get(one.get("key"), one.get("key", "")): one.text or ""
                    for one in element.iter(f"{self._space}data")
                }
                records.append({**data, **element.attrib})
                self._elements[id(records[-1])] = records[-1], element

    def name_of(self, key: str) -> str:
        return key.strip('"') or key

    def write(self, out: Path, rewriter: Rewriter) -> None:
        self.resolve(rewriter)
        graph = self._tree.getroot().find(f"{self._space}graph")
        assert graph is not None
        for element in [one for one in graph if one.tag.rpartition("}")[2] in ("node", "edge")]:
            graph.remove(element)
        graph.extend(self._element("node", row, ("id",)) for row in self.nodes)
        graph.extend(self._element("edge", row, self.edge.ends) for row in self.edges)
        ElementTree.register_namespace("", self._space.strip("{}"))
        self._tree.write(out / self._file.name, "utf-8", xml_declaration=True)
        stores: dict[str, Callable[[Record, Rewriter], Record]] = {
            "kv_store_entity_chunks.json": self._entity_chunks,
            "kv_store_relation_chunks.json": self._relation_chunks,
            "kv_store_full_entities.json": self._names,
            "kv_store_full_relations.json": self._names,
            "kv_store_community_reports.json": self._names,
            "vdb_entities.json": self._vectors,
            "vdb_relationships.json": self._vectors,
        }
        for file in self.files:
            if file.name in stores:
                value = stores[file.name](json_object(file), rewriter)
                (out / file.name).write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))
            if file.name == "kv_store_community_reports.json":
                self.notes.append(_STALE)

    def _element(self, kind: str, row: Record, attributes: Sequence[str]) -> ElementTree.Element:
        """The element of a record; a new one if the record is new."""
        if id(row) in self._elements:
            return self._elements[id(row)][1]
        made = ElementTree.Element(self._space + kind, {name: row[name] for name in attributes})
        for key in self._keys:
            if key.get("for") in (kind, "all", None) and key.get("attr.name") in row:
                data = ElementTree.SubElement(made, f"{self._space}data", key=key.get("id", ""))
                data.text = row[key.get("attr.name", "")]
        made.tail = "\n"
        return made

    def _entity_chunks(self, value: Record, rewriter: Rewriter) -> Record:
        rows = [{"_key": key, **entry} for key, entry in value.items()]
        layout = self._chunks._replace(key="_key", copies=("_id",))
        return {row.pop("_key"): row for row in rewriter.nodes(rows, layout)}

    def _relation_chunks(self, value: Record, rewriter: Rewriter) -> Record:
        ends = ("_head", "_tail")
        rows = [
            {**dict(zip(ends, key.split(SEPARATOR, 1), strict=True)), **entry}
            for key, entry in value.items()
        ]
        out: Record = {}
        for row in rewriter.edges(rows, self._chunks._replace(ends=ends)):
            key = SEPARATOR.join(sorted(row.pop(end) for end in ends))
            out[key] = {**row, "_id": key} if "_id" in row else row
        return out

    def _vectors(self, value: Record, rewriter: Rewriter) -> Record:
        """The rows of entities or relations in a file of NanoVectorDB; new ones get new ids."""
        before = value.get("data") or []
        rows = [{**row, "_row": at} for at, row in enumerate(before)]
        if all("entity_name" in row for row in before):
            kind, name = "ent-", ["entity_name"]
            rows = rewriter.nodes(rows, self.node._replace(key="entity_name"))
        else:
            kind, name = "rel-", ["src_id", "tgt_id"]
            rows = rewriter.edges(rows, self.edge._replace(ends=("src_id", "tgt_id")))
        known = {tuple(row[end] for end in name) for row in before}
        for row in rows:
            if (new := tuple(row[end] for end in name)) not in known:
                text = "".join(new).encode(errors="surrogatepass")
                row["__id__"] = kind + hashlib.md5(text, usedforsecurity=False).hexdigest()
        picked = [row.pop("_row") for row in rows]
        if value.get("matrix") and before:
            content = base64.b64decode(value["matrix"])
            size = len(content) // len(before)
            kept = b"".join(content[at * size : (at + 1) * size] for at in picked)
            value["matrix"] = base64.b64encode(kept).decode()
        return {**value, "data": rows}

    def _names(self, value: Record, rewriter: Rewriter) -> Record:
        """Follow lists of names, and of pairs of names; a parted one becomes all that exist."""
        edges = {frozenset((row["source"], row["target"])) for row in self.edges}
        of = rewriter.plan.nodes_at

        def pairs(old: Sequence[str], _: str) -> list[tuple[str, str]]:
            found = product(of(old[0]), of(old[1]))
            return [pair for pair in found if [*pair] == old or frozenset(pair) in edges]

        lists: Mapping[str, Follow] = {
            "entity_names": of,
            "nodes": of,
            "relation_pairs": pairs,
            "edges": pairs,
        }
        for key, entry in value.items():
            value[key] = new = refer(entry, lists)
            lengths = [len(new[name]) for name in lists if name in new]
            new |= {"count": lengths[-1]} if lengths and "count" in new else {}
        return value


_TIMES = ("valid_at", "invalid_at", "expired_at")


class _Named(Shape):
    """Nodes with an id, which is the key, and a name."""

    name = "property-graph"

    def new_key(self, key: str, number: int) -> str:
        made = made_id(key, number)
        self.names[made] = self.name_of(key)
        return made

    def name_of(self, key: str) -> str:
        return self.names.get(key, key)


class CogneeFolder(_Named):
    """A folder of Cognee's exchange format (COGX)."""

    tables = (COGX_ENTITIES, COGX_FACTS)
    node = Layout(key="external_id", texts={"description": "\n", "aliases": ""})
    edge = Layout(
        ends=("subject_ref", "object_ref"),
        id="external_id",
        texts={"fact_text": "\n", "provenance": ""},
        kind=("predicate", *_TIMES),
        is_directed=True,
    )

    def write(self, out: Path, rewriter: Rewriter) -> None:
        super().write(out, rewriter)
        manifest = out / "manifest.json"
        if manifest.is_file():
            value = json_object(manifest)
            counts = {"entity": len(self.nodes), "fact": len(self.edges)}
            value["counts"] = {**(value.get("counts") or {}), **counts}
            manifest.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))


class Document(_Named):
    """One JSON object of Graphiti or Cognee.

    An edge of Graphiti is a statement: only those that state the same fact for the same time become
    one. Edges of Cognee are one if their relationship is.
    """

    _ENDS: ClassVar = {
        "graphiti": ("source_node_uuid", "target_node_uuid"),
        "cognee": ("source_node_id", "target_node_id"),
        "cognee-export": ("source", "target"),
    }

    def told(self, path: Path) -> list[Stated]:
        file = next(one for one in self.files if one.suffix == ".json")
        self._file, self._value = file, json_object(file)
        self._flavor = flavor_of(self._value, str(file))
        if self._flavor not in self._ENDS:
            raise KBForgeError(
                f"{quoted(str(file), 400)}: expected a graph of Graphiti or Cognee, got one of "
                f"{self._flavor}, which kbforge load reads"
            )
        unit = f"{file.name.partition('.')[0] or 'graph'}-1"
        return list(of_document(self._flavor, self._value, str(file), unit))

    def open(self, path: Path) -> None:
        self.nodes, self.edges = self._value["nodes"], self._value.get("edges") or []
        if self._flavor == "graphiti":
            texts = {"summary": "\n", "labels": "", "episodes": ""}
            edge = Layout(id="uuid", units="episodes", texts=texts, kind=("name", "fact", *_TIMES))
        else:
            texts = {"description": "\n", "edge_text": "\n"}
            edge = Layout(texts=texts, kind=("relationship_name", *_TIMES))
        self.node = Layout(key=edge.id or "id", texts=texts)
        self.edge = edge._replace(ends=self._ENDS[self._flavor], is_directed=True)

    def write(self, out: Path, rewriter: Rewriter) -> None:
        self.resolve(rewriter)
        value = {**self._value, "nodes": self.nodes, "edges": self.edges}
        for name in ("episodic_edges", "community_edges"):
            if isinstance(value.get(name), list):
                layout = self.edge._replace(units="", texts={}, kind=("name",))
                value[name] = rewriter.edges(value[name], layout)
        if value.get("episodes"):
            follow = {"entity_edges": rewriter.edge_ids_of}
            value["episodes"] = [refer(one, follow, "uuid") for one in value["episodes"]]
        (out / self._file.name).write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))


class Triples(Shape):
    """A file of triples, which comes back as a table: `triples.csv`, whatever its format was."""

    name = "triples"
    node = Layout(key="key")
    edge = Layout(
        ends=("head", "tail"),
        units="context",
        weight="weight",
        texts={"context": "|"},
        kind=("relation",),
        is_directed=True,
    )

    def open(self, path: Path) -> None:
        relations = [record for record in self.stated if isinstance(record, Relation)]
        cells = ((x.head, x.type, x.tail, x.weight, "|".join(x.units)) for x in relations)
        self.edges = [dict(zip(_TRIPLE, row, strict=True)) for row in cells]
        self.files = []

    def write(self, out: Path, rewriter: Rewriter) -> None:
        self.resolve(rewriter)
        with (out / "triples.csv").open("wb") as file, csv_writer(file) as writer:
            writer.writerow(_TRIPLE)
            writer.writerows([safe(str(cell)) for cell in row.values()] for row in self.edges)


_TRIPLE = ("head", "relation", "tail", "weight", "context")


def shape_of(path: str, source: str | None) -> Shape:
    """The graph in a folder or a file, in the shape that its files show.

    Raises:
        UsageError: files of several shapes and no source, or a source whose files are not there.

    """
    place = Path(path)
    files = sorted(place.iterdir()) if place.is_dir() else [place] if place.exists() else []
    names = [file.name for file in files]
    documents = [name for name in names if name.endswith(".json")]
    found: dict[str, type[Shape]] = {
        shape.name: shape for mark, (_, shape) in _MARKS.items() if mark in names
    }
    if place.is_file() and path.endswith(".graphml"):
        found["lightrag"] = LightRag
    if len(documents) == 1 and (source or not found):
        found.setdefault("property-graph", Document)
    if place.is_file() and not found and source in (None, "triples"):
        found["triples"] = Triples
    if source in found or (source is None and len(found) == 1):
        return found[source or next(iter(found))](place)
    where = quoted(path, 400)
    if len(found) > 1 and source is None:
        several = " and ".join(found)
        raise UsageError(f"{where} has files of {several}; name one with {option('source')}")
    inside = [file.name for file in files if any((file / mark).is_file() for mark in _MARKS)]
    empty = "an empty folder" if place.exists() else "no such folder or file"
    raise UsageError(
        f"{where}: expected {', '.join(f'{mark} ({tool})' for mark, (tool, _) in _MARKS.items())} "
        f"or one file of JSON (Graphiti, Cognee), got {listed(names, 3, 40) or empty}"
        + (f"; give {quoted(str(place / inside[0]), 400)}" if inside else "")
    )


_MARKS: Mapping[str, tuple[str, type[Shape]]] = {
    ENTITIES: ("GraphRAG", GraphRag),
    GRAPH: ("LightRAG, nano-graphrag", LightRag),
    COGX_FACTS: ("Cognee", CogneeFolder),
}
"""The file that shows a shape, and the tools that write it."""
