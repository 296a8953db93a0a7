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

which is the form that the table of live clusters stores. The prior may differ between dimensions;
neighbouring dimensions with equal `a` share a power, and their logs are one log of a product.

*Precision.* Statistics are centred and updated by Welford's rule, because the textbook sum of
squares minus squared sum cancels far from 0; for the same reason points are relative to the first
one. A point is removed by the reverse of the rule. The rounding errors of moves add up but are not
amplified (10,000 moves of outliers 30 sigma wide leave less than 1e-9 nats), and a cluster that
shrinks to one point has SS = 0 exactly.

*Merges.* The union of two clusters has (Chan, Golub and LeVeque, 1979) n = n1 + n2 points, the
weighted mean, and SS = SS1 + SS2 + n1 n2 / n (m1 - m2)^2.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from ctypes import CDLL
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import EncodedFragments, Fragment
from kbforge.contracts.likelihood import (
    ConjugateLikelihood,
    FloatArray,
    IntArray,
    LiveClusters,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.indexes.projection import Projection
from kbforge.kernel.binding import address
from kbforge.numerics import PRODUCT, capacity_for, grown, log_of_product

# squares of larger numbers could overflow and turn a probability into NaN
_LARGEST = 1e100


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
        slice(at, min(at + PRODUCT, end))
        for begin, end in zip(begins, ends, strict=True)
        for at in range(begin, end, PRODUCT)
    )


