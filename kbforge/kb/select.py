"""Choosing which entities of a knowledge base to show, in one pass and bounded memory."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable

from kbforge.contracts import Entity, Fragment
from kbforge.errors import UsageError, quoted


def largest(entities: Iterable[Entity], top: int) -> list[Entity]:
    """The entities with the most fragments; of equals the earlier."""
    return heapq.nlargest(top, entities, key=lambda entity: len(entity.fragments))


def least_sure(entities: Iterable[Entity], top: int) -> list[Entity]:
    """The entities with the lowest confidence, then probability; of equals the larger."""

    def doubt(entity: Entity) -> tuple[float, float, int]:
        return (entity.confidence, entity.probability, -len(entity.fragments))

    return heapq.nsmallest(top, entities, key=doubt)


def with_ids(entities: Iterable[Entity], ids: Collection[str]) -> list[Entity]:
    """The entities of these ids, in the order of the knowledge base.

    Raises:
        UsageError: one is not there.

    """
    found = [entity for entity in entities if entity.id in ids]
    for missing in sorted({*ids} - {entity.id for entity in found}):
        raise UsageError(
            f'the knowledge base has no entity "{quoted(missing)}"; --fragment finds an entity by '
            f"one of its fragments"
        )
    return found


def names_of(fragments: Collection[str], entities: Iterable[Entity]) -> dict[str, str]:
    """Fragment id -> name of the entity that holds it; fragments that none holds are left out."""
    if not fragments:
        return {}
    wanted = frozenset(fragments)
    return {
        fragment: entity.name
        for entity in entities
        for fragment in entity.fragments
        if fragment in wanted
    }


def with_fragment(entities: Iterable[Entity], fragment_id: str) -> Entity:
    """The entity that holds that fragment.

    Raises:
        UsageError: there is none.

    """
    for entity in entities:
        if fragment_id in entity.fragments:
            return entity
    raise UsageError(f'the knowledge base has no fragment "{quoted(fragment_id)}"')


def sources_of(entities: Iterable[Entity], fragments: Iterable[Fragment]) -> dict[str, str]:
    """Fragment id -> source and row, for those of the entities' fragments that name one.

    Raises:
        UsageError: the entities have a fragment that is not among `fragments`.

    """
    wanted = {fragment for entity in entities for fragment in entity.fragments}
    sources = {}
    for fragment in fragments:
        if fragment.id in wanted:
            wanted.remove(fragment.id)
            if fragment.place is not None:
                sources[fragment.id] = fragment.place
            if not wanted:
                return sources
    if wanted:
        raise UsageError(
            f'--fragments lacks the fragment "{quoted(min(wanted))}" of the knowledge base; give '
            f"the file that was clustered"
        )
    return sources
