"""Estimates precision, recall and F1 from a person's answers about sampled pairs and entities.

Any grouping can be audited; nobody has labelled anything. The steps: a pool of pairs and entities
(`kbforge.fit.audit`), its strata and what is expected of them (`Strata`), a sample
(`next_stratum`), a posterior of the rates by the answers (`posterior`), and estimates with
intervals (`of_pairs`, `of_entities`).

**Pairs.** All pairs of the n fragments are in strata: those that the grouping joins and those that
it does not, each by log odds that a model of pairs gives; last the pairs that the model does not
compare.

| symbol | meaning |
|---|---|
| N_h | pairs of stratum h |
| m_h, s_h | answers about pairs drawn uniformly from h, and how many of them are "same" |
| r_h | the rate of pairs of h that are one entity; f_h = logit r_h |
| t_h | number of pairs of h that are one entity |

    f ~ N(mu, K),  s_h ~ Binomial(m_h, r_h),  t_h = s_h + Binomial(N_h - m_h, r_h)
    TP = sum of t_h over joined strata,  FN = sum over the others
    P = TP / joined pairs,  R = TP / (TP + FN),  F1 = 2 TP / (joined pairs + TP + FN)

As in OASIS (Marchant and Rubinstein 2017), strata come from a model's scores, rates have a prior,
and the answers so far say where to ask next. Two things differ. OASIS weighs each answer by the
inverse of its probability and takes a normal interval, which covers badly where a few matches hide
among a hundred thousand pairs; here the estimate is the mean of the posterior, and the interval its
quantiles. Its strata are independent; here neighbours are correlated (K), so that pairs near the
cut tell how many matches to expect farther away. An answer's stratum depends on earlier answers
only, so the likelihood is the same as if it had been fixed (Gelman et al. 2013, 8.2).

mu and K are rounded from 25 labelled sets with two groupings each. Below log odds of 0, what is
similar among files is not the rate but t_h / S, where S is the number of joined pairs and those
expected to be missing.

**Entities.** An entity is right if it is exactly a true one. Entities are drawn uniformly. For a
fragment x drawn from one, the answers tell whether all others of it are one with x, and which of
the nearest other entities are. So |g|, the fragments of x's true entity, is known, and |C| / |g| is
an unbiased estimate of the part that the entity C has in the number of true entities (the sum over
the fragments y of C of 1 / |g(y)|; Binette et al. 2023 weigh sampled records in the same way):

    P = mean of right,  R = mean of right / mean of |C| / |g|,  F1 = 2 right / (1 + |C| / |g|)

The means have a Bayesian bootstrap (Rubin 1981) with pseudo-observations of half an entity that is
right and half a wrong one, so that the interval of P is that of Jeffreys. A wrong entity may still
seem right, because what it lacks shares nothing with it. With u the share of wrong entities that
do, 1 - P = (1 - mean of what seems right) / (1 - u): the more entities are seen to be wrong, the
more others are. u is drawn; on the labelled sets it is 0 to .5.

**Ends.** A stratum in which no error was found may have none. So upper ends count none there, as
Brown, Cai and DasGupta (2001) let an interval end at 1 if all answers are "right".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from kbforge.contracts import FloatArray, IntArray
from kbforge.evaluation.reliability import BoolArray

LEVEL = 0.95

JOINED_CUTS = (-1.0, 0.0, 2.0, 4.0, 6.0)
"""Log odds between the strata of joined pairs, nats; from the last on they state the same."""
APART_CUTS = (-5.0, -3.0, -1.0, 0.0, 2.0)
"""Log odds between the strata of other pairs that are compared, nats."""
REACHED = -3.0
"""Log odds from which on an examined entity's nearest are asked about, nats."""

_JOINED = ((-1.0, 2.5), (-0.3, 2.0), (0.8, 2.0), (2.5, 1.8), (4.0, 1.5), (2.5, 2.2))
_APART = ((-1.0, 2.2), (0.5, 2.2))  # from log odds of 0 on; mean and sd of f, as above
_MISSING = ((0.0006, 2.2), (0.003, 2.3), (0.012, 2.4), (0.015, 2.2))  # of t / S: median, sd of log
_ELSEWHERE = (0.003, 1.5)  # the same for pairs that are not compared
_NEIGHBOURS = (0.4, 0.75)  # correlation of neighbouring strata: joined, apart
_MOST_RATE = 0.3  # of a stratum that is small beside S
_CHAINS, _STEPS = 500, 25
_OVERLOOKED, _MOST_OVERLOOKED = (0.12, 0.6), 0.6
"""u, the share of wrong entities that seem right: median, sd of log; and its bound."""
_WRONG_SHARES = (0.5, 1.0, 2.0)  # |C| / |g| of the half pseudo-observation that is wrong


