"""View: a knowledge base to read, whether a file or a store holds it.

Exporters, reports and pages read through it and know of no file. It gives entities one at a time,
and of each the fragments as they went in, with source and metadata where those are known.

Laws:

1. Every fragment is in exactly one entity.
2. The fragments of an entity come in the entity's order, one for each of its ids.
3. Memory is bounded by one entity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from kbforge.contracts.entity import Entity
from kbforge.contracts.fragment import Fragment


class View(Protocol):
    """What can be read of a knowledge base."""

    @property
    def knows_fragments(self) -> bool:
        """Whether fragments are as they went in; if not, they are told from the entity's values.

        A fragment that is told has no source, metadata, vector and label, and its values are each
        there once.
        """
        ...

    def entities(self) -> Iterator[Entity]:
        """The entities, one at a time; ask once, for standard input cannot be read again."""
        ...

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        """The fragments of one of the entities, in its order.

        Raises:
            KBForgeError: one of them is not where fragments are known from.

        """
        ...
