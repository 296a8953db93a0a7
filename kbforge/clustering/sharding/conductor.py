"""A run on shards: the result of `OnlineClusterer.cluster`, computed by workers of an executor.

The conductor takes a stream of fragments through shards, and through the loss of any of them.
Fragments are sent several in a letter, and the next letter does not wait for an answer. The router
hears of a fixed number of earlier fragments, so that its routes, and everything that is sent, do
not depend on the speed of any worker.

A shard sends a checkpoint now and then, and the conductor keeps the letters since. A lost shard is
restored from its checkpoint and gets the letters again; it repeats its work bit for bit. Whoever
waits for a handover from it gets that from the new shard. Letters are numbered, so that a shard
that lacks one does not carry out the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from kbforge.clustering.pages import posterior_of
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.sharding.router import KeyCounts, Router
from kbforge.clustering.sharding.shard import (
    Handover,
    Route,
    Shard,
    ShardReport,
    ShardState,
    require_shardable,
)
from kbforge.contracts import (
    CandidateIndex,
    Ending,
    Fragment,
    Interrupted,
    OnStep,
    Page,
    Posterior,
    Problem,
    Progress,
)
from kbforge.contracts.executor import Crew, Executor, WorkerLost
from kbforge.errors import KBForgeError, LikelihoodError


class Request(StrEnum):
    """What else an order asks for."""

    NOTHING = "nothing"
    SAVED = "saved"
    """All that the shard holds but fragments, to go on from."""
    PAGES = "pages"
    """Its subproblems."""


class NewFragment(NamedTuple):
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
    adds: tuple[NewFragment, ...] = ()
    gives: tuple[int, ...] = ()
    ask: Request = Request.NOTHING
    saved: ShardState | None = None
    fragments: Mapping[int, Fragment] | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A fragment that the likelihood refused, by number, and why."""

    fragment: int
    message: str


@dataclass(frozen=True, slots=True)
class OrderResult:
    """What came of an order.

    Attributes:
        reports: of the fragments taken in, in order.
        refused: the one after them, if it was refused; the shard does nothing more.
        evaluations: sets that the shard has scored.
        saved: if it was asked for.
        pages: likewise.

    """

    reports: tuple[ShardReport, ...]
    refused: Refusal | None = None
    evaluations: int = 0
    saved: ShardState | None = None
    pages: tuple[Page, ...] = ()


