"""The view of a store for exporters, reports and `kbforge show`: entities by subproblem.

Subproblems are read many at a time. The confidence of entities is read, too: it is told when a run
ends (`kbforge.jobs.living.calibrating`). What changed since then is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from kbforge.clustering.paging.reading import subproblem_of
from kbforge.contracts import Entity, Fragment, View
from kbforge.contracts.fragment import Shared
from kbforge.errors import UsageError, quoted
from kbforge.kb.entities import MOST_ALTERNATIVES, assemble_subproblem
from kbforge.kb.read import with_made
from kbforge.store.pages import fragment_from_bytes, numbers_from_bytes, page_from_bytes
from kbforge.store.rows import ask, damaged, read_rows, rows_of
from kbforge.store.store import Store

_AT_ONCE = 400  # subproblems read at one time

Confidences: TypeAlias = Mapping[int, float]
"""The confidence of entities by the number of their first fragments."""
Tell: TypeAlias = Callable[[Sequence[int]], Confidences]
"""From the names of subproblems the confidence of their entities."""

_LARGEST = "ORDER BY size DESC, subproblem, first"
_LEAST_SURE = "ORDER BY confidence, reported, size DESC, subproblem, first"


class StoreView(View):
    """The entities of a store, the earliest subproblem first.

    Args:
        store: to read; what is read in one pass is of one moment.
        tell: the confidence of entities that changed since it was told; None gives none.
        calibrated: whether a map tells it; if not, entities are as reported.
        most_alternatives: as of `kbforge.kb.entities.assemble`.

    """

    knows_fragments = True

    def __init__(
        self,
        store: Store,
        tell: Tell | None = None,
        calibrated: bool = False,
        most_alternatives: int | None = MOST_ALTERNATIVES,
    ) -> None:
        self._store, self._most = store, most_alternatives
        self._tell = tell if calibrated else None

    def entities(self) -> Iterator[Entity]:
        return with_made(self._entities(), self._store.made)

    def _entities(self) -> Iterator[Entity]:
        with self._store.database.snapshot():
            stale = self.stale
            told = self._tell(sorted(stale)) if stale and self._tell is not None else {}
            connection = self._store.database.connection
            names = [n for (n,) in ask(connection, "SELECT name FROM page ORDER BY first")]
            yield from self._in_parts(names, range(len(names)), told)

    @property
    def stale(self) -> frozenset[int]:
        """The subproblems whose entities changed since their confidence was told."""
        return frozenset(name for (name,) in read_rows(self._store.database.connection, "stale"))

    def of_subproblems(self, names: Sequence[int]) -> Iterator[Entity]:
        """The entities of these subproblems, the earliest subproblem first.

        Args:
            names: as the session calls them, each once.

        """
        with self._store.database.snapshot():
            connection = self._store.database.connection
            changed = [name for (name,) in rows_of(connection, "stale", "subproblem", names)]
            told = self._tell(sorted(changed)) if changed and self._tell is not None else {}
            numbers = self._numbers(names)
            yield from self._in_parts(list(numbers), list(numbers.values()), told)

    def _in_parts(
        self, names: Sequence[int], numbers: Sequence[int], told: Confidences
    ) -> Iterator[Entity]:
        """As `_assembled`, with a bounded number of subproblems in memory."""
        shared = Shared()
        for start in range(0, len(names), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            yield from self._assembled(names[part], numbers[part], told, shared)

    def _numbers(self, names: Sequence[int]) -> dict[int, int]:
        """By name the numbers of subproblems, ascending: how many have earlier first fragments."""
        connection = self._store.database.connection
        pages = [(first, name) for name, first, _ in rows_of(connection, "page", "name", names)]
        if len(pages) < len(names):
            damaged(connection, "the table of subproblems")
        numbers: dict[int, int] = {}
        number, begin = 0, 0
        # only what lies between two of them is counted, in the index: none is counted twice
        between = "SELECT count(*) FROM page WHERE first >= ? AND first < ?"
        for first, name in sorted(pages):
            number += ask(connection, between, (begin, first))[0][0]
            numbers[name], begin = number, first
        return numbers

    def holding(self, fragments: Sequence[str]) -> dict[str, Entity]:
        """By fragment the entity that holds it; fragments that the store lacks are left out."""
        pages, wanted = self._store.pages, {*fragments}
        with self._store.database.snapshot():
            homes = pages.homes(list(pages.numbers(fragments).values()))
            return {
                id: entity
                for entity in self.of_subproblems(sorted(set(homes.values())))
                for id in entity.fragments
                if id in wanted
            }

    def with_fragment(self, fragment: str) -> Entity:
        """The entity that holds a fragment.

        Raises:
            UsageError: there is none.

        """
        found = self.holding([fragment])
        if fragment not in found:
            raise UsageError(f'the knowledge base has no fragment "{quoted(fragment)}"')
        return found[fragment]

    def with_ids(self, ids: Sequence[str]) -> list[Entity]:
        """The entities of these ids, by subproblem."""
        with self._store.database.snapshot():
            rows = list(rows_of(self._store.database.connection, "entity", "id", list(ids)))
            firsts = [int(numbers_from_bytes(members)[0]) for _, _, members in rows]
            return self._of_firsts(firsts)

    def top(self, count: int, least_sure: bool) -> list[Entity] | None:
        """The largest entities, or those with the lowest confidence; of equals the earlier.

        Returns:
            None if the store does not know, because some have changed since it was told.

        """
        connection = self._store.database.connection
        with self._store.database.snapshot():
            if self._store.has_stale:
                return None
            order = f"{_LEAST_SURE if least_sure else _LARGEST} LIMIT ?"
            rows = read_rows(connection, "confidence", order, (count,))
            return self._of_firsts([row[0] for row in rows])

    def _of_firsts(self, firsts: Sequence[int]) -> list[Entity]:
        """The entities with these fragments, in their order."""
        found = self._store.pages.fragments(firsts)
        ids = [found[first].id for first in firsts]
        entities = self.holding(ids)
        return [entities[id] for id in ids]

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        pages = self._store.pages
        numbers = pages.numbers(entity.fragments)
        found = pages.fragments(list(numbers.values()))
        return [found[numbers[id]] for id in entity.fragments]

    def _assembled(
        self, names: Sequence[int], numbered: Sequence[int], told: Confidences, shared: Shared
    ) -> Iterator[Entity]:
        """The entities of subproblems.

        Args:
            names: of the subproblems.
            numbered: the number of each.
            told: the confidence of entities that the store does not know.
            shared: of the fragments before these.

        """
        connection = self._store.database.connection
        pages = {
            name: page_from_bytes(name, content)
            for name, _, content in rows_of(connection, "page", "name", names)
        }
        if len(pages) < len(names):
            damaged(connection, "the table of subproblems")
        numbers = sorted({n for page in pages.values() for n in page.members.tolist()})
        place: dict[int, int] = {}
        fragments: dict[int, Fragment] = {}
        for n, _, at, _, _, line in rows_of(connection, "fragment", "number", numbers):
            place[n], fragments[at] = at, fragment_from_bytes(line, shared)
        if len(place) < len(numbers):
            damaged(connection, "the table of fragments")
        ids: dict[int, str] = {}
        firsts: dict[int, int] = {}
        for id, _, members in rows_of(connection, "entity", "subproblem", names):
            held = numbers_from_bytes(members).tolist()
            at = min(place[n] for n in held)
            ids[at], firsts[at] = id, min(held)
        sure = dict(told)
        if self._tell is not None:
            rows = rows_of(connection, "confidence", "first", list(firsts.values()))
            sure = {first: confidence for first, _, _, _, confidence in rows} | sure
            if len(sure.keys() & firsts.values()) < len(set(firsts.values())):
                damaged(connection, "the confidence of entities")
        for name, number in zip(names, numbered, strict=True):
            subproblem = subproblem_of(pages[name], place.__getitem__)
            for cluster in subproblem.clusters:
                if cluster[0] not in ids:
                    damaged(connection, f"the entity of fragment {fragments[cluster[0]].id}")
            by_cluster = {}
            if self._tell is not None:
                by_cluster = {c: sure[firsts[c[0]]] for c in subproblem.clusters}
            yield from assemble_subproblem(
                fragments,
                subproblem,
                number,
                lambda cluster: ids[cluster[0]],
                self._most,
                calibrated=None if self._tell is None else by_cluster,
            )
