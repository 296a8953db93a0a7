"""A run on shards: the result of `OnlineClusterer.cluster`, computed by workers of an executor.

The conductor takes a stream of fragments through shards, and survives the loss of any of them.
Several fragments go in a letter, and the next letter does not wait for an answer. The router always
hears of a fixed number of earlier fragments, so its routes, and everything that is sent, do not
depend on the speed of any worker.

A shard sends a checkpoint now and then, and the conductor keeps the letters since. A lost shard is
restored from its checkpoint and gets the letters again; it repeats its work bit for bit, and its
hand-overs come from the new shard. Letters are numbered, so a shard that lacks one does not carry
out the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from kbforge.clustering.pages import posterior_of
from kbforge.clustering.propose import Rules
from kbforge.clustering.sharding.router import Route, Router
from kbforge.clustering.sharding.shard import (
    Handover,
    Shard,
    ShardReport,
    ShardState,
    require_shardable,
)
from kbforge.clustering.state import DirichletProcess
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

NewFragment: TypeAlias = tuple[int, Fragment, tuple[int, ...]]
"""A fragment to add: its number, itself, and its keys that lead too far."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a shard is to do, after it has taken what is handed over to it."""

    turn: int  # number of earlier orders
    adds: tuple[NewFragment, ...] = ()
    gives: tuple[int, ...] = ()  # fragments whose subproblems it then hands over, as the parcel
    ask: Literal["", "saved", "pages"] = ""  # for a checkpoint, or for all subproblems
    saved: ShardState | None = None  # to go on from, whatever the shard held before
    fragments: Mapping[int, Fragment] | None = None  # those of `saved`, by number, ascending


@dataclass(frozen=True, slots=True)
class Refusal:
    """The number of a fragment that the likelihood refused, and why."""

    fragment: int
    message: str


@dataclass(frozen=True, slots=True)
class OrderResult:
    """A shard's answer to an order: reports of the added fragments, and what was asked for."""

    reports: tuple[ShardReport, ...]
    refused: Refusal | None = None  # the next fragment; the shard does nothing more
    evaluations: int = 0
    saved: ShardState | None = None
    pages: tuple[Page, ...] = ()


class OrderGap(Exception):
    """An order was not carried out, because an earlier one has not come."""


class ShardWorker:
    """A shard that takes orders; see `kbforge.contracts.executor.Worker`."""

    def __init__(self, problem: Problem, rules: Rules, first: Fragment) -> None:
        self._parts = problem, rules, first
        self._shard = Shard(problem, rules, first)
        self._turn = 0
        self._refused: Refusal | None = None

    def do(
        self, order: Order, parcels: Sequence[Handover | Refusal]
    ) -> tuple[OrderResult, Handover | Refusal | None]:
        """Carry out an order; a shard that has refused a fragment hands over the refusal."""
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
                shard.save() if order.ask == "saved" else None,
                shard.pages() if order.ask == "pages" else (),
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
"""Losses in a row, without any answer, that end the run."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is on its way at once; the result does not depend on it."""

    ahead: int = 128  # pending fragments per worker
    letter: int = 32  # most fragments in a letter
    save: int = 4000  # fragments before a worker's next checkpoint; more once it holds more


@dataclass(eq=False, slots=True)
class _Parcel:
    """What one shard hands over to another; `held` once the answer has brought it here."""

    sent: Any = None
    held: Handover | Refusal | None = None

    def content(self) -> Any:
        return self.sent if self.held is None else self.held


@dataclass(eq=False, slots=True)
class _Letter:
    """An order with its parcels; `done` once the present worker is known to have carried it out."""

    number: int  # among the letters of all shards
    worker: int
    order: Order
    takes: list[_Parcel]
    parcel: _Parcel | None
    sent: Any = None
    done: bool = False


