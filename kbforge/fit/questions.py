"""Chooses the most useful pairs to ask people about.

Both queues have `next`, `add` (an answer; None is "unknown") and `undo`. A `TeachingQueue` teaches
the model of pairs of a file, a `PosteriorQueue` corrects the groupings of a posterior.

**Teaching.** An answer about a pair of a file teaches the model of pairs
(`kbforge.contracts.Likelihood.taught`), which tells most about pairs of which it is least certain.
With p the probability that a pair is one entity, by the model that all answers so far have taught,
the next question is about the pair with the largest

    p (1 - p) exp(.3 g)

where g is drawn from the Gumbel distribution, so that not all questions are about the same kind of
pair. No fragment is asked about twice, nor one that states the same, as long as there are others.

Every sixth question is an *audit*: it draws an entity of the judge's grouping at random, and asks
about the entity's pair that is most probably wrong. The share of failed audits estimates the share
of wrong entities.

**Posteriors.** Two fragments that share a cluster in every particle, and in the point estimate, are
one *part*: a question about one is the same question about the other. A cluster of the point
estimate that all particles contain is left out. The `MOST` parts with most uncertain fragments are
kept.

A question's value is its expected correction:

| symbol | meaning |
|---|---|
| z_i, w_i | the groupings of a subproblem, and their probabilities |
| c | the point estimate |
| S | the i whose z_i contradicts the estimate c about a and b |
| q | believed probability that the truth contradicts the estimate; under the particles it is w(S) |
| e | how often the answerer errs |
| c' | the heaviest of S: the point estimate once the answer contradicts c |
| L(c, z) | the loss of c if z is the truth: the sum over the fragments of 1 - 2 n / (|c| + |z|), |

where |c| and |z| are the sizes of the fragment's clusters and n the size of their intersection.
That is the loss in B-cubed F1, counted in fragments. After an answer the session keeps the
particles that agree with it, renormalised, and the heaviest is its estimate. So an answer reduces
the expected loss by

    value = (1 - e) q E[L(c, z) - L(c', z) | S] + e (1 - q) E[L(c, z) - L(c', z) | not S]

The second term is negative: it is the harm of a wrong answer. The information of the answer, in
nats, is the mutual information of the answer and the truth,

    information = H(q (1 - e) + (1 - q) e) - H(e),  H(x) = -x log x - (1 - x) log(1 - x)

Information favours the most uncertain pairs, the value those that matter most. Both consider one
answer, not the following ones.

Particles are few, and a model that is wrong about one pair is wrong about others in the same way.
So the log odds that the queue believes are linear in those that the particles report,

    f(v) = w_0 + w_1 v,  v = logit p

where w has a Gaussian prior: before any answer w_1 is 1; the standard deviations are 1 nat for w_0
and 1/2 for w_1. An answer "same" has probability e + (1 - 2 e) sigmoid(f). The posterior of w is
approximated by a Gaussian at its mode (Laplace), found by Fisher scoring with halved steps
(McCullagh and Nelder 1989, 2.5; the link is that of Pregibon's contaminated binomial, 1982).
Answers change the posterior, and the queue follows it (`update`, `gone`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from kbforge.contracts import Cluster, FloatArray, Fragment, IntArray, Subproblem
from kbforge.evaluation.reliability import BoolArray
from kbforge.files.answers import AUDIT, INFORMATIVE, PERSON_RIGHT, NumberedAnswer, pair_answers
from kbforge.fit.description import PairModel

ERROR = 1 - PERSON_RIGHT
"""e: the probability that a person's answer about a file is wrong."""

Error: TypeAlias = float | FloatArray

_OFFSET = 1.0  # sd of w_0, nats
_STEPS = 50
_CONVERGED = 1e-9


