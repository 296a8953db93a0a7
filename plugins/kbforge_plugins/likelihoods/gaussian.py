"""Gaussian clusters with unknown mean and variance, independent dimensions.

Normal-inverse-gamma conjugate prior per dimension (Murphy, "Conjugate Bayesian analysis of the
Gaussian distribution", 2007, section 3 with equations 86-100 for the precision form):

    sigma^2 ~ InverseGamma(a, b),   mean | sigma^2 ~ Normal(mu, sigma^2 / lam)

Symbols, for a cluster of n points with mean m and centred sum of squares SS, per dimension:

    a_n   = a + n/2                   lam_n = lam + n
    mu_n  = (lam mu + n m) / lam_n    b_n   = b + (SS + lam n / lam_n (m - mu)^2) / 2

The posterior predictive is Student's t with 2 a_n degrees of freedom, location mu_n and squared
scale b_n (lam_n + 1) / (a_n lam_n). With q = lam_n / (2 b_n (lam_n + 1)) its log density is

    lgamma(a_n + 1/2) - lgamma(a_n) + log(q / pi) / 2 - (a_n + 1/2) log1p((x - mu_n)^2 q)

and that is how the live table stores it. The prior may be another in every dimension. Statistics
are centred and updated by Welford's rule, because the textbook sum of squares minus squared sum
cancels when the data lie far from 0; points are taken relative to the first one, so that far data
are rounded no more than near ones. A point leaves by the same rule backwards. Each move rounds mean
and SS once; these roundings add up but are not amplified (10,000 moves of outliers 30 sigma wide
leave less than 1e-9 nats), and a cluster that shrinks to one point has SS = 0 exactly.

Two clusters are one with (Chan, Golub and LeVeque, 1979) n = n1 + n2 points around the weighted
mean, and SS = SS1 + SS2 + n1 n2 / n (m1 - m2)^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import ConjugateLikelihood, FloatArray, IntArray, LiveClusters
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.numerics.arrays import capacity_for, grown
from kbforge_plugins.models.vectors import dimensions_of, vector_of

# squares of larger numbers could overflow and turn a probability into NaN
_LARGEST = 1e100


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
            raise UsageError(f"likelihood gaussian: expected as many values of each, got {told}")
        # shape [] or [D]
        self.a, self.b, self.mu, self.lam = arrays.values()
        self._dimensions = next(iter(lengths.values()), None)

    def require_dimensions(self, dimensions: int | None) -> None:
        """Refuse vectors of another length than the lists of parameters.

        Raises:
            LikelihoodError: they differ.

        """
        if None not in (dimensions, self._dimensions) and dimensions != self._dimensions:
            raise LikelihoodError(
                f"the vectors have {dimensions} numbers, and likelihood gaussian was given "
                f"parameters for {self._dimensions}"
            )

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]: the closed form, equation 95 of the source.

        Raises:
            LikelihoodError: a fragment without a vector, or with one of another length.

        """
        dimensions = dimensions_of(clusters, "gaussian")
        self.require_dimensions(dimensions)
        out = np.zeros(len(clusters))
        for i, cluster in enumerate(clusters):
            if cluster:
                out[i] = self._log_marginal(np.stack([_point(f, dimensions) for f in cluster]))
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

    def live_clusters(self) -> LiveGaussian:
        """A new, empty table."""
        return LiveGaussian(self)


def _point(fragment: Fragment, dimensions: int | None) -> FloatArray:
    x = vector_of(fragment, dimensions, "gaussian")
    if np.abs(x).max() > _LARGEST:
        raise LikelihoodError(
            f'fragment "{quoted(fragment.id)}" has a number beyond {_LARGEST:g} in its vector; '
            f"rescale the data"
        )
    return x


