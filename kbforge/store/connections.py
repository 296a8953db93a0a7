"""The edges of a store's entities, for `kbforge.kb.paths`: only what is asked is read.

Entities that were reached are read some at a time, in the order in which a search asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kbforge.contracts import Entity
from kbforge.kb.edges import Edge, edges_of
from kbforge.store.store import StoreView

_AT_ONCE = 64  # entities that are read together
_MOST_READ = 2_000  # entities
_MOST_STATING = 1_000  # entities that name one


class StoredConnections:
    """`Connections` of a store in one state, of which a bounded number of entities is read.

    `complete` is False once edges were left out.
    """

    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._read: dict[str, Entity] = {}
        self._ahead: dict[str, None] = {}  # reached, but not read
        self.complete = True

    def others(self, entity: str) -> Iterator[tuple[str, float]]:
        """The other ends of an entity's edges, both ways, and the probability of each edge."""
        if len(self._read) >= _MOST_READ:
            self.complete = False
            return
        own = self._entity(entity)
        stating, more = self._view.stating(own, most=_MOST_STATING)
        self.complete &= more is None
        found = [(edge.tail, edge.probability) for edge in edges_of(own)]
        found += [(one.entity, one.probability) for one in stating]
        self._ahead |= {other: None for other, _ in found if other not in self._read}
        yield from found

    def between(self, one: str, other: str) -> list[Edge]:
        """The edges between two entities, both ways, the most probable one first."""
        ends = ((one, other), (other, one))
        found = [e for head, tail in ends for e in edges_of(self._entity(head)) if e.tail == tail]
        return sorted(found, key=lambda edge: -edge.probability)

    def _entity(self, id: str) -> Entity:
        if id not in self._read:
            self._ahead.pop(id, None)
            ids = [id, *islice(self._ahead, _AT_ONCE)]
            for other in ids[1:]:
                del self._ahead[other]
            self._read |= {entity.id: entity for entity in self._view.with_ids(ids)}
        return self._read[id]
