"""Beliefs about pairs: the weight of each candidate grouping's vote.

The log odds that a pair is of one entity are linear in the votes v of the candidates (1 where a
candidate puts the pair together, else 0):

    f(v) = w_0 + sum over k of w_k v_k

Before any answer w is Gaussian. A pair that no candidate joins is hardly one entity, and a pair
that all join hardly is not; between the two, votes count by the prior weight p_k of the candidate:

    E w_0 = -H,  E w_k = 2 H p_k;  sd w_0 = S_0,  var w_k = S^2 (p_k + 1 / K) / 2

The candidates along one merge path join ever more pairs. So f goes along the path as a random walk,
and an answer about one height says most about the heights beside it.

People err: an answer "same" has probability e + (1 - 2 e) sigmoid(f). The posterior of w is
approximated by a Gaussian at its mode (Laplace), found by Fisher scoring with halved steps
(McCullagh and Nelder 1989, 2.5; the link is that of Pregibon's contaminated binomial, 1982).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from kbforge.contracts import FloatArray
from kbforge.evaluation.reliability import BoolArray

ERROR = 0.05
"""e: how often a person's answer is wrong."""

_H = 3.0  # nats: a pair that no candidate joins has odds of one to twenty
_OFFSET = 1.0  # S_0, nats
_SPREAD = 3.0  # S, nats: what all votes together may be off by
_STEPS = 50
_CONVERGED = 1e-9


@dataclass(frozen=True, slots=True)
class Belief:
    """A Gaussian over w.

    Attributes:
        mean: shape [K + 1], the offset first.
        covariance: shape [K + 1, K + 1].

    """

    mean: FloatArray
    covariance: FloatArray

    def logit(self, votes: BoolArray | FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of f for pairs with these votes, shape [pairs] each.

        Args:
            votes: shape [pairs, K].

        """
        x = design(votes)
        return x @ self.mean, ((x @ self.covariance) * x).sum(axis=1)

    def probability(self, votes: BoolArray | FloatArray) -> FloatArray:
        """That pairs with these votes are of one entity, shape [pairs] (MacKay 1992)."""
        mean, variance = self.logit(votes)
        return np.asarray(expit(mean / np.sqrt(1 + np.pi * variance / 8)), np.float64)


def prior(weights: FloatArray) -> Belief:
    """The belief before any answer.

    Args:
        weights: p, of the candidates, sum 1, shape [K].

    """
    mean = np.append(-_H, 2 * _H * weights)
    variance = np.append(_OFFSET**2, _SPREAD**2 * (weights + 1 / len(weights)) / 2)
    return Belief(mean, np.diag(variance))


def update(
    before: Belief, votes: BoolArray | FloatArray, same: BoolArray, error: float = ERROR
) -> Belief:
    """The belief after answers.

    Args:
        before: without these answers.
        votes: on the pairs asked about, shape [answers, K].
        same: the answers, shape [answers].
        error: e.

    """
    if not len(votes):
        return before
    x = design(votes)
    precision = _inverse(before.covariance)

    def loss(w: FloatArray) -> float:
        off = w - before.mean
        said = said_same(x @ w, error)
        return float(off @ precision @ off / 2 - np.log(np.where(same, said, 1 - said)).sum())

    w = before.mean
    value = loss(w)
    for _ in range(_STEPS):
        gradient, information = _scores(x, same, w, error)
        slope = gradient - precision @ (w - before.mean)
        step = np.linalg.solve(precision + information, slope)
        while (lower := loss(w + step)) > value and np.abs(step).max() > _CONVERGED:
            step = step / 2
        if lower > value:
            break
        w, value = w + step, lower
        if np.abs(step).max() <= _CONVERGED:
            break
    _, information = _scores(x, same, w, error)
    return Belief(w, _inverse(precision + information))


def design(votes: BoolArray | FloatArray) -> FloatArray:
    """What w is multiplied by, shape [pairs, K + 1]."""
    return np.column_stack([np.ones(len(votes)), votes]).astype(np.float64)


def said_same(logit: FloatArray, error: float = ERROR) -> FloatArray:
    """The probability of the answer "same", same shape."""
    return np.asarray(error + (1 - 2 * error) * expit(logit), np.float64)


def information_of(logit: FloatArray, error: float = ERROR) -> FloatArray:
    """What an answer is expected to say about f: Fisher's information, same shape."""
    p, said = expit(logit), said_same(logit, error)
    return np.asarray(((1 - 2 * error) * p * (1 - p)) ** 2 / (said * (1 - said)), np.float64)


def _scores(
    x: FloatArray, same: BoolArray, w: FloatArray, error: float
) -> tuple[FloatArray, FloatArray]:
    """Gradient of the log likelihood, shape [K + 1], and its expected information."""
    logit = x @ w
    p, said = expit(logit), said_same(logit, error)
    slope = (1 - 2 * error) * p * (1 - p)
    gradient = x.T @ (slope * (same - said) / (said * (1 - said)))
    return gradient, (x * information_of(logit, error)[:, None]).T @ x


def _inverse(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(matrix), np.float64)
