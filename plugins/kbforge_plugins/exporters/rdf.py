"""What the exporters of RDF write alike: IRIs of entities, fragments, attributes and sources.

| IRI | of |
|---|---|
| BASE entity:ID, BASE fragment:ID | an entity, a fragment |
| BASE attribute:NAME | an attribute, as a predicate |
| BASE relation:fragment | an entity's fragment |
| BASE relation:name, relation:confidence, relation:reported | an entity's |
| BASE relation:source, relation:row | a fragment's, as text and as a number |
| BASE source:NAME | a source, unless it is an http address, which stands for itself |

What follows the colon is percent-encoded, so that every name has an IRI of its own.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from kbforge.errors import UsageError, quoted

BASE = "urn:kbforge:"
_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*')
# an address in ASCII without anything that an IRI must escape
_ADDRESS = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+")


class Names:
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
