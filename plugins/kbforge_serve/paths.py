"""How two entities are connected: paths of values that name entities, and who states each step."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.contracts.entity import Natural, Probability
from kbforge.kb.edges import Edge, one_called
from kbforge.kb.entities import naming
from kbforge.kb.paths import entities_on, shortest_paths
from kbforge.store.connections import StoredConnections
from kbforge_serve import facts
from kbforge_serve.answers import Answer, EntityReference
from kbforge_serve.helpers import aside
from kbforge_serve.readers import Readers
from kbforge_serve.search import Search, SearchResult

_MOST_FOUND = 8  # entities that a text may mean
_MOST_SPELLINGS = 5
_MOST_STATING = 20  # fragments named for a step


class Step(Answer, frozen=True):
    """A relation between two entities: the attribute of `head` whose values name `tail`, how
    probably they do, some of the values, and how many fragments state it, with the first ones."""

    head: str
    relation: str
    tail: str
    probability: Probability
    spellings: Sequence[str]
    count: Natural
    fragments: Sequence[str]


class FoundPath(Answer, frozen=True):
    """Entities, the relations between each and the next, and how probable all steps are."""

    probability: Probability
    entities: list[EntityReference]
    steps: list[list[Step]]


class Paths(Answer, frozen=True):
    """The best of the shortest paths between two entities.

    They are not `complete` if so many entities are around that some were not looked at.
    """

    first: EntityReference
    second: EntityReference
    paths: list[FoundPath]
    complete: bool


class PathEnd(Answer, frozen=True):
    """A text, and the entity that it means; if it means none, those that it may mean."""

    text: str
    entity: EntityReference | None
    similar: Sequence[EntityReference]


def paths_of(readers: Readers, search: Search, first: str, second: str) -> Paths:
    """The paths between two entities, given by id, by a fragment or by name.

    Raises NotFoundError if a text means none, and UsageError if it is the name of several.
    """
    meant = ((text, _meant(readers, search, text)[0]) for text in (first, second))
    ends = [one_called(text, [(one.id, one.size) for one in found]) for text, found in meant]
    return paths(readers, *ends)


@aside
def paths(readers: Readers, first: str, second: str) -> Paths:
    """The paths between two entities, given by id.

    Raises NotFoundError if one does not exist now.
    """
    with readers.store() as store:
        for id in (first, second):  # one may have gone
            one_called(id, [(one.id, one.size) for one in facts.references(readers, store, [id])])
        connections = StoredConnections(readers.view_of(store))
        found = shortest_paths(connections, first, second)
        met = facts.references(readers, store, entities_on(found, first, second))
        named = {one.id: one for one in met}
        return Paths(
            named[first],
            named[second],
            [
                FoundPath(
                    path.probability,
                    [named[entity] for entity in path.entities],
                    [[_step(edge) for edge in step] for step in path.steps],
                )
                for path in found
            ],
            connections.complete,
        )


def _step(edge: Edge) -> Step:
    return Step(
        *(edge.head, edge.relation, edge.tail, edge.probability),
        spellings=edge.spellings[:_MOST_SPELLINGS],
        count=len(edge.fragments),
        fragments=edge.fragments[:_MOST_STATING],
    )


def end_of(readers: Readers, search: Search, text: str) -> PathEnd:
    """What a text means: an entity by its id, by a fragment or, if it alone has one, by a name."""
    meant, similar = _meant(readers, search, text)
    return PathEnd(text, meant[0], ()) if len(meant) == 1 else PathEnd(text, None, similar)


def _meant(
    readers: Readers, search: Search, text: str
) -> tuple[Sequence[EntityReference], Sequence[EntityReference]]:
    """The entities with this id, fragment or name; and those that are found instead."""
    asked = text.strip()
    if not asked:
        return (), ()
    with readers.store() as store:
        exact = facts.references(readers, store, [asked])
        if not exact and (numbers := store.pages.numbers([asked])):
            exact = [*facts.holding(readers, store, list(numbers.values())).values()]
    if exact:
        return exact, ()
    found = search.find(asked, _MOST_FOUND).results
    return [one for one in found if _is_called(one, asked.casefold())], found


def _is_called(one: SearchResult, name: str) -> bool:
    found = one.matched
    return one.name.casefold() == name or (
        found is not None
        and found.value.casefold() == name
        and found.attribute in naming((found.attribute, *one.values))
    )
