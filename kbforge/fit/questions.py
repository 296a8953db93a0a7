"""The queue of questions: the most valuable one first, kept up while answers change the posterior.

    questions = Questions()
    questions.update(posterior.subproblems)
    while question := questions.next():
        same = ask(question.first, question.second)
        session.constrain([Decision(same, ...)])
        questions.heard(question, same)
        touched = session.touched()
        questions.gone(touched.gone)
        questions.update(map(session.subproblem, touched.changed))

An answer changes the one subproblem that it is about, and what all are believed. Particles are few,
and a model that is wrong about one pair is wrong about others in the same way. So the probability
that two fragments are one is not read off the particles as it stands. With p what they report, and
r what a map of pairs makes of it, if there is one, it is believed to be

    sigmoid(w_0 + w_1 logit p + w_2 logit r)

where w is Gaussian before any answer, around what is reported (w_1 = 1), or where there is a map
around the mean of both (w_1 = w_2 = 1/2); standard deviations are 1 nat for w_0 and 1/2 for the
others. Answers correct w, as in `kbforge.fit.belief`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from kbforge.contracts import FloatArray, IntArray, Subproblem
from kbforge.fit.belief import Belief, update
from kbforge.fit.parts import parts_of
from kbforge.fit.worth import ERROR, Asked, information, pairs_of, values

Worth: TypeAlias = Literal["gain", "information"]
"""What makes a question a good one: what it is expected to set right, or what it tells."""

Read: TypeAlias = Callable[[IntArray, IntArray, FloatArray], FloatArray]
"""A map of pairs: numbers of the ones and the others, what is reported, to a probability each."""

MOST_EACH = 16
"""Questions about a subproblem that are held; its answer brings others."""

_OFFSET, _SPREAD = 1.0, 0.5  # nats, and none
_LEAST = 1e-3  # what is reported, or read, is no surer


@dataclass(frozen=True, slots=True)
class Question:
    """A pair to ask about: are they one entity?

    Attributes:
        subproblem: its name.
        first: number of a fragment.
        second: of another one.
        reported: the probability that they are one, by the particles.
        believed: the same, by what was answered before and by the map, if there is one.
        joined: whether the point estimate has them together.
        value: fragments that the answer is expected to set right (`worth`).
        information: what the answer tells, in nats.

    """

    subproblem: int
    first: int
    second: int
    reported: float
    believed: float
    joined: bool
    value: float
    information: float


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """The questions about one subproblem, and what the belief reads of them."""

    asked: Asked
    told: FloatArray  # [questions, 2]


class Questions:
    """What is worth asking about a posterior.

    Args:
        read: a map of pairs, None for what the particles say.
        error: how often whoever answers errs, in [0, 1/2).
        worth: what the order of the questions is by.

    """

    def __init__(
        self, read: Read | None = None, error: float = ERROR, worth: Worth = "gain"
    ) -> None:
        if not 0 <= error < 0.5:
            raise ValueError(f"error: expected a number from 0 to below 0.5, got {error:g}")
        self._read, self._error, self._worth = read, error, worth
        mean = np.array([0.0, 1.0, 0.0] if read is None else [0.0, 0.5, 0.5])
        spread = np.array([_OFFSET, _SPREAD, _SPREAD])
        self._before = self._belief = Belief(mean, np.diag(spread**2))
        self._answers: list[tuple[FloatArray, bool]] = []
        self._held: dict[int, _Held] = {}
        self._passed: set[tuple[int, int]] = set()
        self._heap: list[tuple[float, int, int]] = []  # (-rank, name, place), the best of each
        self._stale = False

    def __len__(self) -> int:
        """How many subproblems there is something to ask about."""
        return len(self._held)

    def update(self, subproblems: Iterable[Subproblem]) -> None:
        """Take in subproblems that are new or other than before; a name is the first fragment."""
        found: dict[int, Asked] = {}
        for subproblem in subproblems:
            name = subproblem.fragments[0]
            self._held.pop(name, None)
            asked = pairs_of(parts_of(subproblem))
            if len(asked):
                found[name] = asked.where(self._best(asked))
        if not found:
            return
        # a map reads many pairs at once in the time of one
        told = self._columns(
            *(
                np.concatenate([getattr(asked, field) for asked in found.values()])
                for field in ("reported", "first", "second")
            )
        )
        ends = np.cumsum([len(asked) for asked in found.values()])[:-1]
        for (name, asked), columns in zip(found.items(), np.split(told, ends), strict=True):
            self._held[name] = _Held(asked, columns)
            if not self._stale:
                self._push(name)

    def gone(self, names: Iterable[int]) -> None:
        """Forget subproblems that are no more; names that are not known are passed over."""
        for name in names:
            self._held.pop(name, None)

    def next(self) -> Question | None:
        """The most valuable question that was not passed over; None if there is none."""
        if self._stale:
            self._heap = []
            for name in self._held:
                self._push(name)
            self._stale = False
        while self._heap:
            rank, name, place = self._heap[0]
            held = self._held.get(name)
            if held is not None and self._top(held) == (-rank, place):
                return self._question(name, held, place)
            heapq.heappop(self._heap)
        return None

    def pass_over(self, question: Question) -> None:
        """Ask about this pair no more."""
        self._passed.add((question.first, question.second))
        if question.subproblem in self._held and not self._stale:
            self._push(question.subproblem)

    def ask_again(self, question: Question) -> None:
        """Take back that a question was passed over."""
        self._passed.discard((question.first, question.second))
        self._stale = True

    def heard(self, question: Question, same: bool) -> None:
        """Learn from an answer how far what is reported can be believed."""
        told = self._columns(
            np.array([question.reported]), np.array([question.first]), np.array([question.second])
        )
        self._answers.append((told[0], same))
        self._learn()

    def unheard(self) -> None:
        """Unlearn the last answer; what it did to the subproblems is told by `update`."""
        self._answers.pop()
        self._learn()

    def _learn(self) -> None:
        told = np.array([told for told, _ in self._answers]).reshape(-1, 2)
        same = np.array([same for _, same in self._answers], np.bool_)
        self._belief = update(self._before, told, same, self._error)
        self._stale = True

    def _best(self, asked: Asked) -> IntArray:
        """The places of the questions to hold: the best if all that is reported is true."""
        rank = self._ranks(asked, asked.reported)
        return np.argsort(-rank, kind="stable")[:MOST_EACH]

    def _ranks(self, asked: Asked, believed: FloatArray) -> FloatArray:
        if self._worth == "information":
            return information(believed, self._error)
        return values(asked, believed, self._error)

    def _columns(self, reported: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        read = np.full(len(reported), 0.5)
        if self._read is not None:
            read = self._read(first, second, reported)
        return np.column_stack([_logit(reported), _logit(read)])

    def _push(self, name: int) -> None:
        top = self._top(self._held[name])
        if top is not None:
            heapq.heappush(self._heap, (-top[0], name, top[1]))

    def _top(self, held: _Held) -> tuple[float, int] | None:
        """The rank and the place of the best question about a subproblem."""
        rank = self._ranks(held.asked, self._belief.probability(held.told))
        pairs = zip(held.asked.first.tolist(), held.asked.second.tolist(), strict=True)
        for place, pair in enumerate(pairs):
            if pair in self._passed:
                rank[place] = -np.inf
        place = int(np.argmax(rank))
        return None if rank[place] == -np.inf else (float(rank[place]), place)

    def _question(self, name: int, held: _Held, place: int) -> Question:
        one = held.asked.where(np.array([place]))
        believed = self._belief.probability(held.told[place : place + 1])
        return Question(
            subproblem=name,
            first=int(one.first[0]),
            second=int(one.second[0]),
            reported=float(one.reported[0]),
            believed=float(believed[0]),
            joined=bool(one.joined[0]),
            value=float(values(one, believed, self._error)[0]),
            information=float(information(believed, self._error)[0]),
        )


def _logit(p: FloatArray) -> FloatArray:
    inside = np.clip(p, _LEAST, 1 - _LEAST)
    out: FloatArray = np.log(inside) - np.log1p(-inside)
    return out