@dataclass(eq=False, slots=True)
class _Desk:
    """What the conductor keeps of one shard: first what the next letter will have."""

    takes: list[_Parcel] = field(default_factory=list)
    adds: list[NewFragment] = field(default_factory=list)
    turn: int = 0
    letters: deque[_Letter] = field(default_factory=deque)  # since the last checkpoint
    unheard: deque[_Letter] = field(default_factory=deque)  # without an answer
    saved: ShardState | None = None
    since: int = 0  # fragments sent since a checkpoint was asked for
    total: int = 0  # fragments sent
    evaluations: int = 0
    pages: Sequence[Page] = ()


class Conductor:
    """Sends fragments to the shards of a crew; `families` is the index's."""

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
        self._n_letters = 0

    @property
    def n_subproblems(self) -> int:
        return self._router.n_subproblems

    @property
    def evaluations(self) -> int:
        return sum(desk.evaluations for desk in self._desks)

    def add(self, x: Fragment, keys: Sequence[int]) -> None:
        """Add a fragment, some time from now; an earlier one may turn out to have been refused."""
        while self._router.n_pending >= self._pace.ahead * len(self._desks):
            self._hear()
        route = self._router.route(keys)
        assert route.fragment == len(self._fragments)
        self._fragments.append(x)
        self._hand_over(route)
        desk = self._desks[route.shard]
        desk.adds.append((route.fragment, x, route.closed))
        desk.since += 1
        desk.total += 1
        self._where.append(route.shard)
        if desk.since >= max(self._pace.save, desk.total // 2):
            desk.since = 0
            self._send(route.shard, ask="saved")
        elif len(desk.adds) >= self._pace.letter:
            self._send(route.shard)

    def finish(self) -> list[Page]:
        """Wait for all shards; returns all subproblems, by ascending name."""
        while self._where:
            self._hear()
        for worker in range(len(self._desks)):
            self._send(worker, ask="pages")
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
        for source, fragments in route.moves:
            parcel = _Parcel()
            self._send(source, gives=fragments, parcel=parcel)
            target.takes.append(parcel)

    def _send(
        self,
        worker: int,
        gives: tuple[int, ...] = (),
        ask: Literal["", "saved", "pages"] = "",
        parcel: _Parcel | None = None,
    ) -> None:
        """Send what is on a desk, and these requests."""
        desk = self._desks[worker]
        order = Order(desk.turn, tuple(desk.adds), gives, ask)
        letter = _Letter(self._n_letters, worker, order, desk.takes, parcel)
        desk.takes, desk.adds = [], []
        desk.turn += 1
        self._n_letters += 1
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
        """Let the router hear of the first pending fragment."""
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
        """Wait for the next answer of a shard."""
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
        """Replace lost workers, and send again what was not carried out."""
        self._in_vain += 1
        if self._in_vain > _MOST_LOSSES:
            raise KBForgeError(
                f"workers were lost {_MOST_LOSSES} times without an answer between; check their "
                "logs and memory, and give them more memory, or use more workers"
            )
        lost = set(self._crew.lost())
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
        """The letters that a present worker has not carried out."""
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
"""Fragments whose keys are computed at once."""
_OFTEN = 64
"""Fragments between two calls of a callback."""


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

    A black box may be asked more often: sets may be scored again elsewhere. None for
    `workers` leaves their number to the executor. There must be a fragment.

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
                    # how many groupings the run stands for is not known before the end
                    done = conductor.n_subproblems, 0.0, conductor.evaluations
                    on_step(Progress(taken, len(fragments), *done))
        except Interrupted:
            ended = Ending.INTERRUPTED
        pages = conductor.finish()
        prior = DirichletProcess(problem.alpha)
        posterior = posterior_of(pages, prior, taken, conductor.evaluations)
        return replace(posterior, ended=ended)
    finally:
        crew.close()


def _keyed(
    fragments: Sequence[Fragment], index: CandidateIndex
) -> Iterator[tuple[Fragment, Sequence[int]]]:
    for begin in range(0, len(fragments), _AT_ONCE):
        part = fragments[begin : begin + _AT_ONCE]
        starts, keys = index.keys_of(part)
        bounds, flat = starts.tolist(), keys.tolist()
        for k, x in enumerate(part):
            yield x, flat[bounds[k] : bounds[k + 1]]
