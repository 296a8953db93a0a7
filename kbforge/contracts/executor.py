"""Executors: objects that work in other processes, perhaps on other machines.

One signature for the family:

    start(make, workers) -> Crew

An executor does not know what the workers do. Laws, tested for every member by
`kbforge.testing.ExecutorContract`:

1. `make` makes every worker, in a process of its own; a worker carries out orders in the order of
   sending.
2. A parcel from one worker's order reaches another worker that is sent it, and nobody waits for it
   in between.
3. An order that raises gives no parcel: an order that needs the parcel is not carried out, and its
   answer is as if its worker had been lost.
4. What a worker raises is raised again where its answer is asked for.
5. A lost worker is known to be lost, and can be replaced; others go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kbforge.errors import KBForgeError


class WorkerLost(KBForgeError):
    """An order was not carried out: its worker is lost, or a parcel for it never came."""


class Worker(Protocol):
    """Takes orders."""

    def do(self, order: Any, parcels: Sequence[Any]) -> tuple[Any, Any]:
        """Carry out an order, given parcels from other workers.

        Returns the answer, and a parcel for other workers. Orders and answers are plain data.
        """
        ...


class Crew(ABC):
    """Started workers. Orders are sent without waiting."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of workers."""

    @abstractmethod
    def send(self, worker: int, order: Any, parcels: Sequence[Any] = ()) -> Any:
        """Send an order; returns a receipt for `wait`.

        Args:
            worker: from 0.
            order: plain data.
            parcels: results of earlier `send`s, whose parcels the worker gets, or parcels that
                `wait` has returned.

        """

    @abstractmethod
    def wait(self, sent: Any) -> tuple[Any, Any]:
        """Wait for an answer; returns the answer and the parcel.

        Raises:
            WorkerLost: the order was not carried out.
            Exception: what the worker raised.

        """

    @abstractmethod
    def lost(self) -> Sequence[int]:
        """The lost workers, ascending."""

    @abstractmethod
    def replace(self, worker: int) -> None:
        """Make a new worker in place of a lost one; a KBForgeError if there is no place for it."""

    @abstractmethod
    def close(self) -> None:
        """End all workers."""


class Executor(ABC):
    """Starts workers. Options are the constructor's."""

    @abstractmethod
    def start(self, make: Callable[[], Worker], workers: int | None = None) -> Crew:
        """Start workers, each in a process of its own, where `make` makes the worker.

        With None there are as many workers as places. Raises a KBForgeError that says what to do if
        they cannot be started.
        """
