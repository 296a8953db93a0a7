"""The entities of a store, followed from step to step, with their ids.

Ids are settled after each step, however many steps a transaction holds, so that they do not depend
on when something was written. What an entity was when a run first changed it is kept as its
*image*: the changes of a run are what is other than in its images.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import orjson

from kbforge.contracts import Cluster
from kbforge.store.codec import numbers_from_bytes, numbers_to_bytes
from kbforge.store.identity import followed
from kbforge.store.rows import ask, insert_rows, read_rows, write_rows

_ID_DIGITS = 12


class Entities:
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

        found = followed(left, new, fresh)
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
