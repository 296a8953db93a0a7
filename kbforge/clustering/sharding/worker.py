"""A worker: a shard that takes orders, several fragments at once, and never one out of turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kbforge.clustering.rules import Rules
from kbforge.clustering.sharding.messages import Handed, Report
from kbforge.clustering.sharding.shard import Saved, Shard
from kbforge.contracts import Fragment, Page, Problem
from kbforge.errors import LikelihoodError


class Ask(StrEnum):
    """What else an order asks for."""

    NOTHING = "nothing"
    SAVED = "saved"
    """All that the shard holds but fragments, to go on from."""
    PAGES = "pages"
    """Its subproblems."""


class Add(NamedTuple):
    """A fragment to take in: its number, itself, and its keys that lead too far."""

    number: int
    fragment: Fragment
    closed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """What a shard is to do; first it takes in what is handed over to it.

    Attributes:
        turn: how many orders came before, since the beginning.
        adds: fragments to take in then.
        gives: fragments whose subproblems it is to hand over then; what gets them is the parcel.
        ask: what the answer is to have beside reports.
        saved: go on from this, whatever was before.
        fragments: those of `saved`, by number, ascending.

    """

    turn: int
    adds: tuple[Add, ...] = ()
    gives: tuple[int, ...] = ()
    ask: Ask = Ask.NOTHING
    saved: Saved | None = None
    fragments: Mapping[int, Fragment] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A fragment that the likelihood refused, by number, and why."""

    fragment: int
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an order.

    Attributes:
        reports: of the fragments taken in, in order.
        refused: the one after them, if it was refused; the shard does nothing more.
        evaluations: sets that the shard has scored.
        saved: if it was asked for.
        pages: likewise.

    """

    reports: tuple[Report, ...]
    refused: Refused | None = None
    evaluations: int = 0
    saved: Saved | None = None
    pages: tuple[Page, ...] = ()


class OutOfTurn(Exception):
    """An order came before one that was to come first, and was not carried out."""


class ShardWorker:
    """See `kbforge.contracts.executor.Worker`.

    Args:
        problem: what to cluster by.
        rules: how.
        first: the first fragment of the run.

    """

    def __init__(self, problem: Problem, rules: Rules, first: Fragment) -> None:
        self._parts = problem, rules, first
        self._shard = Shard(problem, rules, first)
        self._turn = 0
        self._refused: Refused | None = None

    def do(
        self, order: Order, parcels: Sequence[Handed | Refused]
    ) -> tuple[Answer, Handed | Refused | None]:
        """Carry out an order. A shard that has refused a fragment hands over that news.

        Raises:
            OutOfTurn: another one was to come first.

        """
        if order.saved is not None:
            self._shard = Shard(*self._parts, order.saved, order.fragments)
        elif order.turn != self._turn:
            raise OutOfTurn(f"order {order.turn} came where order {self._turn} was due")
        self._turn = order.turn + 1
        for handed in parcels:
            if isinstance(handed, Refused):
                self._refused = self._refused or handed
            elif self._refused is None:
                self._shard.take(handed)
        reports = self._added(order.adds)
        if self._refused is not None:
            return Answer(tuple(reports), self._refused), self._refused
        parcel = self._shard.give(order.gives) if order.gives else None
        shard = self._shard
        return (
            Answer(
                tuple(reports),
                None,
                shard.evaluations,
                shard.save() if order.ask is Ask.SAVED else None,
                shard.pages() if order.ask is Ask.PAGES else (),
            ),
            parcel,
        )

    def _added(self, adds: Sequence[Add]) -> list[Report]:
        reports: list[Report] = []
        for number, fragment, closed in adds:
            if self._refused is not None:
                break
            try:
                reports.append(self._shard.add(number, fragment, closed))
            except LikelihoodError as error:
                self._refused = Refused(number, str(error))
        return reports
