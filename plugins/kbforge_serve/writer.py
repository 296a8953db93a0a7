"""Writes to a served store: one thread commits waiting requests in groups.

A future gets its result when it is on disk. Additions that wait together form one group; a decision
is a separate group, so that it can be undone exactly. A request is written completely or not at
all. If a group fails, its requests are tried one by one, so a refused one does not affect the
others.

If another file replaces the store, it is written from then on; the thread checks for one every
second, so that no program reads it with the old log.

The thread holds the store's lock only while it writes a group, and releases it for a moment every
second, so that a command can write; while a command writes, requests wait. Models and session are
kept from group to group. The session is opened again if another program wrote in between, and the
models are read again if `kbforge refit` changed them.

Consecutive additions of one name form one run. It ends after a number of fragments, after a while,
and when no more come; a run that was killed is continued, as on the command line. Confidence is
computed when nothing else waits.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import orjson

from kbforge.contracts import Decision, Fragment
from kbforge.contracts.entity import Natural
from kbforge.errors import BusyError, KBForgeError, StoreError, UsageError, quoted
from kbforge.files.columns import in_metadata
from kbforge.fit.choices import PreparedRun, RunOptions
from kbforge.jobs import decide as deciding
from kbforge.jobs.erasure import finish_erasing
from kbforge.jobs.models import RULES, restore
from kbforge.jobs.opening import OpenStore
from kbforge.jobs.remove import erased, removed
from kbforge.jobs.update import OnDuplicate, known_in, require_comparable, take_in
from kbforge.store.audit import signer
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge.store.writing import FILLS
from kbforge_serve import logs
from kbforge_serve.answers import Answer

ABOUT = "kbforge serve"
"""The description of the input of additions, for readers."""
MOST_WAITING = 256
"""Maximum waiting requests."""
MOST_CHARACTERS = 1 << 26
"""Maximum number of values in them, because they are in memory."""

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_GROUP = 1000  # fragments: a command waits while a group is written
_SESSION = 20_000  # fragments after which a session forgets what it has read
_TURN = 1.0  # seconds between two moments in which a command can take the lock
_MOMENT = 0.05  # seconds
_AGAIN = 0.1  # seconds between two tries to take it back
_LATEST = 30  # seconds after which a client may try again, at most


class Written(Answer, frozen=True):
    """The result on disk: the run, and the store's fragments and entities now."""

    run: Natural
    fragments: Natural
    entities: Natural


class Added(Written, frozen=True):
    """Fragments that are on disk; `skipped` ones were there already."""

    added: Natural
    replaced: Natural
    skipped: Natural


class Decided(Written, frozen=True):
    """A decision in force; `already` says whether it was in force before."""

    already: bool
    decision: Natural


class Undone(Written, frozen=True):
    """A withdrawn decision; `exact` says whether the store is as before it."""

    undone: Natural
    exact: bool | None
    already: bool


