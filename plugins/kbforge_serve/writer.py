"""Writes to a served store: one thread commits waiting requests in groups.

A future has the result when it is on disk. Additions that wait together are one group; a decision
is a group of its own, so that it can be undone exactly. A request is written whole or not at all.
Where a group fails, its requests are tried one by one, so that one that is refused takes no other
with it.

A file that is put in the place of the store is written from then on; the thread looks for one every
second, so that nobody reads it with the old log.

The thread holds the store's lock only while it writes a group, and leaves it free for a moment
every second, so that a command can have its turn; while a command writes, requests wait. Models and
session are kept from group to group. The session is opened anew if anybody else wrote in between,
and the models are read again if `kbforge refit` changed them.

Additions that follow each other are one run. It ends after so many fragments, after a while, and
when nothing comes any more; a run that was killed is continued, as on the command line. Confidence
is told when nothing else waits.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

import orjson

from kbforge.contracts import Decision, Fragment
from kbforge.contracts.entity import Natural
from kbforge.errors import BusyError, KBForgeError, StoreError, UsageError, quoted
from kbforge.fit.choices import PreparedRun, RunOptions
from kbforge.jobs import decide as deciding
from kbforge.jobs.erasure import finish_erasing
from kbforge.jobs.models import restore
from kbforge.jobs.opening import OpenStore
from kbforge.jobs.update import OnDuplicate, known_in, require_comparable, take_in
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge.store.writing import FILLS
from kbforge_serve.answers import Answer

ABOUT = "kbforge serve"
"""What runs of additions were given, for people."""
RUN_FRAGMENTS = 10_000
"""Fragments after which a run ends, at the end of their request: who follows runs waits for it."""
RUN_SECONDS = 60.0
"""Seconds after which it ends, if fewer come."""
IDLE = 1.0
"""Seconds without a request after which it ends, and confidence is told."""
MOST_WAITING = 256
"""Requests that wait, at most."""
MOST_CHARACTERS = 1 << 26
"""Of their values, at most: they are held in memory."""
PATIENCE = 30.0
"""Seconds that requests wait for a command that writes."""

_LOG = logging.getLogger(__name__)
_GROUP = 1000  # fragments: a command waits while a group is written
_AT_ONCE = 100  # subproblems of which confidence is told in one transaction
_SESSION = 20_000  # fragments after which a session forgets what it has read
_TURN = 1.0  # seconds between two moments in which a command can take the lock
_MOMENT = 0.05  # seconds
_AGAIN = 0.1  # seconds between two tries to take it back
_LATEST = 30  # seconds after which a client may try again, at most


class Written(Answer, frozen=True):
    """What is on disk: by which run, and the fragments and entities that the store has now."""

    run: Natural
    fragments: Natural
    entities: Natural


class Added(Written, frozen=True):
    """Fragments that are on disk; those `skipped` were there already."""

    added: Natural
    replaced: Natural
    skipped: Natural


class Decided(Written, frozen=True):
    """A decision that is in force; `already` says whether it was before."""

    already: bool
    decision: Natural


class Undone(Written, frozen=True):
    """A decision that is not in force; `exact` says whether all is as it was before it."""

    undone: Natural
    exact: bool | None
    already: bool


@dataclass(eq=False, slots=True)
class _Request:
    """What is to be written: fragments, or what `act` does to the store."""

    fragments: Sequence[Fragment] = ()
    on_duplicate: OnDuplicate = "error"
    accepted: Collection[str] = ()  # attributes that the store need not have
    act: Callable[[Store], Written] | None = None
    weight: int = 0  # characters
    context: Context = field(default_factory=copy_context)  # in which sentences are made
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """The one writer of a server.

    Before it opens a file that has taken the store's place it calls `on_replaced`: one that was
    copied over the store can be opened when all of this process have left it.
    """

    def __init__(self, path: str, on_replaced: Callable[[], None] = lambda: None) -> None:
        self._kept = _KeptStore(path, on_replaced)
        self._waiting: deque[_Request] = deque()
        self._characters = 0
        self._changed = threading.Condition()
        self._closing = False
        self._rate = float(_GROUP)  # fragments a second, of the last group
        self._turn = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def add(
        self,
        fragments: Sequence[Fragment],
        on_duplicate: OnDuplicate = "error",
        accepted: Collection[str] = (),
    ) -> Future[Added]:
        """Add fragments, all of them or none; those that are there already are passed over.

        Raises, at once or as the result:
            UsageError: two of the fragments have one id.
            DuplicateError: one is there with other content, and duplicates are an error.
            StrangeAttributesError: most of their values are of attributes that the store does not
                have and that are not `accepted`.
            LikelihoodError: the likelihood can make nothing of one.
            BusyError: too much waits, another command writes for long, or the server stops.
            OutputError: the store cannot be written.

        """
        given: dict[str, Fragment] = {}
        for one in fragments:
            if given.setdefault(one.id, one) != one:
                raise UsageError(f'two fragments have the id "{quoted(one.id)}"')
        weight = sum(len(v) for one in given.values() for vs in one.properties.values() for v in vs)
        return self._submit(_Request(list(given.values()), on_duplicate, accepted, weight=weight))

    def honour(
        self, same: bool, first: str, second: str, reported: float | None = None
    ) -> Future[Decided]:
        """Have the store honour a decision; one that is in force is not made again.

        `reported` is the probability that was reported of the pair when a person was asked.

        Raises, at once or as the result:
            UsageError: the two are one, or the store lacks one.
            ContradictionError: the decision cannot hold beside the others.
            LikelihoodError: no grouping that satisfies it is possible.
            BusyError, OutputError: as `add`.

        """
        if first == second:
            raise UsageError(f'expected two fragments, got "{quoted(first)}" twice')
        decision = Decision(same, first, second)

        def act(store: Store) -> Decided:
            held = self._kept.opened(store, "decide", deciding.in_words(decision))
            few = store.n_stale(_AT_ONCE + 1) <= _AT_ONCE
            done = deciding.honour(held, [decision], reported=reported, told=few)
            (number,) = done.told["decisions"]
            return Decided(done.run, done.fragments, done.entities, done.told["already"], number)

        return self._submit(_Request(act=act))

    def undo(self, number: int) -> Future[Undone]:
        """Honour a decision no longer; one that was undone stays so.

        Raises, at once or as the result:
            UsageError: there is no such decision.
            BusyError, OutputError: as `add`.

        """

        def act(store: Store) -> Undone:
            began = time.perf_counter()
            resumed = lambda about: self._kept.opened(store, "undo", about)  # noqa: E731
            few = store.n_stale(_AT_ONCE + 1) <= _AT_ONCE
            done = deciding.take_back(store, number, began, resumed, told=few)
            if done.told["exact"]:
                self._kept.forget()
            return Undone(done.run, done.fragments, done.entities, **done.told)

        return self._submit(_Request(act=act))

    def close(self) -> None:
        """Write what waits, end the run, and let go of the store."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _submit(self, request: _Request) -> Future[Any]:
        with self._changed:
            if self._closing:
                raise BusyError("the server is stopping; try again when it has started")
            full = self._characters + request.weight > MOST_CHARACTERS
            if self._waiting and (full or len(self._waiting) >= MOST_WAITING):
                raise BusyError("too much waits to be written; try again", self._seconds())
            self._waiting.append(request)
            self._characters += request.weight
            self._changed.notify()
        return request.future

    def _seconds(self) -> int:
        """In how many there is probably room again."""
        fragments = sum(len(one.fragments) for one in self._waiting)
        return min(max(math.ceil(fragments / self._rate / 2), 1), _LATEST)

    # -- in the thread ------------------------------------------------------------------------

    def _work(self) -> None:
        with contextlib.suppress(Exception):  # whoever writes first is told
            self._kept.prepare()
        while (group := self._next()) is not None:
            if group:
                self._write(group)
            else:
                self._rest()
        self._rest()
        self._kept.close()

    def _next(self) -> list[_Request] | None:
        """The next group; an empty one if nothing comes for a while, None at the end."""
        with self._changed:
            while not self._waiting:
                if self._closing:
                    return None
                if not self._changed.wait(IDLE):
                    return []
            group, ids = list[_Request](), set[str]()
            while self._waiting:
                one = self._waiting[0]
                own = {fragment.id for fragment in one.fragments}
                alone = (
                    one.act is not None or len(ids) + len(own) > _GROUP or not ids.isdisjoint(own)
                )
                if group and alone:
                    break
                group.append(self._waiting.popleft())
                self._characters -= one.weight
                ids |= own
                if alone:
                    break
            return group

    def _write(self, requests: Sequence[_Request]) -> None:
        """Write a group, and tell each of its requests what came of it."""
        group = [one for one in requests if one.future.set_running_or_notify_cancel()]
        if not group:
            return
        self._kept.unfinished = True
        try:
            with self._locked() as store:
                self._write_parts(store, group)
        except Exception as error:
            for one in group:
                if not one.future.done():
                    one.future.set_exception(error)

    def _write_parts(self, store: Store, group: Sequence[_Request]) -> None:
        """Write a group in one transaction, or each of its requests in its own if that fails."""
        try:
            if len(group) == 1 and group[0].act is not None:
                group[0].future.set_result(group[0].context.run(group[0].act, store))
            else:
                self._add(store, group)
        except Exception as error:
            self._kept.forget()  # the session is ahead of the tables
            left = [one for one in group if not one.future.done()]
            if len(left) == 1:
                left[0].future.set_exception(error)
                return
            for one in left:
                self._write_parts(store, [one])

    def _add(self, store: Store, group: Sequence[_Request]) -> None:
        """Add the fragments of a group; a request with a duplicate is refused before."""
        known: list[tuple[_Request, Mapping[str, bool]]] = []
        new: list[list[Fragment]] = []
        for one in group:
            try:
                there, own = one.context.run(_accepted, store, one)
            except KBForgeError as error:
                one.future.set_exception(error)
                continue
            known.append((one, there))
            new.append(own)
        begin, count = time.perf_counter(), sum(map(len, new))
        if count:
            held = self._kept.opened(store, FILLS, ABOUT)
            for fragments, (_, there) in zip(new, known, strict=True):
                for _ in take_in(held, fragments, there):
                    pass
            ends = held.run.added >= RUN_FRAGMENTS or begin - held.run.began > RUN_SECONDS
            self._kept.commit(count, ends)
            self._rate = count / (time.perf_counter() - begin)
        last = store.last_run
        run = 0 if last is None else last.number
        for fragments, (one, there) in zip(new, known, strict=True):
            replaced = sum(x.id in there for x in fragments)
            counts = len(fragments), replaced, len(one.fragments) - len(fragments)
            one.future.set_result(Added(run, store.n_fragments, store.n_entities, *counts))

    def _rest(self) -> None:
        """End the run, tell confidence while nothing waits, and empty the log.

        Before, look whether another file is in the place of the store. At the end of all the
        confidence of some is told.
        """
        with contextlib.suppress(KBForgeError):  # whoever writes next is told
            self._kept.follow()
        more = self._kept.unfinished
        while more and not self._waiting:
            try:
                with self._locked() as store:
                    more = self._kept.finish(store)
            except Exception as error:
                self._kept.forget()  # it is tried again, or told by the next run
                if not isinstance(error, KBForgeError):
                    self._kept.unfinished = False
                    _LOG.exception("the confidence of entities was not told")
                return
            if self._closing:  # whoever reads the store next has the rest told
                return

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Store]:
        """The store, with its lock, which is waited for."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                store = self._kept.take()
                break
            except BusyError:
                if self._closing or time.monotonic() > until:
                    raise
            time.sleep(_AGAIN)
        try:
            yield store
        finally:
            self._kept.let_go()
            if time.monotonic() - self._turn > _TURN:
                time.sleep(_MOMENT)
                self._turn = time.monotonic()


def _accepted(store: Store, one: _Request) -> tuple[Mapping[str, bool], list[Fragment]]:
    """The fragments that are there, as of `known_in`, and those to add; errors as of `add`."""
    there = known_in(store, one.fragments, one.on_duplicate)
    own = [x for x in one.fragments if not there.get(x.id, False)]
    require_comparable(store, own, one.accepted)
    return there, own


class _KeptStore:
    """A store that is written now and then; its models and its session are kept in between."""

    def __init__(self, path: str, on_replaced: Callable[[], None]) -> None:
        self._path, self._on_replaced = path, on_replaced
        self._database: Database | None = None
        self._fit: tuple[bytes, PreparedRun, RunOptions] | None = None
        self._held: OpenStore | None = None
        self._steps = 0  # that the session has taken
        self._running = False  # whether the run of the session goes on
        self.unfinished = False  # what `finish` does

    def prepare(self) -> None:
        """Have the models, so that the first request need not wait for them."""
        store = self.take()
        self.let_go()
        self._models(store)

    def follow(self) -> None:
        """Leave a file whose place another has taken; errors as of `Database.leave`."""
        if self._database is not None and self._database.replaced:
            self._database.leave()
            self._database = None
            self.forget()
        if self._database is None:
            self._on_replaced()

    def take(self) -> Store:
        """The store, with its lock; errors as of `Database`."""
        self.follow()
        if self._database is None:
            self._database = Database(self._path, write=True, verify=False)
        elif not self._database.take():
            self.forget()
        store = Store(self._database)
        if self._database.version is None:  # for a moment, while another file is put there
            self.let_go()
            raise StoreError(f"{quoted(self._path, 400)} is empty")
        finish_erasing(store)
        store.require_made()
        return store

    def let_go(self) -> None:
        """Let others write."""
        if self._database is not None:
            self._database.let_go()

    def opened(self, store: Store, verb: str, about: str) -> OpenStore:
        """Its session, with a run of this verb: fragments go on with the one that is not ended."""
        fit, choices = self._models(store)
        began = time.perf_counter()
        if self._steps > _SESSION and not self._running:
            self.forget()
        if self._held is None:
            self._held = OpenStore(store, fit, choices, verb, about, began)
        elif not self._running or verb != FILLS:
            if self._running:
                self._held.finish(told=False)
            self._held.next_run(verb, about, began)
        self._running = verb == FILLS
        return self._held

    def commit(self, steps: int, ends: bool) -> None:
        """Commit what the session has taken in; whether its run ends with it."""
        assert self._held is not None
        self._held.commit(finished=ends, told=False)
        self._steps += steps
        self._running = not ends

    def finish(self, store: Store) -> bool:
        """End the run, tell confidence of some of what changed, and at last empty the log.

        Returns whether there is more to tell. While somebody reads an older state, the log stays.
        """
        if self._running or store.has_stale:
            held = self._held or self.opened(store, FILLS, ABOUT)
            if self._running:
                held.finish(told=False)
                self._running = False
            held.tell(_AT_ONCE)
        more = store.has_stale
        self.unfinished = more or not store.database.settle()
        return more

    def forget(self) -> None:
        """Have the session opened anew before the next group."""
        self._held, self._steps, self._running = None, 0, False

    def close(self) -> None:
        """Let go of the store."""
        if self._database is not None:
            self._database.close()

    def _models(self, store: Store) -> tuple[PreparedRun, RunOptions]:
        key = orjson.dumps([store.fact("choices"), store.fact("frozen")])
        if self._fit is None or self._fit[0] != key:
            self.forget()
            self._fit = (key, *restore(store, confidence=True))
        return self._fit[1], self._fit[2]
