"""Exporters of graphs: RDF as JSON-LD and N-Quads, and a folder for Neo4j.

*RDF* has these IRIs, in both formats:

| IRI | of |
|---|---|
| BASE entity:ID, BASE fragment:ID | an entity, a fragment |
| BASE attribute:NAME | an attribute, as a predicate |
| BASE relation:fragment | an entity's fragment |
| BASE relation:name, relation:confidence, relation:reported | an entity's |
| BASE relation:source, relation:row | a fragment's, as text and as a number |
| BASE source:NAME | a source, unless it is an http address, which stands for itself |
| BASE edge:NAME | an attribute between two entities, as a predicate (`kbforge.kb.edges`) |

The part after the colon is percent-encoded, so every name has a unique IRI. RDF has no place for
doubt: an edge is stated if it is more probable than not.

*jsonld*: one document, in which each entity contains its fragments.

    {"@context": {...}, "@graph": [
     {"@id": "urn:kbforge:entity:e-1", "@type": "Thing", "name": "Ada Lovelace",
      "alternateName": ["Ada"], "confidence": 0.9, "urn:kbforge:attribute:born": ["1815"],
      "fragment": [{"@id": "urn:kbforge:fragment:a", "source": "census",
                    "urn:kbforge:attribute:name": ["Ada"]}]}]}

Type and names are those of schema.org, whose terms are in the context, so no reader needs to fetch
it.

*nquads*: RDF statements, each in the named graph of its source. For every fragment f of an entity
e, in the graph of f's source:

    <e> <relation:fragment> <f>    <f> <relation:source> "source"
    <f> <attribute:A> "value"      <f> <relation:row> 12, if it has a row there
    <e> <attribute:A> "value"      <e> <edge:A> <entity>, if the value names one

and for every entity, in the default graph, its name and confidence. Fragments without a known
source (`kbforge export --fragments FILE` adds it) are in the default graph.

*neo4j*: a folder of CSV files for `neo4j-admin database import`.

| file | header |
|---|---|
| entities.csv | entityId:ID(Entity), the name and numbers of the entity, its attributes, :LABEL |
| fragments.csv | fragmentId:ID(Fragment), source, metadata as JSON, its attributes, :LABEL |
| members.csv | :START_ID(Fragment), :END_ID(Entity), :TYPE |
| relations.csv | :START_ID(Entity), :END_ID(Entity), :TYPE, probability, statements, ... |

The last one exists only if values name entities, and is imported with one more --relationships.

Every attribute of any entity or fragment is a column, an array of strings, in the order of the
file. Values of an array are separated by U+001F, because the import supports no escape within an
array (docs/formats.md has the command). That character and NUL become U+FFFD within a value. An
attribute's name keeps letters, digits and underscores; other characters become underscores, because
colons and brackets have a meaning in a header. A missing property is an empty field without quotes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import orjson

from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.errors import UsageError, quoted
from kbforge.files.io import open_folder, open_output
from kbforge.kb.edges import Edge, EdgeTable, edge_table, edges_of
from kbforge_plugins.exporters.tables import WaitingRows, distinct

BASE = "urn:kbforge:"
_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*')
# an address in ASCII without anything that an IRI must escape
_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+")


_SCHEMA = "https://schema.org/"
_STATED = 0.5  # probability of an edge above which RDF states it
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TYPE = re.compile(r"[A-Z][A-Za-z0-9]*")


@dataclass
class JsonLdExporter(Exporter):
    """Linked data with the terms of schema.org, each entity with its fragments.

    Args:
        type: type of the entities, from schema.org, such as Person.
        base: prefix of the IRIs of entities, fragments and attributes.

    Raises:
        UsageError: an invalid type, or a base that cannot begin an IRI.

    """

    endings: ClassVar = (".jsonld",)

    type: str = "Thing"
    base: str = BASE

    def __post_init__(self) -> None:
        if not _TYPE.fullmatch(self.type):
            raise UsageError(
                f'exporter jsonld: type: expected a name such as Person, got "{quoted(self.type)}"'
            )
        _require_base(self.base, "jsonld")

    def export(self, view: View, target: str) -> None:
        """Write the document, one entity per line."""
        with open_output(target) as out:
            out.write(b'{"@context":' + orjson.dumps(self._context()) + b',"@graph":[')
            between = b"\n"
            for entity in view.entities():
                out.write(between + orjson.dumps(self._entity(entity, view)))
                between = b",\n"
            out.write(b"\n]}\n")

    def _context(self) -> dict[str, Any]:
        names = ("fragment", "source", "row", "confidence", "reported")
        own: dict[str, Any] = {name: _iri(self.base, "relation", name) for name in names}
        for name in names[3:]:
            own[name] = {"@id": own[name], "@type": f"{_XSD}double"}
        return {name: _SCHEMA + name for name in (self.type, "name", "alternateName")} | own

    def _entity(self, entity: Entity, view: View) -> dict[str, Any]:
        node: dict[str, Any] = {
            "@id": _iri(self.base, "entity", entity.id),
            "@type": self.type,
            "name": entity.name,
            "confidence": entity.confidence,
        }
        if entity.reported is not None:
            node["reported"] = entity.reported
        names = [value.value for value in entity.properties.get("name", ())]
        if others := [name for name in names if name != entity.name]:
            node["alternateName"] = others
        for attribute, values in entity.properties.items():
            node[_iri(self.base, "attribute", attribute)] = [value.value for value in values]
        for edge in _stated(entity):
            tail = {"@id": _iri(self.base, "entity", edge.tail)}
            node.setdefault(_iri(self.base, "edge", edge.relation), []).append(tail)
        node["fragment"] = [self._fragment(fragment) for fragment in view.fragments(entity)]
        return node

    def _fragment(self, fragment: Fragment) -> dict[str, Any]:
        node: dict[str, Any] = {"@id": _iri(self.base, "fragment", fragment.id)}
        if fragment.source is not None:
            node["source"] = fragment.source
        if fragment.row is not None:
            node["row"] = fragment.row
        for attribute, values in fragment.properties.items():
            node[_iri(self.base, "attribute", attribute)] = list(values)
        return node


_INTEGER, _DOUBLE = f"^^<{_XSD}integer>", f"^^<{_XSD}double>"
# what the grammar of https://www.w3.org/TR/n-quads/ does not let stand in a literal as it is, and
# control characters, which readers trip over
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r"}


@dataclass
class NQuadsExporter(Exporter):
    """RDF statements, each in the named graph of its source.

    Args:
        base: prefix of the IRIs of entities, fragments, attributes and sources.

    Raises:
        UsageError: the base cannot begin an IRI.

    """

    endings: ClassVar = (".nq",)

    base: str = BASE

    def __post_init__(self) -> None:
        _require_base(self.base, "nquads")

    def export(self, view: View, target: str) -> None:
        """Write the statements, those of each entity once."""
        with open_output(target) as out:
            for entity in view.entities():
                statements = self._statements(entity, view.fragments(entity))
                out.write("".join(dict.fromkeys(statements)).encode())

    def _statements(self, entity: Entity, fragments: Sequence[Fragment]) -> Iterator[str]:
        subject = self._term("entity", entity.id)
        yield _line(subject, self._term("relation", "name"), _literal(entity.name), "")
        numbers = {"confidence": entity.confidence, "reported": entity.reported}
        for key, number in numbers.items():
            if number is not None:
                yield _line(subject, self._term("relation", key), f'"{number!r}"{_DOUBLE}', "")
        graphs = {
            one.id: "" if one.source is None else self._term("source", one.source)
            for one in fragments
        }
        for attribute, values in entity.properties.items():
            for value in values:
                for fragment_id in value.fragments:
                    yield self._said(subject, attribute, value.value, graphs[fragment_id])
        for edge in _stated(entity):
            tail = self._term("entity", edge.tail)
            for fragment_id in edge.fragments:
                yield _line(subject, self._term("edge", edge.relation), tail, graphs[fragment_id])
        for fragment in fragments:
            graph, about = graphs[fragment.id], self._term("fragment", fragment.id)
            yield _line(subject, self._term("relation", "fragment"), about, graph)
            if fragment.source is not None:
                said = _literal(fragment.source)
                yield _line(about, self._term("relation", "source"), said, graph)
            if fragment.row is not None:
                said = f'"{fragment.row}"{_INTEGER}'
                yield _line(about, self._term("relation", "row"), said, graph)
            for attribute, texts in fragment.properties.items():
                for text in texts:
                    yield self._said(about, attribute, text, graph)

    def _said(self, subject: str, attribute: str, text: str, graph: str) -> str:
        return _line(subject, self._term("attribute", attribute), _literal(text), graph)

    def _term(self, kind: str, name: str) -> str:
        return f"<{_iri(self.base, kind, name)}>"


def _literal(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _line(*terms: str) -> str:
    return f"{' '.join(term for term in terms if term)} .\n"


def _require_base(base: str, exporter: str) -> None:
    if not _IRI.fullmatch(base):
        raise UsageError(
            f'exporter {exporter}: base: expected the beginning of an IRI, got "{quoted(base)}"'
        )


def _iri(base: str, kind: str, name: str) -> str:
    """The IRI of an entity, fragment, attribute, relation, edge or source."""
    if kind == "source" and _ADDRESS.fullmatch(name) and not name.startswith(base):
        return name
    return f"{base}{kind}:{quote(name, safe='')}"


def _stated(entity: Entity) -> list[Edge]:
    return [edge for edge in edges_of(entity) if edge.probability > _STATED]


RELATIONS = "relations.csv"
ENTITIES, FRAGMENTS, MEMBERS = "entities.csv", "fragments.csv", "members.csv"
BETWEEN = "\x1f"
_FORBIDDEN = str.maketrans({"\0": "\ufffd", BETWEEN: "\ufffd"})
_OF_ENTITY = (
    *("entityId:ID(Entity)", "entityName:string", "confidence:double"),
    *("reported:double", "subproblem:long"),
)
_OF_FRAGMENT = ("fragmentId:ID(Fragment)", "source:string", "metadata:string")
_OF_MEMBER = (":START_ID(Fragment)", ":END_ID(Entity)", ":TYPE")
_OF_RELATION = (
    *(":START_ID(Entity)", ":END_ID(Entity)", ":TYPE"),
    *("probability:double", "statements:long", "fragments:string[]", "values:string[]"),
)


class Neo4jExporter(Exporter):
    """A folder of nodes and relationships for neo4j-admin database import."""

    def export(self, view: View, target: str) -> None:
        """Write the files of the folder."""
        names = (ENTITIES, FRAGMENTS, MEMBERS, RELATIONS)
        with (
            open_folder(target, names, "exporter neo4j") as folder,
            tempfile.TemporaryFile() as entities,
            tempfile.TemporaryFile() as fragments,
            open(folder / MEMBERS, "wb") as members,
            edge_table() as edges,
        ):
            nodes, pieces = WaitingRows(entities), WaitingRows(fragments)
            members.write(_row(_OF_MEMBER))
            for entity in edges.through(view.entities()):
                reported = None if entity.reported is None else repr(entity.reported)
                numbers = repr(entity.confidence), reported, str(entity.subproblem)
                of_it = {k: [v.value for v in vs] for k, vs in entity.properties.items()}
                nodes.add((entity.id, entity.name, *numbers), _arrays(of_it))
                for fragment in view.fragments(entity):
                    told = fragment.metadata
                    more = None if told is None else orjson.dumps(dict(told)).decode()
                    pieces.add((fragment.id, fragment.source, more), _arrays(fragment.properties))
                    members.write(_row(map(_clean, (fragment.id, entity.id, "BELONGS_TO"))))
            _write(folder / ENTITIES, nodes, _OF_ENTITY, "Entity")
            _write(folder / FRAGMENTS, pieces, _OF_FRAGMENT, "Fragment")
            if len(edges):
                _write_relations(folder / RELATIONS, edges)
            self.notes = edges.notes()


def _arrays(properties: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {
        key: BETWEEN.join(value.translate(_FORBIDDEN) for value in values)
        for key, values in properties.items()
    }


def _write(path: Path, nodes: WaitingRows, first: Sequence[str], label: str) -> None:
    taken = [column.partition(":")[0] for column in first]
    plain = (re.sub(r"\W", "_", attribute) or "_" for attribute in nodes.attributes())
    columns = [f"{name}:string[]" for name in distinct(plain, taken, "_")]
    with open(path, "wb") as out:
        out.write(_row([*first, *columns, ":LABEL"]))
        for cells, found in nodes.read():
            out.write(_row([*map(_clean, cells), *found, label]))


def _write_relations(path: Path, edges: EdgeTable) -> None:
    with open(path, "wb") as out:
        out.write(_row(_OF_RELATION))
        for _, edge, _ in edges.named():
            ends = map(_clean, (edge.head, edge.tail, edge.relation or "_"))
            numbers = (repr(edge.probability), str(len(edge.fragments)))
            arrays = _arrays({"fragments": edge.fragments, "values": edge.spellings}).values()
            out.write(_row([*ends, *numbers, *arrays]))


def _clean(text: str | None) -> str | None:
    return None if text is None else text.translate(_FORBIDDEN)


def _row(cells: Iterable[str | None]) -> bytes:
    """A line of CSV: every cell in quotes, and nothing for None."""
    texts = ("" if cell is None else '"' + cell.replace('"', '""') + '"' for cell in cells)
    return f"{','.join(texts)}\n".encode()
