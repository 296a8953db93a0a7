"""Writes the relations between the entities of a knowledge base, as GraphML or as triples.

The weight of a relation is the number of fragments that state it; they are its text units. LightRAG
identifies entities only by name, so among entities with one name all but the first get their id as
a suffix: "VICTORIA (e-442d346e599d)".

| format | has |
|---|---|
| graphml | nodes and edges with LightRAG's keys, and the canonical_id and confidence of an entity |
| triples | one row a relation: ids and names of both ends, type, weight, and fragments (context) |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar
from xml.sax.saxutils import escape, quoteattr

from kbforge.contracts import Entity, Exporter, View
from kbforge.files.io import open_output
from kbforge.kb.edges import Edge, edge_table
from kbforge_graphs.sources.lightrag import SEPARATOR
from kbforge_plugins.exporters.tables import TableExporter

# what XML 1.0 does not hold, escaped or not
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NODE_KEYS = ("entity_id", "entity_type", "source_id", "canonical_id", "confidence")
_EDGE_KEYS = ("weight", "source_id", "relation")
_DOUBLES = ("confidence", "weight")


@dataclass
class GraphMlExporter(Exporter):
    """GraphML with the keys of LightRAG."""

    endings: ClassVar = (".graphml",)

    def export(self, view: View, target: str) -> None:
        """Write the nodes, then the edges."""
        used, titles = set[str](), dict[str, str]()
        with open_output(target) as out, edge_table() as table:
            out.write(_HEAD.encode())
            for entity in table.through(view.entities()):
                title = entity.name
                if title in used:
                    title = titles[entity.id] = f"{entity.name} ({entity.id})"
                used.add(title)
                out.write(_node(title, entity).encode())
            for head, edge, tail in table.named():
                ends = titles.get(edge.head, head), titles.get(edge.tail, tail)
                out.write(_edge(*ends, edge).encode())
            out.write(b"</graph>\n</graphml>\n")
            self.notes = table.notes()


_HEAD = "".join(
    (
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n',
        *(
            f'<key id="{kind}-{name}" for="{kind}" attr.name="{name}" '
            f'attr.type="{"double" if name in _DOUBLES else "string"}"/>\n'
            for kind, names in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS))
            for name in names
        ),
        '<graph edgedefault="directed">\n',
    )
)


def _node(title: str, entity: Entity) -> str:
    types = entity.properties.get("type")
    data = (
        *(title, types[0].value if types else "", SEPARATOR.join(entity.fragments)),
        *(entity.id, repr(entity.confidence)),
    )
    return f"<node id={_attribute(title)}>{_data('node', _NODE_KEYS, data)}</node>\n"


def _edge(head: str, tail: str, edge: Edge) -> str:
    data = (repr(float(len(edge.fragments))), SEPARATOR.join(edge.fragments), edge.relation)
    ends = f"source={_attribute(head)} target={_attribute(tail)}"
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
class TriplesExporter(TableExporter):
    """Relations with the ids of the knowledge base at both ends, as CSV."""

    def rows(self, view: View) -> Iterator[Sequence[str]]:
        yield TRIPLE_COLUMNS
        with edge_table(view.entities()) as table:
            for head, edge, tail in table.named():
                ends = (edge.head, head, edge.relation, edge.tail, tail)
                units = self.safe("|".join(edge.fragments))
                yield (*map(self.safe, ends), repr(float(len(edge.fragments))), units)
            self.notes = table.notes()
