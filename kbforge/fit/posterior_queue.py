"""Questions about uncertain pairs of a posterior, the most useful first.

Two fragments that share a cluster on every particle, and in the point estimate, are one *part*.
Every question about the one is the same question about the other, so that a subproblem of thousands
of fragments has no more questions than pairs of parts.

A cluster of the point estimate that all particles hold is left out: nothing is asked about it. Of
what is left, the `MOST` parts are kept that most fragments in doubt are in.

A question is worth what its answer is expected to correct. The question is "are a and b one
entity?". For an infallible answerer the answer is a function of the partition, so what it tells
about the partition is the entropy of the answer. Symbols:

| symbol | meaning |
|---|---|
| z_i, w_i | the groupings of a subproblem, and their probabilities |
| c | the point estimate |
| S | the i whose z_i says of a and b what c does not: they contradict the estimate |
| q | believed probability that the truth contradicts the estimate; the particles say w(S) |
| e | how often the answerer errs |
| c' | the heaviest of S: the point estimate once the answer contradicts c |
| L(c, z) | what c loses if z is the truth: the sum over the fragments of 1 - 2 n / (|c| + |z|), |

where |c| and |z| are the sizes of the fragment's clusters and n the size of what they share. That
is the loss in B-cubed F1, counted in fragments. After an answer the session holds the particles
that agree with it, renormalised, and the heaviest is its estimate. An answer that agrees with c
leaves it what it is. So what an answer is expected to take from the loss is

    value = (1 - e) q E[L(c, z) - L(c', z) | S] + e (1 - q) E[L(c, z) - L(c', z) | not S]

The second term is negative: it is the harm of a wrong answer. What the answer tells, in nats, is
the mutual information of the answer and the truth,

    information = H(q (1 - e) + (1 - q) e) - H(e),  H(x) = -x log x - (1 - x) log(1 - x)

Information prefers what is most in doubt, however little depends on it. The value prefers what most
depends on, so that large parts come first. Both count one answer alone, and none that comes after.

The queue follows the posterior, which answers change:

    questions = PosteriorQueue()
    questions.update(posterior.subproblems)
    while question := questions.next():
        same = ask(question.first, question.second)
        session.constrain([Decision(same, ...)])
        questions.learn(question, same)
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import xlog1py, xlogy

from kbforge.contracts import Cluster, FloatArray, IntArray, Subproblem
from kbforge.evaluation.reliability import BoolArray
from kbforge.fit.belief import Belief, update

MOST = 96
"""Parts of a subproblem that are asked about; their pairs with all particles take 4 MB."""

MOST_PARTICLES = 100
"""Particles that are compared, the heaviest."""


@dataclass(frozen=True, slots=True, eq=False)
class SubproblemParts:
    """The parts of a subproblem that are in doubt.

    Attributes:
        first: smallest fragment of each part, ascending, shape [parts].
        sizes: fragments of each part, shape [parts].
        estimate: number of each part's cluster in the point estimate, shape [parts].
        rows: the same on each particle; equal numbers are one cluster, shape [parts, particles].
        weights: of the particles, descending, sum 1, shape [particles].

    """

    first: IntArray
    sizes: IntArray
    estimate: IntArray
    rows: IntArray
    weights: FloatArray

    def __len__(self) -> int:
        return len(self.first)


def parts_of(subproblem: Subproblem) -> SubproblemParts:
    """The parts of a subproblem that are in doubt; none if no particle disagrees."""
    particles = subproblem.particles[:MOST_PARTICLES]
    weights = np.exp([particle.log_weight for particle in particles])
    weights = weights / weights.sum()
    rows = _rows(subproblem, [p.clusters for p in particles])
    doubt = 1 - (rows[:, 1:] == rows[:, :1]) @ weights
    kept = (rows[:, 1:] != rows[:, :1]).any(axis=1)
    fragments, rows, doubt = np.array(subproblem.fragments)[kept], rows[kept], doubt[kept]
    _, at, sizes = np.unique(rows, axis=0, return_index=True, return_counts=True)
    if len(at) > MOST:
        most = np.argsort(-(sizes * doubt[at]), kind="stable")[:MOST]
        at, sizes = at[most], sizes[most]
    order = np.argsort(at)
    at, sizes = at[order], sizes[order]
    return SubproblemParts(fragments[at], sizes, rows[at, 0], rows[at, 1:], weights)


def _rows(subproblem: Subproblem, groupings: Sequence[Sequence[Cluster]]) -> IntArray:
    """Each fragment's cluster in the estimate, then in the groupings, shape [n, 1 + groupings].

    Equal numbers are one cluster, in whatever groupings they stand.
    """
    position = {fragment: at for at, fragment in enumerate(subproblem.fragments)}
    numbers: dict[Cluster, int] = {}
    rows = np.zeros((len(position), 1 + len(groupings)), np.int64)
    for column, clusters in enumerate((subproblem.clusters, *groupings)):
        for cluster in clusters:
            held = [position[fragment] for fragment in cluster]
            rows[held, column] = numbers.setdefault(cluster, len(numbers))
    return rows


ERROR = 0.02
"""e: how often whoever answers a review errs."""

_CERTAIN = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class QuestionTable:
    """Pairs that can be asked about, and what depends on them; arrays of shape [pairs].

    Attributes:
        first: a fragment.
        second: another one, in another part.
        reported: the probability that they are one, by the particles, in (0, 1).
        joined: whether the point estimate has them together.
        gained: E[L(c, z) - L(c', z) | S], fragments.
        harmed: E[L(c, z) - L(c', z) | not S], fragments.

    """

    first: IntArray
    second: IntArray
    reported: FloatArray
    joined: BoolArray
    gained: FloatArray
    harmed: FloatArray

    def __len__(self) -> int:
        return len(self.first)

    def where(self, chosen: IntArray) -> QuestionTable:
        """Some of the pairs, by their places."""
        return QuestionTable(
            self.first[chosen],
            self.second[chosen],
            self.reported[chosen],
            self.joined[chosen],
            self.gained[chosen],
            self.harmed[chosen],
        )


def pairs_of(parts: SubproblemParts) -> QuestionTable:
    """The pairs of parts on which particles disagree, and what depends on them."""
    one, other = np.triu_indices(len(parts), 1)
    together = parts.rows[one] == parts.rows[other]  # [pairs, particles]
    reported = together @ parts.weights
    open_ones = np.flatnonzero((reported > _CERTAIN) & (reported < 1 - _CERTAIN))
    one, other, together = one[open_ones], other[open_ones], together[open_ones]
    joined = parts.estimate[one] == parts.estimate[other]
    contradicts = together != joined[:, None]
    heaviest = contradicts.argmax(axis=1)  # the first that does
    better = np.zeros(together.shape)
    before = loss(parts, parts.estimate)
    for k in np.unique(heaviest).tolist():
        better[heaviest == k] = before - loss(parts, parts.rows[:, k])
    weighed = better * parts.weights
    mass = contradicts @ parts.weights
    return QuestionTable(
        first=parts.first[one],
        second=parts.first[other],
        reported=reported[open_ones],
        joined=joined,
        gained=(weighed * contradicts).sum(axis=1) / np.maximum(mass, _CERTAIN),
        harmed=(weighed * ~contradicts).sum(axis=1) / np.maximum(1 - mass, _CERTAIN),
    )


def loss(parts: SubproblemParts, labels: IntArray) -> FloatArray:
    """L of a grouping of the parts, if each particle is the truth, shape [particles].

    Args:
        parts: their fragments are all that is counted.
        labels: the cluster of each part, shape [parts].

    """
    sizes = parts.sizes.astype(np.float64)
    own = labels[:, None] == labels[None, :]  # [parts, parts]
    own_size = own @ sizes
    total = np.zeros(parts.rows.shape[1])
    for column, truth in enumerate(parts.rows.T):
        true = truth[:, None] == truth[None, :]
        shared = (own & true) @ sizes
        total[column] = (sizes * (1 - 2 * shared / (own_size + true @ sizes))).sum()
    return total


def values(asked: QuestionTable, believed: FloatArray, error: float) -> FloatArray:
    """What answers are expected to set right, in fragments, shape [pairs].

    Args:
        asked: the pairs.
        believed: the probability that they are one, shape [pairs].
        error: e.

    """
    against = np.where(asked.joined, 1 - believed, believed)
    value: FloatArray = (1 - error) * against * asked.gained + error * (1 - against) * asked.harmed
    return value


def information(believed: FloatArray, error: float) -> FloatArray:
    """What answers tell about the partition, in nats, same shape.

    Args:
        believed: the probability of the answer "one entity" by somebody who never errs.
        error: e.

    """
    said = believed * (1 - error) + (1 - believed) * error
    told: FloatArray = _entropy(said) - _entropy(np.array(error))
    return np.maximum(told, 0.0)


def _entropy(p: FloatArray) -> FloatArray:
    out: FloatArray = -xlogy(p, p) - xlog1py(1 - p, -p)
    return out


Worth: TypeAlias = Literal["gain", "information"]
"""What makes a question a good one: what it is expected to set right, or what it tells."""

Read: TypeAlias = Callable[[IntArray, IntArray, FloatArray], FloatArray]
"""A map of pairs: numbers of the ones and the others, what is reported, to a probability each."""

MOST_EACH = 16
"""Questions about a subproblem that are held; its answer brings others."""

_OFFSET, _SPREAD = 1.0, 0.5  # nats, and none
_LEAST = 1e-3  # what is reported, or read, is no surer


@dataclass(frozen=True, slots=True)
class PairQuestion:
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
class _QueueEntry:
    """The questions about one subproblem, and what the belief reads of them."""

    asked: QuestionTable
    told: FloatArray  # [questions, 2]


class PosteriorQueue:
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
        self._held: dict[int, _QueueEntry] = {}
        self._passed: set[tuple[int, int]] = set()
        self._heap: list[tuple[float, int, int]] = []  # (-rank, name, place), the best of each
        self._stale = False

    def __len__(self) -> int:
        """How many subproblems there is something to ask about."""
        return len(self._held)

    def update(self, subproblems: Iterable[Subproblem]) -> None:
        """Take in subproblems that are new or other than before; a name is the first fragment."""
        found: dict[int, QuestionTable] = {}
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
            self._held[name] = _QueueEntry(asked, columns)
            if not self._stale:
                self._push(name)

    def gone(self, names: Iterable[int]) -> None:
        """Forget subproblems that are no more; names that are not known are passed over."""
        for name in names:
            self._held.pop(name, None)

    def next(self) -> PairQuestion | None:
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

    def pass_over(self, question: PairQuestion) -> None:
        """Ask about this pair no more."""
        self._passed.add((question.first, question.second))
        if question.subproblem in self._held and not self._stale:
            self._push(question.subproblem)

    def ask_again(self, question: PairQuestion) -> None:
        """Take back that a question was passed over."""
        self._passed.discard((question.first, question.second))
        self._stale = True

    def learn(self, question: PairQuestion, same: bool) -> None:
        """Learn from an answer how far what is reported can be believed."""
        told = self._columns(
            np.array([question.reported]), np.array([question.first]), np.array([question.second])
        )
        self._answers.append((told[0], same))
        self._learn()

    def unlearn(self) -> None:
        """Unlearn the last answer; `update` takes in the subproblems that it had changed."""
        self._answers.pop()
        self._learn()

    def _learn(self) -> None:
        told = np.array([told for told, _ in self._answers]).reshape(-1, 2)
        same = np.array([same for _, same in self._answers], np.bool_)
        self._belief = update(self._before, told, same, self._error)
        self._stale = True

    def _best(self, asked: QuestionTable) -> IntArray:
        """The places of the questions to hold: the best if all that is reported is true."""
        rank = self._ranks(asked, asked.reported)
        return np.argsort(-rank, kind="stable")[:MOST_EACH]

    def _ranks(self, asked: QuestionTable, believed: FloatArray) -> FloatArray:
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

    def _top(self, held: _QueueEntry) -> tuple[float, int] | None:
        """The rank and the place of the best question about a subproblem."""
        rank = self._ranks(held.asked, self._belief.probability(held.told))
        pairs = zip(held.asked.first.tolist(), held.asked.second.tolist(), strict=True)
        for place, pair in enumerate(pairs):
            if pair in self._passed:
                rank[place] = -np.inf
        place = int(np.argmax(rank))
        return None if rank[place] == -np.inf else (float(rank[place]), place)

    def _question(self, name: int, held: _QueueEntry, place: int) -> PairQuestion:
        one = held.asked.where(np.array([place]))
        believed = self._belief.probability(held.told[place : place + 1])
        return PairQuestion(
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
