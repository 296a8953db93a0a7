"""What is other than it was: entities that runs made, changed, merged, split and removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson

from kbforge.contracts import Change, Kind
from kbforge.errors import UsageError
from kbforge.store.codec import numbers_from_bytes
from kbforge.store.rows import read_rows, row_of, rows_of
from kbforge.store.store import Store


def changes(store: Store, since: int) -> Iterator[Change]:
    """How entities are other than they were when a run had ended, by id.

    Args:
        store: as it is now.
        since: the number of the run; 0 is the time before the first.

    Raises:
        UsageError: there is no such run.

    """
    runs = store.runs()
    if not 0 <= since <= len(runs):
        raise UsageError(
            f"--since: expected the number of a run from 0 to {len(runs)}, got {since}"
        )
    rows = store.database.connection
    with store.database.snapshot():
        if since == 0:
            for entity, *_ in list(read_rows(rows, "entity", "ORDER BY id")):
                yield Change(entity, Kind.CREATED, (), _members(store, entity), ())
            return
        found: dict[str, bytes] = {}
        for _, entity, fragments in read_rows(
            rows, "image", "WHERE run > ? ORDER BY run", (since,)
        ):
            found.setdefault(entity, fragments)
        before = {entity: tuple(orjson.loads(found[entity])) for entity in sorted(found)}
        held = {id: entity for entity, ids in before.items() for id in ids}
        for entity, ids in before.items():
            change = _change(store, entity, ids, held)
            if change is not None:
                yield change


def _change(
    store: Store, entity: str, before: Sequence[str], held: dict[str, str]
) -> Change | None:
    """What became of an entity that a run touched; None if it is as it was, or never was."""
    after = _members(store, entity)
    if set(after) == set(before):
        return None
    if after:
        others = dict.fromkeys(held[id] for id in after if held.get(id, entity) != entity)
        kind = Kind.CHANGED if before else Kind.CREATED
        return Change(entity, kind, tuple(before), after, tuple(others))
    now: dict[str, int] = {}
    for id, number in store.pages.numbers(before).items():
        assert id in before
        holder = store.entity_of(number)[0]
        now[holder] = now.get(holder, 0) + 1
    if not now:
        return Change(entity, Kind.REMOVED, tuple(before), (), ())
    parts = sorted(now, key=lambda other: (-now[other], other))
    kind = Kind.MERGED if 2 * now[parts[0]] > sum(now.values()) else Kind.SPLIT
    return Change(entity, kind, tuple(before), (), tuple(parts))


def _members(store: Store, entity: str) -> tuple[str, ...]:
    """The ids of an entity's fragments, by place; none if it is no more."""
    rows = store.database.connection
    row = row_of(rows, "entity", entity)
    if row is None:
        return ()
    numbers = numbers_from_bytes(row[-1]).tolist()
    held = rows_of(rows, "fragment", "number", numbers)
    return tuple(id for _, id in sorted((place, id) for _, id, place, *_ in held))