class LiveGaussian(LiveClusters):
    """The clusters of one run; D dimensions, fixed by the first fragment encoded.

    Row (or column) 0 of every array is the empty cluster, slot s is at s + 1, so that a parent of
    -1 needs no case of its own.
    """

    editable = mergeable = True

    def __init__(self, prior: Gaussian) -> None:
        self._prior = prior
        self._dimensions: int | None = None
        self._capacity = 0

    def encode(self, fragment: Fragment) -> FloatArray:
        """The fragment's vector as a column, relative to the first one's, shape [D, 1].

        Raises:
            LikelihoodError: no vector, or one of another length than the first.

        """
        x = _point(fragment, self._dimensions)
        if self._dimensions is None:
            self._start(x)
        return (x - self._origin)[:, None]

    def _start(self, origin: FloatArray) -> None:
        dimensions = len(origin)
        self._prior.require_dimensions(dimensions)
        self._dimensions = dimensions
        self._origin = origin
        # the prior, shape [D] each, its mean relative to the origin
        self._centre = self._prior.mu - origin
        self._a, self._b, self._lam = np.broadcast_arrays(
            self._prior.a, self._prior.b, self._prior.lam, origin
        )[:3]
        # one row a slot: n, then D means, then D centred sums of squares
        self._statistics = np.zeros((0, 1 + 2 * dimensions))
        # ready for the predictive, one column a slot: constant, D powers, D locations, D times q
        self._derived = np.zeros((1 + 3 * dimensions, 0))
        self._log_gammas = np.zeros(0)
        self._grow(1)
        self._derive(np.zeros(1, dtype=np.int64), self._statistics[:1])

    def _grow(self, needed: int) -> None:
        self._capacity = capacity_for(needed, self._capacity)
        self._statistics = grown(self._statistics, self._capacity)
        self._derived = grown(self._derived, self._capacity, axis=1)
        self._constant = self._derived[0]
        self._power, self._location, self._q = np.split(self._derived[1:], 3)
        self._terms = np.empty_like(self._q)
        self._out = np.empty(self._capacity)

    def log_predictive(self, x: FloatArray, slots: int) -> FloatArray:
        """L(C + x) - L(C) for slots 0..slots-1, shape [slots]."""
        if slots + 1 > self._capacity:
            self._grow(slots + 1)
        # two columns at least: NumPy sums a single one in another order, and a slot's value must
        # not depend, even in its last bit, on how many other slots there are
        end = 1 + max(slots, 2)
        self._predict(x, 1, end, self._out[:end])
        return self._out[:slots]

    def _predict(self, x: FloatArray, begin: int, end: int, out: FloatArray) -> None:
        out = out[: end - begin]
        terms = self._terms[:, begin:end]
        np.subtract(x, self._location[:, begin:end], out=terms)
        np.multiply(terms, terms, out=terms)
        np.multiply(terms, self._q[:, begin:end], out=terms)
        np.log1p(terms, out=terms)
        np.multiply(terms, self._power[:, begin:end], out=terms)
        np.add.reduce(terms, axis=0, out=out)
        np.subtract(self._constant[begin:end], out, out=out)

    def log_predictive_new(self, x: FloatArray) -> float:
        """L({x}), in nats."""
        out = np.empty(2)
        self._predict(x, 0, 2, out)
        return float(out[0])

    def extend(self, x: FloatArray, parents: IntArray, children: IntArray) -> None:
        """Make cluster children[k] := parents[k] + x, all k at once."""
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
        self._derived[:, rows] = self._derived_from(statistics).T

    def _derived_from(self, statistics: FloatArray) -> FloatArray:
        """What the predictive reads, shape [k, 1 + 3D]."""
        dimensions = len(self._location)
        n = statistics[:, :1]
        width, location = self._posterior(
            n, statistics[:, 1 : 1 + dimensions], statistics[:, 1 + dimensions :]
        )
        lam_n = n + self._lam
        q = lam_n / (width * (lam_n + 1))
        derived = np.empty((len(statistics), len(self._derived)))
        derived[:, 0] = self._log_gamma_ratios(n[:, 0].astype(np.int64))
        derived[:, 0] += 0.5 * np.log(q).sum(axis=1)
        derived[:, 1 : 1 + dimensions] = n * 0.5 + (self._a + 0.5)
        derived[:, 1 + dimensions : 1 + 2 * dimensions] = location
        derived[:, 1 + 2 * dimensions :] = q
        return derived

    def _posterior(
        self, n: FloatArray | float, mean: FloatArray, squares: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """2 b_n and mu_n of statistics of any shape [..., D]."""
        pull = self._lam / (n + self._lam)
        shift = self._centre - mean
        return 2 * self._b + squares + pull * n * shift * shift, mean + pull * shift

    def _log_gamma_ratios(self, counts: IntArray) -> FloatArray:
        """lgamma(a_n + 1/2) - lgamma(a_n) - log(pi) / 2, summed over dimensions, for cluster
        sizes n, from a table.
        """
        largest = int(counts.max())
        if largest >= len(self._log_gammas):
            sizes = np.arange(capacity_for(largest + 1, len(self._log_gammas)))
            a_n = self._a + 0.5 * sizes[:, None]
            ratios = gammaln(a_n + 0.5) - gammaln(a_n) - 0.5 * math.log(math.pi)
            self._log_gammas = ratios.sum(axis=1)
        return self._log_gammas.take(counts)

    def log_predictive_held(self, x: FloatArray, slot: int) -> float:
        """L(C) - L(C - x), in nats: the predictive for one slot that is not in the table."""
        if self._statistics[slot + 1, 0] <= 1:
            return self.log_predictive_new(x)
        point = x[:, 0]
        n, mean, squares = self._without(point, slot + 1)
        width, location = self._posterior(n, mean, squares)
        lam_n = n + self._lam
        q = lam_n / (width * (lam_n + 1))
        away = point - location
        terms = 0.5 * np.log(q) - (0.5 * n + 0.5 + self._a) * np.log1p(away * away * q)
        # the table of sizes reaches n: the cluster with x in it has been looked up
        return float(self._log_gammas[int(n)]) + float(terms.sum())

    def add(self, x: FloatArray, slot: int) -> None:
        """C := C + x, in place."""
        slots = np.array([slot])
        self.extend(x, slots, slots)

    def remove(self, x: FloatArray, slot: int) -> None:
        """C := C - x, in place."""
        row = slot + 1
        n, mean, squares = self._without(x[:, 0], row)
        self._statistics[row] = np.concatenate([[n], mean, squares])
        self._derive(np.array([row]), self._statistics[row : row + 1])

    def _without(self, point: FloatArray, row: int) -> tuple[float, FloatArray, FloatArray]:
        """n, means and centred squares of a row's cluster without a point."""
        dimensions = len(point)
        old = self._statistics[row]
        left = float(old[0]) - 1
        after = point - old[1 : 1 + dimensions]
        mean = old[1 : 1 + dimensions] - after / left
        if left == 1:  # one point has no spread
            return left, mean, np.zeros(dimensions)
        squares = old[1 + dimensions :] - after * (point - mean)
        # rounding may leave less than nothing
        return left, mean, np.maximum(squares, 0.0)

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        """L(C + D) - L(C) - L(D) of C in `slot` and every D, shape [slots]."""
        others, one = self._statistics[1 : slots + 1], self._statistics[slot + 1]
        ratio = self._log_evidence(self._united(others, one))
        ratio -= self._log_evidence(others)
        ratio -= self._log_evidence(one[None])
        return ratio

    def merge(self, slot: int, into: int) -> None:
        """D := D + C, in place; C's slot is released."""
        rows = np.array([into + 1])
        self._statistics[rows] = self._united(self._statistics[rows], self._statistics[slot + 1])
        self._derive(rows, self._statistics[rows])

    def _united(self, others: FloatArray, one: FloatArray) -> FloatArray:
        """The statistics of clusters [k, 1 + 2D], each with one more cluster's [1 + 2D] in it."""
        dimensions = len(self._location)
        n, mean, squares = others[:, :1], others[:, 1 : 1 + dimensions], others[:, 1 + dimensions :]
        apart = one[1 : 1 + dimensions] - mean
        share = one[0] / (n + one[0])
        both = np.empty_like(others)
        both[:, :1] = n + one[0]
        both[:, 1 : 1 + dimensions] = mean + share * apart
        both[:, 1 + dimensions :] = squares + one[1 + dimensions :] + n * share * apart * apart
        return both

    def _log_evidence(self, statistics: FloatArray) -> FloatArray:
        """L of clusters but for -n D log(2 pi) / 2, which cancels in ratios, shape [k]."""
        dimensions = len(self._location)
        n, mean = statistics[:, :1], statistics[:, 1 : 1 + dimensions]
        a_n, lam_n = self._a + 0.5 * n, self._lam + n
        shift = mean - self._centre
        b_n = self._b + 0.5 * (
            statistics[:, 1 + dimensions :] + self._lam * n / lam_n * shift * shift
        )
        constant = gammaln(a_n) - gammaln(self._a) + self._a * np.log(self._b)
        constant += 0.5 * np.log(self._lam / lam_n)
        evidence: FloatArray = (constant - a_n * np.log(b_n)).sum(axis=1)
        return evidence
