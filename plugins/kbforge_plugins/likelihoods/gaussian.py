"""Gaussian clusters with unknown mean and variance, independent dimensions.

Normal-inverse-gamma conjugate prior per dimension (Murphy, "Conjugate Bayesian analysis of the
Gaussian distribution", 2007, section 3 with equations 86-100 for the precision form):

    sigma^2 ~ InverseGamma(a, b),   mean | sigma^2 ~ Normal(mu, sigma^2 / lam)

Symbols, for a cluster of n points with mean m and centred sum of squares SS, per dimension:

    a_n   = a + n/2                   lam_n = lam + n
    mu_n  = (lam mu + n m) / lam_n    b_n   = b + (SS + lam n / lam_n (m - mu)^2) / 2

*Predictive.* Student's t with 2 a_n degrees of freedom, location mu_n and squared scale
b_n (lam_n + 1) / (a_n lam_n). With q = lam_n / (2 b_n (lam_n + 1)) its log density is

    lgamma(a_n + 1/2) - lgamma(a_n) + log(q / pi) / 2 - (a_n + 1/2) log(1 + (x - mu_n)^2 q)

in which form the kernel stores it. The prior may differ between dimensions; neighbouring dimensions
with equal `a` share a power, and their logs are one log of a product.

*Precision.* Statistics are centred and updated by Welford's rule, because the textbook sum of
squares minus squared sum cancels far from 0; for the same reason points are relative to the first
one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import Fragment
from kbforge.contracts.likelihood import (
    ConjugateLikelihood,
    FloatArray,
    IntArray,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.indexes.projection import Projection
from kbforge.kernel.binding import EncodedFragments, KernelClusters, address, kernel_library
from kbforge.numerics import capacity_for

# squares of larger numbers could overflow and turn a probability into NaN
_LARGEST = 1e100
_PRODUCT = 512  # factors, from 1 to 2, of a product that cannot overflow


def vector_of(fragment: Fragment, dimensions: int | None, reader: str) -> FloatArray:
    """The vector of a fragment, shape [dimensions]; None accepts any length."""
    if fragment.vector is None:
        raise LikelihoodError(
            f'fragment "{quoted(fragment.id)}" has no vector, which the {reader} likelihood reads '
            f"(kbforge load csv --vector x,y makes one from columns)"
        )
    if dimensions is not None and len(fragment.vector) != dimensions:
        raise LikelihoodError(
            f'fragment "{quoted(fragment.id)}" has a vector of {len(fragment.vector)} numbers, '
            f"expected {dimensions} as in the fragments before it"
        )
    return np.array(fragment.vector, dtype=np.float64)


def point_of(fragment: Fragment, dimensions: int | None) -> FloatArray:
    """The vector of a fragment, shape [D]; refuses numbers whose squares could overflow."""
    x = vector_of(fragment, dimensions, "gaussian")
    if np.abs(x).max() > _LARGEST:
        raise LikelihoodError(
            f'fragment "{quoted(fragment.id)}" has a number beyond {_LARGEST:g} in its vector; '
            f"rescale the data"
        )
    return x


@dataclass(frozen=True, slots=True, eq=False)
class PlacedPoints:
    """Points relative to the first one of a run, and the prior in these coordinates.

    The prior is sigma^2 ~ InverseGamma(a, b), mean | sigma^2 ~ Normal(centre, sigma^2 / lam).
    """

    points: FloatArray  # shape [n, D]
    a: FloatArray  # of the prior, by dimension, shape [D], as are the others
    b: FloatArray
    lam: FloatArray
    centre: FloatArray
    origin: FloatArray  # the first point, shape [D]
    runs: tuple[slice, ...]  # dimensions in a row with the same a, of which one log can be taken

    @classmethod
    def of(cls, model: Gaussian, fragments: Sequence[Fragment]) -> Self:
        """The points of fragments, at least one."""
        origin = point_of(fragments[0], None)
        model.require_dimensions(len(origin))
        points = _relative(fragments, origin)
        a, b, lam = (np.full(len(origin), each) for each in (model.a, model.b, model.lam))
        return cls(points, a, b, lam, model.mu - origin, origin, _runs_of(a))

    def relative(self, fragments: Sequence[Fragment]) -> FloatArray:
        """Further points in the same coordinates, shape [n, D]."""
        return _relative(fragments, self.origin)

    def log_gamma_ratios(self, sizes: IntArray) -> FloatArray:
        """lgamma(a_n + 1/2) - lgamma(a_n) - log(pi) / 2, summed over dimensions, by size n."""
        a_n = self.a + 0.5 * sizes[:, None]
        ratios = gammaln(a_n + 0.5) - gammaln(a_n) - 0.5 * math.log(math.pi)
        summed: FloatArray = ratios.sum(axis=1)
        return summed


def _relative(fragments: Sequence[Fragment], origin: FloatArray) -> FloatArray:
    vectors = [fragment.vector for fragment in fragments]
    if all(vector is not None and len(vector) == len(origin) for vector in vectors):
        points = np.array(vectors, dtype=np.float64).reshape(-1, len(origin))
        if (np.abs(points) <= _LARGEST).all():
            return np.asarray(points - origin)
    return np.array([point_of(fragment, len(origin)) for fragment in fragments]) - origin


def _runs_of(a: FloatArray) -> tuple[slice, ...]:
    ends = [d for d in range(1, len(a)) if a[d] != a[d - 1]] + [len(a)]
    begins = [0, *ends[:-1]]
    return tuple(
        slice(at, min(at + _PRODUCT, end))
        for begin, end in zip(begins, ends, strict=True)
        for at in range(begin, end, _PRODUCT)
    )


class GaussianClusters(KernelClusters):
    """The clusters of one run; their dimensions are those of the first fragment."""

    def __init__(self, model: Gaussian) -> None:
        super().__init__(kernel_library().kb_gaussian_new())
        self._model = model
        self._placed: PlacedPoints | None = None
        self._begun = False
        self._points = self._sizes = 0

    def read(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        if self._placed is None and fragments:
            self._placed = PlacedPoints.of(self._model, fragments[:1])
        placed = self._placed
        points = placed.relative(fragments) if placed else np.zeros((0, 0))
        starts = np.arange(len(points) + 1)
        numbers = np.arange(self._points, self._points + len(points), dtype=np.int32)
        first, self._points = self._points, self._points + len(points)
        return EncodedFragments(starts, np.zeros(len(points), np.int32), numbers, (first, points))

    def tell(self, encoded: EncodedFragments) -> None:
        first, points = encoded.new
        if not len(points):
            return
        placed = self._placed
        assert placed is not None
        if not self._begun:
            self._begin(placed)
        if first + len(points) >= self._sizes:  # a cluster may hold all points
            self._sizes = capacity_for(first + len(points) + 1, self._sizes)
            ratios = placed.log_gamma_ratios(np.arange(self._sizes))
            self.kernel.kb_gaussian_sizes(self.handle, len(ratios), address(ratios))
        self.kernel.kb_gaussian_points(self.handle, first, len(points), address(points))

    def _begin(self, placed: PlacedPoints) -> None:
        ends = np.array([run.stop for run in placed.runs], dtype=np.int64)
        prior = placed.a, placed.b, placed.lam, placed.centre
        self.kernel.kb_gaussian_begin(
            self.handle, len(placed.origin), len(ends), address(ends), *map(address, prior)
        )
        self._begun = True


class Gaussian(ConjugateLikelihood):
    """Normal-inverse-gamma likelihood of the fragments' vectors.

    Each parameter is one number for all dimensions or a list with one for each.

    Args:
        a: shape of the inverse-gamma prior on the variance, > 0.
        b: scale of that prior, > 0.
        mu: prior mean.
        lam: weight of the prior mean, in observations, > 0.

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
        given = {"a": a, "b": b, "mu": mu, "lam": lam}
        arrays = {name: np.array(value, dtype=np.float64) for name, value in given.items()}
        for name, values in arrays.items():
            if not (np.abs(values) <= _LARGEST).all():
                raise UsageError(
                    f"likelihood gaussian: {name} must be a finite number, got {given[name]}"
                )
            if name != "mu" and not (values > 0).all():
                raise UsageError(f"likelihood gaussian: {name} must be positive, got {given[name]}")
        lengths = {name: len(values) for name, values in arrays.items() if values.ndim}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{length} of {name}" for name, length in lengths.items())
            raise UsageError(
                f"likelihood gaussian: expected the same number of values for each, got {told}"
            )
        self.a, self.b, self.mu, self.lam = arrays.values()  # each [] or [D]
        self._dimensions = next(iter(lengths.values()), None)

    def require_dimensions(self, dimensions: int) -> None:
        """Refuse vectors whose length differs from the lists of parameters."""
        if self._dimensions not in (None, dimensions):
            raise LikelihoodError(
                f"the vectors have {dimensions} numbers, and likelihood gaussian was given "
                f"parameters for {self._dimensions}"
            )

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]: the closed form, equation 95 of the source."""
        out = np.zeros(len(clusters))
        first = next((fragment for cluster in clusters for fragment in cluster), None)
        if first is None:
            return out
        dimensions = len(vector_of(first, None, "gaussian"))
        self.require_dimensions(dimensions)
        for i, cluster in enumerate(clusters):
            if cluster:
                out[i] = self._log_marginal(np.stack([point_of(f, dimensions) for f in cluster]))
        return out

    def _log_marginal(self, x: FloatArray) -> float:
        n = len(x)
        mean = x.mean(axis=0)
        centred = np.square(x - mean).sum(axis=0)
        a_n, lam_n = self.a + n / 2, self.lam + n
        b_n = self.b + 0.5 * (centred + self.lam * n / lam_n * np.square(mean - self.mu))
        constant = (
            gammaln(a_n)
            - gammaln(self.a)
            + self.a * np.log(self.b)
            + 0.5 * np.log(self.lam / lam_n)
            - 0.5 * n * math.log(2 * math.pi)
        )
        return float((constant - a_n * np.log(b_n)).sum())

    def index_of_many(self) -> Projection:
        """Vectors that are close to each other."""
        return Projection()

    def live_clusters(self) -> GaussianClusters:
        return GaussianClusters(self)
