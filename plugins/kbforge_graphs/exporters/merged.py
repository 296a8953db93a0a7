"""Writes a loaded graph with its entities merged: GraphRAG's tables, GraphML or triples.

Without a graph, graphml and triples write the relations that the knowledge base itself states, with
fragments as text units and their number as weight.

An exporter reads the loaded graph once more (`--graph`), and finds the entity of each end of a
relation in each text unit by the id of its fragment (`fragment_id`). So a relation that several
units state may connect several pairs of entities, if namesakes were separated: each unit gets an
equal share of its weight. Relations with the same pair and type become one: their weights are
added, and descriptions, keywords and text units are joined. No weight is lost.

GraphRAG and LightRAG identify entities only by name, so among entities with one name all but the
first get their id as a suffix: "VICTORIA (e-442d346e599d)". The type is the best of the entity's;
descriptions are all that the graph has for these names, so separated namesakes all get the whole.

A relation between two names of one entity now joins it with itself. It is kept, and a note counts
such relations. An end that is in no entity of the knowledge base keeps its name.

| format | has |
|---|---|
| graphrag | entities.parquet, relationships.parquet, text_units.parquet, with the entities' ids |
| graphml | nodes and edges with LightRAG's keys, and the canonical_id and confidence of an entity |
| triples | one row a relation: ids and names of both ends, type, weight, and text units (context) |

Members, texts and relations wait in a temporary file.
"""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from xml.sax.saxutils import escape, quoteattr

from kbforge import registry
from kbforge.contracts import Entity, Exporter, View
from kbforge.errors import KBForgeError, UsageError, counted, option, quoted
from kbforge.files.fragments import stop
from kbforge.files.io import open_folder, open_output
from kbforge.kb.edges import edges_of
from kbforge_graphs.sources.graphrag import ENTITIES, RELATIONSHIPS, TEXT_UNITS, GraphRagSource
from kbforge_graphs.sources.graphs import GraphEntity, GraphSource, Relation, fragment_id, said
from kbforge_graphs.sources.lightrag import SEPARATOR, LightRagSource
from kbforge_plugins.exporters.tables import TableExporter
from kbforge_plugins.sources.parquet import rows_of

if TYPE_CHECKING:
    import pyarrow as pa

_SOURCES = {".graphml": "lightrag", ".json": "property-graph"}
"""The source of a graph in a single file, by its extension; other files are triples."""
_TABLES = """
CREATE TABLE entities (number INTEGER PRIMARY KEY, id TEXT, title TEXT UNIQUE, type TEXT,
    confidence REAL);
CREATE TABLE members (fragment TEXT PRIMARY KEY, entity INTEGER) WITHOUT ROWID;
CREATE TABLE texts (of INTEGER, kind TEXT, text TEXT, UNIQUE (of, kind, text));
CREATE TABLE relations (number INTEGER PRIMARY KEY, id TEXT UNIQUE, head, tail, type TEXT,
    weight REAL, UNIQUE (head, tail, type));
CREATE TABLE relation_texts (of INTEGER, kind TEXT, text TEXT, UNIQUE (of, kind, text));
"""
# a number of an entity, or the id of one that is not there
_TAILS = """
CREATE INDEX by_id ON entities (id);
UPDATE relations SET tail = coalesce((SELECT number FROM entities WHERE id = tail), tail);
"""
_LEAVE_OUT = "DELETE FROM relations WHERE typeof(tail) = 'text'"
_DEGREES = """
CREATE TABLE degrees AS SELECT one, count(*) AS degree FROM
    (SELECT head AS one, tail AS other FROM relations
     UNION SELECT tail, head FROM relations) GROUP BY one;
CREATE UNIQUE INDEX by_one ON degrees (one);
CREATE INDEX by_unit ON texts (kind, text);
CREATE INDEX by_relation_unit ON relation_texts (kind, text);
"""


