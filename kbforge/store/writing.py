"""Writes a session to its store: transactions, runs and stable ids.

A transaction holds whole steps, so the store always has the state after a prefix of the stream.

Each command that changes a store is a run. Its row is written with its first change, in one
transaction, so a command that changes nothing is not a run. A killed run is continued.

An entity keeps its id while the majority of its fragments stay together. Exactly half of them count
as the majority if its earliest fragment is among them. When entities merge, the id comes from the
one with most fragments; ties go to the one with the earliest first fragment. A new entity's id is
derived from its earliest fragment. An entity that contains a known entity has its id, as long as it
contains it. Ids are assigned after each step. The *image* of an entity is its state when a run
first changed it: a run's changes are the differences from its images.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
import orjson

from kbforge.contracts import (
    Checkpoint,
    Cluster,
    DecisionRecord,
    Fragment,
    Run,
    Session,
    Snapshot,
    SubproblemChanges,
    SubproblemData,
)
from kbforge.errors import KBForgeError
from kbforge.files.fragments import to_line
from kbforge.kb.entities import entity_ids
from kbforge.store.audit import record, signer
from kbforge.store.database import Database
from kbforge.store.mentions import REFERS, add_mentions, forget_mentions
from kbforge.store.pages import (
    StoredPages,
    few_from_bytes,
    numbers_to_bytes,
    page_to_bytes,
    totals_to_bytes,
)
from kbforge.store.store import ASSERTS, NOT_TOLD, Store
from kbforge.store.tables import (
    ask,
    insert_rows,
    read_rows,
    row_of,
    rows_of,
    write_rows,
)

FILLS = "cluster"
"""The verb of runs that add fragments; their inputs are files."""
KNOWN = "known"
"""The fact that a store has entities of an authority: the numbers of their fragments."""
_MOST_ABOUT = 1000
_MOVED = """
SELECT number FROM json_each(?) AS now CROSS JOIN fragment
WHERE number = CAST(now.key AS INTEGER) AND subproblem <> now.value
"""
_LARGEST_KEY = 1 << 63


@dataclass(slots=True)
class ActiveRun:
    """The current run."""

    number: int
    verb: str
    about: str  # what the command was given, for people
    began: float  # by `time.perf_counter`, as if it had never been interrupted
    started: float  # seconds since 1970
    added: int = 0  # fragments so far
    removed: int = 0
    written: bool = False  # whether it has a row
    by: str | None = None  # who wrote to it last
    undoes: DecisionRecord | None = None

    def row(self, entities: int, finished: bool) -> Run:
        """The run's current record."""
        return Run(
            self.number,
            self.verb,
            self.about,
            finished,
            self.added,
            self.removed,
            entities,
            time.perf_counter() - self.began,
            self.started,
        )


def begin(store: Store, verb: str, about: str, began: float) -> ActiveRun:
    """Begin a run, or continue the last one if it is unfinished and of the same command.

    A run that adds fragments is continued by any command that does. `began` is the command's start
    by `time.perf_counter`. Each name that writes to a run has a line in the audit.
    """
    # the name of a file may be no text
    about = about.encode(errors="backslashreplace").decode()
    last, told = store.last_run, about[:_MOST_ABOUT]
    same = last is not None and last.verb == verb and (told == last.about or verb == FILLS)
    if last is not None and same and not last.finished:
        if told != last.about:
            told = f"{last.about}; {about}"[:_MOST_ABOUT]
        began -= last.seconds
        counts = last.added, last.removed
        by = next((line.by for line in store.last_lines(1) if line.run == last.number), None)
        return ActiveRun(last.number, verb, told, began, last.began, *counts, written=True, by=by)
    number = 1 if last is None else last.number + 1
    started = time.time() - (time.perf_counter() - began)
    return ActiveRun(number, verb, told, began, started)


