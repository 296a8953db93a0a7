"""Reads a knowledge base from a file of entities or from a store, and an authority from either."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kbforge.contracts import Entity, Provenance, View
from kbforge.errors import NotFoundError, UsageError, option, quoted
from kbforge.files.kinds import kind_of
from kbforge.kb import read
from kbforge.kb.edges import Surroundings, meant_by, surroundings_of
from kbforge.kb.entities import MOST_ALTERNATIVES
from kbforge.kb.view import file_view
from kbforge.store.database import Database, is_store
from kbforge.store.store import Confidences, Store, StoreView, Tell

if TYPE_CHECKING:
    from kbforge.fit.authority import Authority


def view_of(kb: str, fragments: str | None = None) -> View:
    """A view of a file of entities ("-" is standard input), or of a store.

    Sources come from the clustered file of fragments; a store has its own.
    """
    if not is_store(kb):
        return file_view(kb, fragments)
    if fragments is not None:
        raise UsageError(f"{option('fragments')}: {quoted(kb, 400)} is a store, which has its own")
    return store_view(_opened(kb))


def _opened(path: str) -> Store:
    """A store to read; confidences that a killed run left out are computed first, if the store can
    be written."""
    store = Store(Database(path))
    if not store.has_stale:
        return store
    from kbforge.jobs.confidence import complete_confidence  # it makes models

    store.database.close()
    complete_confidence(path)
    return Store(Database(path))


def store_view(
    store: Store,
    alternatives: str | None = None,
    tell: Tell | None = None,
    by_name: bool = False,
) -> StoreView:
    """A view of an open store, with "few" or "all" alternatives; None is as the store was made.

    `tell` returns the confidence of changed entities, if the caller has the store's models;
    `by_name` is as in `StoreView`.
    """
    store.require_made()

    def confidence(names: Sequence[int]) -> Confidences:
        from kbforge.jobs.confidence import confidence_of  # it makes models

        return confidence_of(store, names)

    kept = alternatives or store.fact("choices")["alternatives"]
    most = None if kept == "all" else MOST_ALTERNATIVES
    calibrated = store.fact("frozen")["kept"]["confidence"] is not None
    return StoreView(store, tell or confidence, calibrated, most, by_name)


def entities_of(kb: str) -> Iterator[Entity]:
    """The entities of a file or of a store, one at a time."""
    return view_of(kb).entities() if is_store(kb) else read.read_entities(kb)


class EntitySelector:
    """Some entities of a knowledge base; a store reads only these, a file is read to its end.

    Standard input ("-") is read once and kept.
    """

    def __init__(self, kb: str) -> None:
        self._kb, self._kept = kb, list(read.read_entities(kb)) if kb == "-" else None
        self._store: Store | None = None
        self._refers: bool | None = None  # whether values name entities; None if that is unknown
        if is_store(kb):
            self._store = _opened(kb)
            self._view = store_view(self._store)

    def _entities(self) -> Iterator[Entity]:
        for entity in read.read_entities(self._kb) if self._kept is None else self._kept:
            self._refers = self._refers or any(
                value.meanings for values in entity.properties.values() for value in values
            )
            yield entity
        self._refers = self._refers or False

    @property
    def made(self) -> Provenance | None:
        """How the knowledge base was made, None if it does not say."""
        if self._store is not None:
            return self._store.made
        first = next(iter(self._entities()), None)
        return None if first is None else first.made

    def with_id(self, entity: str) -> list[Entity]:
        """The entity of an id or, in a store, those that have its fragments now."""
        if self._store is not None:
            return self._view.with_ids(self._store.now(entity))
        return read.with_ids(self._entities(), (entity,))

    def with_fragment(self, fragment: str) -> Entity:
        """The entity that holds a fragment."""
        if self._store is not None:
            return self._view.with_fragment(fragment)
        return read.with_fragment(self._entities(), fragment)

    def top(self, count: int, least_sure: bool) -> list[Entity]:
        """The largest entities, or those with the lowest confidence; ties go to the earlier."""
        entities = self._entities
        if self._store is not None:
            found = self._view.top(count, least_sure)
            if found is not None:
                return found
            entities = self._view.entities
        return (read.least_sure if least_sure else read.largest)(entities(), count)

    def around(self, chosen: Sequence[Entity]) -> Surroundings:
        """The entities around some."""
        if self._store is None:
            if self._refers is False:
                return Surroundings()
            return surroundings_of(chosen, self._entities())
        named = self._view.with_ids(sorted(meant_by(chosen)))
        stated = {
            entity.id: Counter(one.attribute for one in self._view.stating(entity)[0])
            for entity in chosen
        }
        return Surroundings({entity.id: entity.name for entity in named}, stated)

    def names_of(self, fragments: Collection[str]) -> dict[str, str]:
        """For each fragment the name of its entity."""
        if self._store is None:
            return read.names_of(fragments, self._entities())
        found = self._view.holding(sorted(fragments))
        return {fragment: entity.name for fragment, entity in found.items()}


def around(kb: str, fragments: Sequence[str]) -> list[Entity]:
    """The entities in the subproblems of some fragments of a store, with all alternatives."""
    store = Store(Database(kb))
    numbers = store.pages.numbers(fragments)
    for fragment in fragments:
        if fragment not in numbers:
            raise NotFoundError(f'the knowledge base has no fragment "{quoted(fragment)}"')
    names = sorted(set(store.pages.homes(list(numbers.values())).values()))
    return list(store_view(store, "all").of_subproblems(names))


def read_authority(path: str) -> Authority:
    """The known entities in a file.

    These are the entities of a knowledge base (a file or a store), or else the fragments of each
    label, as `read_fragments` reads them.

    Raises:
        KBForgeError: it cannot be read, or has no entities.
        BadRecord: the first bad record.

    """
    from kbforge.fit.authority import Authority  # showing entities needs no models

    if is_store(path) or (path != "-" and kind_of(path) == "entities"):
        found = Authority.of_entities(entities_of(path))
    else:
        from kbforge.files.lines import read_columns  # the kernel takes time to import

        found = Authority.of_fragments(read_columns(path))
    return replace(found, name="standard input" if path == "-" else path)
