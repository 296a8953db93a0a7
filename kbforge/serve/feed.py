"""The change feed of a served store, and clients that wait for changes.

A position in the feed is the number of a run that has ended. Changes from one run to another stay
the same whenever they are asked for, except that erased fragments are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from itertools import islice

import orjson
from starlette.concurrency import run_in_threadpool

from kbforge.errors import BusyError, KBForgeError
from kbforge.serve.facts import Facts
from kbforge.serve.readers import Readers
from kbforge.store.store import Store, changes
from kbforge.store.tables import ask

MOST_CHANGES = 10_000
"""Of one answer."""
LONGEST = 60.0
"""Seconds that a request waits for a run, at most."""
MOST_FOLLOWING = 64
"""Requests that wait for runs at a time."""
_EVERY = 0.25  # seconds between two looks at the store
_HEARTBEAT = 15.0  # seconds after which a stream says that it is still there
_AT_ONCE = 1_000  # changes of one event
_BUSY = 30  # seconds after which somebody may have gone


def changed(
    readers: Readers, since: int, to: int | None = None, limit: int = 1_000, after: str = ""
) -> Facts:
    """The entities that changed after a run, by id.

    Without `to`, of as many runs as have about `limit` changes together, and at least of one.

    {"from", "to", "last", "changes": [as `kbforge changes`], "after"}: `last` is the last run that
    has ended; `after`, if it is not None, asks for more changes of the same two runs.

    Raises a UsageError if there is no such run.
    """
    with readers.store() as store:
        last = store.position
        if to is None:
            to = max(since, _reach(store, since, last, limit))
        found = list(islice(changes(store, since, to, after), limit + 1))
        more = len(found) > limit
        return {
            "from": since,
            "to": to,
            "last": last,
            "changes": [dict(one.to_json()) for one in found[:limit]],
            "after": found[limit - 1].entity if more else None,
        }


def _reach(store: Store, since: int, last: int, limit: int) -> int:
    """The run up to which there are about so many changes."""
    if since >= last:
        return last
    counts = "SELECT run, count(*) FROM image WHERE run > ? AND run <= ? GROUP BY run ORDER BY run"
    total, reach = 0, since + 1
    for run, count in ask(store.database.connection, counts, (since, last)):
        total += count
        if total > limit:
            return max(reach, int(run) - 1)
    return last


class Feed:
    """Requests that wait for runs; the store is looked at for all of them together."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._looking = asyncio.Lock()
        self._seen, self._looked = 0, 0.0
        self._following = 0
        self._stopped = False

    def stop(self) -> None:
        """Have all that wait end soon."""
        self._stopped = True

    async def wait(self, since: int, seconds: float) -> None:
        """Wait for a later run to end, or for another store, but only for so long."""
        end, last = time.monotonic() + seconds, 0
        with self.place():
            while time.monotonic() < end and not self._stopped:
                before, last = last, await self._position()
                if last > since or last < before:
                    return
                await asyncio.sleep(min(_EVERY, max(end - time.monotonic(), 0.0)))

    async def events(self, since: int | None) -> AsyncIterator[bytes]:
        """Server-sent events from a run on; None is now. Whoever reads them has a place.

        Each event "changes" has changes as `changed`; the last one of a run has its number as id.
        They end if the store cannot be read, or another one is in its place.
        """
        at = await self._position() if since is None else since
        file, position, told = self._readers.file, 0, time.monotonic()
        yield b": changes follow\n\n"
        with contextlib.suppress(KBForgeError):
            while not self._stopped:
                before, position = position, await self._position()
                if position < before or self._readers.file != file:
                    return
                after: str | None = "" if position > at else None
                to = None
                while after is not None:
                    found = await run_in_threadpool(changed, self._readers, at, to, _AT_ONCE, after)
                    if self._readers.file != file:
                        return
                    to, after = found["to"], found["after"]
                    yield _event(found)
                if position > at:
                    at, told = found["to"], time.monotonic()
                    continue
                if time.monotonic() - told > _HEARTBEAT:
                    told = time.monotonic()
                    yield b": nothing new\n\n"
                await asyncio.sleep(_EVERY)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """One of the places of those who follow; a BusyError if all are taken."""
        if self._following >= MOST_FOLLOWING:
            raise BusyError("too many programs follow the changes; try again", _BUSY)
        self._following += 1
        try:
            yield
        finally:
            self._following -= 1

    async def _position(self) -> int:
        async with self._looking:
            if time.monotonic() - self._looked > _EVERY / 2:
                self._seen = await run_in_threadpool(self._read)
                self._looked = time.monotonic()
            seen: int = self._seen
            return seen

    def _read(self) -> int:
        with self._readers.store() as store:
            return store.position


def _event(found: Facts) -> bytes:
    id = b"" if found["after"] is not None else b"id: %d\n" % found["to"]
    return b"%sevent: changes\ndata: %s\n\n" % (id, orjson.dumps(found))