@dataclass(frozen=True, slots=True)
class Belief:
    """A Gaussian over w, the offset first."""

    mean: FloatArray  # [K + 1]
    covariance: FloatArray  # [K + 1, K + 1]

    def logit(self, votes: BoolArray | FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of f for pairs with these votes [pairs, K], shape [pairs] each."""
        x = design(votes)
        return x @ self.mean, ((x @ self.covariance) * x).sum(axis=1)

    def probability(self, votes: BoolArray | FloatArray) -> FloatArray:
        """The probability that pairs with these votes are one entity, shape [pairs] (MacKay
        1992)."""
        mean, variance = self.logit(votes)
        return np.asarray(expit(mean / np.sqrt(1 + np.pi * variance / 8)), np.float64)


def update(
    before: Belief,
    votes: BoolArray | FloatArray,
    same: BoolArray,
    error: Error = ERROR,
    offset: FloatArray | float = 0.0,
) -> Belief:
    """The belief after answers `same` [answers] about pairs with these votes [answers, K].

    `error` and `offset`, which is added to f, may be one for each answer, shape [answers].
    """
    if not len(votes):
        return before
    x = design(votes)
    precision = np.linalg.inv(before.covariance)

    def loss(w: FloatArray) -> float:
        off = w - before.mean
        return float(off @ precision @ off / 2 + log_losses(offset + x @ w, same, error).sum())

    def fisher() -> FloatArray:
        return (x * information_of(offset + x @ w, error)[:, None]).T @ x

    w = before.mean
    value = loss(w)
    for _ in range(_STEPS):
        slope = x.T @ slopes_of(offset + x @ w, same, error) - precision @ (w - before.mean)
        step = np.linalg.solve(precision + fisher(), slope)
        while (lower := loss(w + step)) > value and np.abs(step).max() > _CONVERGED:
            step = step / 2
        if lower > value:
            break
        w, value = w + step, lower
        if np.abs(step).max() <= _CONVERGED:
            break
    return Belief(w, np.asarray(np.linalg.inv(precision + fisher()), np.float64))


def design(votes: BoolArray | FloatArray) -> FloatArray:
    """The vectors that w is multiplied by, shape [pairs, K + 1]."""
    return np.column_stack([np.ones(len(votes)), votes]).astype(np.float64)


def said_same(logit: FloatArray, error: Error = ERROR) -> FloatArray:
    """The probability of the answer "same", same shape."""
    return np.asarray(error + (1 - 2 * error) * expit(logit), np.float64)


def log_losses(logit: FloatArray, same: BoolArray, error: Error = ERROR) -> FloatArray:
    """Minus the log probability of answers, nats, same shape."""
    said = said_same(logit, error)
    return np.asarray(-np.log(np.where(same, said, 1 - said)))


def slopes_of(logit: FloatArray, same: BoolArray, error: Error = ERROR) -> FloatArray:
    """The derivative of the log probability of answers by f, same shape."""
    p, said = expit(logit), said_same(logit, error)
    return np.asarray((1 - 2 * error) * p * (1 - p) * (same - said) / (said * (1 - said)))


def information_of(logit: FloatArray, error: Error = ERROR) -> FloatArray:
    """The expected Fisher information of an answer about f, same shape."""
    p, said = expit(logit), said_same(logit, error)
    return np.asarray(((1 - 2 * error) * p * (1 - p)) ** 2 / (said * (1 - said)), np.float64)


_AUDITED = 6  # every so many-th question audits an entity
_VARIETY = 0.3  # scale of the noise on the log of a question's worth


@dataclass(frozen=True, slots=True)
class CandidatePair:
    """A pair of a file to ask about, by numbers of its fragments."""

    first: int
    second: int
    how: str  # one of `HOW` in `kbforge.files.answers`
    joined: float  # probability that they are one entity, by the model as taught so far
    share: float  # of the compared pairs that are as uncertain, or more, in (0, 1]


class TeachingQueue:
    """Questions that teach a model of pairs, which reads some fragments of a file.

    `fragments` are the file's, `read` the numbers of those that the model was fitted to, and
    `entities` the entity of some of these, by number.
    """

    def __init__(
        self,
        pairs: PairModel,
        fragments: Sequence[Fragment],
        read: Sequence[int],
        entities: Mapping[int, int],
        seed: int = 0,
    ) -> None:
        self._pairs, self._fragments, self._seed = pairs, fragments, seed
        self._answers: list[NumberedAnswer] = []
        odds = pairs.pair_odds([fragments[number] for number in read])
        first = np.unique(odds.row, return_index=True)  # rows are numbered from 0
        self._fragment = np.zeros(int(odds.row.max(initial=-1)) + 1, np.int64)
        self._fragment[first[0]] = np.asarray(read, np.int64)[first[1]]
        self._row = dict(zip(read, odds.row.tolist(), strict=True))
        self._links = odds.first < odds.second
        self._one, self._other = odds.first[self._links], odds.second[self._links]
        self._entity = np.full(len(self._fragment), -1, np.int64)
        for number, entity in entities.items():
            self._entity[self._row[number]] = entity

    @cached_property
    def taught(self) -> PairModel:
        """The model after the answers so far."""
        answers = pair_answers(self._answers, self._fragments)
        return self._pairs.taught(answers) if answers else self._pairs

    @cached_property
    def _probability(self) -> FloatArray:
        """Of the compared pairs to be one entity, by the taught model, shape [pairs]."""
        odds = self.taught.pair_odds([self._fragments[number] for number in self._row])
        return np.asarray(expit(odds.nats[self._links]), np.float64)

    def add(
        self, pair: CandidatePair | NumberedAnswer, same: bool | None, error: float = ERROR
    ) -> None:
        """Add an answer, and the probability that it is wrong; None is "unknown"."""
        self._answers.append(NumberedAnswer(pair.first, pair.second, same, False, 1 - error))
        self._forget()

    def undo(self) -> None:
        """Forget the last answer."""
        self._answers.pop()
        self._forget()

    def _forget(self) -> None:
        for name in ("taught", "_probability"):
            self.__dict__.pop(name, None)

    def next(self) -> CandidatePair | None:
        """The pair to ask about; None if nothing is left to ask."""
        rng = np.random.default_rng([self._seed, len(self._answers)])
        asked = np.array(
            [self._rows(one.first, one.second) for one in self._answers], np.int64
        ).reshape(-1, 2)
        n = len(self._fragment)
        new = ~np.isin(self._one * n + self._other, asked[:, 0] * n + asked[:, 1])
        if not new.any():
            return None
        if len(self._answers) % _AUDITED == _AUDITED - 1 and (pair := self._audit(new, rng)):
            return pair
        apart = new & ~np.isin(self._one, asked) & ~np.isin(self._other, asked)
        p = self._probability
        worth = np.log(p * (1 - p)) + _VARIETY * rng.gumbel(size=len(p))
        open_pairs = np.flatnonzero(apart if apart.any() else new)
        return self._pair_at(int(open_pairs[np.argmax(worth[open_pairs])]), INFORMATIVE)

    def _rows(self, first: int, second: int) -> tuple[int, int]:
        """The rows of two fragments, ascending; -1 if the model was not fitted to one."""
        one, other = sorted(self._row.get(number, -1) for number in (first, second))
        return one, other

    def _audit(self, new: BoolArray, rng: np.random.Generator) -> CandidatePair | None:
        """A random entity, and its pair that is most probably wrong; None if there is none."""
        one, other = self._entity[self._one], self._entity[self._other]
        within = np.flatnonzero(new & (one >= 0) & (other >= 0))
        entities = np.unique(np.concatenate([one[within], other[within]]))
        if not len(entities):
            return None
        entity = rng.choice(entities)
        pairs = within[(one[within] == entity) | (other[within] == entity)]
        p = self._probability[pairs]
        wrong = np.where(one[pairs] == other[pairs], 1 - p, p)
        return self._pair_at(int(pairs[np.argmax(wrong)]), AUDIT)

    def _pair_at(self, pair: int, how: str) -> CandidatePair:
        p = self._probability
        first, second = sorted(self._fragment[[self._one[pair], self._other[pair]]].tolist())
        return CandidatePair(
            first=first,
            second=second,
            how=how,
            joined=float(p[pair]),
            share=float(np.mean(np.abs(p - 0.5) <= abs(p[pair] - 0.5))),
        )


MOST = 96
"""Maximum number of a subproblem's parts to ask about; their pairs with all particles take 4 MB."""

MOST_PARTICLES = 100
"""Maximum number of particles to compare, the heaviest."""


@dataclass(frozen=True, slots=True, eq=False)
class SubproblemParts:
    """The uncertain parts of a subproblem; equal numbers of clusters mean the same cluster."""

    first: IntArray  # [parts] smallest fragment, ascending
    sizes: IntArray  # [parts] fragments
    estimate: IntArray  # [parts] number of the cluster in the point estimate
    rows: IntArray  # [parts, particles] number of the cluster on each particle
    weights: FloatArray  # [particles] descending, sum 1

    def __len__(self) -> int:
        return len(self.first)


def parts_of(subproblem: Subproblem) -> SubproblemParts:
    """The uncertain parts of a subproblem; empty if all particles agree."""
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
    """Each fragment's cluster in the estimate, then in the groupings, shape [n, 1 + groupings]."""
    position = {fragment: at for at, fragment in enumerate(subproblem.fragments)}
    numbers: dict[Cluster, int] = {}
    rows = np.zeros((len(position), 1 + len(groupings)), np.int64)
    for column, clusters in enumerate((subproblem.clusters, *groupings)):
        for cluster in clusters:
            held = [position[fragment] for fragment in cluster]
            rows[held, column] = numbers.setdefault(cluster, len(numbers))
    return rows


REVIEW_ERROR = 0.02
"""e: the probability that a reviewer's answer is wrong."""

_CERTAIN = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class QuestionTable:
    """Pairs of parts to ask about, and their values; shape [pairs] each."""

    first: IntArray
    second: IntArray
    reported: FloatArray  # probability that they are one, by the particles, in (0, 1)
    joined: BoolArray  # whether the point estimate has them together
    gained: FloatArray  # E[L(c, z) - L(c', z) | S], fragments
    harmed: FloatArray  # E[L(c, z) - L(c', z) | not S], fragments
    most: FloatArray  # what is believed about q at most, by the pair's own evidence

    def __len__(self) -> int:
        return len(self.first)

    def against(self, believed: FloatArray) -> FloatArray:
        """q, given the probabilities that the pairs are one, shape [pairs]."""
        return np.minimum(np.where(self.joined, 1 - believed, believed), self.most)

    def where(self, chosen: IntArray) -> QuestionTable:
        """Some of the pairs, by their places."""
        return QuestionTable(*(getattr(self, name)[chosen] for name in self.__slots__))


def pairs_of(parts: SubproblemParts) -> QuestionTable:
    """The pairs of parts on which particles disagree, and their values."""
    one, other, together = _pairs(parts)
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
        most=np.ones(len(joined)),
    )