@dataclass
class _GraphExporter(Exporter):
    """The options of graph exporters.

    Args:
        graph: the graph that was loaded: a folder, or a file. Without it, graphml and triples write
            the relations that the knowledge base itself states (`kbforge.kb.edges`).
        source: the source that reads it (graphrag, lightrag, property-graph or triples), if the
            file name does not imply it.

    Raises:
        UsageError: no graph, or a source that reads no graphs.

    """

    needs_graph: ClassVar[bool] = False

    graph: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        is_own = self.graph is None and self.source is None and not self.needs_graph
        if not is_own and self.graph in (None, "", "-"):
            raise UsageError(
                "an exporter of graphs needs the graph that was loaded; give "
                f"{option('graph', 'FOLDER')}, or {option('graph', 'FILE')}"
            )
        self.notes: Sequence[str] = ()

    @contextmanager
    def merged(self, view: View) -> Iterator[_Merged]:
        """The merged graph of a view."""
        try:
            store = sqlite3.connect("")
            try:
                reader = None if self.graph is None else self._reader()
                merged = _Merged(store, view, reader, self.graph or "")
                self.notes = merged.notes()
                yield merged
            finally:
                store.close()
        except sqlite3.Error as error:
            raise KBForgeError(f"the temporary file of a graph: {error}") from error

    def _reader(self) -> GraphSource:
        assert self.graph is not None
        path = Path(self.graph)
        name = self.source
        if name is None and path.is_dir():
            name = "graphrag" if (path / ENTITIES).exists() else "lightrag"
        reader = registry.create("sources", name or _SOURCES.get(path.suffix.lower(), "triples"))
        if not isinstance(reader, GraphSource):
            raise UsageError(
                f"exporter: source: expected graphrag, lightrag, property-graph or triples, got "
                f'"{quoted(self.source)}"'
            )
        return reader


