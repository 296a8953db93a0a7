"""Entities as JSON-LD: one document, in which each entity holds its fragments.

    {"@context": {...}, "@graph": [
     {"@id": "urn:kbforge:entity:e-1", "@type": "Thing", "name": "Ada Lovelace",
      "alternateName": ["Ada"], "confidence": 0.9, "urn:kbforge:attribute:born": ["1815"],
      "fragment": [{"@id": "urn:kbforge:fragment:a", "source": "census",
                    "urn:kbforge:attribute:name": ["Ada"]}]}]}

Type and names are those of schema.org, whose terms stand in the context, so that no reader has to
fetch it. The other IRIs are those of `rdf`.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import orjson

from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.errors import UsageError, quoted
from kbforge.files.io import open_output
from kbforge_plugins.exporters.rdf import BASE, Names

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
            base: what the IRIs of entities, fragments and attributes begin with.

        Raises:
            UsageError: a type that is no name, or a base that is no beginning of an IRI.

        """
        if not _TYPE.fullmatch(type):
            raise UsageError(
                f'exporter jsonld: type: expected a name such as Person, got "{quoted(type)}"'
            )
        self._type = type
        self._names = Names(base, "jsonld")

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
