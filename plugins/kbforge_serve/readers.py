"""Reads a store from several threads: a pool of connections, and shared models."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from kbforge.contracts import Likelihood
from kbforge.errors import KBForgeError, StoreError
from kbforge.fit.choices import PreparedRun, RunOptions
from kbforge.fit.confidence import pair_model_of
from kbforge.jobs.cluster_cache import ClusterCache
from kbforge.jobs.confidence import confidence_of
from kbforge.jobs.models import restore
from kbforge.jobs.views import store_view
from kbforge.store.database import Database
from kbforge.store.store import Confidences, Store, StoreView

if TYPE_CHECKING:
    from kbforge_serve.facts import ServedStatus
    from kbforge_serve.helpers import Helpers

_CACHED = 1 << 14  # KiB of pages that a connection holds
_MOST_NAMES = 1 << 17
_MOST_SCORED = 5_000  # turns after which the models forget what they were asked


class Readers:
    """The readers of one store.

    The file is examined once; a KBForgeError describes its damage. A connection belongs to its
    borrower until it is returned, so any thread may continue a stream. If another file replaces the
    store, it is opened, and nothing read from the old one stays. Models are read again after
    `kbforge refit` has changed them.

    Attributes:
        path: of the store.
        clusters: the cache of matches with the current models.
        names: the names of entities, by the store's learned words and by their fragments, whose
            content never changes.
        status: the last summary of the store, and the state that it is valid for.
        helpers: processes that score, if there are any.
        file: the number of files that had the name before the current one.

    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.clusters = ClusterCache()
        self.names: dict[tuple[str | None, bytes], str] = {}
        self.status: tuple[Any, ServedStatus] | None = None
        self.helpers: Helpers | None = None
        self.file = 0
        self._lock, self._loading, self._turns = (
            threading.Lock(),
            threading.Lock(),
            threading.RLock(),
        )
        self._depth, self._scored = 0, 0  # of those who hold `_turns`
        self._idle: list[Store] = []
        self._closed = False
        self._fit: tuple[bytes, PreparedRun, RunOptions] | None = None
        with Database(path) as database:
            Store(database).require_made()
            self._inode = database.inode

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """Lend the store in one state; nested blocks may see a later state."""
        store = self._borrowed()
        try:
            with store.database.snapshot():
                yield store
        except KBForgeError:
            raise
        except Exception as error:
            if store.database.replaced:  # parts of two files are no store
                raise StoreError("the store was replaced while it was read; try again") from error
            raise
        finally:
            self._give_back(store)

    def _borrowed(self) -> Store:
        """An unused connection."""
        self.follow()
        with self._lock:
            if self._idle:
                return self._idle.pop()
            database = Database(self.path, verify=False, one_thread=False)
            if database.inode != self._inode:  # nobody had left it when the other one came
                self._inode = database.inode
                self._begin_anew()
        database.connection.execute(f"PRAGMA cache_size = -{_CACHED}")
        return Store(database)

    def follow(self) -> None:
        """Leave a file that another has replaced; errors as in `Database.leave`."""
        with self._lock:
            if self._idle and self._idle[-1].database.replaced:
                self._idle[-1].database.leave()
                for store in self._idle:
                    store.database.close()
                self._idle.clear()
                self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget what was read of another file: numbers are of other fragments now."""
        self.file, self.names, self.status = self.file + 1, {}, None
        self.clusters = ClusterCache()

    def _give_back(self, store: Store) -> None:
        with self._lock, contextlib.suppress(KBForgeError):
            database = store.database
            if not (self._closed or database.connection.in_transaction or database.replaced):
                database.rest()
                self._idle.append(store)
                return
        store.database.close()

    def view_of(
        self, store: Store, alternatives: str | None = None, by_name: bool = True
    ) -> StoreView:
        """The entities of a borrowed store; `by_name` is as in `StoreView`.

        `alternatives` is "few" or "all"; None is as the store was made.
        """

        def tell(names: Sequence[int]) -> Confidences:
            fit, _ = self.models(store)
            with self.scoring():
                return confidence_of(store, names, fit)

        return store_view(store, alternatives, tell, by_name)

    @contextlib.contextmanager
    def view(self) -> Iterator[StoreView]:
        """The entities of the store in one state."""
        with self.store() as store:
            yield self.view_of(store)

    def models(self, store: Store) -> tuple[PreparedRun, RunOptions]:
        """The models of the store with its confidence map, and the user's choices."""
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

    def loaded(self, store: Store) -> PreparedRun | None:
        """The models if they are loaded; otherwise a thread loads them."""
        found = self._fit
        if found is not None and found[0] == orjson.dumps(store.fact("frozen")):
            return found[1]
        if not self._loading.locked():
            threading.Thread(target=self.warm, daemon=True).start()
        return None

    @contextlib.contextmanager
    def scoring(self) -> Iterator[None]:
        """Hold this while scoring with the models, because likelihoods cache what they score."""
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
        """Load the models; errors are reported on first use."""
        with contextlib.suppress(KBForgeError), self.store() as store:
            self.models(store)
        gc.freeze()  # the collector would look through them again and again, and all would wait

    def remember(self, key: tuple[str | None, bytes], name: str) -> None:
        """Cache the name of an entity."""
        if len(self.names) >= _MOST_NAMES:
            self.names = {}
        self.names[key] = name

    def close(self) -> None:
        """End helpers and close connections; a lent one is closed when it is returned.

        Models and names are dropped, since routes of the server stay in caches of FastAPI.
        """
        if self.helpers is not None:
            self.helpers.close()
        with self._lock:
            self._closed = True
            for store in self._idle:
                store.database.close()
            self._idle.clear()
            self._fit = None
            self._begin_anew()


def _forget(fit: PreparedRun) -> None:
    """Drop the models' caches of fragments in questions."""
    fit.models.likelihood.forget()
    pairs = None if fit.confidence is None else pair_model_of(fit.confidence)
    if isinstance(pairs, Likelihood):
        pairs.forget()
