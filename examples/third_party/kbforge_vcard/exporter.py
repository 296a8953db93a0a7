"""Entities as N-Quads: one statement a line, its graph the fragment that states it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO
from urllib.parse import quote

from kbforge.contracts import Entity

# what the grammar of https://www.w3.org/TR/n-quads/ does not let stand in a literal as it is
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"})


class NQuadsExporter:
    """RDF statements with provenance.

    Args:
        base: what the IRIs of entities, attributes and fragments begin with.

    """

    def __init__(self, base: str = "urn:kbforge:") -> None:
        self._base = base

    def export(self, entities: Iterable[Entity], out: BinaryIO) -> None:
        """Write one statement for each value and each fragment that states it."""
        for entity in entities:
            subject = self._iri("entity", entity.id)
            for fragment in entity.fragments:
                graph = self._iri("fragment", fragment)
                _write(out, subject, self._iri("relation", "fragment"), graph, graph)
            for attribute, values in entity.properties.items():
                predicate = self._iri("attribute", attribute)
                for value in values:
                    literal = f'"{value.value.translate(_ESCAPES)}"'
                    for fragment in value.fragments:
                        graph = self._iri("fragment", fragment)
                        _write(out, subject, predicate, literal, graph)

    def _iri(self, kind: str, name: str) -> str:
        return f"<{self._base}{kind}:{quote(name, safe='')}>"


def _write(out: BinaryIO, *terms: str) -> None:
    out.write(f"{' '.join(terms)} .\n".encode())
