"""Chooses the most useful pairs to ask people about.

Both queues have `next`, `add` (an answer; None is "unknown") and `undo`. A `GroupingQueue` chooses
between candidate groupings of a sample, a `PosteriorQueue` corrects the groupings of a posterior.

**Belief.** The log odds that a pair is one entity are linear in its features v:

    f(v) = w_0 + sum over k of w_k v_k

where w has a Gaussian prior. People and programs err: an answer "same" has probability
e + (1 - 2 e) sigmoid(f), where e is the rate of its answerer. The posterior of w is approximated by
a Gaussian at its mode (Laplace), found by Fisher scoring with halved steps (McCullagh and Nelder
1989, 2.5; the link is that of Pregibon's contaminated binomial, 1982).

**Groupings.** Candidates vote on each pair: v_k is 1 if candidate k joins it, else 0. A pair that
no candidate joins is probably not one entity, and a pair that all join probably is; in between,
votes count by the prior weight p_k of the candidate:

    E w_0 = -H,  E w_k = 2 H p_k;  sd w_0 = S_0,  var w_k = S^2 (p_k + 1 / K) / 2

The candidates along one merge path join ever more pairs. So f follows the path as a random walk,
and an answer about one height is most informative about the heights beside it.

Pairs that the same candidates join are equivalent for choosing between the candidates. They form a
*cell*:

| symbol | meaning |
|---|---|
| K | candidates |
| n | fragments of the sample that all candidates group |
| I | probes: the fragments whose pairs are listed |
| C | cells |
| v[c, k] | whether candidate k joins the pairs of cell c |
| N[i, c] | the number of pairs of cell c with probe i |
| a[i, k] | the size of probe i's cluster in candidate k |

Pairs that no candidate joins are in no cell. Fragments that are alone in every candidate are not
probes. A candidate's value is its expected B-cubed F1 (mean over items) on the probes. With q the
believed probability that a pair of a cell is one entity:

    n_ik = 1 + sum over c of N_ic v_ck q_c      expected fragments of i's cluster that belong there
    b_i  = 1 + sum over c of N_ic q_c           expected fragments of i's entity
    F_k  = mean over i of 2 n_ik / (a_ik + b_i)

F is linear in w near the mean: with J its Jacobian and S the covariance of w, that of F is J S J'.
An answer about cell c reduces the variance of F_k by (J_k S x_c)^2 / (1 / I_c + x_c' S x_c). The
next question is about the cell that most reduces the variance of the differences between the leader
and its rivals, each weighted by the probability that the rival is better. The pair is drawn at
random within the cell, so answers are a stratified sample of it.

Every third question is an *audit*: it draws an entity of the leader at random, and asks about the
entity's pair that is most probably wrong. The share of failed audits estimates the share of wrong
entities.

Before any answer the candidates' values are their predicted gains. These differ from their values
under the prior belief, and after t answers m / (m + t) of the difference is still added.

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
So the belief reads v = logit p of the particles' reported probability p. Before any answer w_1 is
1; the standard deviations are 1 nat for w_0 and 1/2 for w_1. Answers change the posterior, and the
queue follows it (`update`, `gone`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, ndtr, xlog1py, xlogy

from kbforge.contracts import Cluster, FloatArray, IntArray, Subproblem
from kbforge.evaluation.reliability import BoolArray
from kbforge.files.answers import AUDIT, INFORMATIVE, PERSON_RIGHT, NumberedAnswer

ERROR = 1 - PERSON_RIGHT
"""e: the probability that a person's answer about a file is wrong."""

Error: TypeAlias = float | FloatArray

_H = 3.0  # nats: a pair that no candidate joins has odds of one to twenty
_OFFSET = 1.0  # S_0 and the sd of w_0, nats
_SPREAD = 3.0  # S, nats: what all votes together may be off by
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


def prior(weights: FloatArray) -> Belief:
    """The belief before any answer, given the weights p of the candidates, sum 1, shape [K]."""
    mean = np.append(-_H, 2 * _H * weights)
    variance = np.append(_OFFSET**2, _SPREAD**2 * (weights + 1 / len(weights)) / 2)
    return Belief(mean, np.diag(variance))