class OrderGap(Exception):
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
        self._refused: Refusal | None = None

    def do(
        self, order: Order, parcels: Sequence[Handover | Refusal]
    ) -> tuple[OrderResult, Handover | Refusal | None]:
        """Carry out an order. A shard that has refused a fragment hands over that news.

        Raises:
            OutOfTurn: another one was to come first.

        """
        if order.saved is not None:
            self._shard = Shard(*self._parts, order.saved, order.fragments)
        elif order.turn != self._turn:
            raise OrderGap(f"order {order.turn} came where order {self._turn} was due")
        self._turn = order.turn + 1
        for handed in parcels:
            if isinstance(handed, Refusal):
                self._refused = self._refused or handed
            elif self._refused is None:
                self._shard.take(handed)
        reports = self._added(order.adds)
        if self._refused is not None:
            return OrderResult(tuple(reports), self._refused), self._refused
        parcel = self._shard.give(order.gives) if order.gives else None
        shard = self._shard
        return (
            OrderResult(
                tuple(reports),
                None,
                shard.evaluations,
                shard.save() if order.ask is Request.SAVED else None,
                shard.pages() if order.ask is Request.PAGES else (),
            ),
            parcel,
        )

    def _added(self, adds: Sequence[NewFragment]) -> list[ShardReport]:
        reports: list[ShardReport] = []
        for number, fragment, closed in adds:
            if self._refused is not None:
                break
            try:
                reports.append(self._shard.add(number, fragment, closed))
            except LikelihoodError as error:
                self._refused = Refusal(number, str(error))
        return reports


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
    held: Handover | Refusal | None = None

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
    adds: list[NewFragment] = field(default_factory=list)
    turn: int = 0
    letters: deque[_Letter] = field(default_factory=deque)
    unheard: deque[_Letter] = field(default_factory=deque)
    saved: ShardState | None = None
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
        self._reports: dict[int, ShardReport] = {}
        self._refused: Refusal | None = None
        self._in_vain = 0
        self.letters = self.losses = 0

    @property
    def counts(self) -> KeyCounts:
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
        desk.adds.append(NewFragment(route.fragment, x, route.closed))
        desk.since += 1
        desk.total += 1
        self._where.append(route.shard)
        if desk.since >= max(self._pace.save, desk.total // 2):
            desk.since = 0
            self._send(route.shard, ask=Request.SAVED)
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
            self._send(worker, ask=Request.PAGES)
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
        ask: Request = Request.NOTHING,
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
                said: tuple[OrderResult, Any] = self._crew.wait(letter.sent)
            except (WorkerLost, OrderGap):
                self._recover()
                continue
            self._take_note(desk, letter, *said)
            return

    def _take_note(self, desk: _Desk, letter: _Letter, answer: OrderResult, parcel: Any) -> None:
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
            except (WorkerLost, OrderGap):
                return letters[place:]
            letter.done = True
            if desk.unheard and desk.unheard[0] is letter:
                self._take_note(desk, letter, answer, parcel)
        return ()


_AT_ONCE = 512
"""Fragments whose keys are asked for at once."""
_OFTEN = 64
"""Fragments after which a callback is told that need not be told of every step."""

_Keyed: TypeAlias = tuple[Fragment, Sequence[int]]


def cluster_on_workers(
    executor: Executor,
    workers: int | None,
    rules: Rules,
    fragments: Sequence[Fragment],
    problem: Problem,
    on_step: OnStep | None = None,
    pace: Pace | None = None,
) -> Posterior:
    """Cluster fragments on several workers; the posterior is that of one session, bit for bit.

    But of a black box, sets that went from worker to worker may be asked for and counted again.

    Args:
        executor: starts the workers.
        workers: how many; None leaves it to the executor.
        rules: how to cluster.
        fragments: in order, one at least.
        problem: what to cluster by, its models fitted.
        on_step: is told now and then; it may raise `Interrupted` to end the run there.
        pace: how much is on its way at once.

    Raises:
        UsageError: the problem or the rules cannot be clustered in parts.
        LikelihoodError: the likelihood failed on a fragment, which the message names.
        KBForgeError: the workers cannot be started, or are lost again and again.

    """
    require_shardable(problem, rules)
    index = problem.index
    assert index is not None
    crew = executor.start(partial(ShardWorker, problem, rules, fragments[0]), workers)
    try:
        conductor = Conductor(crew, index.families, pace or Pace())
        ended, taken = Ending.DONE, 0
        try:
            for x, keys in _keyed(fragments, index):
                conductor.add(x, keys)
                taken += 1
                if on_step is not None and taken % _OFTEN == 0:
                    on_step(_progress(conductor, taken, len(fragments)))
        except Interrupted:
            ended = Ending.INTERRUPTED
        pages = conductor.finish()
        prior = DirichletProcess(problem.alpha)
        posterior = posterior_of(pages, prior, taken, conductor.evaluations)
        return Posterior(
            posterior.subproblems,
            posterior.log_posterior,
            taken,
            posterior.model_evaluations,
            ended,
        )
    finally:
        crew.close()


def _keyed(fragments: Sequence[Fragment], index: CandidateIndex) -> Iterator[_Keyed]:
    """Fragments, each with its keys."""
    for begin in range(0, len(fragments), _AT_ONCE):
        part = fragments[begin : begin + _AT_ONCE]
        starts, keys = index.keys_of(part)
        bounds, flat = starts.tolist(), keys.tolist()
        for k, x in enumerate(part):
            yield x, flat[bounds[k] : bounds[k + 1]]


def _progress(conductor: Conductor, taken: int, total: int) -> Progress:
    """How far the run has come; how many groupings it stands for is not known before the end."""
    return Progress(taken, total, conductor.n_subproblems, 0.0, conductor.evaluations)
