"""The entities of a store from step to step, with stable ids.

An entity keeps its id while the majority of its fragments stay together. Exactly half of them are
the majority if its earliest fragment is among them. Where several entities merge, the one that
brings the most fragments gives the id; of equals the one with the earliest first fragment. A new
entity gets an id that is derived from its earliest fragment.

Ids are assigned after each step, however many steps a transaction holds, so that they do not depend
on when something is written. The *image* of an entity is its state when a run first changed it: the
changes of a run are the differences from its images.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from kbforge.contracts import Cluster
from kbforge.store.pages import numbers_from_bytes, numbers_to_bytes
from kbforge.store.rows import ask, insert_rows, read_rows, write_rows

_ID_DIGITS = 12


class EntityTracker:
    """Which entities there are, as far as steps have touched them; the others are in the tables.

    Args:
        database: is read.
        run: the number of the run that changes them.
        id_of: the id of a fragment by its number, also of one that was removed in the step at hand.
        all_lead: whether ids that the run itself gave lead on when it takes them back, as those
            from before the run do. A run that adds fragments gives and takes too many.

    """

    def __init__(
        self,
        database: sqlite3.Connection,
        run: int,
        id_of: Callable[[int], str],
        all_lead: bool = True,
    ) -> None:
        self._database, self._run, self._id_of = database, run, id_of
        self._all_lead = all_lead
        self._held: dict[int, dict[str, Cluster]] = {}  # by subproblem that was touched
        self._pending: dict[str, tuple[int, Cluster] | None] = {}
        self._redirects: dict[str, tuple[str, ...] | None] = {}
        self._images: dict[str, tuple[str, ...]] = {}
        self._added = 0
        # most stores have none, and then an id that is given has none to forget
        self._leads = database.execute("SELECT 1 FROM redirect LIMIT 1").fetchone() is not None

    @property
    def added(self) -> int:
        """How many more entities there are than in the tables."""
        return self._added

    def follow(
        self,
        changed: Mapping[int, Sequence[Cluster]],
        gone: Iterable[int],
        removed: Collection[int] = (),
        new: int | None = None,
    ) -> None:
        """A step has made these subproblems of those.

        Args:
            changed: by name, the clusters of the point estimate now.
            gone: names of subproblems that are no more.
            removed: fragments that the step took out.
            new: the fragment that it took in.

        """
        if not gone and not removed and self._is_one(changed, new):
            return
        before: dict[str, Cluster] = {}
        home: dict[str, int] = {}
        for name in (*changed, *gone):
            for entity, cluster in self._of(name).items():
                before[entity], home[entity] = cluster, name
            self._held[name] = {}
        after = {cluster: name for name, clusters in changed.items() for cluster in clusters}
        ids: dict[Cluster, str] = {}
        for entity, cluster in before.items():
            if cluster in after:
                ids[cluster] = entity
        self._match(before, [cluster for cluster in after if cluster not in ids], ids, removed)
        for cluster, name in after.items():
            entity = ids[cluster]
            self._held[name][entity] = cluster
            if before.get(entity) != cluster or home[entity] != name:
                self._pending[entity] = (name, cluster)
        self._added += len(after) - len(before)

    def _is_one(self, changed: Mapping[int, Sequence[Cluster]], new: int | None) -> bool:
        """Follow what most steps do: one subproblem has one entity, which opened or has grown."""
        if len(changed) != 1:
            return False
        ((name, clusters),) = changed.items()
        if len(clusters) != 1:
            return False
        cluster = clusters[0]
        if name == new:  # the smallest of its fragments, so that it has no other
            entity = self._fresh(cluster, ())
            self._image(entity, ())
            self._forget_lead(entity)
            self._added += 1
        else:
            held = self._of(name)
            if len(held) != 1:
                return False
            ((entity, before),) = held.items()
            if before == cluster:
                return True
            self._image(entity, before)
        self._held[name] = {entity: cluster}
        self._pending[entity] = name, cluster
        return True

    def _forget_lead(self, entity: str) -> None:
        """An entity has this id now, and what had it before leads nowhere any more."""
        if self._leads:
            self._redirects[entity] = None

    def _match(
        self,
        before: Mapping[str, Cluster],
        new: Sequence[Cluster],
        ids: dict[Cluster, str],
        removed: Collection[int],
    ) -> None:
        """Give ids to new clusters, note what the others were and where they are."""
        same = set(ids.values())
        old = {entity: cluster for entity, cluster in before.items() if entity not in same}
        left = {
            entity: tuple(number for number in cluster if number not in removed)
            for entity, cluster in old.items()
        }
        taken = set(before)

        def fresh(cluster: Cluster) -> str:
            entity = self._fresh(cluster, taken)
            taken.add(entity)
            return entity

        found = assign_ids(left, new, fresh)
        ids.update(zip(new, found.ids, strict=True))
        for entity in (*old, *found.ids):
            self._image(entity, old.get(entity, ()))
        for entity in found.ids:
            if entity not in old:
                self._forget_lead(entity)
        for entity, targets in found.lost.items():
            self._pending[entity] = None
            if self._all_lead or self._images[entity]:
                self._redirects[entity], self._leads = targets, True

    def _of(self, name: int) -> Mapping[str, Cluster]:
        """The entities of a subproblem before the step."""
        held = self._held.get(name)
        if held is None:
            rows = read_rows(self._database, "entity", "WHERE subproblem = ?", (name,))
            held = {id: tuple(numbers_from_bytes(members).tolist()) for id, _, members in rows}
        return held

    def _fresh(self, cluster: Cluster, taken: Collection[str]) -> str:
        """An id told from the earliest fragment, that no other entity has."""
        digest = hashlib.blake2b(self._id_of(cluster[0]).encode(), digest_size=32).hexdigest()
        for digits in range(_ID_DIGITS, len(digest) + 1):
            entity = f"e-{digest[:digits]}"
            if entity not in taken and not self._lives(entity):
                return entity
        raise AssertionError("two fragments have one id")

    def _lives(self, entity: str) -> bool:
        if entity in self._pending:
            return self._pending[entity] is not None
        return bool(ask(self._database, "SELECT 1 FROM entity WHERE id = ?", (entity,)))

    def _image(self, entity: str, members: Cluster) -> None:
        """Note what an entity was before the run, if it was not noted yet."""
        if entity in self._images:
            return
        if self._run == 1:  # nothing was before
            self._images[entity] = ()
            return
        where = "WHERE run = ? AND entity = ?"
        known = next(read_rows(self._database, "image", where, (self._run, entity)), None)
        if known is None:
            self._images[entity] = tuple(map(self._id_of, members))
        else:
            self._images[entity] = tuple(orjson.loads(known[-1]))

    def write(self, database: sqlite3.Connection, undoable: int | None = None) -> None:
        """Put what was followed into the tables, within the transaction at hand.

        Args:
            database: to write to.
            undoable: as of `write_rows`.

        """
        entities = {
            id: None if held is None else (held[0], numbers_to_bytes(held[1]))
            for id, held in sorted(self._pending.items())
        }
        redirects = {
            id: None if targets is None else (orjson.dumps(targets),)
            for id, targets in self._redirects.items()
        }
        write_rows(database, "entity", entities, undoable)
        write_rows(database, "redirect", redirects, undoable)
        # what the first run makes was nothing before, and needs no image
        images = self._images if self._run > 1 else {}
        noted = ((self._run, id, orjson.dumps(ids)) for id, ids in images.items())
        insert_rows(database, "image", noted, "OR IGNORE")

    def written(self) -> None:
        """The transaction was committed."""
        self._pending.clear()
        self._redirects.clear()
        self._added = 0


@dataclass(frozen=True, slots=True)
class IdAssignment:
    """What became of some entities.

    Attributes:
        ids: of the clusters that there are, in their order.
        lost: by id that is no more, the ids of the clusters that have its fragments, the one with
            the most first.

    """

    ids: tuple[str, ...]
    lost: Mapping[str, tuple[str, ...]]


def assign_ids(
    before: Mapping[str, Cluster], after: Sequence[Cluster], fresh: Callable[[Cluster], str]
) -> IdAssignment:
    """Give ids to clusters.

    Args:
        before: entities by id, without fragments that were removed; they are disjoint.
        after: the clusters that there are now, disjoint; fragments may be new.
        fresh: an id for a cluster that has none; it is asked in the order of the clusters.

    """
    holder = {fragment: place for place, cluster in enumerate(after) for fragment in cluster}
    claims: dict[int, tuple[int, int, str]] = {}
    shares: dict[str, dict[int, int]] = {}
    for entity, cluster in before.items():
        share: dict[int, int] = {}
        for fragment in cluster:
            share[holder[fragment]] = share.get(holder[fragment], 0) + 1
        shares[entity] = share
        place = _majority(cluster, share, holder)
        if place is not None:
            claim = (-share[place], cluster[0], entity)
            claims[place] = min(claims.get(place, claim), claim)
    ids = tuple(
        claims[place][2] if place in claims else fresh(cluster)
        for place, cluster in enumerate(after)
    )
    kept = set(ids)
    lost = {
        entity: tuple(ids[place] for place in sorted(share, key=lambda p: (-share[p], p)))
        for entity, share in shares.items()
        if entity not in kept
    }
    return IdAssignment(ids, lost)


def _majority(cluster: Cluster, share: Mapping[int, int], holder: Mapping[int, int]) -> int | None:
    """Where the majority of an entity's fragments are, if they are together."""
    if not cluster:
        return None
    place = max(share, key=lambda p: (share[p], p == holder[cluster[0]]))
    twice = 2 * share[place]
    if twice > len(cluster) or (twice == len(cluster) and place == holder[cluster[0]]):
        return place
    return None