def update(
    before: Belief, votes: BoolArray | FloatArray, same: BoolArray, error: Error = ERROR
) -> Belief:
    """The belief after answers `same` [answers] about pairs with these votes [answers, K].

    `error` may be one for each answer, shape [answers].
    """
    if not len(votes):
        return before
    x = design(votes)
    precision = np.linalg.inv(before.covariance)

    def loss(w: FloatArray) -> float:
        off = w - before.mean
        said = said_same(x @ w, error)
        return float(off @ precision @ off / 2 - np.log(np.where(same, said, 1 - said)).sum())

    w = before.mean
    value = loss(w)
    for _ in range(_STEPS):
        gradient, fisher = _scores(x, same, w, error)
        slope = gradient - precision @ (w - before.mean)
        step = np.linalg.solve(precision + fisher, slope)
        while (lower := loss(w + step)) > value and np.abs(step).max() > _CONVERGED:
            step = step / 2
        if lower > value:
            break
        w, value = w + step, lower
        if np.abs(step).max() <= _CONVERGED:
            break
    _, fisher = _scores(x, same, w, error)
    return Belief(w, np.asarray(np.linalg.inv(precision + fisher), np.float64))


def design(votes: BoolArray | FloatArray) -> FloatArray:
    """The vectors that w is multiplied by, shape [pairs, K + 1]."""
    return np.column_stack([np.ones(len(votes)), votes]).astype(np.float64)


def said_same(logit: FloatArray, error: Error = ERROR) -> FloatArray:
    """The probability of the answer "same", same shape."""
    return np.asarray(error + (1 - 2 * error) * expit(logit), np.float64)


def information_of(logit: FloatArray, error: Error = ERROR) -> FloatArray:
    """The expected Fisher information of an answer about f, same shape."""
    p, said = expit(logit), said_same(logit, error)
    return np.asarray(((1 - 2 * error) * p * (1 - p)) ** 2 / (said * (1 - said)), np.float64)


def _scores(
    x: FloatArray, same: BoolArray, w: FloatArray, error: Error
) -> tuple[FloatArray, FloatArray]:
    """Gradient of the log likelihood, shape [K + 1], and its expected information."""
    logit = x @ w
    p, said = expit(logit), said_same(logit, error)
    slope = (1 - 2 * error) * p * (1 - p)
    gradient = x.T @ (slope * (same - said) / (said * (1 - said)))
    return gradient, (x * information_of(logit, error)[:, None]).T @ x


MOST_PROBES = 512
_MOST_PAIRS = 200_000  # listed at most, whatever the candidates join
_WORD = 8  # bytes


@dataclass(frozen=True, slots=True)
class Votes:
    """The cells of a sample, and its listed pairs: numbers of probe, other fragment and cell."""

    cells: BoolArray  # v [C, K]
    counts: sparse.csr_array  # N [I, C]
    sizes: FloatArray  # a [I, K]
    share: float  # of the sample that is not alone in all candidates: what the probes stand for
    probe: IntArray  # [pairs], ascending
    other: IntArray  # [pairs]
    cell: IntArray  # [pairs]


def count_votes(groupings: IntArray, rng: np.random.Generator) -> Votes:
    """The cells of candidate groupings [K, n]; of many fragments `rng` draws the probes."""
    k, n = groupings.shape
    sizes = np.stack([np.bincount(row, minlength=1)[row] for row in groupings])  # [K, n]
    joined = np.flatnonzero((sizes > 1).any(axis=0))
    probes, partners, patterns = [], [], []
    listed = 0
    for i in rng.permutation(joined)[:MOST_PROBES].tolist():
        together = groupings == groupings[:, i, None]  # [K, n]
        together[:, i] = False
        others = np.flatnonzero(together.any(axis=0))
        probes.append(i)
        partners.append(others)
        patterns.append(np.packbits(together[:, others], axis=0).T)  # [others, bytes]
        listed += len(others)
        if listed >= _MOST_PAIRS:
            break
    if not probes:
        nothing = np.zeros(0, np.int64)
        none, nobody = np.zeros((0, k), np.bool_), sparse.csr_array((0, 0))
        return Votes(none, nobody, np.zeros((0, k)), 0.0, nothing, nothing, nothing)
    lengths = np.array([len(others) for others in partners])
    order = np.argsort(probes)
    row = np.repeat(np.argsort(order), lengths)
    bits = np.concatenate(patterns)
    distinct, cell = _distinct(bits)
    cells = np.unpackbits(distinct, axis=1, count=k).astype(np.bool_)
    counts = sparse.csr_array((np.ones(len(row)), (row, cell)), shape=(len(probes), len(cells)))
    counts.sum_duplicates()
    listed_order = np.argsort(row, kind="stable")
    chosen = np.array(probes)[order]
    return Votes(
        cells=cells,
        counts=counts,
        sizes=sizes[:, chosen].T.astype(np.float64),
        share=len(joined) / n,
        probe=chosen[row[listed_order]],
        other=np.concatenate(partners)[listed_order],
        cell=cell[listed_order],
    )


