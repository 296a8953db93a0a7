"""Compares two runs of a store: which entities merged, split or exchanged fragments.

`kbforge.store.changes` reports what happened to each entity. Here related changes are combined: two
entities are connected if a fragment moved from one to the other, and connected entities form one
*regrouping*. With the fragments that exist at both times,

| before | after | kind |
|---|---|---|
| 0 | 1 | created |
| 1 | 0 | removed |
| 1 | 1 | unchanged, or changed: fragments came or went, and none moved |
| 2 or more | 1 | merged |
| 1 | 2 or more | parted |
| 2 or more | 2 or more | moved |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import nlargest
from typing import Any, TypeAlias

from kbforge.contracts import Change
from kbforge.store.changes import changes
from kbforge.store.store import Store
from kbforge.store.tables import ask, require_sound

Grouping: TypeAlias = Mapping[str, tuple[str, ...]]
"""Entities by id, with the ids of their fragments."""


class RegroupingKind(StrEnum):
    """What happened to connected entities."""

    MERGED = "merged"
    PARTED = "parted"
    MOVED = "moved"
    CHANGED = "changed"
    CREATED = "created"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Entities that share fragments at two times, and with no others."""

    kind: RegroupingKind
    before: Grouping
    after: Grouping

    @property
    def came(self) -> tuple[str, ...]:
        """The fragments that were in no entity before."""
        return _missing(self.after, self.before)

    @property
    def went(self) -> tuple[str, ...]:
        """The fragments that are in no entity any more."""
        return _missing(self.before, self.after)

    @property
    def size(self) -> int:
        """The number of fragments involved."""
        return len(
            {id for side in (self.before, self.after) for ids in side.values() for id in ids}
        )

    def to_json(self) -> dict[str, Any]:
        """The kind, the entities at both times with their fragments, and the added and removed
        ones."""
        return {
            "kind": str(self.kind),
            "before": [{"id": id, "fragments": list(ids)} for id, ids in self.before.items()],
            "after": [{"id": id, "fragments": list(ids)} for id, ids in self.after.items()],
            "came": list(self.came),
            "went": list(self.went),
        }


@dataclass(frozen=True, slots=True)
class StoreHistory:
    """The changes of a store between two runs."""

    first: int  # the earlier run; 0 is the time before any
    second: int  # the later run
    entities: tuple[int, int]  # the number at the end of each run
    unchanged: int  # the number of entities with the same fragments at both times
    kinds: Mapping[RegroupingKind, int]  # the number of regroupings of each kind
    fragments: Mapping[RegroupingKind, int]  # the number of fragments in them, of each kind
    regroupings: tuple[Regrouping, ...]  # the largest of each kind, most fragments first

    def to_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "from": self.first,
            "to": self.second,
            "entities": list(self.entities),
            "unchanged": self.unchanged,
            "kinds": {
                str(kind): {"count": count, "fragments": self.fragments[kind]}
                for kind, count in self.kinds.items()
            },
            "regroupings": [one.to_json() for one in self.regroupings],
        }


def between(store: Store, first: int, second: int, most: int | None = None) -> StoreHistory:
    """The changes from the end of one run to the end of another; 0 is the time before the first.

    At `most` this many regroupings of each kind are kept. Raises a UsageError if there is no such
    run, or the second one is earlier.
    """
    kinds, fragments = Counter[RegroupingKind](), Counter[RegroupingKind]()
    kept: dict[RegroupingKind, list[Regrouping]] = defaultdict(list)
    n_before, renamed = 0, 0
    with store.database.snapshot():
        for one in _regroupings(changes(store, first, second)):
            n_before += len(one.before)
            if one.kind == RegroupingKind.CHANGED and not one.came and not one.went:
                renamed += 1  # the same fragments form one entity with another id
                continue
            kinds[one.kind] += 1
            fragments[one.kind] += one.size
            kept[one.kind].append(one)
            if most is not None and len(kept[one.kind]) > 2 * most + 1000:
                kept[one.kind] = _largest(kept[one.kind], most)
        entities = entities_at(store, first), entities_at(store, second)
    order = [kind for kind in RegroupingKind if kinds[kind]]
    return StoreHistory(
        first,
        second,
        entities,
        entities[0] - n_before + renamed,
        {kind: kinds[kind] for kind in order},
        {kind: fragments[kind] for kind in order},
        tuple(one for kind in order for one in _largest(kept[kind], most)),
    )


def entities_at(store: Store, run: int) -> int:
    """The number of entities at the end of a run; fragments erased since do not count."""
    if run == 0:
        return 0
    rows = store.database.connection
    for table in ("image", "entity"):
        require_sound(rows, table)
    # the first image of each entity after the run is its state at the end of the run
    was = "fragments NOT IN (CAST('[]' AS BLOB), CAST('[null]' AS BLOB)) AS was"
    first = f"SELECT min(run), entity, {was} FROM image WHERE run > ?"
    (touched, lived), *_ = ask(
        rows, f"SELECT count(*), coalesce(sum(was), 0) FROM ({first} GROUP BY entity)", (run,)
    )
    if not touched:
        return store.n_entities
    same = "SELECT count(*) FROM entity WHERE id NOT IN (SELECT entity FROM image WHERE run > ?)"
    return int(ask(rows, same, (run,))[0][0] + lived)


def _regroupings(changed: Iterable[Change]) -> Iterator[Regrouping]:
    """The connected components of changes, in the order of their first entities."""
    before: dict[str, tuple[str, ...]] = {}
    after: dict[str, tuple[str, ...]] = {}
    for change in changed:
        if not change.before and not change.after:
            continue  # all that it had was erased
        if not change.before:
            if not change.others:  # all its fragments are new
                yield Regrouping(RegroupingKind.CREATED, {}, {change.entity: change.after})
                continue
        else:
            before[change.entity] = change.before
        if change.after:
            after[change.entity] = change.after
    held = {id: entity for entity, ids in before.items() for id in ids}
    holds = {id: entity for entity, ids in after.items() for id in ids}
    done: set[str] = set()
    for start in before:
        if start in done:
            continue
        befores, afters = {start}, set[str]()
        ahead = [start]
        while ahead:
            for id in before[ahead.pop()]:
                if id not in holds or holds[id] in afters:
                    continue
                afters.add(holds[id])
                found = {held[one] for one in after[holds[id]] if one in held} - befores
                befores |= found
                ahead += found
        done |= befores
        yield _regrouping(
            {id: before[id] for id in sorted(befores)}, {id: after[id] for id in sorted(afters)}
        )
    # an entity with the id of one that is gone, and with other fragments
    for entity, ids in after.items():
        if not any(id in held for id in ids):
            yield Regrouping(RegroupingKind.CREATED, {}, {entity: ids})


def _regrouping(before: Grouping, after: Grouping) -> Regrouping:
    if not after:
        kind = RegroupingKind.REMOVED
    elif len(before) == len(after) == 1:
        kind = RegroupingKind.CHANGED
    elif len(after) == 1:
        kind = RegroupingKind.MERGED
    elif len(before) == 1:
        kind = RegroupingKind.PARTED
    else:
        kind = RegroupingKind.MOVED
    return Regrouping(kind, before, after)


def _missing(some: Grouping, others: Grouping) -> tuple[str, ...]:
    known = {id for ids in others.values() for id in ids}
    return tuple(id for ids in some.values() for id in ids if id not in known)


def _largest(some: list[Regrouping], most: int | None) -> list[Regrouping]:
    """The largest; equal sizes keep their order."""
    return nlargest(len(some) if most is None else most, some, key=lambda one: one.size)
