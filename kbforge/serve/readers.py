"""Reading a store from several threads: connections that are lent, and models that they share."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import orjson

from kbforge.fit.choices import Choices, Fit
from kbforge.jobs.models import restore
from kbforge.jobs.views import store_view
from kbforge.store.database import Database
from kbforge.store.store import Store, StoreView

_CACHED = 1 << 14  # KiB of pages that a connection holds
_MOST_NAMES = 1 << 17


class Readers:
    """The readers of one store.

    The file is examined once; a KBForgeError says what is wrong with it. A connection belongs to
    whoever borrows it until it is given back, so it does not matter which thread goes on with a
    stream. A file that was put in the place of the store is opened anew. Models are read again when
    `kbforge refit` has changed them.

    Attributes:
        path: of the store.
        scoring: whoever scores with the models holds it, since a likelihood may remember what it
            has scored.
        names: the names of entities by their fragments, whose content never changes.
        status: what was last said of the whole, and what says whether it still holds.

    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.scoring = threading.RLock()
        self.names: dict[bytes, str] = {}
        self.status: tuple[Any, dict[str, Any]] | None = None
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self._idle: list[tuple[tuple[int, int], Store]] = []
        self._closed = False
        self._fit: tuple[bytes, Fit, Choices] | None = None
        with Database(path) as database:
            Store(database).require_made()

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """Lend the store, read at one moment; what is borrowed within may be of a later one."""
        file, store = self._borrowed()
        try:
            with store.database.snapshot():
                yield store
        except BaseException:
            store.database.close()
            raise
        with self._lock:
            if not self._closed:
                self._idle.append((file, store))
                return
        store.database.close()

    def _borrowed(self) -> tuple[tuple[int, int], Store]:
        """A connection that nobody uses, and the file that it reads."""
        with contextlib.suppress(OSError):
            status = os.stat(self.path)
            now = (status.st_dev, status.st_ino)
            with self._lock:
                while self._idle:
                    file, store = self._idle.pop()
                    if file == now:
                        return file, store
                    store.database.close()
        with self._lock:
            database = Database(self.path, verify=False, one_thread=False)
        database.connection.execute(f"PRAGMA cache_size = -{_CACHED}")
        status = os.stat(self.path)
        return (status.st_dev, status.st_ino), Store(database)

    def view_of(self, store: Store, alternatives: str | None = None) -> StoreView:
        """The entities of a borrowed store; their subproblems are called by name.

        `alternatives` is "few" or "all"; None is as the store was made.
        """
        return store_view(store, alternatives, lambda: self.models(store)[0], by_name=True)

    @contextlib.contextmanager
    def view(self) -> Iterator[StoreView]:
        """The entities of the store, read at one moment."""
        with self.store() as store:
            yield self.view_of(store)

    def models(self, store: Store) -> tuple[Fit, Choices]:
        """The models of the store with its confidence map, and what the user had chosen."""
        key = orjson.dumps(store.fact("frozen"))
        found = self._fit
        if found is None or found[0] != key:
            with self._loading:
                found = self._fit
                if found is None or found[0] != key:
                    found = self._fit = (key, *restore(store, confidence=True))
        return found[1], found[2]

    def remember(self, members: bytes, name: str) -> str:
        """Keep the name of an entity with these fragments, whose numbers the bytes are."""
        if len(self.names) >= _MOST_NAMES:
            self.names.clear()
        self.names[members] = name
        return name

    def close(self) -> None:
        """Close all connections; one that is lent is closed when it is given back."""
        with self._lock:
            self._closed = True
            for _, store in self._idle:
                store.database.close()
            self._idle.clear()