class LiveGaussian(LiveClusters):
    """The clusters of one run; D dimensions, fixed by the first fragment encoded.

    Row (or column) 0 of every array is the empty cluster, and slot s is at s + 1.
    """

    editable = mergeable = True

    def __init__(self, model: Gaussian) -> None:
        self._model = model
        self._placed: PlacedPoints | None = None
        self._capacity = 0

    def encode(self, fragment: Fragment) -> FloatArray:
        """The fragment's vector as a column, relative to the first one's, shape [D, 1]."""
        if self._placed is None:
            self._start(PlacedPoints.of(self._model, (fragment,)))
        return self.placed.relative((fragment,)).T

    @property
    def placed(self) -> PlacedPoints:
        assert self._placed is not None
        return self._placed

    def _start(self, placed: PlacedPoints) -> None:
        self._placed = placed
        dimensions = len(placed.origin)
        # one row a slot: n, then D means, then D centred sums of squares
        self._statistics = np.zeros((0, 1 + 2 * dimensions))
        # ready for the predictive, one column a slot: constant, a power a run, D locations, D
        # times q
        self._derived = np.zeros((1 + len(placed.runs) + 2 * dimensions, 0))
        self._log_gammas = np.zeros(0)
        self._grow(1)
        self._derive(np.zeros(1, dtype=np.int64), self._statistics[:1])

    def _grow(self, needed: int) -> None:
        self._capacity = capacity_for(needed, self._capacity)
        self._statistics = grown(self._statistics, self._capacity)
        self._derived = grown(self._derived, self._capacity, axis=1)
        self._out = np.empty(self._capacity)

    def log_predictive(self, x: FloatArray, slots: int) -> FloatArray:
        if slots + 1 > self._capacity:
            self._grow(slots + 1)
        return self._predicted(x, self._derived[:, 1 : slots + 1], self._out[:slots])

    def _predicted(self, x: FloatArray, derived: FloatArray, out: FloatArray) -> FloatArray:
        """The predictives of columns of `_derived_from`, shape [k], written to `out`."""
        runs = self.placed.runs
        powers = derived[1 : 1 + len(runs)]
        location, q = np.split(derived[1 + len(runs) :], 2)
        terms = x - location
        terms *= terms
        terms *= q
        terms += 1.0
        out[:] = derived[0]
        for run, power in zip(runs, powers, strict=True):
            out -= power * log_of_product(terms[run])
        return out

    def log_predictive_new(self, x: FloatArray) -> float:
        return float(self._predicted(x, self._derived[:, :1], np.empty(1))[0])

    def extend(self, x: FloatArray, parents: IntArray, children: IntArray) -> None:
        if not len(children):
            return
        rows = children + 1
        needed = int(rows.max()) + 1
        if needed > self._capacity:
            self._grow(needed)
        statistics = self._statistics.take(parents + 1, axis=0)
        dimensions = len(x)
        point = x[:, 0]
        n, mean = statistics[:, :1], statistics[:, 1 : 1 + dimensions]
        n += 1
        before = point - mean
        mean += before / n
        statistics[:, 1 + dimensions :] += before * (point - mean)
        self._statistics[rows] = statistics
        self._derive(rows, statistics)

    def _derive(self, rows: IntArray, statistics: FloatArray) -> None:
        """Fill the predictive's arrays for rows with these statistics, shape [k, 1 + 2D]."""
        self._derived[:, rows] = self._derived_from(statistics)

    def _derived_from(self, statistics: FloatArray) -> FloatArray:
        """The predictive's inputs, one column per cluster, shape [1 + runs + 2D, k]."""
        placed = self.placed
        dimensions, runs = len(placed.origin), placed.runs
        n, mean, squares = np.split(statistics.T, [1, 1 + dimensions])
        lam = placed.lam[:, None]
        lam_n = n + lam
        pull = lam / lam_n
        shift = placed.centre[:, None] - mean
        width = 2 * placed.b[:, None] + squares + pull * n * shift * shift
        q = lam_n / (width * (lam_n + 1))
        derived = np.empty((len(self._derived), len(statistics)))
        derived[0] = self._log_gamma_ratios(n[0].astype(np.int64))
        for place, run in enumerate(runs, start=1):
            derived[0] += 0.5 * log_of_product(q[run])
            derived[place] = n[0] * 0.5 + (placed.a[run.start] + 0.5)
        derived[1 + len(runs) : -dimensions] = mean + pull * shift
        derived[-dimensions:] = q
        return derived

    def _log_gamma_ratios(self, counts: IntArray) -> FloatArray:
        """See `PlacedPoints.log_gamma_ratios`; looked up."""
        largest = int(counts.max())
        if largest >= len(self._log_gammas):
            sizes = np.arange(capacity_for(largest + 1, len(self._log_gammas)))
            self._log_gammas = self.placed.log_gamma_ratios(sizes)
        return self._log_gammas.take(counts)

    def log_predictive_held(self, x: FloatArray, slot: int) -> float:
        if self._statistics[slot + 1, 0] <= 1:
            return self.log_predictive_new(x)
        left = self._derived_from(self._without(x[:, 0], slot + 1)[None])
        return float(self._predicted(x, left, np.empty(1))[0])

    def add(self, x: FloatArray, slot: int) -> None:
        slots = np.array([slot])
        self.extend(x, slots, slots)

    def remove(self, x: FloatArray, slot: int) -> None:
        row = slot + 1
        self._statistics[row] = self._without(x[:, 0], row)
        self._derive(np.array([row]), self._statistics[row : row + 1])

    def gather(self, xs: Sequence[FloatArray], slot: int) -> None:
        """C := all of xs; mean and SS are computed at once."""
        if slot + 2 > self._capacity:
            self._grow(slot + 2)
        points = np.concatenate(xs, axis=1)
        mean = points.mean(axis=1)
        squares = np.square(points - mean[:, None]).sum(axis=1)
        row = np.array([slot + 1])
        self._statistics[row] = np.concatenate([[float(len(xs))], mean, squares])
        self._derive(row, self._statistics[row])

    def _without(self, point: FloatArray, row: int) -> FloatArray:
        """The statistics of a row's cluster without one of its points, not the last."""
        dimensions = len(point)
        old = self._statistics[row]
        left = float(old[0]) - 1
        after = point - old[1 : 1 + dimensions]
        mean = old[1 : 1 + dimensions] - after / left
        squares = np.zeros(dimensions)
        if left > 1:  # one point has no spread; rounding may leave less than nothing
            squares = np.maximum(old[1 + dimensions :] - after * (point - mean), 0.0)
        return np.concatenate([[left], mean, squares])

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        others, one = self._statistics[1 : slots + 1], self._statistics[slot + 1]
        ratio = self._log_evidence(self._united(others, one))
        ratio -= self._log_evidence(others)
        ratio -= self._log_evidence(one[None])
        return ratio

    def merge(self, slot: int, into: int) -> None:
        rows = np.array([into + 1])
        self._statistics[rows] = self._united(self._statistics[rows], self._statistics[slot + 1])
        self._derive(rows, self._statistics[rows])

    def _united(self, others: FloatArray, one: FloatArray) -> FloatArray:
        """The statistics of clusters [k, 1 + 2D], each merged with another cluster's [1 + 2D]."""
        dimensions = len(self.placed.origin)
        n, mean, squares = others[:, :1], others[:, 1 : 1 + dimensions], others[:, 1 + dimensions :]
        apart = one[1 : 1 + dimensions] - mean
        share = one[0] / (n + one[0])
        both = np.empty_like(others)
        both[:, :1] = n + one[0]
        both[:, 1 : 1 + dimensions] = mean + share * apart
        both[:, 1 + dimensions :] = squares + one[1 + dimensions :] + n * share * apart * apart
        return both

    def _log_evidence(self, statistics: FloatArray) -> FloatArray:
        """L of clusters without -n D log(2 pi) / 2, which cancels in ratios, shape [k]."""
        placed = self.placed
        dimensions = len(placed.origin)
        n, mean = statistics[:, :1], statistics[:, 1 : 1 + dimensions]
        a_n, lam_n = placed.a + 0.5 * n, placed.lam + n
        shift = mean - placed.centre
        b_n = placed.b + 0.5 * (
            statistics[:, 1 + dimensions :] + placed.lam * n / lam_n * shift * shift
        )
        constant = gammaln(a_n) - gammaln(placed.a) + placed.a * np.log(placed.b)
        constant += 0.5 * np.log(placed.lam / lam_n)
        evidence: FloatArray = (constant - a_n * np.log(b_n)).sum(axis=1)
        return evidence


class CompiledGaussian:
    """See `kbforge.contracts.CompiledClusters`."""

    def __init__(self, kernel: CDLL, model: Gaussian) -> None:
        self._kernel, self._model = kernel, model
        self.handle: int = kernel.kb_gaussian_new()
        self._finalizer = weakref.finalize(self, kernel.kb_table_free, self.handle)
        self._placed: PlacedPoints | None = None
        self._begun = False
        self._points = self._sizes = 0

    def encode(self, fragments: Sequence[Fragment]) -> EncodedFragments:
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
            self._kernel.kb_gaussian_sizes(self.handle, len(ratios), address(ratios))
        self._kernel.kb_gaussian_points(self.handle, first, len(points), address(points))

    def _begin(self, placed: PlacedPoints) -> None:
        ends = np.array([run.stop for run in placed.runs], dtype=np.int64)
        prior = placed.a, placed.b, placed.lam, placed.centre
        self._kernel.kb_gaussian_begin(
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

    def live_clusters(self) -> LiveGaussian:
        return LiveGaussian(self)

    def compiled_clusters(self, kernel: CDLL) -> CompiledGaussian:
        return CompiledGaussian(kernel, self)
