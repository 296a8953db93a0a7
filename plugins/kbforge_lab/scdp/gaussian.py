"""Gaussian references around their publications' means, with precisions by type.

| symbol | meaning |
|---|---|
| r | a reference, shape [F] |
| p | its publication's mean; p_f is normal(0, sigma) before, sigma a variance |
| t | its type's precisions; t_f is gamma with shape a_f and rate b_f before |

r_f is normal(p_f, 1 / t_f). Given t, p is normal again, and given p, t is gamma again; r's density
with p integrated out is normal, and with t integrated out it is Student's.

Sums of squares are taken apart, sum t r^2 - 2 sum t r p + sum t p^2, so that they are products of
matrices; the references are to be centred and scaled, or digits cancel.

Source: Daumé and Marcu (2005), section 5.

**Separation** is the term of model 3, for each pair of means and each type.

| symbol | meaning |
|---|---|
| p_j, p_k | the means of two publications |
| t | the precisions of a type |
| d_f | t_f (p_jf - p_kf)^2, how far apart they are in feature f |
| lambda | the rate |

`Near` is the paper's term, exp(-lambda d_f), the density of an exponential distance without its
constant. It is largest where the means coincide: it takes precision away from features in which
publications differ, and makes publications dear. `Apart` has the other sign, the probability
1 - exp(-lambda d_f) that an exponential distance is shorter: it is 0 where means coincide, and
gives precision to features in which publications differ. exp(+lambda d_f) itself is no option: it
exceeds the tails of any gamma and normal prior, and no posterior would exist.

Both are at most 1, which samplers rely on, and both are products over features.

Source: Daumé and Marcu (2005), equation 3 and section 5.2. Its powers of the density of the means
are left out: they depend on an order of the publications, and reward each new one by the density's
constant to the power of the types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import FloatArray, IntArray


@dataclass(frozen=True)
class Near:
    """-lambda d."""

    rate: float = 1.0

    def of_types(self, types: FloatArray, means: FloatArray) -> FloatArray:
        """All pairs of means, for each of the types; shapes [..., F] and [K, F], to [..., F]."""
        centred = means - means.mean(axis=0)
        return np.asarray(-self.rate * types * (len(means) * np.square(centred).sum(axis=0)))

    def of_means(self, means: FloatArray, others: FloatArray, types: FloatArray) -> FloatArray:
        """Each mean with all others, under all types; shapes [m, F], [K, F], [L, F], to [m, F]."""
        if not len(others):
            return np.zeros_like(means)
        centre = others.mean(axis=0)
        squares = np.square(others - centre).sum(axis=0) + len(others) * np.square(means - centre)
        return np.asarray(-self.rate * types.sum(axis=0) * squares)


@dataclass(frozen=True)
class Apart:
    """log(1 - exp(-lambda d))."""

    rate: float = 1.0

    def of_types(self, types: FloatArray, means: FloatArray) -> FloatArray:
        first, second = np.triu_indices(len(means), 1)
        squares = np.square(means[first] - means[second])
        return np.asarray(self._log(types[..., None, :] * squares).sum(axis=-2))

    def of_means(self, means: FloatArray, others: FloatArray, types: FloatArray) -> FloatArray:
        squares = np.square(means[:, None] - others)
        return np.asarray(self._log(squares[:, :, None] * types).sum(axis=(1, 2)))

    def _log(self, distances: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):  # equal means are impossible: -inf
            return np.asarray(np.log(-np.expm1(-self.rate * distances)))


Separation: TypeAlias = Near | Apart
"""Log terms by feature, each at most 0."""

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class TypePrior:
    """Gamma by feature: shapes a and rates b, both > 0 and of shape [F]."""

    shape: FloatArray
    rate: FloatArray


def sums(values: FloatArray, cluster: IntArray, clusters: int) -> FloatArray:
    """Sums of the rows of each cluster, shape [clusters, F]."""
    member = np.zeros((clusters, len(values)))
    member[cluster, np.arange(len(values))] = 1.0
    return np.asarray(member @ values)


def draw_means(
    values: FloatArray, precisions: FloatArray, variance: float, rng: np.random.Generator
) -> FloatArray:
    """Draws given sums over a publication's references; shapes [..., F]."""
    total = precisions + 1 / variance
    return np.asarray(values / total + rng.standard_normal(total.shape) / np.sqrt(total))


