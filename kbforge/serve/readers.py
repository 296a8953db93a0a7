"""Reading a store from several threads: connections that are lent, and models that they share."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from kbforge.contracts import Likelihood
from kbforge.errors import KBForgeError
from kbforge.fit.choices import Choices, Fit
from kbforge.fit.maps import pair_model_of
from kbforge.jobs.cluster_cache import ClusterCache
from kbforge.jobs.confidence import confidence_of
from kbforge.jobs.models import restore
from kbforge.jobs.views import store_view
from kbforge.store.database import Database
from kbforge.store.store import Confidences, Store, StoreView

if TYPE_CHECKING:
    from kbforge.serve.helpers import Helpers

_CACHED = 1 << 14  # KiB of pages that a connection holds
_MOST_NAMES = 1 << 17
_MOST_SCORED = 5_000  # turns after which the models forget what they were asked


class Readers:
    """The readers of one store.

    The file is examined once; a KBForgeError says what is wrong with it. A connection belongs to
    whoever borrows it until it is given back, so it does not matter which thread goes on with a
    stream. A file that was put in the place of the store is opened anew. Models are read again when
    `kbforge refit` has changed them.

    Attributes:
        path: of the store.
        clusters: what matches have read of it, with the models at hand.
        names: the names of entities by the words that the store learned, and by their fragments,
            whose content never changes.
        status: what was last said of the whole, and what says whether it still holds.
        helpers: processes that score, if there are any.

    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.clusters = ClusterCache()
        self.names: dict[tuple[str | None, bytes], str] = {}
        self.status: tuple[Any, dict[str, Any]] | None = None
        self.helpers: Helpers | None = None
        self._lock, self._loading, self._turns = (
            threading.Lock(),
            threading.Lock(),
            threading.RLock(),
        )
        self._depth, self._scored = 0, 0  # of those who hold `_turns`
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
        finally:
            self._give_back(file, store)

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
                    self.names, self.status = {}, None  # numbers are of other fragments now
        with self._lock:
            database = Database(self.path, verify=False, one_thread=False)
        database.connection.execute(f"PRAGMA cache_size = -{_CACHED}")
        status = os.stat(self.path)
        return (status.st_dev, status.st_ino), Store(database)

    def _give_back(self, file: tuple[int, int], store: Store) -> None:
        with self._lock:
            if not self._closed and not store.database.connection.in_transaction:
                self._idle.append((file, store))
                return
        store.database.close()

    def view_of(
        self, store: Store, alternatives: str | None = None, by_name: bool = True
    ) -> StoreView:
        """The entities of a borrowed store; `by_name` is as of `StoreView`.

        `alternatives` is "few" or "all"; None is as the store was made.
        """

        def tell(names: Sequence[int]) -> Confidences:
            fit, _ = self.models(store)
            with self.scoring:
                return confidence_of(store, names, fit)

        return store_view(store, alternatives, tell, by_name)

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
                    found = (key, *restore(store, confidence=True))
                    with self._turns:
                        self._fit, self.clusters = found, ClusterCache()
        return found[1], found[2]

    def loaded(self, store: Store) -> Fit | None:
        """The models if nobody has to wait for them; otherwise a thread loads them."""
        found = self._fit
        if found is not None and found[0] == orjson.dumps(store.fact("frozen")):
            return found[1]
        if not self._loading.locked():
            threading.Thread(target=self.warm, daemon=True).start()
        return None

    @property
    def scoring(self) -> contextlib.AbstractContextManager[None]:
        """Whoever scores with the models is within it: likelihoods remember what they scored."""
        return self._turn()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        with self._turns:
            self._scored += not self._depth
            if not self._depth and self._scored % _MOST_SCORED == 0 and self._fit is not None:
                _forget(self._fit[1])
                self.clusters = ClusterCache()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def warm(self) -> None:
        """Load the models; whoever needs them hears of an error then."""
        with contextlib.suppress(KBForgeError), self.store() as store:
            self.models(store)

    def remember(self, key: tuple[str | None, bytes], name: str) -> None:
        """Keep the name of an entity."""
        if len(self.names) >= _MOST_NAMES:
            self.names = {}
        self.names[key] = name

    def close(self) -> None:
        """End helpers and close connections; one that is lent is closed when it is given back."""
        if self.helpers is not None:
            self.helpers.close()
        with self._lock:
            self._closed = True
            for _, store in self._idle:
                store.database.close()
            self._idle.clear()


def _forget(fit: Fit) -> None:
    """Have the models forget the fragments that they were asked about."""
    fit.models.likelihood.forget()
    pairs = None if fit.confidence is None else pair_model_of(fit.confidence)
    if isinstance(pairs, Likelihood):
        pairs.forget()
