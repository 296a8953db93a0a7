"""Changes between runs: the entities that changed from the end of one run to another.

A position in this feed is the number of a completed run. The changes between two runs stay the same
at every request, except that erased fragments are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice
from operator import itemgetter

import orjson
from msgspec import Struct

from kbforge.contracts import Change, Kind
from kbforge.contracts.entity import Natural
from kbforge.errors import UsageError, option
from kbforge.store.store import Store
from kbforge.store.tables import ask, read_rows

_AT_ONCE = 500  # changes whose effects on links are found together


class Changes(Struct, frozen=True, rename={"since": "from"}, forbid_unknown_fields=True):
    """The entities that changed between the ends of two runs; `last` is the last completed run.

    If `after` is set, ask again with the same `since`, with `to` and with `after`. Otherwise
    continue with `to` as the next `since`.
    """

    since: Natural
    to: Natural
    last: Natural
    changes: Sequence[Change]
    after: str | None


def read_changes(
    store: Store, since: int, to: int | None = None, limit: int | None = None, after: str = ""
) -> Changes:
    """The entities that changed after a run, by id: at most `limit`, after the id `after`.

    Without `to`, up to the last completed run; with a limit, up to the run where the changes reach
    about this number, but at least one run. Raises a UsageError if there is no such run.
    """
    with store.database.snapshot():
        last = store.position
        if to is None:
            to = max(since, last if limit is None else _reach(store, since, last, limit))
        found = changes(store, since, to, after)
        told = list(found if limit is None else islice(found, limit + 1))
    more = limit is not None and len(told) > limit
    told = told[:limit]
    return Changes(since, to, last, told, told[-1].entity if more else None)


def _reach(store: Store, since: int, last: int, limit: int) -> int:
    """The run up to which there are about this many changes."""
    if since >= last:
        return last
    counts = "SELECT run, count(*) FROM image WHERE run > ? AND run <= ? GROUP BY run ORDER BY run"
    total = 0
    for run, count in ask(store.database.connection, counts, (since, last)):
        total += count
        if total > limit:
            return max(since + 1, int(run) - 1)
    return last


def changes(store: Store, since: int, to: int | None = None, beyond: str = "") -> Iterator[Change]:
    """The entities that changed from the end of one run to another, by id.

    0 is the time before the first run, and None as `to` is now. Entities up to the id `beyond` are
    left out. Raises a UsageError if there is no such run, or the second one is earlier.
    """
    runs = store.runs()
    last = len(runs)
    to = last if to is None else to
    for name, run, least in (("since", since, 0), ("to", to, since)):
        if not least <= run <= last:
            raise UsageError(
                f"{option(name)}: expected the number of a run from {least} to {last}, got {run}"
            )
    if since == to:
        return
    rows = store.database.connection
    with store.database.snapshot():
        before: dict[str, list[str | None]] = {}
        later: dict[str, list[str | None]] = {}  # what entities were at the end of `to`, not now
        for run, entity, fragments in read_rows(
            rows, "image", "WHERE run > ? ORDER BY run", (since,)
        ):
            (before if run <= to else later).setdefault(entity, orjson.loads(fragments))

        def at_the_end(entities: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
            """The entities at the end of `to`, with their fragments, in order."""
            now = store.members([entity for entity in entities if entity not in later])
            then = ((id, known_of(later[id])) for id in entities if id in later)
            return merge(now, (one for one in then if one[1]), key=itemgetter(0))

        if since == 0:  # the first run notes no images, and nothing was before it
            there = {id for id, *_ in read_rows(rows, "entity")}.union(later)
            for entity, ids in at_the_end(sorted(id for id in there if id > beyond)):
                yield Change(entity, Kind.CREATED, (), ids, ())
            return
        was = {entity: known_of(before[entity]) for entity in sorted(before)}
        became = dict.fromkeys(was, ()) | dict(at_the_end(list(was)))
        lost = {entity for entity, ids in before.items() if None in ids}
        same = [id for entity, ids in was.items() if {*ids} == {*became[entity]} for id in ids]
        # numbers count on from run to run
        numbers = store.pages.totals.n_numbers if store.has_session else 0
        first, end = (numbers - sum(run.added for run in runs[at:]) for at in (since, to))
        new = {id for id, number in store.pages.numbers(same).items() if first <= number < end}
    # a fragment that moved has left one of these entities for another of them
    held = {id: entity for entity, ids in was.items() for id in ids}
    holds = {id: entity for entity, ids in became.items() for id in ids}
    changed = {
        entity
        for entity, ids in was.items()
        if entity in lost or {*ids} != {*became[entity]} or not new.isdisjoint(ids)
    }
    told = (
        _change(entity, ids, became[entity], held, holds)
        for entity, ids in was.items()
        if entity in changed and entity > beyond
    )
    while some := list(islice(told, _AT_ONCE)):
        with store.database.snapshot():
            yield from _relinked(store, some, changed, was, held, first)


def _relinked(
    store: Store,
    told: Sequence[Change],
    changed: Collection[str],
    was: Mapping[str, Sequence[str]],
    held: Mapping[str, str],
    first: int,
) -> Iterator[Change]:
    """Changes with the entities whose links they have rewired; fragments from number `first` on are
    new."""
    links = store.links
    if links is None:
        yield from told
        return
    firsts: dict[str, int] = {}

    def before(fragments: Mapping[int, str]) -> dict[int, tuple[int, str]]:
        found = {n: held[id] for n, id in fragments.items() if n < first and id in held}
        for entity in set(found.values()) - firsts.keys():
            numbers = store.pages.numbers(was[entity]).values()
            firsts[entity] = min(number for number in numbers if number < first)
        return {number: (firsts[entity], entity) for number, entity in found.items()}

    numbers = store.pages.numbers(list({id for one in told for id in (*one.before, *one.after)}))
    fragments = list(store.pages.fragments(list(numbers.values())).values())
    found = links.rewired(fragments, changed, before)
    others = {fragment.id: ids for fragment, ids in zip(fragments, found, strict=True)}
    for one in told:
        ids = set().union(*(others.get(id, ()) for id in (*one.before, *one.after)))
        yield replace(one, relinked=tuple(sorted(ids)))


def known_of(image: Iterable[str | None]) -> tuple[str, ...]:
    """The known fragments of an image; None stands for erased ones."""
    return tuple(id for id in image if id is not None)


def _change(
    entity: str,
    before: tuple[str, ...],
    after: tuple[str, ...],
    held: Mapping[str, str],
    holds: Mapping[str, str],
) -> Change:
    """The change of an entity; for each fragment, the entities that `held` it and that `holds`
    it."""
    if after:
        others = dict.fromkeys(held[id] for id in after if held.get(id, entity) != entity)
        kind = Kind.CHANGED if before else Kind.CREATED
        return Change(entity, kind, before, after, tuple(others))
    now = Counter(holds[id] for id in before if id in holds)
    if not now:
        return Change(entity, Kind.REMOVED, before, (), ())
    parts = sorted(now, key=lambda other: (-now[other], other))
    kind = Kind.MERGED if 2 * now[parts[0]] > now.total() else Kind.SPLIT
    return Change(entity, kind, before, (), tuple(parts))
