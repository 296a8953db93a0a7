"""RDF as JSON-LD and as N-Quads, with the same IRIs.

| IRI | of |
|---|---|
| BASE entity:ID, BASE fragment:ID | an entity, a fragment |
| BASE attribute:NAME | an attribute, as a predicate |
| BASE relation:fragment | an entity's fragment |
| BASE relation:name, relation:confidence, relation:reported | an entity's |
| BASE relation:source, relation:row | a fragment's, as text and as a number |
| BASE source:NAME | a source, unless it is an http address, which stands for itself |

What follows the colon is percent-encoded, so that every name has an IRI of its own.

*JSON-LD*: one document, in which each entity contains its fragments.

    {"@context": {...}, "@graph": [
     {"@id": "urn:kbforge:entity:e-1", "@type": "Thing", "name": "Ada Lovelace",
      "alternateName": ["Ada"], "confidence": 0.9, "urn:kbforge:attribute:born": ["1815"],
      "fragment": [{"@id": "urn:kbforge:fragment:a", "source": "census",
                    "urn:kbforge:attribute:name": ["Ada"]}]}]}

Type and names are those of schema.org, whose terms stand in the context, so that no reader has to
fetch it.

*N-Quads*: RDF statements, each in the named graph of its source. For every fragment f of an entity
e, in the graph of f's source:

    <e> <relation:fragment> <f>    <f> <relation:source> "source"
    <f> <attribute:A> "value"      <f> <relation:row> 12, if it has a row there
    <e> <attribute:A> "value"

and of every entity in the default graph its name and confidence. Fragments without a known source
(`kbforge export --fragments FILE` adds it) are in the default graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

import orjson

from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.errors import UsageError, quoted
from kbforge.files.io import open_output

BASE = "urn:kbforge:"
_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*')
# an address in ASCII without anything that an IRI must escape
_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+")


_SCHEMA = "https://schema.org/"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TYPE = re.compile(r"[A-Z][A-Za-z0-9]*")


class JsonLdExporter(Exporter):
    """Linked data with the terms of schema.org, each entity with its fragments."""

    endings: ClassVar = (".jsonld",)

    def __init__(self, type: str = "Thing", base: str = BASE) -> None:
        """Set the options.

        Args:
            type: of the entities, from schema.org, such as Person.
            base: prefix of the IRIs of entities, fragments and attributes.

        Raises:
            UsageError: a type that is no name, or a base that is no beginning of an IRI.

        """
        if not _TYPE.fullmatch(type):
            raise UsageError(
                f'exporter jsonld: type: expected a name such as Person, got "{quoted(type)}"'
            )
        self._type = type
        self._names = Iris(base, "jsonld")

    def export(self, view: View, target: str) -> None:
        """Write the document, one entity a line."""
        with open_output(target) as out:
            out.write(b'{"@context":' + orjson.dumps(self._context()) + b',"@graph":[')
            between = b"\n"
            for entity in view.entities():
                out.write(between + orjson.dumps(self._entity(entity, view)))
                between = b",\n"
            out.write(b"\n]}\n")

    def _context(self) -> dict[str, Any]:
        relation, double = self._names.relation, f"{_XSD}double"
        return {
            self._type: f"{_SCHEMA}{self._type}",
            "name": f"{_SCHEMA}name",
            "alternateName": f"{_SCHEMA}alternateName",
            "fragment": relation("fragment"),
            "source": relation("source"),
            "row": relation("row"),
            "confidence": {"@id": relation("confidence"), "@type": double},
            "reported": {"@id": relation("reported"), "@type": double},
        }

    def _entity(self, entity: Entity, view: View) -> dict[str, Any]:
        node: dict[str, Any] = {
            "@id": self._names.entity(entity.id),
            "@type": self._type,
            "name": entity.name,
            "confidence": entity.confidence,
        }
        if entity.reported is not None:
            node["reported"] = entity.reported
        names = [value.value for value in entity.properties.get("name", ())]
        if others := [name for name in names if name != entity.name]:
            node["alternateName"] = others
        for attribute, values in entity.properties.items():
            node[self._names.attribute(attribute)] = [value.value for value in values]
        node["fragment"] = [self._fragment(fragment) for fragment in view.fragments(entity)]
        return node

    def _fragment(self, fragment: Fragment) -> dict[str, Any]:
        node: dict[str, Any] = {"@id": self._names.fragment(fragment.id)}
        if fragment.source is not None:
            node["source"] = fragment.source
        if fragment.row is not None:
            node["row"] = fragment.row
        for attribute, values in fragment.properties.items():
            node[self._names.attribute(attribute)] = list(values)
        return node


_INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
_DOUBLE = "^^<http://www.w3.org/2001/XMLSchema#double>"
# what the grammar of https://www.w3.org/TR/n-quads/ does not let stand in a literal as it is, and
# control characters, which readers trip over
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r"}


class NQuadsExporter(Exporter):
    """RDF statements, each in the named graph of its source."""

    endings: ClassVar = (".nq",)

    def __init__(self, base: str = BASE) -> None:
        """Set the options.

        Args:
            base: prefix of the IRIs of entities, fragments, attributes and sources.

        Raises:
            UsageError: a base that is no beginning of an IRI.

        """
        self._names = Iris(base, "nquads")

    def export(self, view: View, target: str) -> None:
        """Write the statements, each of an entity once."""
        with open_output(target) as out:
            for entity in view.entities():
                statements = self._statements(entity, view.fragments(entity))
                out.write("".join(dict.fromkeys(statements)).encode())

    def _statements(self, entity: Entity, fragments: Sequence[Fragment]) -> Iterator[str]:
        names = self._names
        subject = f"<{names.entity(entity.id)}>"
        yield _line(subject, f"<{names.relation('name')}>", _literal(entity.name), "")
        for key, number in (
            ("confidence", entity.confidence),
            ("reported", entity.reported),
        ):
            if number is not None:
                yield _line(subject, f"<{names.relation(key)}>", f'"{number!r}"{_DOUBLE}', "")
        graphs = {fragment.id: self._graph(fragment) for fragment in fragments}
        for attribute, values in entity.properties.items():
            for value in values:
                for fragment_id in value.fragments:
                    yield self._said(subject, attribute, value.value, graphs[fragment_id])
        for fragment in fragments:
            graph, about = graphs[fragment.id], f"<{names.fragment(fragment.id)}>"
            yield _line(subject, f"<{names.relation('fragment')}>", about, graph)
            if fragment.source is not None:
                said = _literal(fragment.source)
                yield _line(about, f"<{names.relation('source')}>", said, graph)
            if fragment.row is not None:
                said = f'"{fragment.row}"{_INTEGER}'
                yield _line(about, f"<{names.relation('row')}>", said, graph)
            for attribute, texts in fragment.properties.items():
                for text in texts:
                    yield self._said(about, attribute, text, graph)

    def _said(self, subject: str, attribute: str, text: str, graph: str) -> str:
        return _line(subject, f"<{self._names.attribute(attribute)}>", _literal(text), graph)

    def _graph(self, fragment: Fragment) -> str:
        return "" if fragment.source is None else f"<{self._names.source(fragment.source)}>"


def _literal(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _line(*terms: str) -> str:
    return f"{' '.join(term for term in terms if term)} .\n"


class Iris:
    """IRIs that begin with a base.

    Raises:
        UsageError: a base that is no beginning of an IRI.

    """

    def __init__(self, base: str, exporter: str) -> None:
        if not _IRI.fullmatch(base):
            raise UsageError(
                f'exporter {exporter}: base: expected the beginning of an IRI, got "{quoted(base)}"'
            )
        self._base = base

    def entity(self, name: str) -> str:
        """Of an entity's id."""
        return self._minted("entity", name)

    def fragment(self, name: str) -> str:
        """Of a fragment's id."""
        return self._minted("fragment", name)

    def attribute(self, name: str) -> str:
        """Of an attribute."""
        return self._minted("attribute", name)

    def relation(self, name: str) -> str:
        """Of what KBForge itself says."""
        return self._minted("relation", name)

    def source(self, name: str) -> str:
        """Of a fragment's source."""
        if _ADDRESS.fullmatch(name) and not name.startswith(self._base):
            return name
        return self._minted("source", name)

    def _minted(self, kind: str, name: str) -> str:
        return f"{self._base}{kind}:{quote(name, safe='')}"