def _pairs(parts: SubproblemParts) -> tuple[IntArray, IntArray, BoolArray]:
    """All pairs of parts, and whether they are together, shape [pairs, particles]."""
    one, other = np.triu_indices(len(parts), 1)
    return one, other, parts.rows[one] == parts.rows[other]


def likely_pairs(
    subproblem: Subproblem, at_least: float, believed: Callable[[FloatArray], FloatArray]
) -> list[tuple[float, int, int]]:
    """The open pairs with at least a probability, over .5, to be one, the most probable first.

    Each is a probability and two fragments. Left out are pairs that follow from those before them,
    and pairs that contradict these. `believed` gives probabilities by the reported ones.
    """
    parts = parts_of(subproblem)
    one, other, together = _pairs(parts)
    reported = together @ parts.weights
    probability = believed(reported)
    chosen, agree = [], np.ones(len(parts.weights), np.bool_)
    for pair in np.argsort(-probability, kind="stable").tolist():
        if probability[pair] < at_least:
            break
        left = agree & together[pair]
        if left.any() and (left != agree).any():
            fragments = int(parts.first[one[pair]]), int(parts.first[other[pair]])
            chosen.append((float(probability[pair]), *fragments))
            agree = left
    return chosen


def loss(parts: SubproblemParts, labels: IntArray) -> FloatArray:
    """L of a grouping of the parts [parts], if each particle is the truth, shape [particles]."""
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
    """The expected corrections of answers, in fragments, given the belief; shape [pairs]."""
    against = asked.against(believed)
    value: FloatArray = (1 - error) * against * asked.gained + error * (1 - against) * asked.harmed
    return value


