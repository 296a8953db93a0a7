"""Gaussian clusters with unknown mean and variance, independent dimensions.

Normal-inverse-gamma conjugate prior per dimension (Murphy, "Conjugate Bayesian analysis of the
Gaussian distribution", 2007, section 3 with equations 86-100 for the precision form):

    sigma^2 ~ InverseGamma(a, b),   mean | sigma^2 ~ Normal(mu, sigma^2 / lam)

Symbols, for a cluster of n points with mean m and centred sum of squares SS, per dimension:

    a_n   = a + n/2                   lam_n = lam + n
    mu_n  = (lam mu + n m) / lam_n    b_n   = b + (SS + lam n / lam_n (m - mu)^2) / 2

The clusters of a run, their updates and their predictive are in
`kbforge_plugins.models.gaussian.live_clusters`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import CDLL

import numpy as np
from scipy.special import gammaln

from kbforge.contracts.exponential import Points
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import ConjugateLikelihood, FloatArray
from kbforge_plugins.models.gaussian.compiled import CompiledGaussian
from kbforge_plugins.models.gaussian.live_clusters import LiveGaussian
from kbforge_plugins.models.gaussian.prior import NormalInverseGamma, PlacedPrior, point_of
from kbforge_plugins.models.gaussian.sets import GaussianSets
from kbforge_plugins.models.vectors import dimensions_of


class Gaussian(ConjugateLikelihood):
    """Normal-inverse-gamma likelihood of the fragments' vectors.

    Each parameter is one number for all dimensions or a list with one for each.

    Args:
        a: shape of the inverse-gamma prior on the variance, > 0.
        b: scale of that prior, > 0.
        mu: prior mean.
        lam: how many observations the prior mean is worth, > 0.

    Raises:
        UsageError: a parameter out of range, or lists of different lengths.

    """

    def __init__(
        self,
        a: float | tuple[float, ...] = 2.0,
        b: float | tuple[float, ...] = 0.5,
        mu: float | tuple[float, ...] = 0.0,
        lam: float | tuple[float, ...] = 0.0002,
    ) -> None:
        self.prior = NormalInverseGamma.checked(a, b, mu, lam)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]: the closed form, equation 95 of the source.

        Raises:
            LikelihoodError: a fragment without a vector, or with one of another length.

        """
        dimensions = dimensions_of(clusters, "gaussian")
        self.prior.require_dimensions(dimensions)
        out = np.zeros(len(clusters))
        for i, cluster in enumerate(clusters):
            if cluster:
                out[i] = self._log_marginal(np.stack([point_of(f, dimensions) for f in cluster]))
        return out

    def _log_marginal(self, x: FloatArray) -> float:
        n, prior = len(x), self.prior
        mean = x.mean(axis=0)
        centred = np.square(x - mean).sum(axis=0)
        a_n, lam_n = prior.a + n / 2, prior.lam + n
        b_n = prior.b + 0.5 * (centred + prior.lam * n / lam_n * np.square(mean - prior.mu))
        constant = (
            gammaln(a_n)
            - gammaln(prior.a)
            + prior.a * np.log(prior.b)
            + 0.5 * np.log(prior.lam / lam_n)
            - 0.5 * n * math.log(2 * math.pi)
        )
        return float((constant - a_n * np.log(b_n)).sum())

    def live_clusters(self) -> LiveGaussian:
        """A new, empty table."""
        return LiveGaussian(self.prior)

    def set_marginals(self, fragments: Sequence[Fragment]) -> GaussianSets | None:
        """These fragments' points, read once; None of no fragments."""
        if not fragments:
            return None
        placed = PlacedPrior.by_first(self.prior, fragments[0])
        return GaussianSets(placed, placed.relative(fragments))

    def exponential_family(self, fragments: Sequence[Fragment]) -> Points | None:
        """See `kbforge.contracts.likelihood`; the points are relative to the first one."""
        if not fragments:
            return None
        placed = PlacedPrior.by_first(self.prior, fragments[0])
        points = placed.relative(fragments)
        return Points(points, placed.a, placed.b, placed.lam, placed.centre)

    def compiled_clusters(self, kernel: CDLL) -> CompiledGaussian:
        """A new, empty table in the compiled kernel."""
        return CompiledGaussian(kernel, self.prior)
