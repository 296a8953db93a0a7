"""The change feed (`kbforge.store.changes`) of a server, and clients that wait for changes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator

from starlette.concurrency import run_in_threadpool

from kbforge.errors import BusyError, KBForgeError
from kbforge.store.changes import Changes, read_changes
from kbforge_serve.answers import as_json
from kbforge_serve.readers import Readers

MOST_CHANGES = 10_000
"""Maximum number of changes in one answer."""
LONGEST = 60.0
"""Maximum time that a request waits for a run, in seconds."""
MOST_FOLLOWING = 64
"""Maximum number of requests that wait for runs at a time."""
_EVERY = 0.25  # seconds between two looks at the store
_HEARTBEAT = 15.0  # seconds after which a stream says that it is still there
_AT_ONCE = 1_000  # changes of one event
_BUSY = 30  # seconds after which somebody may have gone


def changed(
    readers: Readers, since: int, to: int | None = None, limit: int = 1_000, after: str = ""
) -> Changes:
    """As `kbforge.store.changes.read_changes`."""
    with readers.store() as store:
        return read_changes(store, since, to, limit, after)


class Feed:
    """Requests that wait for runs; one thread checks the store for all of them."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._looking = asyncio.Lock()
        self._seen, self._looked = 0, 0.0
        self._following = 0
        self._stopped = False

    def stop(self) -> None:
        """End all waiting requests soon."""
        self._stopped = True

    async def wait(self, since: int, seconds: float) -> None:
        """Wait for a later run to end, or for another store, up to a time limit."""
        end, last = time.monotonic() + seconds, 0
        with self.place():
            while time.monotonic() < end and not self._stopped:
                before, last = last, await self._position()
                if last > since or last < before:
                    return
                await asyncio.sleep(min(_EVERY, max(end - time.monotonic(), 0.0)))

    async def events(self, since: int | None) -> AsyncIterator[bytes]:
        """Server-sent events from a run on; None is now. The reader already has a place.

        Each event "changes" has changes as `changed`; the last one of a run has its number as id.
        They end if the store cannot be read, or was replaced.
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
                    to, after = found.to, found.after
                    yield _event(found)
                if position > at:
                    at, told = found.to, time.monotonic()
                    continue
                if time.monotonic() - told > _HEARTBEAT:
                    told = time.monotonic()
                    yield b": nothing new\n\n"
                await asyncio.sleep(_EVERY)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Take one of the places for followers; a BusyError if all are taken."""
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


def _event(found: Changes) -> bytes:
    id = b"" if found.after is not None else b"id: %d\n" % found.to
    return b"%sevent: changes\ndata: %s\n\n" % (id, as_json(found))
