"""The conductor: takes a stream of fragments through shards, and through the loss of any of them.

Fragments go out several in a letter, and nobody waits for an answer before the next letter. What
the router hears is of a fixed number of fragments before, so that its routes, and all that is sent,
do not depend on how fast anybody is.

A shard says now and then all that it holds. The letters since are kept. A shard that is lost is
made anew of what it had said, and gets the letters again; it does the same again, bit for bit. Who
waits for something that it was to hand over gets that from the new one. Letters are numbered, so
that a shard which lacks one does not carry out the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kbforge.clustering.sharding.messages import Handed, Report, Route
from kbforge.clustering.sharding.router import Counts, Router
from kbforge.clustering.sharding.shard import Saved
from kbforge.clustering.sharding.worker import Add, Answer, Ask, Order, OutOfTurn, Refused
from kbforge.contracts import Fragment, Page
from kbforge.contracts.executor import Crew, WorkerLost
from kbforge.errors import KBForgeError, LikelihoodError

_MOST_LOSSES = 10
"""Losses without any answer between them before the run is given up."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is on its way at once. The result is the same.

    Attributes:
        ahead: fragments a worker that are routed before the report of the first is heard.
        letter: most fragments in a letter.
        save: fragments after which a worker says all that it holds; more once it holds more, so
            that the work stays in proportion.

    """

    ahead: int = 128
    letter: int = 32
    save: int = 4000


@dataclass(eq=False, slots=True)
class _Parcel:
    """What one shard hands over to another; `held` once it has come by here."""

    sent: Any = None
    held: Handed | Refused | None = None

    def content(self) -> Any:
        return self.sent if self.held is None else self.held


@dataclass(eq=False, slots=True)
class _Letter:
    """An order and what goes with it; `number` counts the letters of all shards.

    It is `done` once the worker that is there now is known to have carried it out.
    """

    number: int
    worker: int
    order: Order
    takes: list[_Parcel]
    parcel: _Parcel | None
    sent: Any = None
    done: bool = False


@dataclass(eq=False, slots=True)
class _Desk:
    """What the conductor keeps of one shard.

    Attributes:
        takes: parcels for the next letter.
        adds: fragments for it.
        turn: of the next letter.
        letters: sent since the shard was saved.
        unheard: those of which no answer has come.
        saved: what the shard had said, if it has.
        since: fragments sent since it was asked for that.
        total: fragments sent.
        evaluations: sets scored, as of the last answer.
        pages: what it held in the end.

    """

    takes: list[_Parcel] = field(default_factory=list)
    adds: list[Add] = field(default_factory=list)
    turn: int = 0
    letters: deque[_Letter] = field(default_factory=deque)
    unheard: deque[_Letter] = field(default_factory=deque)
    saved: Saved | None = None
    since: int = 0
    total: int = 0
    evaluations: int = 0
    pages: Sequence[Page] = ()


class Conductor:
    """Sends fragments to shards.

    Args:
        crew: of shard workers.
        families: of the index.
        pace: how much is on its way at once.

    Attributes:
        letters: how many were sent.
        losses: how many workers were lost.

    """

    def __init__(self, crew: Crew, families: int, pace: Pace) -> None:
        self._crew, self._pace = crew, pace
        self._router = Router(len(crew), families)
        self._desks = [_Desk() for _ in range(len(crew))]
        self._fragments: list[Fragment] = []  # by number, for who goes on from what was saved
        self._where: deque[int] = deque()  # the workers of the pending fragments
        self._heard = 0
        self._reports: dict[int, Report] = {}
        self._refused: Refused | None = None
        self._in_vain = 0
        self.letters = self.losses = 0

    @property
    def counts(self) -> Counts:
        """What the router has asked for."""
        return self._router.counts

    @property
    def n_subproblems(self) -> int:
        """How many there are, as of the last report."""
        return self._router.n_subproblems

    @property
    def evaluations(self) -> int:
        """Sets scored, as of the last answers."""
        return sum(desk.evaluations for desk in self._desks)

    def add(self, x: Fragment, keys: Sequence[int]) -> None:
        """Have a fragment taken in, some time from now.

        Raises:
            LikelihoodError: one before it was refused; the message names that.
            KBForgeError: workers are lost again and again.

        """
        while self._router.n_pending >= self._pace.ahead * len(self._desks):
            self._hear()
        route = self._router.route(keys)
        assert route.fragment == len(self._fragments)
        self._fragments.append(x)
        self._hand_over(route)
        desk = self._desks[route.shard]
        desk.adds.append(Add(route.fragment, x, route.closed))
        desk.since += 1
        desk.total += 1
        self._where.append(route.shard)
        if desk.since >= max(self._pace.save, desk.total // 2):
            desk.since = 0
            self._send(route.shard, ask=Ask.SAVED)
        elif len(desk.adds) >= self._pace.letter:
            self._send(route.shard)

    def finish(self) -> list[Page]:
        """Wait until all is done; returns all subproblems, by ascending name.

        Raises:
            LikelihoodError: as `add`.
            KBForgeError: as `add`.

        """
        while self._where:
            self._hear()
        for worker in range(len(self._desks)):
            self._send(worker, ask=Ask.PAGES)
        for desk in self._desks:
            while desk.unheard:
                self._answer(desk)
        pages = (page for desk in self._desks for page in desk.pages)
        return sorted(pages, key=lambda page: page.name)

    # -- letters ------------------------------------------------------------------------------

    def _hand_over(self, route: Route) -> None:
        target = self._desks[route.shard]
        if route.moves and target.adds:
            self._send(route.shard)
        for move in route.moves:
            parcel = _Parcel()
            self._send(move.source, gives=move.fragments, parcel=parcel)
            target.takes.append(parcel)

    def _send(
        self,
        worker: int,
        gives: tuple[int, ...] = (),
        ask: Ask = Ask.NOTHING,
        parcel: _Parcel | None = None,
    ) -> None:
        """Send what is on a desk, and more."""
        desk = self._desks[worker]
        order = Order(desk.turn, tuple(desk.adds), gives, ask)
        letter = _Letter(self.letters, worker, order, desk.takes, parcel)
        desk.takes, desk.adds = [], []
        desk.turn += 1
        self.letters += 1
        desk.letters.append(letter)
        desk.unheard.append(letter)
        self._post(letter)

    def _post(self, letter: _Letter) -> None:
        contents = [parcel.content() for parcel in letter.takes]
        letter.sent, letter.done = self._crew.send(letter.worker, letter.order, contents), False
        if letter.parcel is not None:
            letter.parcel.sent = letter.sent

    # -- answers ------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Have the router hear of the first pending fragment."""
        worker, number = self._where.popleft(), self._heard
        desk = self._desks[worker]
        while number not in self._reports:
            if self._refused is not None and self._refused.fragment == number:
                raise LikelihoodError(self._refused.message)
            if not desk.unheard:
                self._send(worker)
            self._answer(desk)
        self._heard += 1
        self._router.hear(self._reports.pop(number))

    def _answer(self, desk: _Desk) -> None:
        """Wait for the first answer that has not come."""
        while desk.unheard:
            letter = desk.unheard[0]
            try:
                said: tuple[Answer, Any] = self._crew.wait(letter.sent)
            except (WorkerLost, OutOfTurn):
                self._recover()
                continue
            self._take_note(desk, letter, *said)
            return

    def _take_note(self, desk: _Desk, letter: _Letter, answer: Answer, parcel: Any) -> None:
        assert desk.unheard.popleft() is letter
        letter.done = True
        self._in_vain = 0
        if letter.parcel is not None:
            letter.parcel.held = parcel
        for report in answer.reports:
            self._reports[report.fragment] = report
        refused = answer.refused
        if refused is not None and (
            self._refused is None or refused.fragment < self._refused.fragment
        ):
            self._refused = refused
        desk.evaluations, desk.pages = answer.evaluations, answer.pages
        if answer.saved is not None:
            desk.saved = answer.saved
            while desk.letters.popleft() is not letter:
                pass

    # -- losses -------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Replace workers that were lost, and send again what was not carried out.

        Raises:
            KBForgeError: it was in vain too often.

        """
        self._in_vain += 1
        if self._in_vain > _MOST_LOSSES:
            raise KBForgeError(
                f"workers were lost {_MOST_LOSSES} times without an answer between; check their "
                "logs and memory, and give them more memory, or use more workers"
            )
        lost = set(self._crew.lost())
        self.losses += len(lost)
        again: list[_Letter] = []
        for worker, desk in enumerate(self._desks):
            again += desk.letters if worker in lost else self._not_done(desk)
        for worker in sorted(lost):
            self._crew.replace(worker)
            desk = self._desks[worker]
            if desk.saved is not None:
                turn = desk.letters[0].order.turn if desk.letters else desk.turn
                held = {number: self._fragments[number] for number in desk.saved.numbers()}
                self._crew.send(worker, Order(turn - 1, saved=desk.saved, fragments=held))
        for letter in sorted(again, key=lambda letter: letter.number):
            self._post(letter)

    def _not_done(self, desk: _Desk) -> Sequence[_Letter]:
        """The letters to a worker that is there which it has not carried out since it was made."""
        letters = list(desk.letters)
        for place, letter in enumerate(letters):
            if letter.done:
                continue
            try:
                answer, parcel = self._crew.wait(letter.sent)
            except (WorkerLost, OutOfTurn):
                return letters[place:]
            letter.done = True
            if desk.unheard and desk.unheard[0] is letter:
                self._take_note(desk, letter, answer, parcel)
        return ()