def write_run(database: sqlite3.Connection, run: Run) -> None:
    """Write the row of a run, within the current transaction."""
    row = (
        *(run.number, run.verb, run.about, int(run.finished), run.added, run.removed),
        *(run.entities, run.seconds, run.began),
    )
    insert_rows(database, "run", [row], "OR REPLACE")


class StoreWriter:
    """Writes a session, opened on the store's pages or fresh for an empty store.

    What is `filled` or `replaced` needs none.
    """

    def __init__(
        self,
        database: Database,
        session: Session | None,
        run: ActiveRun,
        known: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self._database, self._session, self._run = database, session, run
        # the numbers of fragments that stand for entities of an authority, from one to another
        self._known = None if known is None else [list(ends) for ends in known]
        self._also: list[Callable[[sqlite3.Connection], object]] = []
        self.begun: Snapshot | None = None
        self._checkpoint: Checkpoint | None = None  # in place of the session's
        self._decisions = () if session is None else session.constraints.decisions  # as written
        self._new: dict[int, tuple[Fragment, int]] = {}
        self._removed: dict[int, str] = {}
        connection = database.connection
        self._moved: dict[int, int] = dict(
            ask(connection, "SELECT number, place FROM fragment WHERE place <> number")
        )
        self._entities = EntityTracker(connection, run.number, self._ids_of, run.verb != FILLS)
        for first, end in self._known or ():
            self._entities.known.update(range(first, end))
        self._count: int = ask(connection, "SELECT count(*) FROM entity")[0][0]

    @property
    def n_entities(self) -> int:
        """The number of entities."""
        self._entities.catch_up()
        return self._count + self._entities.added

    @property
    def facts(self) -> Mapping[str, object]:
        """The global facts to write, as JSON."""
        return {} if self._known is None else {KNOWN: self._known}

    def know(self, number: int) -> None:
        """Announce that the next fragment, with this number, represents a known entity."""
        assert self._known is not None, "the store has an authority"
        if not self._known or self._known[-1][1] != number:
            self._known.append([number, number])
        self._known[-1][1] = number + 1
        self._entities.known.add(number)

    def place_of(self, number: int) -> int:
        """The place of a fragment."""
        return self._moved.get(number, number)

    def added(self, fragment: Fragment, number: int, place: int | None = None) -> None:
        """Record that the session added the fragment, and nothing else has happened.

        `place` is that of the replaced fragment; None puts it last.
        """
        self._new[number] = fragment, number if place is None else place
        if place is not None and place != number:
            self._moved[number] = place
        self.followed(new=number)

    def filled(self, begun: Snapshot) -> None:
        """Record what fragments were clustered to as a whole, in place of the session's, which has
        none and is to be opened again."""
        self.begun = begun
        self._new = {number: (x, number) for number, x in enumerate(begun.fragments)}
        self.replaced(Checkpoint(begun.totals, begun.pages, (), begun.postings))

    def replaced(self, checkpoint: Checkpoint) -> None:
        """Record other pages of all subproblems, in place of the session's changes."""
        self._checkpoint = checkpoint
        self._entities.follow({page.name: page.heaviest() for page in checkpoint.pages}, ())

    def contents(self, numbers: Sequence[int]) -> Mapping[int, Fragment]:
        """Fragments by number, written or not."""
        new = {number: self._new[number][0] for number in numbers if number in self._new}
        written = [number for number in numbers if number not in new]
        return {**new, **StoredPages(self._database.connection).fragments(written)}

    def removed(self, fragments: Mapping[int, str]) -> None:
        """Record that the session lost fragments, by number with their ids, and nothing else has
        happened."""
        self._removed |= fragments
        self.followed(fragments)
        for number in fragments:
            self._moved.pop(number, None)
            if self._new.pop(number, None) is not None:
                del self._removed[number]

    def followed(self, removed: Collection[int] = (), new: int | None = None) -> SubproblemChanges:
        """Note what the last step, which removed or added fragments, did to entities."""
        assert self._session is not None
        touched = self._session.touched()
        clusters = {name: self._session.clusters(name) for name in touched.changed}
        self._entities.follow(clusters, touched.gone, removed, new)
        return touched

    def also(self, write: Callable[[sqlite3.Connection], object]) -> None:
        """Add another write to the next transaction."""
        self._also.append(write)

    def write(
        self,
        facts: Mapping[str, object],
        finished: bool,
        undoable: int | None = None,
        decided: Sequence[DecisionRecord] = (),
        then: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Write all steps since the last time in one transaction; `then` writes more at its end.

        `finished`: the run is complete. Its seconds include the time of `then`. The old rows are
        saved under the key `undoable` (see `kbforge.store.tables`), so undoing restores them.
        `decided` are the decisions that caused the steps. `facts` are global, as JSON. Raises
        OutputError as `Database.transaction`, and the store is unchanged.
        """
        self._entities.catch_up()
        if (checkpoint := self._checkpoint) is None:
            assert self._session is not None
            checkpoint = self._session.checkpoint()
        run, by = self._run, signer()

        def all_of_it(database: sqlite3.Connection) -> None:
            if undoable is None:
                # nothing before can be undone exactly any more
                database.execute("DELETE FROM erased")
            if not decided and (not run.written or run.by != by):
                record(database, run.number, run.verb, run.about, run.undoes)
            for one in decided:
                said = NOT_TOLD if one.same is None else int(one.same)
                said = ASSERTS if one.asserts else said
                row = (one.number, said, one.first, one.second, one.run, None)
                insert_rows(database, "decision", [row])
                record(database, run.number, run.verb, run.about, one)
            self._write_fragments(database, checkpoint, undoable)
            self._write_session(database, checkpoint, undoable)
            self._entities.write(database, undoable)
            for also in self._also:
                also(database)
            rows = {name: (orjson.dumps(value),) for name, value in facts.items()}
            write_rows(database, "meta", rows, undoable)
            if then is not None:
                then(database)
            write_run(database, run.row(self.n_entities, finished))

        self._database.transaction(all_of_it)
        run.by = by
        self._count = self.n_entities
        self._decisions = checkpoint.totals.constraints.decisions
        self._entities.written()
        self._also.clear()
        self._new.clear()
        self._removed.clear()

    def _write_fragments(
        self, database: sqlite3.Connection, checkpoint: Checkpoint, undoable: int | None
    ) -> None:
        fact = row_of(database, "meta", REFERS)
        refer: Sequence[str] = () if fact is None else orjson.loads(fact[1])  # attributes
        if refer and self._removed:
            gone = StoredPages(database).fragments(list(self._removed))
            forget_mentions(database, refer, gone)
        database.executemany(
            "DELETE FROM fragment WHERE number = ?", [(number,) for number in self._removed]
        )
        write_rows(database, "confidence", dict.fromkeys(self._removed), undoable)
        homes = {n: page.name for page in checkpoint.pages for n in page.members.tolist()}
        came = (
            (number, x.id, place, homes[number], x.source, to_line(x))
            for number, (x, place) in self._new.items()
        )
        insert_rows(database, "fragment", came)
        if refer and self._new:
            fragments = [x for x, _ in self._new.values()]
            add_mentions(database, refer, fragments, np.array(list(self._new), np.int64))
        there = {number: home for number, home in homes.items() if number not in self._new}
        left = ask(database, _MOVED, (orjson.dumps(there, option=orjson.OPT_NON_STR_KEYS),))
        rows = rows_of(database, "fragment", "number", [number for (number,) in left])
        moved = {
            number: (id, place, homes[number], *others) for number, id, place, _, *others in rows
        }
        write_rows(database, "fragment", moved, undoable)

    def _write_session(
        self, database: sqlite3.Connection, checkpoint: Checkpoint, undoable: int | None
    ) -> None:
        pages = {page.name: (self._first(page), page_to_bytes(page)) for page in checkpoint.pages}
        gone = dict.fromkeys(checkpoint.gone)
        write_rows(database, "page", gone, undoable)
        write_rows(database, "page", pages, undoable)
        write_rows(database, "stale", gone, undoable)
        stale = {*pages, *self._decided(database, checkpoint)}
        write_rows(database, "stale", dict.fromkeys(sorted(stale), ()), undoable)
        # in the order of the table, so that each of its pages is written once
        postings = {
            key: (int(found.closed), numbers_to_bytes(found.families))
            if found.families or found.closed
            else None
            for key, found in sorted(checkpoint.postings.items())
        }
        for key in postings:
            if not -_LARGEST_KEY <= key < _LARGEST_KEY:
                raise KBForgeError(
                    f"the index gives the key {key}: expected whole numbers of 64 bits; a store "
                    "cannot hold others"
                )
        write_rows(database, "led", postings, undoable)
        totals = {"totals": (totals_to_bytes(checkpoint.totals),)}
        write_rows(database, "meta", totals, undoable)

    def _decided(self, database: sqlite3.Connection, checkpoint: Checkpoint) -> Collection[int]:
        """The subproblems about which other decisions are in force now: even if these change no
        page, they tell how sure its entities are."""
        now = checkpoint.totals.constraints.decisions
        if now == self._decisions:
            return ()
        named = {id for one in {*now} ^ {*self._decisions} for id in (one.first, one.second)}
        rows = rows_of(database, "fragment", "id", sorted(named))
        return {home for _, _, _, home, *_ in rows}

    def _first(self, page: SubproblemData) -> int:
        """The smallest place of a subproblem's fragments."""
        if not self._moved:
            return page.name
        return min(map(self.place_of, np.unique(page.members).tolist()))

    def _ids_of(self, numbers: Collection[int]) -> dict[int, str]:
        ids = {n: self._removed[n] for n in numbers if n in self._removed}
        ids |= {n: self._new[n][0].id for n in numbers if n in self._new}
        left = [n for n in numbers if n not in ids]
        rows = rows_of(self._database.connection, "fragment", "number", left, all_there=True)
        return ids | {number: id for number, id, *_ in rows}


_Step: TypeAlias = tuple[
    Mapping[int, Sequence[Cluster]], Sequence[int], Collection[int], int | None
]
"""The arguments of `EntityTracker.follow`."""


class EntityTracker:
    """The entities that steps have touched; the others are in the tables.

    Steps that add fragments are noted, and applied together (`catch_up`), so that few questions
    read all that they need.

    `ids_of` returns the ids of fragments, even of those that the current step removed. `known` are
    the fragments that represent known entities, whose id is the fragment's. `all_lead`: whether ids
    that the run assigned and then withdrew redirect, like earlier ids; a run that adds fragments
    assigns and withdraws too many.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        run: int,
        ids_of: Callable[[Collection[int]], dict[int, str]],
        all_lead: bool = True,
    ) -> None:
        self._database, self._run, self._ids_of = database, run, ids_of
        self._all_lead = all_lead
        self.known: set[int] = set()
        self._steps: list[_Step] = []
        self._held: dict[int, dict[str, Cluster]] = {}  # by subproblem that was touched
        self._free: set[str] = set()  # ids that no entity in the tables has
        self._pending: dict[str, tuple[int, Cluster] | None] = {}
        self._redirects: dict[str, tuple[str, ...] | None] = {}
        self._before: dict[str, bool] = {}  # of entities with an image: whether the run found them
        self._images: dict[str, Cluster] = {}  # that are not in the table
        self.added = 0  # how many more entities there are than in the tables
        # most stores have none, and then an id that is given has none to forget
        self._leads = bool(ask(database, "SELECT 1 FROM redirect LIMIT 1"))
        # only a run that is continued has images in the table
        self._resumed = bool(ask(database, "SELECT 1 FROM image WHERE run = ? LIMIT 1", (run,)))

    def follow(
        self,
        changed: Mapping[int, Sequence[Cluster]],
        gone: Iterable[int],
        removed: Collection[int] = (),
        new: int | None = None,
    ) -> None:
        """Note a step: the new point estimates of changed subproblems, and added and removed
        fragments."""
        self._steps.append((changed, tuple(gone), removed, new))
        if removed:  # as long as their ids are known
            self.catch_up()

    def catch_up(self) -> None:
        """Apply the steps noted."""
        steps, self._steps = self._steps, []
        named = {name for changed, gone, *_ in steps for name in (*changed, *gone)}
        unknown = sorted(named - self._held.keys())
        self._held |= {name: {} for name in unknown}
        for id, name, members in rows_of(self._database, "entity", "subproblem", unknown):
            self._held[name][id] = few_from_bytes(members)
        opened = [new for changed, _, _, new in steps if new is not None and new in changed]
        first = {next(iter(entity_ids(id))) for id in self._ids_of(opened).values()}
        there = {id for id, *_ in rows_of(self._database, "entity", "id", sorted(first))}
        self._free = first - there
        for step in steps:
            self._apply(*step)
        self._free.clear()

    def _apply(
        self,
        changed: Mapping[int, Sequence[Cluster]],
        gone: Sequence[int],
        removed: Collection[int],
        new: int | None,
    ) -> None:
        if not gone and not removed and self._is_one(changed, new):
            return
        before: dict[str, Cluster] = {}
        home: dict[str, int] = {}
        for name in (*changed, *gone):
            for entity, cluster in self._held[name].items():
                before[entity], home[entity] = cluster, name
            self._held[name] = {}
        after = {cluster: name for name, clusters in changed.items() for cluster in clusters}
        ids = {cluster: entity for entity, cluster in before.items() if cluster in after}
        self._match(before, [cluster for cluster in after if cluster not in ids], ids, removed)
        for cluster, name in after.items():
            entity = ids[cluster]
            self._held[name][entity] = cluster
            if before.get(entity) != cluster or home[entity] != name:
                self._pending[entity] = (name, cluster)
        self.added += len(after) - len(before)

    def _is_one(self, changed: Mapping[int, Sequence[Cluster]], new: int | None) -> bool:
        """Apply the usual step: one subproblem has one entity, which is new or has grown."""
        if len(changed) != 1 or (new in self.known and new not in changed):
            return False
        ((name, clusters),) = changed.items()
        if len(clusters) != 1:
            return False
        cluster = clusters[0]
        if name == new:  # the smallest of its fragments, so that it has no other
            entity = self._fresh(cluster, ())
            self._image(entity, ())
            self._forget_lead(entity)
            self.added += 1
        else:
            held = self._held[name]
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
        """Drop the redirect of an id that an entity has again."""
        if self._leads:
            self._redirects[entity] = None

    def _match(
        self,
        before: Mapping[str, Cluster],
        new: Sequence[Cluster],
        ids: dict[Cluster, str],
        removed: Collection[int],
    ) -> None:
        """Assign ids to new clusters, record images and redirects."""
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

        fixed: dict[Cluster, str] = {}
        for cluster in new if self.known else ():
            known = self._known_id(cluster)
            if known is not None and (known in old or not self._lives(known)):
                fixed[cluster] = known
        taken.update(fixed.values())
        # the id of an authority goes with the fragment that stood for its entity
        ended = {*self._ids_of(self.known.intersection(removed)).values()}
        given, lost = assign_ids(left, new, fresh, fixed, ended)
        ids.update(zip(new, given, strict=True))
        for entity in (*old, *given):
            self._image(entity, old.get(entity, ()))
        for entity in given:
            if entity not in old:
                self._forget_lead(entity)
        for entity, targets in lost.items():
            self._pending[entity] = None
            if self._all_lead or self._before[entity]:
                self._redirects[entity], self._leads = targets, True

    def _id_of(self, number: int) -> str:
        return self._ids_of((number,))[number]

    def _known_id(self, cluster: Cluster) -> str | None:
        """The id of the known entity in a cluster, if there is one."""
        return next((self._id_of(number) for number in cluster if number in self.known), None)

    def _fresh(self, cluster: Cluster, taken: Collection[str]) -> str:
        """An unused id: of a known entity, or derived from the earliest fragment."""
        known = self._known_id(cluster) if self.known else None
        ids = entity_ids(self._id_of(cluster[0]))
        ids = ids if known is None else chain((known,), ids)
        return next(one for one in ids if one not in taken and not self._lives(one))

    def _lives(self, entity: str) -> bool:
        if entity in self._pending:
            return self._pending[entity] is not None
        if entity in self._free:
            return False
        return bool(ask(self._database, "SELECT 1 FROM entity WHERE id = ?", (entity,)))

    def _image(self, entity: str, members: Cluster) -> None:
        """Record the state of an entity before the run, unless it was recorded before."""
        if entity in self._before:
            return
        if self._run == 1:  # nothing was before, and entities need no image
            self._before[entity] = False
            return
        where, of = "WHERE run = ? AND entity = ?", (self._run, entity)
        known = next(read_rows(self._database, "image", where, of), None) if self._resumed else None
        self._before[entity] = bool(members if known is None else orjson.loads(known[-1]))
        if known is None:
            self._images[entity] = members

    def write(self, database: sqlite3.Connection, undoable: int | None = None) -> None:
        """Write the entities, within the current transaction; `undoable` as in `write_rows`."""
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
        ids = self._ids_of({number for members in self._images.values() for number in members})
        noted = (
            (self._run, entity, orjson.dumps([ids[number] for number in members]))
            for entity, members in self._images.items()
        )
        insert_rows(database, "image", noted, "OR IGNORE")

    def written(self) -> None:
        """Clear the changes after the commit."""
        self._pending.clear()
        self._redirects.clear()
        self._images.clear()
        self.added = 0


def assign_ids(
    before: Mapping[str, Cluster],
    after: Sequence[Cluster],
    fresh: Callable[[Cluster], str],
    fixed: Mapping[Cluster, str] | None = None,
    ended: Collection[str] = (),
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Assign ids to disjoint clusters; `before` are entities without removed fragments.

    `fresh` makes an id for a cluster without one, in the order of the clusters; those in `fixed`
    have theirs, and ids in `ended` are not used. Returns the ids in that order and, by lost id, the
    ids of the clusters that have its fragments, the largest share first.
    """
    holder = {fragment: place for place, cluster in enumerate(after) for fragment in cluster}
    claims: dict[int, tuple[int, int, str]] = {}
    shares: dict[str, dict[int, int]] = {}
    fixed = fixed or {}
    own = {*fixed.values(), *ended}
    for entity, cluster in before.items():
        share: dict[int, int] = {}
        for fragment in cluster:
            share[holder[fragment]] = share.get(holder[fragment], 0) + 1
        shares[entity] = share
        for place, n in share.items():
            if entity in own or after[place] in fixed:
                continue
            if 2 * n > len(cluster) or (2 * n == len(cluster) and place == holder[cluster[0]]):
                claim = (-n, cluster[0], entity)
                claims[place] = min(claims.get(place, claim), claim)
    ids = tuple(
        fixed.get(cluster) or (claims[place][2] if place in claims else fresh(cluster))
        for place, cluster in enumerate(after)
    )
    kept = set(ids)
    lost = {
        entity: tuple(ids[place] for place in sorted(share, key=lambda p: (-share[p], p)))
        for entity, share in shares.items()
        if entity not in kept
    }
    return ids, lost