class _Merged:
    """The merged graph, in a temporary file."""

    def __init__(
        self, store: sqlite3.Connection, view: View, reader: GraphSource | None, path: str
    ) -> None:
        self._store = store
        self._counts = Counter[str]()
        self._of_graph = reader is not None
        # LightRAG's edges have no direction, and of a pair there is one
        self.is_directed = not isinstance(reader, LightRagSource)
        store.execute("PRAGMA journal_mode=OFF")
        store.executescript(_TABLES)
        for entity in view.entities():
            number = self._add_entity(entity)
            if not self._of_graph:
                self._add_edges(number, entity)
        for record in () if reader is None else reader.records(path, stop):
            if isinstance(record, GraphEntity):
                self._describe(record)
            else:
                self._connect(record)
        if not self._of_graph:
            store.executescript(_TAILS)
            self._counts["left out"] = store.execute(_LEAVE_OUT).rowcount
        store.executescript(_DEGREES)

    def _add_entity(self, entity: Entity) -> int:
        types = entity.properties.get("type")
        cells = [entity.id, entity.name, types[0].value if types else "", entity.confidence]
        insert = "INSERT OR IGNORE INTO entities (id, title, type, confidence) VALUES (?, ?, ?, ?)"
        added = self._store.execute(insert, cells)
        if not added.rowcount:
            cells[1] = f"{entity.name} ({entity.id})"
            added = self._store.execute(insert, cells)
        rows = ((fragment, added.lastrowid) for fragment in entity.fragments)
        self._store.executemany("INSERT INTO members VALUES (?, ?)", rows)
        assert added.lastrowid is not None
        return added.lastrowid

    def _add_edges(self, number: int, entity: Entity) -> None:
        """Add an entity's own relations; their tails are ids until all entities are there."""
        self._add_texts("texts", number, {"unit": entity.fragments})
        for edge in edges_of(entity):
            record = Relation(edge.head, edge.tail, type=edge.relation)
            added = self._add_relation(record, (number, edge.tail), float(len(edge.fragments)))
            self._add_texts("relation_texts", added, {"unit": edge.fragments})

    def _add_texts(self, table: str, of: int | None, texts: Mapping[str, Sequence[str]]) -> None:
        rows = [(of, kind, text) for kind, found in texts.items() for text in found if text]
        self._store.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?)", rows)

    def _end(self, unit: str, key: str) -> int | str:
        """The number of the entity of a key in a unit; the key itself if it is in none."""
        found = self._store.execute(
            "SELECT entity FROM members WHERE fragment = ?", (fragment_id(unit, key),)
        ).fetchone()
        if found is not None:
            return int(found[0])
        self._counts["lost"] += 1
        return key

    def _describe(self, record: GraphEntity) -> None:
        for unit in record.units or ("",):
            of = self._end(unit, record.key)
            if isinstance(of, int):
                texts = {"unit": [unit], "description": [said(record.description)]}
                self._add_texts("texts", of, texts)

    def _connect(self, record: Relation) -> None:
        """Add a relation to the pair, or pairs, of entities in its units."""
        units = record.units or ("",)
        pairs: dict[tuple[int | str, int | str], list[str]] = {}
        for unit in units:
            pair = (self._end(unit, record.head), self._end(unit, record.tail))
            if not self.is_directed and str(pair[1]) < str(pair[0]):
                pair = pair[::-1]
            pairs.setdefault(pair, []).append(unit)
        self._counts["before"] += 1
        for (head, tail), stating in pairs.items():
            if head == tail and record.head != record.tail:
                self._counts["loops"] += 1
            weight = record.weight * (len(stating) / len(units))
            number = self._add_relation(record, (head, tail), weight)
            texts = {
                "unit": stating,
                "description": [said(record.description)],
                "keyword": record.keywords.split(","),
            }
            self._add_texts("relation_texts", number, texts)
            for end in (head, tail):
                if isinstance(end, int):
                    self._add_texts("texts", end, {"unit": stating})

    def _add_relation(
        self, record: Relation, ends: tuple[int | str, int | str], weight: float
    ) -> int:
        kind = said(record.type)
        known = self._store.execute(
            "UPDATE relations SET weight = weight + ? WHERE head = ? AND tail = ? AND type = ? "
            "RETURNING number",
            (weight, *ends, kind),
        ).fetchone()
        if known is not None:
            return int(known[0])
        insert = "INSERT OR IGNORE INTO relations (id, head, tail, type, weight) VALUES (?,?,?,?,?)"
        own = record.id or _made_id(*ends, kind)
        added = self._store.execute(insert, (own, *ends, kind, weight))
        if not added.rowcount:  # another part of the same relation has the id
            added = self._store.execute(insert, (_made_id(*ends, kind), *ends, kind, weight))
        assert added.lastrowid is not None
        return added.lastrowid

    def notes(self) -> list[str]:
        """Sentences about what happened to the relations."""
        if lost := self._counts["left out"]:
            return [f"{counted(lost, 'relation')} to entities that are not there: left out"]
        if not self._of_graph:
            return []
        after = self._store.execute("SELECT count(*) FROM relations").fetchone()[0]
        before = counted(self._counts["before"], "relation")
        out = [f"{before} of the graph became {after:,} between merged entities"]
        if loops := self._counts["loops"]:
            what = "relation joins" if loops == 1 else "relations join"
            out.append(f"{loops:,} {what} two names of one entity, and so the entity with itself")
        if lost := self._counts["lost"]:
            out.append(
                f"{counted(lost, 'mention')} in the graph are in no entity of the knowledge base, "
                "and keep their names (were all fragments of the graph clustered?)"
            )
        return out

    def entities(self) -> Iterator[dict[str, Any]]:
        """All entities, in the order of the view; `degree` counts those that each relates to."""
        query = (
            "SELECT e.number, e.id, e.title, e.type, e.confidence, "
            "coalesce(d.degree, 0) AS degree "
            "FROM entities e LEFT JOIN degrees d ON d.one = e.number ORDER BY e.number"
        )
        return self._rows(query, "texts", ("description", "unit"))

    def relations(self) -> Iterator[dict[str, Any]]:
        """All relations, in the order of the graph; the id of an end in no entity is ""."""
        query = (
            "SELECT r.number, r.id, coalesce(h.id, '') AS head_id, "
            "coalesce(h.title, r.head) AS source, coalesce(t.id, '') AS tail_id, "
            "coalesce(t.title, r.tail) AS target, r.type, r.weight, "
            "(SELECT degree FROM degrees WHERE one = r.head) "
            "+ (SELECT degree FROM degrees WHERE one = r.tail) AS combined_degree "
            "FROM relations r LEFT JOIN entities h ON h.number = r.head "
            "LEFT JOIN entities t ON t.number = r.tail ORDER BY r.number"
        )
        return self._rows(query, "relation_texts", ("description", "keyword", "unit"))

    def _rows(self, query: str, table: str, kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The rows of a query by column, each with its texts by kind."""
        found = self._store.execute(query)
        columns = [column for column, *_ in found.description]
        for cells in found:
            texts = {kind: self._texts(table, cells[0], kind) for kind in kinds}
            yield {**dict(zip(columns, cells, strict=True)), **texts}

    def of_unit(self, unit: str) -> tuple[list[str], list[str]]:
        """The ids of the entities and of the relations of a text unit."""
        entities = (
            "SELECT e.id FROM texts x JOIN entities e ON e.number = x.of "
            "WHERE x.kind = 'unit' AND x.text = ? ORDER BY e.number"
        )
        relations = (
            "SELECT r.id FROM relation_texts x JOIN relations r ON r.number = x.of "
            "WHERE x.kind = 'unit' AND x.text = ? ORDER BY r.number"
        )
        found = [[i for (i,) in self._store.execute(q, (unit,))] for q in (entities, relations)]
        return found[0], found[1]

    def _texts(self, table: str, of: int, kind: str) -> list[str]:
        query = f"SELECT text FROM {table} WHERE of = ? AND kind = ? ORDER BY rowid"
        return [text for (text,) in self._store.execute(query, (of, kind))]


def _made_id(*parts: object) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\0".join(map(str, parts))))


_BATCH = 1_000  # rows


@dataclass
class GraphRagExporter(_GraphExporter):
    """GraphRAG's entities, relationships and text units; --graph is GraphRAG's output folder."""

    needs_graph: ClassVar = True

    def export(self, view: View, target: str) -> None:
        """Write the three tables."""
        assert self.graph is not None
        if not isinstance(self._reader(), GraphRagSource):
            raise UsageError(
                f"exporter graphrag: expected a folder of GraphRAG, got "
                f"{quoted(self.graph, 400)}; {option('format', 'graphml')} and triples take any "
                "graph"
            )
        names = (ENTITIES, RELATIONSHIPS, TEXT_UNITS)
        with (
            open_folder(target, names, "exporter graphrag") as folder,
            self.merged(view) as merged,
        ):
            entity, relation = _schemas()
            _write(folder / ENTITIES, entity, _numbered(merged.entities()))
            _write(folder / RELATIONSHIPS, relation, _numbered(merged.relations()))
            units = Path(self.graph) / TEXT_UNITS
            if units.is_file():
                import pyarrow.parquet as pq

                schema = pq.read_schema(units)
                _write(folder / TEXT_UNITS, schema, _unit_rows(units, merged))


def _schemas() -> tuple[pa.Schema, pa.Schema]:
    import pyarrow as pa

    text, number, texts = pa.string(), pa.int64(), pa.list_(pa.string())
    first = [("id", text), ("human_readable_id", number)]
    entity = [("title", text), ("type", text), ("description", text), ("text_unit_ids", texts)]
    counts = [("frequency", number), ("degree", number)]
    ends = [("source", text), ("target", text), ("description", text), ("weight", pa.float64())]
    last = [("combined_degree", number), ("text_unit_ids", texts)]
    return pa.schema([*first, *entity, *counts]), pa.schema([*first, *ends, *last])


def _numbered(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of the merged graph with GraphRAG's columns; `_write` leaves out what it lacks."""
    for number, row in enumerate(rows):
        yield {
            **row,
            "human_readable_id": number,
            "description": "\n".join(row["description"]),
            "text_unit_ids": row["unit"],
            "frequency": len(row["unit"]),
        }


def _unit_rows(path: Path, merged: _Merged) -> Iterator[dict[str, Any]]:
    with rows_of(str(path), stop) as (columns, rows):
        for _, cells in rows:
            row: dict[str, Any] = dict(zip(columns, cells, strict=True))
            entities, relations = merged.of_unit(str(row.get("id")))
            ids = {"entity_ids": entities, "relationship_ids": relations}
            yield row | {key: found for key, found in ids.items() if key in row}


def _write(path: Path, schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rows, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
            batch.clear()  # before the next one is read


# what XML 1.0 does not hold, escaped or not
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NODE_KEYS = ("entity_id", "entity_type", "description", "source_id", "canonical_id", "confidence")
_EDGE_KEYS = ("weight", "description", "keywords", "source_id", "relation")
_DOUBLES = ("confidence", "weight")


@dataclass
class GraphMlExporter(_GraphExporter):
    """GraphML with the keys of LightRAG."""

    endings: ClassVar = (".graphml",)

    def export(self, view: View, target: str) -> None:
        """Write the nodes, then the edges."""
        with open_output(target) as out, self.merged(view) as merged:
            out.write(_graphml_head(merged.is_directed).encode())
            for entity in merged.entities():
                out.write(_node(entity).encode())
            for relation in merged.relations():
                out.write(_edge(relation).encode())
            out.write(b"</graph>\n</graphml>\n")


def _graphml_head(is_directed: bool) -> str:
    keys, default = [], "directed" if is_directed else "undirected"
    for kind, names in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
        for name in names:
            of = "double" if name in _DOUBLES else "string"
            keys.append(
                f'<key id="{kind}-{name}" for="{kind}" attr.name="{name}" attr.type="{of}"/>\n'
            )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'{"".join(keys)}<graph edgedefault="{default}">\n'
    )


def _node(entity: Mapping[str, Any]) -> str:
    data = (
        *(entity["title"], entity["type"], SEPARATOR.join(entity["description"])),
        *(SEPARATOR.join(entity["unit"]), entity["id"], repr(entity["confidence"])),
    )
    return f"<node id={_attribute(entity['title'])}>{_data('node', _NODE_KEYS, data)}</node>\n"


def _edge(relation: Mapping[str, Any]) -> str:
    data = (
        *(repr(relation["weight"]), SEPARATOR.join(relation["description"])),
        *(",".join(relation["keyword"]), SEPARATOR.join(relation["unit"]), relation["type"]),
    )
    ends = f"source={_attribute(relation['source'])} target={_attribute(relation['target'])}"
    return f"<edge {ends}>{_data('edge', _EDGE_KEYS, data)}</edge>\n"


def _data(kind: str, keys: Sequence[str], values: Sequence[str]) -> str:
    return "".join(
        f'<data key="{kind}-{key}">{escape(_xml(value), {chr(13): "&#13;"})}</data>'
        for key, value in zip(keys, values, strict=True)
        if value
    )


def _attribute(text: str) -> str:
    return quoteattr(_xml(text))


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


TRIPLE_COLUMNS = ("head_id", "head", "relation", "tail_id", "tail", "weight", "context")


@dataclass
class TriplesExporter(_GraphExporter, TableExporter):
    """Relations with the ids of the knowledge base at both ends, as CSV."""

    def rows(self, view: View) -> Iterator[Sequence[str]]:
        yield TRIPLE_COLUMNS
        with self.merged(view) as merged:
            for relation in merged.relations():
                ends = (relation[key] for key in ("head_id", "source", "type", "tail_id", "target"))
                units = self.safe("|".join(relation["unit"]))
                yield (*map(self.safe, ends), repr(relation["weight"]), units)
