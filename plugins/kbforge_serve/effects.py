"""What an act does to the entities: the same figures from a rehearsal before it, and after it."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.contracts.entity import Natural
from kbforge.jobs.opening import require_all
from kbforge.store.changes import changes
from kbforge.store.store import Store
from kbforge_serve.answers import Answer, EntityReference
from kbforge_serve.facts import holding, references
from kbforge_serve.readers import Readers
from kbforge_serve.writer import Act, T, Turn

MOST_SHOWN = 100
"""Entities, and fragments, that an effect names."""


class Effect(Answer, frozen=True):
    """The entities that changed, or else those of the fragments that the act is about.

    `run` is None if nothing was written. `leads` has the entities that are gone, each with those
    that have its fragments. The lists are cut; the numbers count all.
    """

    run: Natural | None
    before: list[EntityReference]
    after: list[EntityReference]
    n_before: Natural
    n_after: Natural
    moved: list[str]
    n_moved: Natural
    leads: dict[str, list[str]]


def observed(readers: Readers, act: Act[T], about: Sequence[str] = ()) -> Act[tuple[T, Effect]]:
    """The act, and its effect; `about` are ids of fragments, to which the act may add.

    A reader keeps the state before the act, so that the entities in it can be named afterwards.
    """

    def watched(turn: Turn) -> tuple[T, Effect]:
        with readers.store() as before:
            since = before.last_number  # the first read fixes the state
            done = act(turn)
            return done, _effect(readers, before, turn.store, since, about)

    return watched


def _effect(
    readers: Readers, before: Store, after: Store, since: int, about: Sequence[str]
) -> Effect:
    """The effect of the runs after `since`."""
    run = after.last_number
    if run == since:
        return nothing(readers, after, about)
    found = list(changes(after, since, run))
    were = [one.entity for one in found if one.before]
    are = [one.entity for one in found if one.after]
    moved = sorted({id for one in found for id in {*one.after}.difference(one.before)})
    gone = {one.entity: list(one.others) for one in found if not one.after}
    if not found:
        were = are = [one.id for one in _of_fragments(readers, after, about)]
    return Effect(
        run,
        references(readers, before, were[:MOST_SHOWN]),
        references(readers, after, are[:MOST_SHOWN]),
        len(were),
        len(are),
        moved[:MOST_SHOWN],
        len(moved),
        dict(list(gone.items())[:MOST_SHOWN]),
    )


def nothing(readers: Readers, store: Store, about: Sequence[str]) -> Effect:
    """The effect of what changes nothing.

    Raises NotFoundError if a fragment is unknown.
    """
    own = _of_fragments(readers, store, about)
    return Effect(None, own, own, len(own), len(own), [], 0, {})


def _of_fragments(readers: Readers, store: Store, ids: Sequence[str]) -> list[EntityReference]:
    """References to the entities of fragments, each once."""
    numbers = store.pages.numbers(ids)
    require_all(store, ids, numbers)
    homes = holding(readers, store, list(numbers.values()))
    return list({one.id: one for one in homes.values()}.values())