def votes_on(groupings: IntArray, first: IntArray, second: IntArray) -> BoolArray:
    """Which candidates join pairs, shape [pairs, K]."""
    together: BoolArray = groupings[:, first] == groupings[:, second]
    return together.T


def _distinct(bits: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], IntArray]:
    """The distinct rows, and the number of each row."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // _WORD) * _WORD), np.uint8)
    padded[:, : bits.shape[1]] = bits
    words = padded.view(">u8")
    order = np.lexsort(words.T[::-1])
    ordered = words[order]
    begins = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    number = np.empty(len(bits), np.int64)
    number[order] = np.cumsum(begins) - 1
    return bits[order[begins]], number


_JUDGED = 2.0  # m: answers after which the belief counts as much as the predicted gains
_TEMPERATURE = 0.1  # of F1: candidates predicted to be so much worse weigh 1/e
_LEAST_VARIANCE = 1e-8
_AUDITED = 3  # every so many-th question audits an entity


@dataclass(frozen=True, slots=True)
class CandidatePair:
    """A pair of a sample to ask about, by numbers of its fragments."""

    first: int
    second: int
    how: str  # "informative" or "audit"
    joined: float  # prior weight of the candidates that put them together, in [0, 1]
    share: float  # of all listed pairs that have the same votes, in (0, 1]


class GroupingQueue:
    """Questions that determine the best of some groupings.

    `groupings` has the cluster of each fragment, [K, n]; `gains` the predicted F1 gains over a
    fixed grouping, [K]. Fragments with equal numbers in `alike` [n] are identical, and no question
    pairs them.
    """

    def __init__(
        self, groupings: IntArray, gains: FloatArray, alike: IntArray, seed: int = 0
    ) -> None:
        self._groupings, self._gains, self._alike, self._seed = groupings, gains, alike, seed
        self._votes = count_votes(groupings, np.random.default_rng([seed, len(gains)]))
        weights = np.exp((gains - gains.max()) / _TEMPERATURE)
        self.weights: FloatArray = weights / weights.sum()
        self._prior = prior(self.weights)
        self._answers: list[tuple[int, int, bool | None, float]] = []
        self._before = self._worth_by(self._prior)[0]

    @cached_property
    def belief(self) -> Belief:
        """The belief after the answers so far."""
        known = self._known()
        first, second = (np.array([one[k] for one in known], np.int64) for k in (0, 1))
        same = np.array([one[2] for one in known], np.bool_)
        error = np.array([one[3] for one in known], np.float64)
        return update(self._prior, votes_on(self._groupings, first, second), same, error)

    def _known(self) -> list[tuple[int, int, bool | None, float]]:
        return [one for one in self._answers if one[2] is not None]

    def add(
        self, pair: CandidatePair | NumberedAnswer, same: bool | None, error: float = ERROR
    ) -> None:
        """Add an answer, and the probability that it is wrong; None is "unknown"."""
        self._answers.append((pair.first, pair.second, same, error))
        self._forget_worth()

    def undo(self) -> None:
        """Forget the last answer."""
        self._answers.pop()
        self._forget_worth()

    def _forget_worth(self) -> None:
        for name in ("belief", "_worth"):
            self.__dict__.pop(name, None)

    def scores(self) -> FloatArray:
        """Expected F1 of the candidates minus that of the first, shape [K]."""
        rest = _JUDGED / (_JUDGED + len(self._known()))
        after, _ = self._worth
        return np.asarray(after + rest * (self._gains - self._gains[0] - self._before))

    def best(self) -> int:
        """The candidate with the largest expected F1; the first of equals."""
        return int(np.argmax(self.scores()))

    def next(self) -> CandidatePair | None:
        """The pair to ask about; None if nothing is left to ask."""
        open_pairs = self._open()
        if not len(open_pairs):
            return None
        rng = np.random.default_rng([self._seed, len(self._answers)])
        if len(self._answers) % _AUDITED == _AUDITED - 1:
            return self._audit(open_pairs, rng)
        cells = np.unique(self._votes.cell[open_pairs])
        value = self._value(cells)
        if not value.max() > 0:
            return self._audit(open_pairs, rng)
        cell = cells[int(np.argmax(value))]
        pairs = open_pairs[self._votes.cell[open_pairs] == cell]
        # a random probe of the cell, then a random pair of it: items count alike
        probes = self._votes.probe[pairs]
        pairs = pairs[probes == rng.choice(np.unique(probes))]
        return self._pair_at(int(rng.choice(pairs)), INFORMATIVE)

    def _open(self) -> IntArray:
        """The listed pairs, without those that equal a pair already asked about."""
        pair = self._pair_names(self._votes.probe, self._votes.other)
        first, second = (np.array([a[k] for a in self._answers], np.int64) for k in (0, 1))
        asked = self._pair_names(first, second)
        return np.flatnonzero(~np.isin(pair, asked))

    def _pair_names(self, first: IntArray, second: IntArray) -> IntArray:
        one, other = self._alike[first], self._alike[second]
        return np.minimum(one, other) * len(self._alike) + np.maximum(one, other)

    def _audit(self, pairs: IntArray, rng: np.random.Generator) -> CandidatePair:
        """A random entity of the leader, and its pair that is most probably wrong."""
        leader = self._groupings[self.best()]
        probe, other = self._votes.probe[pairs], self._votes.other[pairs]
        drawn = np.unique(probe)
        chance = 1 / np.bincount(leader)[leader[drawn]]
        chosen = rng.choice(drawn, p=chance / chance.sum())
        mine = np.flatnonzero(probe == chosen)
        q = self.belief.probability(self._votes.cells[self._votes.cell[pairs[mine]]])
        together = leader[other[mine]] == leader[chosen]
        return self._pair_at(int(pairs[mine[np.argmax(np.where(together, 1 - q, q))]]), AUDIT)

    def _pair_at(self, pair: int, how: str) -> CandidatePair:
        cell = int(self._votes.cell[pair])
        return CandidatePair(
            first=int(self._votes.probe[pair]),
            second=int(self._votes.other[pair]),
            how=how,
            joined=min(float(self._votes.cells[cell] @ self.weights), 1.0),
            share=float(np.mean(self._votes.cell == cell)),
        )

    def _value(self, cells: IntArray) -> FloatArray:
        """How much an answer reduces the variance of the decision, shape [cells]."""
        mean, jacobian = self.scores(), self._worth[1]
        leader = int(np.argmax(mean))
        difference = jacobian - jacobian[leader]  # [K, K + 1]
        covariance = self.belief.covariance
        apart = ((difference @ covariance) * difference).sum(axis=1)
        doubt = np.sqrt(np.maximum(apart, _LEAST_VARIANCE))
        rival = ndtr((mean - mean[leader]) / doubt)
        rival[leader] = 0.0
        x = design(self._votes.cells[cells])
        logit, spread = self.belief.logit(self._votes.cells[cells])
        taken = (difference @ covariance @ x.T) ** 2  # [K, cells]
        said = information_of(logit / np.sqrt(1 + np.pi * spread / 8))
        value: FloatArray = rival @ taken * said / (1 + said * spread)
        return value

    @cached_property
    def _worth(self) -> tuple[FloatArray, FloatArray]:
        return self._worth_by(self.belief)

    def _worth_by(self, belief: Belief) -> tuple[FloatArray, FloatArray]:
        """F minus that of the first candidate, shape [K], and J, shape [K, K + 1]."""
        votes = self._votes
        if not len(votes.cells):
            k = len(self._gains)
            return np.zeros(k), np.zeros((k, k + 1))
        v = votes.cells.astype(np.float64)  # [C, K]
        q = belief.probability(votes.cells)
        n = 1 + votes.counts @ (v * q[:, None])  # [I, K]
        total = votes.sizes + (1 + votes.counts @ q)[:, None]
        scale = votes.share / len(n)
        f = scale * (2 * n / total).sum(axis=0)
        by_cell = votes.counts.T @ (2 / total) * v - votes.counts.T @ (2 * n / total**2)  # [C, K]
        logit, _ = belief.logit(votes.cells)
        p = expit(logit)
        x = design(votes.cells)
        jacobian = scale * (by_cell * (p * (1 - p))[:, None]).T @ x
        return f - f[0], jacobian


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

    def __len__(self) -> int:
        return len(self.first)

    def where(self, chosen: IntArray) -> QuestionTable:
        """Some of the pairs, by their places."""
        return QuestionTable(*(getattr(self, name)[chosen] for name in self.__slots__))


def pairs_of(parts: SubproblemParts) -> QuestionTable:
    """The pairs of parts on which particles disagree, and their values."""
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
    against = np.where(asked.joined, 1 - believed, believed)
    value: FloatArray = (1 - error) * against * asked.gained + error * (1 - against) * asked.harmed
    return value


def information(believed: FloatArray, error: float) -> FloatArray:
    """The information of answers about the partition, in nats, same shape."""
    said = believed * (1 - error) + (1 - believed) * error
    entropy, of_errors = (-xlogy(p, p) - xlog1py(1 - p, -p) for p in (said, error))
    return np.asarray(np.maximum(entropy - of_errors, 0.0))


MOST_EACH = 16
"""Maximum number of cached questions about a subproblem; its answer brings others."""

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


class PosteriorQueue:
    """Questions that correct the point estimate of a posterior."""

    def __init__(self) -> None:
        spread = np.array([_OFFSET, _SLOPE_SPREAD])
        self._before = self._belief = Belief(np.array([0.0, 1.0]), np.diag(spread**2))
        self._answers: list[tuple[PairQuestion, bool | None, float]] = []
        self._held: dict[int, QuestionTable] = {}  # the questions of each subproblem
        self._passed: set[tuple[int, int]] = set()
        self._heap: list[tuple[float, int, int]] = []  # (-rank, name, place), the best of each
        self._stale = False

    def __len__(self) -> int:
        """The number of subproblems with questions."""
        return len(self._held)

    def update(self, subproblems: Iterable[Subproblem]) -> None:
        """Add subproblems that are new or have changed; a name is the first fragment."""
        for subproblem in subproblems:
            name = subproblem.fragments[0]
            self._held.pop(name, None)
            asked = pairs_of(parts_of(subproblem))
            if len(asked):
                # the best if all reports are true
                value = values(asked, asked.reported, REVIEW_ERROR)
                self._held[name] = asked.where(np.argsort(-value, kind="stable")[:MOST_EACH])
                if not self._stale:
                    self._push(name)

    def gone(self, names: Iterable[int]) -> None:
        """Forget subproblems that no longer exist; unknown names are ignored."""
        for name in names:
            self._held.pop(name, None)

    def next(self) -> PairQuestion | None:
        """The most valuable question that was not skipped; None if there is none."""
        if self._stale:
            self._heap = []
            for name in self._held:
                self._push(name)
            self._stale = False
        while self._heap:
            rank, name, place = self._heap[0]
            if self._top(name) == (-rank, place):
                return self._question(name, place)
            heapq.heappop(self._heap)
        return None

    def pass_over(self, question: PairQuestion) -> None:
        """Do not ask about this pair again."""
        self._passed.add((question.first, question.second))
        if question.subproblem in self._held and not self._stale:
            self._push(question.subproblem)

    def skip(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Do not ask about these pairs of fragments."""
        self._passed.update((min(pair), max(pair)) for pair in pairs)
        self._stale = True

    def add(self, question: PairQuestion, same: bool | None, error: float = REVIEW_ERROR) -> None:
        """Learn from an answer how reliable reports are; None skips the question."""
        self._answers.append((question, same, error))
        if same is None:
            self.pass_over(question)
        else:
            self._learn()

    def undo(self) -> None:
        """Undo the last answer; `update` adds the subproblems that it had changed."""
        question, same, _ = self._answers.pop()
        if same is None:
            self._passed.discard((question.first, question.second))
            self._stale = True
        else:
            self._learn()

    def _learn(self) -> None:
        known = [one for one in self._answers if one[1] is not None]
        reported = np.array([question.reported for question, _, _ in known], np.float64)
        same = np.array([same for _, same, _ in known], np.bool_)
        error = np.array([error for *_, error in known], np.float64)
        self._belief = update(self._before, _logit(reported), same, error)
        self._stale = True

    def _push(self, name: int) -> None:
        top = self._top(name)
        if top is not None:
            heapq.heappush(self._heap, (-top[0], name, top[1]))

    def _top(self, name: int) -> tuple[float, int] | None:
        """The rank and the place of the best cached question about a subproblem, if any."""
        if name not in self._held:
            return None
        asked = self._held[name]
        rank = values(asked, self._belief.probability(_logit(asked.reported)), REVIEW_ERROR)
        pairs = zip(asked.first.tolist(), asked.second.tolist(), strict=True)
        for place, pair in enumerate(pairs):
            if pair in self._passed:
                rank[place] = -np.inf
        place = int(np.argmax(rank))
        return None if rank[place] == -np.inf else (float(rank[place]), place)

    def _question(self, name: int, place: int) -> PairQuestion:
        one = self._held[name].where(np.array([place]))
        believed = self._belief.probability(_logit(one.reported))
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