def information(believed: FloatArray, error: float) -> FloatArray:
    """The information of answers about the partition, in nats, same shape."""
    said = believed * (1 - error) + (1 - believed) * error
    entropy, of_errors = (-xlogy(p, p) - xlog1py(1 - p, -p) for p in (said, error))
    return np.asarray(np.maximum(entropy - of_errors, 0.0))


MOST_EACH = 16
"""Maximum number of cached questions about a subproblem; its answer brings others."""

LEAST = 0.01
"""Fragments: questions that are expected to correct fewer are not worth a person's time."""

_NEARLY = 0.8  # share of the best value that a question of the same subproblem must have
_SLOPE_SPREAD = 0.5  # sd of w_1
_LEAST = 1e-3  # what is reported is no surer


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """A pair of fragments to ask about, by their numbers: are they one entity?"""

    subproblem: int  # its name
    first: int
    second: int
    reported: float  # probability that they are one, by the particles
    believed: float  # the same, by earlier answers
    joined: bool  # whether the point estimate has them together
    value: float  # fragments that the answer is expected to correct
    information: float  # what the answer tells, in nats


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an answer is expected to settle."""

    sizes: list[int]  # fragments of the entity of the first, and of the second if it is another
    questions: int  # other open pairs of the subproblem that it answers as well


def outcomes(subproblem: Subproblem, question: PairQuestion) -> dict[str, Outcome]:
    """What "same" and "different" settle, by the heaviest particle that agrees with each."""
    parts = parts_of(subproblem)
    one, other, together = _pairs(parts)
    asked = (parts.first[one] == question.first) & (parts.first[other] == question.second)
    says = together[asked][0]
    found = {}
    for answer, agree in (("same", says), ("different", ~says)):
        clusters = subproblem.particles[int(agree.argmax())].clusters
        if question.joined == (answer == "same"):
            clusters = subproblem.clusters
        pair = {question.first, question.second}
        left = _n_open(together) - _n_open(together[:, agree])
        found[answer] = Outcome([len(c) for c in clusters if not pair.isdisjoint(c)], left - 1)
    return found


def _n_open(together: BoolArray) -> int:
    """On how many pairs particles differ."""
    return int((together.any(axis=1) & ~together.all(axis=1)).sum())


class _Rank(NamedTuple):
    """The best question about a subproblem, and about how many are worth an answer."""

    value: float
    name: int  # negative: of equal values the first
    place: int
    worth: float


class PosteriorQueue:
    """Questions that correct the point estimate of a posterior."""

    def __init__(self) -> None:
        spread = np.array([_OFFSET, _SLOPE_SPREAD])
        self._before = self._belief = Belief(np.array([0.0, 1.0]), np.diag(spread**2))
        self._answers: list[tuple[PairQuestion, bool | None, float]] = []
        self._held: dict[int, QuestionTable] = {}  # the questions of each subproblem
        self._ranks: dict[int, _Rank] = {}  # of subproblems, unless outdated
        self._passed: set[tuple[int, int]] = set()
        self._unsettled: set[tuple[int, int]] = set()
        self._around: list[set[int]] = [set()]  # fragments near each answer
        self._near: set[int] = set()  # subproblems with fragments near the last answer

    def believed(self, reported: FloatArray) -> FloatArray:
        """The probability of pairs by the reported one and the answers so far, same shape."""
        return self._belief.probability(_logit(reported))

    def __len__(self) -> int:
        """The number of subproblems with questions."""
        return len(self._held)

    def update(self, subproblems: Iterable[Subproblem]) -> None:
        """Add subproblems that are new or have changed; a name is the first fragment."""
        for subproblem in subproblems:
            name = subproblem.fragments[0]
            self.gone([name])
            asked = pairs_of(parts_of(subproblem))
            if len(asked):
                # the best if all reports are true
                value = values(asked, asked.reported, REVIEW_ERROR)
                self._held[name] = asked.where(np.argsort(-value, kind="stable")[:MOST_EACH])
                if not self._around[-1].isdisjoint(subproblem.fragments):
                    self._near.add(name)

    def gone(self, names: Iterable[int]) -> None:
        """Forget subproblems that no longer exist; unknown names are ignored."""
        for name in names:
            self._held.pop(name, None)
            self._ranks.pop(name, None)

    def next(self) -> PairQuestion | None:
        """The most valuable question that was not skipped; None if there is none.

        One about the entities of the last answer comes first if it is worth nearly as much.
        """
        best, near = self._best(self._ranked()), self._best(self._near)
        if best is None:
            return None
        if near is not None and near.value >= _NEARLY * best.value > 0:
            best = near
        return self._question(-best.name, best.place)

    @property
    def left(self) -> int:
        """An estimate of the answers until none is expected to correct `LEAST` fragments."""
        return round(sum(self._ranks[name].worth for name in self._ranked()))

    def bound(self, question: PairQuestion, most: float) -> bool:
        """Believe at most this probability that the estimate is wrong about a pair.

        Returns whether that lowers the question's value, so that another may come first.
        """
        asked = self._held[question.subproblem]
        lower = most < abs(question.believed - question.joined)
        if lower:
            place = (asked.first == question.first) & (asked.second == question.second)
            asked.most[place] = most
            del self._ranks[question.subproblem]
        return lower

    def pass_over(self, question: PairQuestion) -> None:
        """Do not ask about this pair again."""
        self._passed.add((question.first, question.second))
        self._ranks.pop(question.subproblem, None)

    def skip(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Do not ask about these pairs of fragments."""
        self._passed.update((min(pair), max(pair)) for pair in pairs)
        self._ranks.clear()

    def leave(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Ask about no pairs that nobody can tell, which are these from now on."""
        unsettled = {(min(pair), max(pair)) for pair in pairs}
        if unsettled != self._unsettled:
            self._unsettled = unsettled
            self._ranks.clear()

    def add(self, question: PairQuestion, same: bool | None, error: float = REVIEW_ERROR) -> None:
        """Learn from an answer how reliable reports are; None skips the question."""
        self._answers.append((question, same, error))
        if same is None:
            self.pass_over(question)
            self._around.append(self._around[-1])
        else:
            asked = self._held.get(question.subproblem)
            beside = () if asked is None else (*asked.first.tolist(), *asked.second.tolist())
            self._around.append({question.first, question.second, *beside})
            self._learn()

    def undo(self) -> None:
        """Undo the last answer; `update` adds the subproblems that it had changed."""
        question, same, _ = self._answers.pop()
        self._around.pop()
        if same is None:
            self._passed.discard((question.first, question.second))
            self._ranks.clear()
        else:
            self._learn()

    def _learn(self) -> None:
        known = [one for one in self._answers if one[1] is not None]
        reported = np.array([question.reported for question, _, _ in known], np.float64)
        same = np.array([same for _, same, _ in known], np.bool_)
        error = np.array([error for *_, error in known], np.float64)
        self._belief = update(self._before, _logit(reported), same, error)
        self._ranks.clear()
        held = self._held.items()
        around = np.array(list(self._around[-1]), np.int64)
        self._near = {n for n, asked in held if np.isin(asked.first, around).any()}

    def _ranked(self) -> Iterable[int]:
        """Rank what is not ranked; returns the names of all subproblems with questions."""
        for name in self._held.keys() - self._ranks.keys():
            asked = self._held[name]
            rank = values(asked, self.believed(asked.reported), REVIEW_ERROR)
            pairs = zip(asked.first.tolist(), asked.second.tolist(), strict=True)
            for place, pair in enumerate(pairs):
                if pair in self._passed or pair in self._unsettled:
                    rank[place] = -np.inf
            best, some = int(np.argmax(rank)), int((rank >= LEAST).sum())
            worth = 1 + math.log2(some) if some else 0.0  # an answer settles half of them
            self._ranks[name] = _Rank(float(rank[best]), -name, best, worth)
        return self._ranks

    def _best(self, names: Iterable[int]) -> _Rank | None:
        """The best of ranked subproblems, if one has a question that was not skipped."""
        best = max((self._ranks[name] for name in names if name in self._ranks), default=None)
        return None if best is None or best.value == -np.inf else best

    def _question(self, name: int, place: int) -> PairQuestion:
        one = self._held[name].where(np.array([place]))
        against = one.against(self.believed(one.reported))
        believed = np.where(one.joined, 1 - against, against)
        return PairQuestion(
            subproblem=name,
            first=int(one.first[0]),
            second=int(one.second[0]),
            reported=float(one.reported[0]),
            believed=float(believed[0]),
            joined=bool(one.joined[0]),
            value=float(values(one, believed, REVIEW_ERROR)[0]),
            information=float(information(believed, REVIEW_ERROR)[0]),
        )


def _logit(p: FloatArray) -> FloatArray:
    """The features for the belief, shape [pairs, 1]."""
    inside = np.clip(p, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(inside) - np.log1p(-inside))[:, None]