class Removed(Written, frozen=True):
    """How many fragments were removed; `already` says that all were gone."""

    removed: Natural
    already: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of one act: the store with its lock, and how to open its session.

    `opened(verb, about)` begins a run. `told` says whether the act computes the confidence of what
    it changes; otherwise that is left for later. An act that changes the tables without the session
    calls `forget`.
    """

    store: Store
    opened: Callable[[str, str], OpenStore]
    told: bool
    forget: Callable[[], None]


Act: TypeAlias = Callable[[Turn], T]
"""What changes the store, and returns what it did."""


@dataclass(eq=False, slots=True)
class _Request:
    """A write request: fragments, or what `act` does to the store, unless it only rehearses."""

    fragments: Sequence[Fragment] = ()
    on_duplicate: OnDuplicate = "error"
    accepted: Collection[str] = ()  # attributes that the store need not have
    about: str = ABOUT  # the description of their input
    act: Act[Any] | None = None
    rehearse: bool = False
    weight: int = 0  # characters
    context: Context = field(default_factory=copy_context)  # in which sentences are made
    by: str = field(default_factory=signer)  # in the audit
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """The only writer of a server.

    Before it opens a file that replaced the store it calls `on_replaced`, because a copied file can
    be opened only when all of this process have left the old one.

    Attributes:
        idle: seconds without a request after which a run ends, and confidence is computed.
        patience: seconds that requests wait for a writing command.
        run_fragments: fragments after which a run ends, at the end of their request, because
            readers of the changes wait for its end.
        run_seconds: seconds after which it ends, if fewer come.
        told_at_once: subproblems whose confidence is computed in one transaction.
        on_turn: called when a group begins to be written and, with False, when it has been.

    """

    def __init__(
        self,
        path: str,
        on_replaced: Callable[[], None] = lambda: None,
        *,
        idle: float = 1.0,
        patience: float = 30.0,
        run_fragments: int = 10_000,
        run_seconds: float = 60.0,
        told_at_once: int = 100,
    ) -> None:
        self.idle, self.patience = idle, patience
        self.run_fragments, self.run_seconds = run_fragments, run_seconds
        self.told_at_once = told_at_once
        self.on_turn: Callable[[bool], object] = lambda begins: None
        self._name, self._kept = Path(path).stem, _KeptStore(path, on_replaced)
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
        about: str = ABOUT,
    ) -> Future[Added]:
        """Add fragments, all of them or none; those already in the store are skipped.

        `about` describes their input for readers of the run, if they are its first.

        Raises, at once or as the result:
            UsageError: two of the fragments have one id.
            DuplicateError: one has a stored id and different content, and duplicates are an error.
            StrangeAttributesError: most of their values are of attributes that the store does not
                have and that are not `accepted`.
            LikelihoodError: the likelihood cannot read one.
            BusyError: too much is waiting, another command writes for long, or the server stops.
            OutputError: the store cannot be written.

        """
        given: dict[str, Fragment] = {}
        for one in fragments:
            if given.setdefault(one.id, one) != one:
                raise UsageError(f'two fragments have the id "{quoted(one.id)}"')
        weight = sum(len(v) for one in given.values() for vs in one.properties.values() for v in vs)
        own = list(given.values())
        return self._submit(_Request(own, on_duplicate, accepted, about, weight=weight))

    def end_run(self) -> Future[Written]:
        """End the run of additions, if there is one. Errors as `perform`."""

        def act(turn: Turn) -> Written:
            self._kept.end_run()
            store = turn.store
            return Written(store.last_number, store.n_fragments, store.n_entities)

        return self.perform(act)

    def honour(
        self, same: bool, first: str, second: str, reported: float | None = None
    ) -> Future[Decided]:
        """Add a decision to the store; arguments and errors as `honouring`."""
        return self.perform(honouring(same, first, second, reported))

    def undo(self, number: int) -> Future[Undone]:
        """Withdraw a decision; errors as `undoing`."""
        return self.perform(undoing(number))

    def remove(self, ids: Sequence[str], secure: bool = False) -> Future[Removed]:
        """Remove fragments; arguments and errors as `removing`."""
        return self.perform(removing(ids, secure))

    def perform(self, act: Act[T], rehearse: bool = False) -> Future[T]:
        """Let an act change the store; if it is only rehearsed, all its changes are undone.

        Raises, at once or as the result:
            BusyError, OutputError: as `add`.
            KBForgeError: the act raises it; it has changed nothing.

        """
        return self._submit(_Request(act=act, rehearse=rehearse))

    @property
    def n_waiting(self) -> int:
        """How many requests wait to be written."""
        return len(self._waiting)

    def close(self) -> None:
        """Write what waits, end the run, and close the store."""
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
        """The number of seconds after which there is probably room again."""
        fragments = sum(len(one.fragments) for one in self._waiting)
        return min(max(math.ceil(fragments / self._rate / 2), 1), _LATEST)

    # -- in the thread ------------------------------------------------------------------------

    def _work(self) -> None:
        with contextlib.suppress(Exception):  # whoever writes first is told
            self._kept.prepare()
            gc.freeze()  # as in `Readers.warm`
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
                if not self._changed.wait(self.idle):
                    return []
            group, ids = list[_Request](), set[str]()
            while self._waiting:
                one = self._waiting[0]
                own = {fragment.id for fragment in one.fragments}
                alone = (
                    one.act is not None or len(ids) + len(own) > _GROUP or not ids.isdisjoint(own)
                )
                if group and (alone or (one.by, one.about) != (group[0].by, group[0].about)):
                    break
                group.append(self._waiting.popleft())
                self._characters -= one.weight
                ids |= own
                if alone:
                    break
            return group

    def _write(self, requests: Sequence[_Request]) -> None:
        """Write a group, and set the result of each of its requests."""
        group = [one for one in requests if one.future.set_running_or_notify_cancel()]
        if not group:
            return
        self._kept.unfinished = True
        begin = time.perf_counter()
        try:
            with self._locked() as store:
                self.on_turn(True)
                self._write_parts(store, group)
        except Exception as error:
            for one in group:
                if not one.future.done():
                    one.future.set_exception(error)
        self.on_turn(False)
        for one in group:
            if not one.rehearse:
                logs.written(self._name, one.by, one.future, time.perf_counter() - begin)

    def _write_parts(self, store: Store, group: Sequence[_Request]) -> None:
        """Write a group in one transaction or, if that fails, each request in its own."""
        try:
            if len(group) == 1 and group[0].act is not None:
                group[0].future.set_result(group[0].context.run(self._act, store, group[0]))
            else:
                group[0].context.copy().run(self._add, store, group)
        except Exception as error:
            self._kept.forget()  # the session is ahead of the tables
            left = [one for one in group if not one.future.done()]
            if len(left) == 1:
                left[0].future.set_exception(error)
                return
            for one in left:
                self._write_parts(store, [one])

    def _act(self, store: Store, request: _Request) -> Any:
        """Let the act of a request change the store."""
        few = store.n_stale(self.told_at_once + 1) <= self.told_at_once
        turn = Turn(store, partial(self._kept.opened, store), few, self._kept.forget)
        assert request.act is not None
        if not request.rehearse:
            return request.act(turn)
        self._kept.end_run()
        try:
            with store.database.rehearsal():
                return request.act(turn)
        finally:
            self._kept.forget()

    def _add(self, store: Store, group: Sequence[_Request]) -> None:
        """Add the fragments of a group, in the name of all; one with a duplicate is refused."""
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
            held = self._kept.opened(store, FILLS, group[0].about)
            for fragments, (_, there) in zip(new, known, strict=True):
                for _ in take_in(held, fragments, there):
                    pass
            lasted = begin - held.run.began
            ends = held.run.added >= self.run_fragments or lasted > self.run_seconds
            self._kept.commit(count, ends)
            self._rate = count / (time.perf_counter() - begin)
        run = store.last_number
        for fragments, (one, there) in zip(new, known, strict=True):
            replaced = sum(x.id in there for x in fragments)
            counts = len(fragments), replaced, len(one.fragments) - len(fragments)
            one.future.set_result(Added(run, store.n_fragments, store.n_entities, *counts))

    def _rest(self) -> None:
        """End the run, compute confidence while nothing waits, and empty the log.

        First check whether another file has replaced the store. At the very end the confidence of
        some is computed.
        """
        with contextlib.suppress(KBForgeError):  # whoever writes next is told
            self._kept.follow()
        more = self._kept.unfinished
        while more and not self._waiting:
            try:
                with self._locked() as store:
                    more = self._kept.finish(store, self.told_at_once)
            except Exception as error:
                self._kept.forget()  # it is tried again, or told by the next run
                if not isinstance(error, KBForgeError):
                    self._kept.unfinished = False
                    _LOG.exception("the confidence of entities was not computed")
                return
            if self._closing:  # whoever reads the store next has the rest told
                return

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Store]:
        """The store with its lock, after waiting for it."""
        until = time.monotonic() + self.patience
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


def honouring(
    same: bool | None, first: str, second: str, reported: float | None = None
) -> Act[Decided]:
    """The act of adding a decision; one that is in force is not repeated.

    `reported` is the pair's reported probability when the user was asked; unasked, a user
    speaks of whole entities.

    Raises, here or when it acts:
        UsageError: the two are one, or the store lacks one.
        ContradictionError: the decision contradicts others.
        LikelihoodError: no grouping that satisfies it is possible.

    """
    if first == second:
        raise UsageError(f'expected two fragments, got "{quoted(first)}" twice')
    decision = Decision(same, first, second)

    def act(turn: Turn) -> Decided:
        held = turn.opened("decide", deciding.in_words(decision))
        ties = deciding.whole_entities if reported is None else None
        done = deciding.honour(held, [decision], reported=reported, told=turn.told, ties=ties)
        (number,) = done.told["decisions"]
        return Decided(done.run, done.fragments, done.entities, done.told["already"], number)

    return act


def undoing(number: int) -> Act[Undone]:
    """The act of withdrawing a decision; an undone one stays so.

    Raises a UsageError, when it acts, if there is no such decision.
    """

    def act(turn: Turn) -> Undone:
        began = time.perf_counter()
        resumed = partial(turn.opened, deciding.UNDOES)
        done = deciding.take_back(turn.store, number, began, resumed, told=turn.told)
        if done.told["exact"]:
            turn.forget()
        return Undone(done.run, done.fragments, done.entities, **done.told)

    return act


def removing(ids: Sequence[str], secure: bool = False) -> Act[Removed]:
    """The act of removing fragments, all or none; a `secure` one erases their content.

    Those removed earlier are passed over. An erasure rewrites the file, and cannot be rehearsed.

    Raises, when it acts:
        UsageError: the store never had one of them.
        LikelihoodError: the likelihood fails on the other fragments.
        OutputError: other programs read the store for too long; the next write finishes the
            erasure.

    """

    def act(turn: Turn) -> Removed:
        done = (erased if secure else removed)(turn.store, ids, turn.opened)
        if secure:
            turn.forget()
        return Removed(done.run, done.fragments, done.entities, **done.told)

    return act


def _accepted(store: Store, one: _Request) -> tuple[Mapping[str, bool], list[Fragment]]:
    """The stored ones among the fragments, as in `known_in`, and those to add; errors as in
    `add`."""
    given = in_metadata(one.fragments, store.time)
    there = known_in(store, given, one.on_duplicate)
    own = [x for x in given if not there.get(x.id, False)]
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
        """Load the models before the first request."""
        store = self.take()
        self.let_go()
        self._models(store)

    def follow(self) -> None:
        """Leave a file that another has replaced; errors as in `Database.leave`."""
        if self._database is not None and self._database.replaced:
            self._database.leave()
            self._database = None
            self.forget()
        if self._database is None:
            self._on_replaced()

    def take(self) -> Store:
        """The store, with its lock; errors as in `Database`."""
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
        """Allow other writers."""
        if self._database is not None:
            self._database.let_go()

    def opened(self, store: Store, verb: str, about: str) -> OpenStore:
        """Its session, with a run of this verb; fragments of the same name continue a run."""
        fit, choices = self._models(store)
        began = time.perf_counter()
        if self._steps > _SESSION and not self._running:
            self.forget()
        if self._held is None:
            self._held = OpenStore(store, fit, choices, verb, about, began)
        elif not self._running or verb != FILLS or self._held.run.by != signer():
            self.end_run()
            self._held.next_run(verb, about, began)
        self._running = verb == FILLS
        return self._held

    def commit(self, steps: int, ends: bool) -> None:
        """Commit the session's changes; `finished` also ends its run."""
        assert self._held is not None
        self._held.commit(finished=ends, told=False)
        self._steps += steps
        self._running = not ends

    def end_run(self) -> None:
        """End the run of additions, if there is one."""
        if self._running:
            assert self._held is not None
            self._held.finish(told=False)
            self._running = False

    def finish(self, store: Store, at_once: int) -> bool:
        """End the run, compute confidence of some of what changed, and at last empty the log.

        Returns whether there is more to compute. While another program reads an older state, the
        log stays.
        """
        if self._running or store.has_stale:
            held = self._held or self.opened(store, FILLS, ABOUT)
            self.end_run()
            held.tell(at_once)
        more = store.has_stale
        self.unfinished = more or not store.database.settle()
        return more

    def forget(self) -> None:
        """Have the session opened again before the next group."""
        self._held, self._steps, self._running = None, 0, False

    def close(self) -> None:
        """Close the store, and drop its models."""
        if self._database is not None:
            self._database.close()
        self._fit = None
        self.forget()

    def _models(self, store: Store) -> tuple[PreparedRun, RunOptions]:
        key = orjson.dumps([store.fact(name) for name in ("choices", "frozen", RULES)])
        if self._fit is None or self._fit[0] != key:
            self.forget()
            self._fit = (key, *restore(store, confidence=True))
        return self._fit[1], self._fit[2]
