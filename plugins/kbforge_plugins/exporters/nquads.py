"""Entities as N-Quads: RDF statements, each in the named graph of the source that makes it.

For every fragment f of an entity e, in the graph of f's source:

    <e> <relation:fragment> <f>    <f> <relation:source> "source"
    <f> <attribute:A> "value"      <f> <relation:row> 12, if it has a row there
    <e> <attribute:A> "value"

and of every entity in the default graph its name and confidence. Fragments whose source is not
known (`kbforge export --fragments FILE` tells it) are in the default graph. The IRIs are those of
`rdf`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.files.io import open_output
from kbforge_plugins.exporters.rdf import BASE, Names

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
            base: what the IRIs of entities, fragments, attributes and sources begin with.

        Raises:
            UsageError: a base that is no beginning of an IRI.

        """
        self._names = Names(base, "nquads")

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
