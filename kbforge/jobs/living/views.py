"""A knowledge base to read, whether it is a file of entities or a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kbforge.contracts import Cluster, Entity, Fragment, Posterior, View
from kbforge.errors import UsageError, quoted
from kbforge.evaluation.reliability import entity_probabilities
from kbforge.jobs.living.frozen import thaw
from kbforge.kb.entities import MOST_ALTERNATIVES
from kbforge.kb.read import read_entities
from kbforge.kb.view import file_view
from kbforge.models.confidence import Reported
from kbforge.store.database import Database, is_store
from kbforge.store.store import Store, StoreView


def view_of(kb: str, fragments: str | None = None, alternatives: str | None = None) -> View:
    """A view of a file of entities, or of a store.

    Args:
        kb: entities as JSON lines, or a store; "-" is standard input.
        fragments: the file that was clustered; a store has its own.
        alternatives: of a store, "few" or "all"; None is as it was made.

    Raises:
        KBForgeError: it cannot be read.
        UsageError: fragments beside a store.

    """
    if not is_store(kb):
        return file_view(kb, fragments)
    if fragments is not None:
        raise UsageError(f"--fragments: {quoted(kb, 400)} is a store, which has its own")
    return store_view(Store(Database(kb)), alternatives)


def store_view(store: Store, alternatives: str | None = None) -> View:
    """A view of a store that is open.

    Args:
        store: to read.
        alternatives: as of `view_of`.

    Raises:
        UsageError: it is empty.

    """
    store.require_made()
    kept = alternatives or store.fact("choices")["alternatives"]
    return StoreView(store, Calibrated(store), None if kept == "all" else MOST_ALTERNATIVES)


def entities_of(kb: str) -> Iterator[Entity]:
    """The entities of a file or of a store, one at a time.

    Raises:
        KBForgeError: it cannot be read.

    """
    return view_of(kb).entities() if is_store(kb) else read_entities(kb)


def ids_now(kb: str, entity: str) -> tuple[str, ...]:
    """The ids of what has become of an entity: itself, if it is there or in a file.

    Raises:
        UsageError: a store has no entity of that id, and had none.

    """
    return Store(Database(kb)).now(entity) if is_store(kb) else (entity,)


def around(kb: str, fragments: Sequence[str]) -> list[Entity]:
    """The entities of a store that fragments may belong to, with all alternatives.

    They are those of the fragments' subproblems.

    Raises:
        UsageError: the store lacks one of the fragments.

    """
    store = Store(Database(kb))
    numbers = store.pages.numbers(fragments)
    for fragment in fragments:
        if fragment not in numbers:
            raise UsageError(f'the knowledge base has no fragment "{quoted(fragment)}"')
    names = sorted(set(store.pages.homes(list(numbers.values())).values()))
    view = StoreView(store, None, None)
    return [entity for name in names for entity in view.of_subproblem(name)]


class Calibrated:
    """The calibrated confidence of the entities of a store; models are made when it is asked for.

    Args:
        store: whose map reads them.

    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(
        self, fragments: Sequence[Fragment], posterior: Posterior
    ) -> Mapping[Cluster, float] | None:
        if self._store.fact("frozen")["kept"]["confidence"] is None:
            return None
        prepared, _ = thaw(self._store, confidence=True)
        assert prepared.confidence is not None
        entities = entity_probabilities([posterior])
        sure = prepared.confidence.of_entities(Reported(fragments, entities))
        return dict(zip(entities.clusters, sure.tolist(), strict=True))
