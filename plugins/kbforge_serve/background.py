"""Computes slow answers in a thread, once for each state of the store."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Any, TypeAlias

from kbforge.errors import BusyError, KBForgeError
from kbforge.store.store import Store
from kbforge.store.tables import ask
from kbforge_serve.readers import Readers

State: TypeAlias = tuple[Any, ...]
"""The state that an answer depends on."""
_Computation: TypeAlias = tuple[State, "Future[Any]"]

_FAILED = "the computation failed; the log of the server has details"
_PATIENCE = 0.4  # seconds; answers on small stores are there by then
_MOST_KEPT = 64
_MOST_UNDER_WAY = 8


def state_of(store: Store) -> State:
    """A state that each transaction changes."""
    rows = store.database.connection
    last = ask(rows, "SELECT number, seconds, added FROM run ORDER BY number DESC LIMIT 1")
    return *(last[0] if last else ()), store.has_stale


class Computations:
    """The last answers by name, and those being computed. Only one is computed at a time."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._lock, self._computing = threading.Lock(), threading.Lock()
        self._known: OrderedDict[Hashable, _Computation] = OrderedDict()
        self._under_way: dict[Hashable, _Computation] = {}

    def get(
        self,
        name: Hashable,
        state: State,
        compute: Callable[[Store], Any],
        patience: float = _PATIENCE,
    ) -> tuple[Any, bool]:
        """The last answer, None if there is none yet; and whether it is current.

        If it is not, it is being computed. Raises the KBForgeError of that computation, and
        BusyError if too many are waiting.
        """
        with self._lock:
            known = self._known.get(name)
            if known is not None and known[0] == state:
                self._known.move_to_end(name)
                return known[1].result(), True
            running = self._under_way.get(name)
            if running is None:
                if len(self._under_way) >= _MOST_UNDER_WAY:
                    raise BusyError("the server computes other answers; try again later", 5)
                running = self._under_way[name] = state, Future()
                begin = (name, running, compute)
                threading.Thread(target=self._compute, args=begin, daemon=True).start()
        if wait([running[1]], patience).done:
            return running[1].result(), running[0] == state
        return (None if known is None else known[1].result()), False

    def _compute(self, name: Hashable, one: _Computation, compute: Callable[[Store], Any]) -> None:
        answer: Any = None
        error: KBForgeError | None = KBForgeError(_FAILED)
        try:
            with self._computing, self._readers.store() as store:
                answer, error = compute(store), None
        except KBForgeError as met:
            error = met
        finally:
            with self._lock:
                del self._under_way[name]
                self._known[name] = one
                self._known.move_to_end(name)
                while len(self._known) > _MOST_KEPT:
                    self._known.popitem(last=False)
            if error is None:
                one[1].set_result(answer)
            else:
                one[1].set_exception(error)
