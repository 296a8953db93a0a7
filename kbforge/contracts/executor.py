"""Executors: objects that work in other processes, perhaps on other machines.

One signature for the family:

    start(make, workers) -> Crew

An executor knows nothing of what the workers do. Laws, tested for every member by
`kbforge.testing.ExecutorContract`:

1. Every worker is made by `make`, in a process of its own, and takes its orders in the order in
   which they were sent.
2. A parcel that one worker's order gave is what another worker gets that is sent it, without
   anybody waiting for it in between.
3. An order that raised gives no parcel: an order that was to get it is not carried out, and its
   answer is as if its worker had been lost.
4. What a worker raises is raised again where its answer is asked for.
5. A worker that was lost is known to be lost, and can be replaced; others go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kbforge.errors import KBForgeError


class WorkerLost(KBForgeError):
    """An order was not carried out: its worker is no more, or what it was to get never came."""


class Worker(Protocol):
    """What takes orders."""

    def do(self, order: Any, parcels: Sequence[Any]) -> tuple[Any, Any]:
        """Carry out an order.

        Args:
            order: plain data.
            parcels: what other workers gave for it.

        Returns:
            The answer, and a parcel for other workers.

        """
        ...


class Crew(ABC):
    """Workers that were started. Orders are sent without waiting."""

    @abstractmethod
    def __len__(self) -> int:
        """How many there are."""

    @abstractmethod
    def send(self, worker: int, order: Any, parcels: Sequence[Any] = ()) -> Any:
        """Send an order.

        Args:
            worker: from 0.
            order: plain data.
            parcels: what earlier `send`s returned, of which the worker gets the parcels; or
                parcels themselves that `wait` has given.

        Returns:
            Something to wait for.

        """

    @abstractmethod
    def wait(self, sent: Any) -> tuple[Any, Any]:
        """Wait for an answer; returns it and the parcel.

        Raises:
            WorkerLost: the order was not carried out.
            Exception: what the worker raised.

        """

    @abstractmethod
    def lost(self) -> Sequence[int]:
        """The workers that are no more, ascending."""

    @abstractmethod
    def replace(self, worker: int) -> None:
        """Have a worker made anew, in place of a lost one.

        Raises:
            KBForgeError: there is no place for it.

        """

    @abstractmethod
    def close(self) -> None:
        """End all workers."""


class Executor(ABC):
    """Starts workers. Options are the constructor's."""

    @abstractmethod
    def start(self, make: Callable[[], Worker], workers: int | None = None) -> Crew:
        """Have workers made, each in a process of its own.

        Args:
            make: makes one, over there.
            workers: how many; None is as many as there are places for.

        Raises:
            KBForgeError: they cannot be started; the message says what to do.

        """
