"""The runs of a store, and the changes between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kbforge.errors import NotFoundError
from kbforge.jobs.erasure import ERASES
from kbforge.jobs.history import Grouping, Regrouping, StoreHistory, between
from kbforge.kb.entities import name_of
from kbforge.store.store import Store
from kbforge.store.tables import ask
from kbforge_serve.answers import Facts
from kbforge_serve.background import Computations, State, state_of
from kbforge_serve.readers import Readers

_MOST_RUNS = 100
_MOST_REGROUPINGS = 20  # of each kind
_MOST_ENTITIES = 12  # of a regrouping, at each of the two times
_MOST_FRAGMENTS = 24  # of an entity


def runs_of(
    readers: Readers,
    computations: Computations,
    first: int | None = None,
    second: int | None = None,
) -> Facts:
    """The last runs, latest first, and the changes between two of them: by default the last.

    "by" has the names of who wrote in a run. "state" of the change is "ready" or "under way". Then
    there are no figures, or those of a moment ago if one of the two is the current run. A
    NotFoundError says that there is no such run.
    """
    with readers.store() as store:
        count = ask(store.database.connection, "SELECT count(*) FROM run")[0][0]
        second = count if second is None else second
        first = max(second - 1, 0) if first is None else first
        for number in (first, second):
            if not 0 <= number <= count:
                raise NotFoundError(
                    f"there is no run {number}: expected a number from 0 to {count}"
                )
        first, second = min(first, second), max(first, second)
        last = store.last_runs(_MOST_RUNS)
        by = store.authors(min((run.number for run in last), default=0))
        runs = [asdict(run) | {"by": by.get(run.number, [])} for run in last]
        out: Facts = {"runs": runs, "count": count, "from": first, "to": second}
        state = _state(store, second == count)
    if first == second:
        return out | {"state": "ready", "change": None}

    def compute(opened: Store) -> Facts:
        return _named(opened, between(opened, first, second, _MOST_REGROUPINGS))

    found, current = computations.get((first, second), state, compute)
    return out | {"state": "ready" if current else "under way", "change": found}


def _state(store: Store, is_last: bool) -> State:
    """The state that the difference between two runs depends on: erasures, and the current run."""
    rows = store.database.connection
    erased = ask(rows, "SELECT count(*), sum(finished) FROM run WHERE verb = ?", (ERASES,))[0]
    return (*erased, *(state_of(store) if is_last else ()))


def _named(store: Store, history: StoreHistory) -> Facts:
    """The changes, with the names of listed entities."""
    shown = {
        id
        for one in history.regroupings
        for side in (one.before, one.after)
        for ids in _first(side).values()
        for id in ids[:_MOST_FRAGMENTS]
    }
    numbers = store.pages.numbers(sorted(shown))
    content = store.pages.fragments(sorted(numbers.values()))
    names = {fragment.id: name_of(fragment) or fragment.id for fragment in content.values()}
    return history.to_json() | {
        "regroupings": [_regrouping(one, names) for one in history.regroupings]
    }


def _regrouping(one: Regrouping, names: Mapping[str, str]) -> Facts:
    held = {id: entity for entity, ids in one.before.items() for id in ids}
    holds = {id: entity for entity, ids in one.after.items() for id in ids}
    return {
        "kind": str(one.kind),
        "size": one.size,
        "came": len(one.came),
        "went": len(one.went),
        "before": _entities(one.before, names, holds, "went"),
        "after": _entities(one.after, names, held, "came"),
        "entities": [len(one.before), len(one.after)],
    }


def _entities(
    side: Grouping, names: Mapping[str, str], elsewhere: Mapping[str, str], missing: str
) -> list[Facts]:
    """The entities at one time; for each fragment, `elsewhere` has the entities at the other
    time."""

    def state(id: str, entity: str) -> str:
        """Whether the entity of a fragment has the same id at both times."""
        other = elsewhere.get(id)
        return missing if other is None else "stays" if other == entity else "moves"

    return [
        {
            "id": entity,
            "name": next((names[id] for id in ids if id in names), entity),
            "size": len(ids),
            "fragments": [
                {"id": id, "name": names.get(id, id), "state": state(id, entity)}
                for id in ids[:_MOST_FRAGMENTS]
            ],
        }
        for entity, ids in _first(side).items()
    ]


def _first(side: Grouping) -> dict[str, Any]:
    """The largest entities."""
    largest = sorted(side, key=lambda entity: (-len(side[entity]), entity))
    return {entity: side[entity] for entity in largest[:_MOST_ENTITIES]}
