"""Reading a store from several threads: a connection each, and models that they share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import orjson

from kbforge.fit.choices import Choices, Fit
from kbforge.jobs.models import restore
from kbforge.jobs.views import store_view
from kbforge.store.database import Database
from kbforge.store.store import Store, StoreView


class Readers:
    """The readers of one store.

    The file is examined once; a KBForgeError says what is wrong with it. Models are read again when
    `kbforge refit` has changed them.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._of_thread = threading.local()
        self._open: list[Database] = []
        self._lock = threading.Lock()
        self._fit: tuple[bytes, Fit, Choices] | None = None
        with Database(path) as database:
            Store(database).require_made()

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """The store, read at one moment; reads within are of the same."""
        found: Store | None = getattr(self._of_thread, "store", None)
        if found is None:
            database = Database(self.path, verify=False)
            found = self._of_thread.store = Store(database)
            with self._lock:
                self._open.append(database)
        with found.database.snapshot():
            yield found

    @contextlib.contextmanager
    def view(self) -> Iterator[StoreView]:
        """Its entities, read at one moment."""
        with self.store() as store:
            yield store_view(store)

    def models(self, store: Store) -> tuple[Fit, Choices]:
        """The models of the store, and what the user had chosen.

        They are shared: whoever scores with them holds `scoring`.
        """
        key = orjson.dumps(store.fact("frozen"))
        with self._lock:
            if self._fit is None or self._fit[0] != key:
                self._fit = (key, *restore(store, confidence=True))
            return self._fit[1], self._fit[2]

    def close(self) -> None:
        """Close all connections; no thread reads any more."""
        for database in self._open:
            database.close()
