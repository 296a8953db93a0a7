"""Live clusters that fragments can leave, which samplers move from cluster to cluster.

Laws beside those of `kbforge.contracts.likelihood`, tested for every member: after any additions
and removals, a table scores like one that was filled with the remaining fragments (to 1e-9 after
thousands of moves), and `gather` makes the cluster that `extend` and `add` make.

*Gaussian clusters.* A point leaves by Welford's rule backwards. The roundings of moves add up but
are not amplified (10,000 moves of outliers 30 sigma wide leave less than 1e-9 nats), and a cluster
that shrinks to one point has SS = 0 exactly. The union of two clusters has (Chan, Golub and
LeVeque, 1979) n = n1 + n2 points, the weighted mean, and SS = SS1 + SS2 + n1 n2 / n (m1 - m2)^2.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import FloatArray, Fragment, IntArray, LiveClusters, Observation
from kbforge.numerics import capacity_for, grown
from kbforge_plugins.likelihoods.gaussian import Gaussian, PlacedPoints


class EditableClusters(LiveClusters):
    """Clusters that fragments can leave."""

    @abstractmethod
    def log_predictive_held(self, x: Observation, slot: int) -> float:
        """L(C) - L(C - x) of a live cluster C that holds x, in nats."""

    @abstractmethod
    def add(self, x: Observation, slot: int) -> None:
        """C := C + x, in place; C is live."""

    @abstractmethod
    def remove(self, x: Observation, slot: int) -> None:
        """C := C - x, in place; C is live, holds x and is not empty without it."""

    def gather(self, xs: Sequence[Observation], slot: int) -> None:
        """Make cluster C := all of xs, at least one, in a free slot.

        Override it if many can be added at once.
        """
        slots = np.array([slot])
        self.extend(xs[0], np.array([-1]), slots)
        for x in xs[1:]:
            self.add(x, slot)


@runtime_checkable
class Mergeable(Protocol):
    """A table whose clusters merge: of the kernel, or of the laboratory.

    A table with merged clusters scores like one that was filled with their fragments.
    """

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        """L(C + D) - L(C) - L(D) of C in `slot` and D in these live slots, nats, shape [slots]."""

    def merge(self, slot: int, into: int) -> None:
        """D := D + C, in place; C is in `slot`, which is released, and D in `into`."""


class LiveGaussian(EditableClusters):
    """The clusters of one run; D dimensions, fixed by the first fragment encoded.

    Row (or column) 0 of every array is the empty cluster, and slot s is at s + 1.
    """

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
        """What the predictive reads, a column a cluster, shape [1 + runs + 2D, k]."""
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
        """C := all of xs, whose mean and SS are taken at once."""
        if slot + 2 > self._capacity:
            self._grow(slot + 2)
        points = np.concatenate(xs, axis=1)
        mean = points.mean(axis=1)
        squares = np.square(points - mean[:, None]).sum(axis=1)
        row = np.array([slot + 1])
        self._statistics[row] = np.concatenate([[float(len(xs))], mean, squares])
        self._derive(row, self._statistics[row])

    def _without(self, point: FloatArray, row: int) -> FloatArray:
        """The statistics of a row's cluster without a point that is not its last."""
        dimensions = len(point)
        old = self._statistics[row]
        left = float(old[0]) - 1
        after = point - old[1 : 1 + dimensions]
        mean = old[1 : 1 + dimensions] - after / left
        squares = np.zeros(dimensions)
        if left > 1:  # one point has no spread; rounding may leave less than nothing
            squares = np.maximum(old[1 + dimensions :] - after * (point - mean), 0.0)
        return np.concatenate([[left], mean, squares])

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        others, one = self._statistics[slots + 1], self._statistics[slot + 1]
        ratio = self._log_evidence(self._united(others, one))
        ratio -= self._log_evidence(others)
        ratio -= self._log_evidence(one[None])
        return ratio

    def merge(self, slot: int, into: int) -> None:
        rows = np.array([into + 1])
        self._statistics[rows] = self._united(self._statistics[rows], self._statistics[slot + 1])
        self._derive(rows, self._statistics[rows])

    def _united(self, others: FloatArray, one: FloatArray) -> FloatArray:
        """The statistics of clusters [k, 1 + 2D], each with one more cluster's [1 + 2D] in it."""
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
        """L of clusters but for -n D log(2 pi) / 2, which cancels in ratios, shape [k]."""
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


_LOG_2 = math.log(2.0)


def log_of_product(factors: FloatArray) -> FloatArray:
    """The sum of logs of positive numbers over the first axis, with one log per column.

    The factors are scaled to between 1 and 2, and powers of two are counted, so nothing overflows.

    Args:
        factors: shape [n, k], 0 < n <= 512.

    Returns:
        Shape [k], nats.

    """
    fractions, exponents = np.frexp(factors)
    fractions *= 2.0
    twos = exponents.sum(axis=0, dtype=np.int64) - len(factors)
    product = np.multiply.reduce(fractions, axis=0)
    logs = np.array(list(map(math.log, product.tolist())), dtype=np.float64)
    return np.asarray(logs + twos * _LOG_2)
