"""Points: the Gaussian family with independent dimensions and a normal-inverse-gamma prior.

Of a cluster of n points with mean m and centred sum of squares S, per dimension
(`kbforge_plugins.likelihoods.gaussian` has the posterior's a_n, b_n, mu_n and lam_n), with l the
precision and mu the mean of a component:

    phi(x)  = (x, x^2)
    theta*  = (E[l mu], -E[l] / 2) = (a_n mu_n / b_n, -a_n / 2 b_n)
    gamma*  = E[l mu^2 - log l + log 2 pi] / 2
            = (a_n mu_n^2 / b_n + 1 / lam_n - psi(a_n) + log b_n + log 2 pi) / 2

Points are standardised first, which changes L by the same constant for every fragment.

*What is hashed.* phi(x) less that of an average point, (0, 1), and theta* less that of a standard
normal cluster, (0, -1/2). <phi, theta*> is the product of these two, a number for each cluster,
which is in g, and one that is the same for all clusters. So a point far out in the direction of its
cluster makes a small angle with it, whatever all points have in common.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import digamma, gammaln

from kbforge.contracts import Cluster, FloatArray
from kbforge.contracts import Points as PointData
from kbforge_lab.fastex.hashes import Directions

_LOG_2_PI = math.log(2 * math.pi)


class Points:
    """The fragments, and the moments of the clusters by slot; attributes as those of `Counts`."""

    def __init__(self, data: PointData) -> None:
        shift, scale = data.points.mean(axis=0), data.points.std(axis=0)
        scale[scale == 0] = 1.0
        self.points: FloatArray = (data.points - shift) / scale
        self._log_scale = np.log(scale)
        self.a, self.lam = data.a, data.lam
        self.b, self.centre = data.b / scale**2, (data.centre - shift) / scale
        self.n, self.rows = self.points.shape[0], 2 * self.points.shape[1]
        self._features = np.concatenate([self.points, self.points**2 - 1], axis=1)
        self.norms = np.sqrt((self._features**2).sum(axis=1))
        self.lengths: FloatArray = np.ones((self.n, 1))
        self._moments: dict[int, FloatArray] = {}
        dimensions = self.points.shape[1]
        self._empty = np.zeros((3, dimensions))
        self.alone = np.array([self._predicted(x, self._empty) for x in self.points])

    def add(self, fragment: int, slot: int) -> None:
        """C := C + x."""
        n, mean, squares = self._moments.get(slot, self._empty)
        x = self.points[fragment]
        after = mean + (x - mean) / (n + 1)
        self._moments[slot] = np.stack([n + 1, after, squares + (x - mean) * (x - after)])

    def remove(self, fragment: int, slot: int) -> None:
        """C := C - x."""
        self._moments[slot] = self._without(fragment, slot)

    def _without(self, fragment: int, slot: int) -> FloatArray:
        n, mean, squares = self._moments[slot]
        if n[0] <= 1:
            return self._empty
        x = self.points[fragment]
        before = mean - (x - mean) / (n - 1)
        left = np.maximum(squares - (x - mean) * (x - before), 0.0) if n[0] > 2 else 0.0 * mean
        return np.stack([n - 1, before, left])

    def log_predictive(self, fragment: int, slot: int, held: bool) -> float:
        """L(C + x) - L(C), with `held` of x's own cluster without it, in nats."""
        moments = self._without(fragment, slot) if held else self._moments.get(slot, self._empty)
        return self._predicted(self.points[fragment], moments)

    def posterior(self, moments: FloatArray) -> tuple[FloatArray, ...]:
        """a_n, b_n, mu_n and lam_n of clusters with these sizes, means and centred squares."""
        n, mean, squares = moments
        lam_n = self.lam + n
        pull = self.lam / lam_n
        shift = self.centre - mean
        b_n = self.b + 0.5 * (squares + pull * n * shift * shift)
        return self.a + 0.5 * n, b_n, mean + pull * shift, lam_n

    def _predicted(self, x: FloatArray, moments: FloatArray) -> float:
        a_n, b_n, mu_n, lam_n = self.posterior(moments)
        q = lam_n / (2 * b_n * (lam_n + 1))
        away = x - mu_n
        terms = gammaln(a_n + 0.5) - gammaln(a_n) + 0.5 * np.log(q) - 0.5 * math.log(math.pi)
        return float((terms - (a_n + 0.5) * np.log1p(away * away * q)).sum())

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L(C), in nats and of the points as they were given, shape [len(clusters)]."""
        return np.array([self._evidence(self.points[list(cluster)]) for cluster in clusters])

    def _evidence(self, x: FloatArray) -> float:
        mean = x.mean(axis=0)
        a_n, b_n, _, lam_n = self.posterior(
            np.stack([np.full_like(mean, len(x)), mean, np.square(x - mean).sum(axis=0)])
        )
        terms = gammaln(a_n) - gammaln(self.a) + self.a * np.log(self.b) - a_n * np.log(b_n)
        terms += 0.5 * np.log(self.lam / lam_n) - len(x) * (0.5 * _LOG_2_PI + self._log_scale)
        return float(terms.sum())

    def remember(self, fragment: int, slot: int) -> None:
        """Nothing: see `recalled`."""

    def recalled(self, fragment: int, most: int) -> list[int] | None:
        """None: nothing but the bound says which clusters are likely."""
        return None

    def projections(self, directions: Directions) -> FloatArray:
        """Inner products of phi(x) with the directions, shape [n, l]."""
        rows = np.arange(self._features.shape[1])
        return self._features @ directions.of(rows)

    def summary(
        self, slot: int, size: int, directions: Directions
    ) -> tuple[FloatArray, float, FloatArray]:
        """Of a cluster: theta*'s products with the directions [l], its length, and g [1]."""
        a_n, b_n, mu_n, lam_n = self.posterior(self._moments[slot])
        precision = a_n / b_n
        gamma = 0.5 * (precision * mu_n**2 + 1 / lam_n - digamma(a_n) + np.log(b_n) + _LOG_2_PI)
        theta = np.concatenate([precision * mu_n, 0.5 - 0.5 * precision])
        g = float((gamma + 0.5 * precision).sum())
        coordinates = directions.of(np.arange(len(theta)))
        return theta @ coordinates, float(np.sqrt(theta @ theta)), np.array([g])
