"""The review of a served store: the next question, and the effect of an answer.

All who answer share one queue of questions (`kbforge.fit.questions`). An answer can correct at most
the uncertain fragments, whose number in each subproblem follows from reported probabilities. So
subproblems are read in this order, until the best question found is worth more than any later one
can be; memory is bounded, and the first question comes soon.

No lock of the store is held between questions. Others may write: the queue follows the entities
that runs change, and compares a subproblem with its own copy before it asks a question.

An answer is a decision, which the writer makes. It is about the pair that it names, regardless of
questions asked in the meantime.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from kbforge.contracts import Explanation, FloatArray, Subproblem
from kbforge.contracts.entity import Natural
from kbforge.errors import ContradictionError, LikelihoodError, UsageError, quoted
from kbforge.fit.questions import LEAST, Outcome, PairQuestion, PosteriorQueue
from kbforge.fit.review import MOST_LOOKS, Evidence, Side, evidence_on
from kbforge.store.audit import signature
from kbforge.store.pages import page_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import ask, rows_of
from kbforge_serve.answers import Answer, EntityReference, Record, record_of
from kbforge_serve.effects import Effect, nothing, observed
from kbforge_serve.facts import holding
from kbforge_serve.readers import Readers
from kbforge_serve.writer import Decided, Writer, honouring, undoing

_AT_ONCE = 16  # subproblems that are read together
_READING = 0.05  # seconds of reading on, once there is a question
_MOST_CHANGED = 1_000  # subproblems that are followed; where more have changed, all starts again
_SELDOM = 60.0  # seconds between two beginnings, at least
_MOST_ASKED = 200  # questions whose answers are awaited
_MOST_NEAR = 200  # entities that a decision may change, as far as they are read before it
_Entities: TypeAlias = tuple[dict[str, EntityReference], list[str]]
_MOST_SHOWN = 100  # entities and fragments that an effect names

_IN_DOUBT = """
SELECT subproblem, sum(size * (1 - reported)) AS doubt FROM confidence WHERE reported < 1
GROUP BY subproblem ORDER BY doubt DESC, subproblem LIMIT ?
"""
_CHANGED = """
SELECT DISTINCT entity.subproblem FROM image JOIN entity ON entity.id = image.entity
WHERE image.run >= ? LIMIT ?
"""


class LastAnswer(Answer, frozen=True):
    """An answer given here; `same` is None if it was skipped, or somebody cannot tell, and
    `decision` if it was skipped, or in force before."""

    first: str
    second: str
    same: bool | None
    decision: Natural | None


class QuestionSide(Answer, frozen=True):
    """A fragment in question, with some others of its cluster."""

    fragment: Record
    others: list[Record]
    size: Natural
    entity: EntityReference


class Question(Answer, frozen=True):
    """The question whether two fragments are one entity, and the evidence.

    `explanation` is the evidence for the second fragment in the cluster of the first, in nats if
    `probability`, otherwise in points of a score; None if the likelihood does not explain.
    `compared` is the number of fragments of the cluster used for it. `settles` has what "same" and
    "different" are expected to settle. `note` was written when the question was skipped.
    """

    first: str
    second: str
    a: QuestionSide
    b: QuestionSide
    asked: dict[str, Any]
    explanation: Explanation | None
    compared: Natural
    probability: bool
    settles: Mapping[str, Outcome]
    note: str


class NextQuestion(Answer, frozen=True):
    """The next question, None if nothing is uncertain.

    `left` estimates how many more answers are expected to correct at least 1 % of a fragment; an
    answer can raise it.
    `answered` is the number of answers here.
    """

    question: Question | None
    left: Natural
    answered: Natural


class Answered(Answer, frozen=True):
    """An answer, and its effect; `decision` is None if it was skipped."""

    decision: Natural | None
    already: bool
    effect: Effect


class TakenBack(Answer, frozen=True):
    """A withdrawn answer, and its effect; both None if there was none."""

    undone: LastAnswer | None
    effect: Effect | None


class Questions:
    """The questions of a served store, and the answers given here.

    At most `most` subproblems with questions are in memory.
    """

    def __init__(self, readers: Readers, writer: Writer, most: int = 5_000) -> None:
        self._readers, self._writer, self._most = readers, writer, most
        self._lock = threading.Lock()
        self._queue = PosteriorQueue()
        self._ahead: deque[tuple[int, float]] = deque()  # subproblems to read, fragments in doubt
        self._known: dict[int, bytes] = {}  # digests of the pages that the queue has, by name
        self._seen: tuple[int, float] | None = None  # the last run, and the seconds that it lasted
        self._frozen = b""  # digest of what the models were when all began
        self._began = 0.0
        self._asked: OrderedDict[frozenset[str], PairQuestion] = OrderedDict()
        self._notes: dict[frozenset[str], str] = {}  # on skipped questions, which may come again
        self._answers: list[tuple[LastAnswer, PairQuestion | None]] = []  # None: it was not asked

    def next(self) -> NextQuestion:
        """The next question with its evidence."""
        with self._lock, self._readers.store() as store:
            self._follow(store)
            told = self._next(store)
            unread = sum(doubt >= LEAST for _, doubt in self._ahead)
            return NextQuestion(told, self._queue.left + unread, len(self._answers))

    def believed(self, reported: FloatArray) -> FloatArray:
        """The probability of pairs by the reported one and the answers here, same shape."""
        return self._queue.believed(reported)

    def answer(
        self, first: str, second: str, same: bool | None, cannot_tell: bool = False
    ) -> Answered:
        """Decide whether a pair is one entity; None skips it, or if the user `cannot_tell` has
        nobody asked again.

        Raises:
            NotFoundError: there is no such fragment.
            ContradictionError: the answer contradicts decisions; it is not asked again.
            LikelihoodError: no grouping satisfies it; it is not asked again.
            BusyError, OutputError: it cannot be written.

        """
        if first == second:
            raise UsageError(f'expected two fragments, got "{quoted(first)}" twice')
        with self._lock:
            pair = frozenset((first, second))
            question = self._asked.get(pair)
            try:
                decided, effect = self._decided(first, second, same, cannot_tell, question)
            except (ContradictionError, LikelihoodError):
                if question is not None:
                    self._queue.pass_over(question)
                raise
            if question is not None:
                self._queue.add(question, same)
            self._asked.pop(pair, None)
            self._notes[pair] = signature()[1] if decided is None else ""
            decision = None if decided is None or decided.already else decided.decision
            self._answers.append((LastAnswer(first, second, same, decision), question))
            if decided is None:
                return Answered(None, False, effect)
            return Answered(decided.decision, decided.already, effect)

    def _decided(
        self,
        first: str,
        second: str,
        same: bool | None,
        cannot_tell: bool,
        question: PairQuestion | None,
    ) -> tuple[Decided | None, Effect]:
        """The decision, unless the pair is skipped, and its effect."""
        pair = (first, second)
        if same is None and not cannot_tell:
            with self._readers.store() as store:
                return None, nothing(self._readers, store, pair)
        reported = None if question is None else question.reported
        act = honouring(same, first, second, reported)
        return self._writer.perform(observed(self._readers, act, pair)).result()

    def undo(self) -> TakenBack:
        """Undo the last answer given here, and ask again.

        Raises:
            BusyError, OutputError: it cannot be written.

        """
        with self._lock:
            if not self._answers:
                return TakenBack(None, None)
            last, question = self._answers[-1]
            pair = (last.first, last.second)
            if last.decision is None:
                with self._readers.store() as store:
                    effect = nothing(self._readers, store, pair)
            else:
                act = observed(self._readers, undoing(last.decision), pair)
                _, effect = self._writer.perform(act).result()
            self._answers.pop()
            if question is not None:
                self._queue.undo()
            return TakenBack(last, effect)

    # -- the queue ----------------------------------------------------------------------------

    def _follow(self, store: Store) -> None:
        """Apply all changes since the last time."""
        last = store.last_run
        now = (0, 0.0) if last is None else (last.number, last.seconds)
        if now == self._seen:
            return
        rows = store.database.connection
        frozen = _digest(orjson.dumps(store.fact("frozen")))
        seen = self._seen
        if seen is None or frozen != self._frozen:
            self._frozen = frozen
            self._begin(store)
        else:
            changed = [n for (n,) in ask(rows, _CHANGED, (seen[0], _MOST_CHANGED + 1))]
            if len(changed) <= _MOST_CHANGED:
                self._update(store, changed)
            elif time.monotonic() - self._began > _SELDOM:
                self._begin(store)
            else:
                return  # what is asked is compared with the store all the same
        self._queue.leave(store.unsettled())
        self._seen = now

    def _begin(self, store: Store) -> None:
        """Find uncertain subproblems; what was learned from answers stays."""
        self._began = time.monotonic()
        self._queue, self._known = PosteriorQueue(), {}
        rows = store.database.connection
        self._ahead = deque(ask(rows, _IN_DOUBT, (self._most,)))
        stale = ask(rows, "SELECT subproblem FROM stale LIMIT ?", (_MOST_CHANGED,))
        self._update(store, [name for (name,) in stale])
        for given, question in self._answers:
            if question is not None:
                self._queue.add(question, given.same)

    def _update(self, store: Store, names: Sequence[int]) -> None:
        """Update these subproblems in the queue; some may no longer exist."""
        rows = store.database.connection
        for at in range(0, len(names), _AT_ONCE):
            part, found = names[at : at + _AT_ONCE], list[Subproblem]()
            gone = set(part)
            for name, _, content in rows_of(rows, "page", "name", part):
                gone.discard(name)
                digest = _digest(content)
                if self._known.get(name) == digest:
                    continue
                page = page_from_bytes(name, content)
                if len(page.rows) > 1:
                    found.append(page.subproblem())
                    self._known[name] = digest
                else:
                    gone.add(name)
            self._queue.gone(gone)
            self._queue.update(found)
            for name in gone:
                self._known.pop(name, None)

    def _next(self, store: Store) -> Question | None:
        """The next question about a subproblem that is unchanged since the queue read it, and
        whose value stands after a look at the evidence."""
        looks = 0
        while (question := self._best(store)) is not None:
            before = self._known.get(question.subproblem)
            self._update(store, [question.subproblem])
            if self._known.get(question.subproblem) == before:
                evidence, looks = self._evidence(store, question), looks + 1
                if looks == MOST_LOOKS or not self._queue.bound(question, evidence.doubt):
                    return self._asking(store, evidence)
        return None

    def _best(self, store: Store) -> PairQuestion | None:
        """The best question; later subproblems are read while they may have a better one."""
        until = time.monotonic() + _READING
        while True:
            best = self._queue.next()
            if not self._ahead:
                return best
            worse = best is not None and self._ahead[0][1] <= best.value
            if worse or (best is not None and time.monotonic() > until):
                return best
            some = min(_AT_ONCE, len(self._ahead))
            self._update(store, [self._ahead.popleft()[0] for _ in range(some)])

    def _evidence(self, store: Store, question: PairQuestion) -> Evidence[PairQuestion]:
        pages = store.pages
        subproblem = pages.page(question.subproblem).subproblem()
        numbers = pages.fragments(subproblem.fragments)
        spec = self._readers.models(store)[0].spec
        with self._readers.scoring():
            return evidence_on(question, subproblem, numbers.__getitem__, spec)

    def _asking(self, store: Store, evidence: Evidence[PairQuestion]) -> Question:
        question = evidence.question
        homes = holding(self._readers, store, [question.first, question.second])
        first, second = evidence.first.fragment.id, evidence.second.fragment.id
        self._asked[frozenset((first, second))] = question
        while len(self._asked) > _MOST_ASKED:
            self._asked.popitem(last=False)
        return Question(
            first,
            second,
            _side(evidence.first, homes[question.first]),
            _side(evidence.second, homes[question.second]),
            evidence.to_json()["asked"],
            evidence.explanation,
            evidence.compared,
            evidence.probability,
            evidence.settles,
            self._notes.get(frozenset((first, second)), ""),
        )


def _side(side: Side, entity: EntityReference) -> QuestionSide:
    others = [record_of(other) for other in side.others]
    return QuestionSide(record_of(side.fragment), others, side.size, entity)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