@dataclass(frozen=True, slots=True)
class Strata:
    """The strata of all pairs, joined ones first; arrays of shape [strata]."""

    joined: BoolArray
    sizes: FloatArray  # N
    compared: BoolArray  # whether pairs can be drawn
    mean: FloatArray  # mu, logits
    factor: FloatArray  # [strata, strata] Cholesky factor of K

    @classmethod
    def of(cls, joined: IntArray, apart: IntArray, odds: FloatArray, n: int) -> Strata:
        """By the numbers of pairs between the cuts, and the mean odds of `apart` ones there."""
        nearby = np.searchsorted(APART_CUTS, 0.0, side="right") + np.arange(len(_APART))
        expected = joined.sum() + apart[nearby] @ expit(odds[nearby])
        elsewhere = max(n * (n - 1) // 2 - joined.sum() - apart.sum(), 0)
        sizes = np.concatenate([joined, apart, [elsewhere]]).astype(np.float64)
        few, far = len(joined), len(_MISSING)
        shares = np.array([*_MISSING, _ELSEWHERE])
        counts = np.maximum(np.append(sizes[few : few + far], elsewhere), 1)
        missing = logit(np.clip(max(expected, 1) * shares[:, 0] / counts, 1e-12, _MOST_RATE))
        f, g = np.array(_JOINED), np.array(_APART)
        mean = np.concatenate([f[:, 0], missing[:far], g[:, 0], missing[far:]])
        spread = np.concatenate([f[:, 1], shares[:far, 1], g[:, 1], shares[far:, 1]])
        group = np.repeat([0, 1, 2], [few, len(apart), 1])
        steps = np.abs(np.subtract.outer(np.arange(len(mean)), np.arange(len(mean))))
        alike = np.array([*_NEIGHBOURS, 0.0])[group] ** steps * (group[:, None] == group)
        return cls(
            joined=group == 0,
            sizes=sizes,
            compared=(group < 2) & (sizes > 0),
            mean=mean,
            factor=np.linalg.cholesky(alike * np.outer(spread, spread)),
        )


@dataclass(frozen=True, slots=True)
class PairAnswers:
    """What is known of each stratum; arrays of shape [strata]."""

    same: FloatArray  # s; not whole numbers if answers have different weights
    asked: FloatArray  # m

    @classmethod
    def weighted(
        cls, strata: Strata, at: IntArray, same: BoolArray, weight: FloatArray
    ) -> PairAnswers:
        """Answers about pairs of strata `at`, by the number of pairs that each stands for.

        Their effective number is (sum of weights)^2 / (sum of squares) (Kish 1965).
        """
        k = len(strata.sizes)
        total, squares = (np.bincount(at, weight**power, k) for power in (1, 2))
        asked = np.minimum(total**2 / np.maximum(squares, 1e-300), strata.sizes)
        share = np.bincount(at, weight * same, k) / np.maximum(total, 1e-300)
        return cls(asked * share, asked)


def posterior(strata: Strata, known: PairAnswers, rng: np.random.Generator) -> FloatArray:
    """Draws of the rates r, shape [draws, strata].

    Elliptical slice sampling (Murray, Adams and MacKay 2010), in many short chains at once.
    """

    def log_likelihood(off: FloatArray) -> FloatArray:
        f = off + strata.mean
        return np.asarray((known.same * f - known.asked * np.logaddexp(0.0, f)).sum(axis=1))

    def from_prior() -> FloatArray:
        return np.asarray(rng.standard_normal((_CHAINS, len(strata.mean))) @ strata.factor.T)

    off = from_prior()
    level = log_likelihood(off)
    for _ in range(_STEPS):
        other, threshold = from_prior(), level + np.log(rng.random(_CHAINS))
        angle = rng.random(_CHAINS) * 2 * np.pi
        low, high = angle - 2 * np.pi, angle.copy()
        begun, at = off.copy(), np.arange(_CHAINS)
        while len(at):
            turned = begun[at] * np.cos(angle[at])[:, None] + other[at] * np.sin(angle[at])[:, None]
            reached = log_likelihood(turned)
            accepted = reached > threshold[at]
            off[at[accepted]], level[at[accepted]] = turned[accepted], reached[accepted]
            at = at[~accepted]
            low[at] = np.where(angle[at] < 0, angle[at], low[at])
            high[at] = np.where(angle[at] < 0, high[at], angle[at])
            angle[at] = low[at] + rng.random(len(at)) * (high[at] - low[at])
    return np.asarray(expit(off + strata.mean))


def next_stratum(
    strata: Strata, known: PairAnswers, rates: FloatArray, rng: np.random.Generator
) -> int:
    """The stratum to draw a pair from, with probability in proportion to what an answer is worth.

    That is how much it reduces the variances of precision and recall (linear Bayes):
    Cov(P, r_h)^2 / E[r_h (1 - r_h)], and the same for R.
    """
    left = np.maximum(strata.sizes - known.asked, 0)
    counts = known.same + left * rates
    off = rates - rates.mean(axis=0)
    worth = np.zeros(len(left))
    for score in _scores(strata, counts)[:2]:
        covariance = (score - score.mean()) @ off / len(off)
        worth += covariance**2 / np.maximum((rates * (1 - rates)).mean(axis=0), 1e-12)
    worth[~strata.compared | (left < 1)] = 0.0
    return int(rng.choice(len(worth), p=worth / worth.sum())) if worth.sum() > 0 else -1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A score in [0, 1], and the ends of its interval."""

    value: float
    low: float
    high: float


ThreeScores = tuple[Estimate, Estimate, Estimate]
"""Precision, recall and F1."""


def of_pairs(
    strata: Strata, known: PairAnswers, rates: FloatArray, rng: np.random.Generator
) -> ThreeScores:
    """The scores of pairs, by the posterior of the rates."""
    left = np.maximum(np.rint(strata.sizes - known.asked), 0).astype(np.int64)
    counts = known.same + rng.binomial(left, rates)
    wrong = np.where(strata.joined, known.asked - known.same, known.same)
    flawless = np.where(strata.joined, strata.sizes, 0.0)
    best = np.where(wrong > 0, counts, flawless)
    scores = _scores(strata, counts)
    return _estimates(scores, scores, _scores(strata, best))


def of_entities(right: BoolArray, share: FloatArray, rng: np.random.Generator) -> ThreeScores:
    """The scores of entities, by those examined: whether right, and |C| / |g|.

    Even with all examined there is an interval: what is elsewhere may have been overlooked.
    """
    examined = len(right)
    median, spread = _OVERLOOKED
    drawn = median * np.exp(spread * rng.standard_normal(_CHAINS))
    overlooked = np.minimum(drawn, _MOST_OVERLOOKED)
    pseudo = len(_WRONG_SHARES)
    rightness = np.concatenate([right, [1.0], np.zeros(pseudo)])
    shares = np.concatenate([share, [1.0], _WRONG_SHARES])
    prior = np.concatenate([np.ones(examined), [0.5], np.full(pseudo, 0.5 / pseudo)])
    weight = rng.standard_gamma(prior, (_CHAINS, len(prior)))
    weight /= weight.sum(axis=1, keepdims=True)

    def scored(u: FloatArray | float) -> tuple[FloatArray, FloatArray, FloatArray]:
        seems, parts = weight @ rightness, weight @ shares
        e = np.maximum(1 - (1 - seems) / (1 - u), 0.0)
        g = parts - (seems - e) / 2  # one of two parts of an entity
        return e, e / g, 2 * e / (1 + g)

    best = scored(0.0)
    if right.all() and examined:
        best = (np.ones(1), np.ones(1), np.ones(1))
    worst = scored(overlooked)
    none = (np.zeros(1),) * 3
    return _estimates(worst, worst if right.any() else none, best)


def _scores(strata: Strata, counts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Precision, recall and F1 of draws of t [draws, strata]; an empty ratio is 1."""
    total = strata.sizes[strata.joined].sum()
    true, missing = counts @ strata.joined, counts @ ~strata.joined
    precision = true / total if total else np.ones(len(true))
    recall = np.where(true + missing > 0, true / np.maximum(true + missing, 1e-300), 1.0)
    all_of_both = np.maximum(total + true + missing, 1e-300)
    f1 = np.where(total + true + missing > 0, 2 * true / all_of_both, 1.0)
    return precision, recall, f1


def _estimates(
    scores: Sequence[FloatArray], worst: Sequence[FloatArray], best: Sequence[FloatArray]
) -> ThreeScores:
    """Means, lower quantiles of the worst case, and upper quantiles of the best."""
    tail = (1 - LEVEL) / 2
    found = []
    for mean, low, high in zip(scores, worst, best, strict=True):
        ends = float(np.quantile(low, tail)), float(np.quantile(high, 1 - tail))
        found.append(Estimate(float(np.clip(mean.mean(), *ends)), *ends))
    return found[0], found[1], found[2]