def draw_types(
    squares: FloatArray,
    counts: FloatArray,
    prior: TypePrior,
    power: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Draws given sums over a type's references; shapes [..., F]."""
    shapes, rates = prior.shape + power * counts / 2, prior.rate + power * squares / 2
    drawn = rng.gamma(shapes, size=squares.shape) / rates
    return np.maximum(drawn, np.finfo(np.float64).tiny)


class MeansOpening:
    """References [rows, F] that choose publications, their types given; `held_types` is [L, F]."""

    def __init__(
        self,
        references: FloatArray,
        types: FloatArray,
        held_types: FloatArray,
        variance: float,
        separation: Separation | None,
        power: float,
    ) -> None:
        self._types, self._held = power * types, held_types
        self._variance, self._separation = variance, separation
        self._weighted = self._types * references
        squares = np.square(references)
        half_logs = (np.log(types).sum(axis=1) - _LOG_2PI * references.shape[1]) / 2
        self._constant = power * half_logs - (self._types * squares).sum(axis=1) / 2
        spread = 1 + variance * self._types
        terms = np.log(spread) + squares * self._types / spread
        self.log_marginal = power * half_logs - terms.sum(axis=1) / 2

    def fit(self, values: FloatArray) -> FloatArray:
        """log density of each row under each value, shapes [m, F], to [rows, m]."""
        return np.asarray(
            self._constant[:, None]
            + self._weighted @ values.T
            - self._types @ np.square(values).T / 2
        )

    def draw(self, row: int, count: int, rng: np.random.Generator) -> FloatArray:
        """Values of a row's posterior under the base density, shape [count, F]."""
        wide = (count, self._types.shape[1])
        precisions = np.broadcast_to(self._types[row], wide)
        return draw_means(self._weighted[row], precisions, self._variance, rng)

    def evidence(self, member: FloatArray) -> FloatArray:
        """log m(S) of sets, nats; sets are weights of the rows, shape [m, rows], to [m]."""
        total, weighted = self._statistics(member)
        gained = np.square(weighted) / (total + 1 / self._variance)
        terms = gained - np.log1p(self._variance * total)
        return np.asarray(member @ self._constant + terms.sum(axis=1) / 2)

    def centres(self, member: FloatArray) -> FloatArray:
        """A likely value of each set, shape [m, F]."""
        total, weighted = self._statistics(member)
        return np.asarray(weighted / (total + 1 / self._variance))

    def draw_for(self, member: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A value of each set's posterior under the base density, shape [m, F]."""
        total, weighted = self._statistics(member)
        return draw_means(weighted, total, self._variance, rng)

    def _statistics(self, member: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.asarray(member @ self._types), np.asarray(member @ self._weighted)

    def log_separation(self, values: FloatArray, held: FloatArray) -> FloatArray:
        """log s of new values beside those that are held; [m, F] and [K, F], to [m]."""
        if self._separation is None:
            return np.zeros(len(values))
        return np.asarray(self._separation.of_means(values, held, self._held).sum(axis=1))


class TypesOpening:
    """References that choose types, their publications given; `squares` [rows, F] are (r - p)^2."""

    def __init__(
        self,
        squares: FloatArray,
        means: FloatArray,
        prior: TypePrior,
        separation: Separation | None,
        power: float,
    ) -> None:
        self._power = power
        self._squares, self._means = squares, means
        self._prior, self._separation = prior, separation
        a, b = prior.shape, prior.rate
        half = power / 2
        constant = gammaln(a + half) - gammaln(a) - half * (np.log(b) + _LOG_2PI)
        self.log_marginal = constant.sum() - np.log1p(half * squares / b) @ (a + half)

    def fit(self, values: FloatArray) -> FloatArray:
        halves = np.log(values).sum(axis=1) / 2 - _LOG_2PI * values.shape[1] / 2
        return np.asarray(self._power * (halves - self._squares @ values.T / 2))

    def draw(self, row: int, count: int, rng: np.random.Generator) -> FloatArray:
        wide = np.broadcast_to(self._squares[row], (count, self._squares.shape[1]))
        return draw_types(wide, np.ones(1), self._prior, self._power, rng)

    def evidence(self, member: FloatArray) -> FloatArray:
        a, b = self._prior.shape, self._prior.rate
        size = self._power * member.sum(axis=1, keepdims=True)
        shape, rate = self._posterior(member)
        terms = gammaln(shape) - gammaln(a) + a * np.log(b) - shape * np.log(rate)
        return np.asarray((terms - size * _LOG_2PI / 2).sum(axis=1))

    def centres(self, member: FloatArray) -> FloatArray:
        shape, rate = self._posterior(member)
        return np.asarray(shape / rate)

    def draw_for(self, member: FloatArray, rng: np.random.Generator) -> FloatArray:
        counts = member.sum(axis=1, keepdims=True)
        return draw_types(member @ self._squares, counts, self._prior, self._power, rng)

    def _posterior(self, member: FloatArray) -> tuple[FloatArray, FloatArray]:
        half = self._power / 2
        shape = self._prior.shape + half * member.sum(axis=1, keepdims=True)
        return shape, np.asarray(self._prior.rate + half * (member @ self._squares))

    def log_separation(self, values: FloatArray, held: FloatArray) -> FloatArray:
        if self._separation is None:
            return np.zeros(len(values))
        return np.asarray(self._separation.of_types(values, self._means).sum(axis=1))


Opening: TypeAlias = MeansOpening | TypesOpening
"""How the references of a scan (rows 0, 1, ...) fit to values, and sets of them."""
