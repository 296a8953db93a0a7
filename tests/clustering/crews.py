"""A crew whose workers are objects here, and may be lost at any time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from kbforge.contracts.executor import Crew, Executor, Worker, WorkerLost


class Sent:
    """An order that was carried out at once, or was not."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.answer: Any = None
        self.parcel: Any = None
        self.error: Exception | None = None


class Here(Crew):
    """Workers in this process.

    Args:
        make: makes one.
        workers: how many.
        rng: says when one is lost.
        deadly: how probable that is with an order.
        most: how many are lost, at most.

    """

    def __init__(
        self,
        make: Callable[[], Worker],
        workers: int,
        rng: random.Random,
        deadly: float,
        most: int,
    ) -> None:
        self._make, self._rng, self._deadly, self._most = make, rng, deadly, most
        self._workers: list[Worker | None] = [make() for _ in range(workers)]
        self._unheard: list[list[Sent]] = [[] for _ in range(workers)]
        self.kills = 0
        self.closed = False

    def send(self, worker: int, order: Any, parcels: Sequence[Any] = ()) -> Sent:
        sent = Sent(worker)
        there = self._workers[worker]
        try:
            given = [self._parcel(parcel) for parcel in parcels]
            if there is None:
                raise WorkerLost("it was lost")
            # what is sent is a copy
            sent.answer, sent.parcel = deepcopy(there.do(deepcopy(order), given))
        except Exception as error:
            sent.error = error
        self._unheard[worker].append(sent)
        if self.kills < self._most and self._rng.random() < self._deadly:
            self.kill(self._rng.randrange(len(self._workers)))
        return sent

    def __len__(self) -> int:
        return len(self._workers)

    def kill(self, worker: int) -> None:
        """Its last few answers never come."""
        if self._workers[worker] is None:
            return
        self.kills += 1
        self._workers[worker] = None
        for sent in self._unheard[worker][self._rng.randint(0, len(self._unheard[worker])) :]:
            sent.error = WorkerLost("it was lost")

    def wait(self, sent: Sent) -> tuple[Any, Any]:
        if sent in self._unheard[sent.worker]:
            self._unheard[sent.worker].remove(sent)
        if sent.error is not None:
            raise sent.error
        return sent.answer, sent.parcel

    def lost(self) -> Sequence[int]:
        return [k for k, worker in enumerate(self._workers) if worker is None]

    def replace(self, worker: int) -> None:
        assert self._workers[worker] is None
        self._workers[worker] = self._make()

    def close(self) -> None:
        self.closed = True

    def _parcel(self, parcel: Any) -> Any:
        if isinstance(parcel, Sent):
            if parcel.error is not None:
                raise WorkerLost("what it was to get never came")
            return deepcopy(parcel.parcel)
        return deepcopy(parcel)


class HereExecutor(Executor):
    """Starts them; `crew` is the last one started."""

    def __init__(self, seed: int = 0, deadly: float = 0, most: int = 12) -> None:
        self._rng, self._deadly, self._most = random.Random(seed), deadly, most
        self.crew: Here | None = None

    def start(self, make: Callable[[], Worker], workers: int | None = None) -> Here:
        self.crew = Here(make, workers or 2, self._rng, self._deadly, self._most)
        return self.crew
