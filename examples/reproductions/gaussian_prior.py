"""Fitting the Gaussian likelihood's prior: the one under which labelled clusters are most probable.

The evidence is the sum over clusters of L(C) (Murphy 2007, equation 95; see the likelihood
`gaussian`). As in the split-SMC paper (appendix D.2) it is maximised numerically, one dimension
after another. With v = b / a, a typical variance, and for a cluster of n points with mean m and
centred sum of squares SS

    w    = SS + k (m - mu)^2,   k = lam n / (lam + n)
    L(C) = lgamma(a + n/2) - lgamma(a) - n/2 log(2 pi b) - (a + n/2) log(1 + w / (2 b))
           + log(lam / (lam + n)) / 2

is searched over log a, log v, mu and log lam with its gradient. Variances of clusters on circles
differ less than those of Gaussian samples: there the evidence grows with a for ever, a ends at the
edge of its range, and says no more than that the variance is v.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import KBForgeError

_LOG_SHAPES = (math.log(1e-2), math.log(1e4))
_EDGE = 0.01  # of that range: a maximum nearer to its upper end than this is reported
_FREE = 30.0  # how far log v and log lam may go from where they start


@dataclass(frozen=True, slots=True)
class FittedPrior:
    """A prior of `gaussian`, a number a dimension each, and how probable it makes the clusters."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    mu: tuple[float, ...]
    lam: tuple[float, ...]
    evidence: float  # nats
    clusters: int
    at_edge: tuple[int, ...]  # dimensions whose a is at the upper edge of its range

    @property
    def options(self) -> Mapping[str, tuple[float, ...]]:
        """What `Gaussian(**options)` takes."""
        return {"a": self.a, "b": self.b, "mu": self.mu, "lam": self.lam}


def fit(clusters: Sequence[FloatArray]) -> FittedPrior:
    """Find the prior of clusters of points, [n, D] each.

    KBForgeError: the clusters do not say how wide clusters are, or how far apart.
    """
    sizes = np.array([len(points) for points in clusters], dtype=np.float64)
    if np.count_nonzero(sizes > 1) < 2:
        raise KBForgeError("fitting a Gaussian prior takes 2 clusters of at least 2 points each")
    means = np.array([points.mean(axis=0) for points in clusters])
    squares = np.array([np.square(points - points.mean(axis=0)).sum(axis=0) for points in clusters])
    found, values = [], []
    for dimension in range(means.shape[1]):
        evidence = GaussianEvidence(sizes, means[:, dimension], squares[:, dimension])
        theta = _maximum(evidence, dimension)
        found.append(theta)
        values.append(evidence.at(theta)[0])
    log_a, log_v, mu, log_lam = np.array(found).T
    near = _LOG_SHAPES[1] - _EDGE * (_LOG_SHAPES[1] - _LOG_SHAPES[0])
    return FittedPrior(
        a=tuple(np.exp(log_a).tolist()),
        b=tuple(np.exp(log_a + log_v).tolist()),
        mu=tuple(mu.tolist()),
        lam=tuple(np.exp(log_lam).tolist()),
        evidence=sum(values),
        clusters=len(clusters),
        at_edge=tuple(int(d) for d in np.flatnonzero(log_a > near)),
    )


@dataclass(frozen=True, slots=True)
class GaussianEvidence:
    """The clusters of one dimension by their sufficient statistics, shape [clusters] each."""

    n: FloatArray
    mean: FloatArray
    squares: FloatArray

    def at(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The sum of L(C) and its gradient at theta = (log a, log v, mu, log lam)."""
        n = self.n
        a, lam, mu = math.exp(theta[0]), math.exp(theta[3]), theta[2]
        b = a * math.exp(theta[1])
        k, away = lam * n / (lam + n), self.mean - mu
        width = self.squares + k * away * away
        a_n, log_wider = a + n / 2, np.log1p(width / (2 * b))
        value = gammaln(a_n) - gammaln(a) - n / 2 * math.log(2 * math.pi * b) - a_n * log_wider
        value = value + 0.5 * np.log(lam / (lam + n))
        per_b = a_n / (b + width / 2)  # -dL / d b_n
        by_a = digamma(a_n) - digamma(a) - log_wider
        by_b = a / b - per_b
        by_lam = 0.5 * (1 / lam - 1 / (lam + n)) - 0.5 * per_b * np.square(away * n / (lam + n))
        slopes = (a * by_a + b * by_b, b * by_b, per_b * k * away, lam * by_lam)
        return float(value.sum()), np.array([slope.sum() for slope in slopes])


def _maximum(evidence: GaussianEvidence, dimension: int) -> FloatArray:
    """Theta where the evidence is largest."""
    n, mean = evidence.n, evidence.mean
    within = float(evidence.squares.sum() / (n - 1).sum())
    between = float(mean.var())
    if not (within > 0 and between > 0 and math.isfinite(within + between)):
        raise KBForgeError(
            f"fitting a Gaussian prior: in dimension {dimension} the clusters have the variance "
            f"{within:g} within and their means {between:g}; both must be positive"
        )
    scale = np.array([1.0, 1.0, math.sqrt(between), 1.0])  # of a step of the search
    start = np.array([math.log(2.0), math.log(within), mean.mean(), math.log(within / between)])
    bounds = [_LOG_SHAPES, *((x - _FREE, x + _FREE) for x in start[1:] / scale[1:])]

    def loss(steps: FloatArray) -> tuple[float, FloatArray]:
        value, slope = evidence.at(steps * scale)
        return -value / len(n), -slope * scale / len(n)

    done = minimize(
        loss,
        start / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-13, "gtol": 1e-9, "maxiter": 1000},
    )
    return np.asarray(done.x * scale)
