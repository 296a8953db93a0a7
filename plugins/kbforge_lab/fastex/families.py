"""The exponential families of FastEx, and the prior of groupings.

**Documents** as bags of words: the Dirichlet-multinomial family, sparse. Of a cluster with counts n
and pseudo-counts a, both by row (`SparseCounts` has the words), x_r the counts of a fragment:

    L(C + x) - L(C) = sum over r of s_r [lgamma(n_r + x_r + a_r) - lgamma(n_r + a_r)]    exactly
    theta*_r        = E[log p_r] = psi(a_r + n_r) - psi(a + n)                            tangent
                    = log(a_r + n_r) - log(a + n + m/2)                                   secant

with a and n the sums of the distribution that r belongs to and m the mean length of fragments. The
tangent is the Taylor approximation of the poster (equation 5). With small pseudo-counts it takes
new words for far less probable than they are; the secant is exact for words that occur once.

*What is hashed.* theta* relative to that of an empty cluster, psi(a_r + n_r) - psi(a_r) or
log((a_r + n_r) / a_r), which is sparse. The rest is the same for all clusters, and the second term
is a number for each cluster and distribution (g in the bound).

**Points**: the Gaussian family with independent dimensions and a normal-inverse-gamma prior. Of a
cluster, per dimension (`kbforge_plugins.likelihoods.gaussian` has the posterior's a_n, b_n, mu_n
and lam_n), with l the precision and mu the mean of a component:

    phi(x)  = (x, x^2)
    theta*  = (E[l mu], -E[l] / 2) = (a_n mu_n / b_n, -a_n / 2 b_n)
    gamma*  = E[l mu^2 - log l + log 2 pi] / 2
            = (a_n mu_n^2 / b_n + 1 / lam_n - psi(a_n) + log b_n + log 2 pi) / 2

Points are standardised first, which changes L by the same constant for every fragment.

*What is hashed.* phi(x) less that of an average point, (0, 1), and theta* less that of a standard
normal cluster, (0, -1/2). <phi, theta*> is the product of these two, a number for each cluster,
which is in g, and one that all clusters share.

**The prior** of a grouping: a Dirichlet process, or K components (the same as K grows).

| | x joins C | x opens a new cluster, beside k others |
|---|---|---|
| Dirichlet process | |C| | alpha |
| K components, weights Dirichlet(alpha/K, ..., alpha/K) | |C| + alpha/K | (K - k) alpha/K |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from kbforge.contracts import Cluster, FloatArray, IntArray
from kbforge.errors import UsageError
from kbforge_lab.fastex.proposals import Directions
from kbforge_lab.likelihoods.discrete import SparseCounts
from kbforge_plugins.likelihoods.gaussian import PlacedPoints

Taylor: TypeAlias = Literal["secant", "tangent"]
Numbers: TypeAlias = NDArray[np.int32] | NDArray[np.int64]
_FRAGMENTS_AT_ONCE = 20_000
_LARGEST = 1024
"""Coordinates of theta* are whole numbers up to this one, to be hashed."""
_REMEMBERED, _RAREST = 64, 32


class DocumentFamily:
    """The n fragments, and the counts of the clusters by slot.

    `norms` [n] is |phi(x)|, `lengths` [n, H] what the numbers `g` of a cluster are multiplied by,
    `alone` [n] L({x}); `rows` are the coordinates of phi(x).
    """

    def __init__(self, data: SparseCounts, taylor: Taylor = "secant") -> None:
        self.data, self.taylor = data, taylor
        self.n = len(data.starts) - 1
        entries = np.diff(data.starts)
        owners = np.arange(self.n).repeat(entries)
        word = data.signs[data.rows] > 0
        self.norms = np.sqrt(
            np.bincount(owners[word], data.counts[word].astype(np.float64) ** 2, self.n)
        )
        self.totals = np.flatnonzero(data.signs < 0)
        self.lengths: FloatArray = np.zeros((self.n, len(self.totals)))
        place = np.searchsorted(self.totals, data.rows[~word])
        self.lengths[owners[~word], place] = data.counts[~word]
        self.rows = len(data.signs)
        self.half = 0.5 * self.lengths.mean(axis=0) if self.n else np.zeros(len(self.totals))
        self.alone = np.bincount(owners, self._factors(data.rows, data.counts), self.n)
        self._of_slot: dict[int, dict[int, int]] = {}
        words = np.flatnonzero(data.signs > 0)
        most = float(self.lengths.sum(axis=0).max(initial=1.0))
        largest = float(self._theta(words, np.full(len(words), most)).max(initial=1.0))
        self.unit = largest / _LARGEST
        self._fragments_with = np.bincount(data.rows, minlength=self.rows)
        self._first_clusters: dict[int, list[int]] = {}

    def _factors(self, rows: Numbers, counts: Numbers | FloatArray) -> FloatArray:
        a = self.data.pseudo_counts[rows]
        return np.asarray(self.data.signs[rows] * (gammaln(counts + a) - gammaln(a)))

    def _theta(self, rows: Numbers, counts: FloatArray) -> FloatArray:
        a = self.data.pseudo_counts[rows]
        if self.taylor == "tangent":
            return np.asarray(digamma(a + counts) - digamma(a))
        return np.asarray(np.log((a + counts) / a))

    def _entries(self, fragment: int) -> tuple[Numbers, Numbers]:
        begin, end = self.data.starts[fragment : fragment + 2]
        return self.data.rows[begin:end], self.data.counts[begin:end]

    def add(self, fragment: int, slot: int) -> None:
        """C := C + x."""
        held = self._of_slot.setdefault(slot, {})
        for row, count in zip(*(part.tolist() for part in self._entries(fragment)), strict=True):
            held[row] = held.get(row, 0) + count

    def remove(self, fragment: int, slot: int) -> None:
        """C := C - x."""
        held = self._of_slot[slot]
        for row, count in zip(*(part.tolist() for part in self._entries(fragment)), strict=True):
            held[row] -= count
            if not held[row]:
                del held[row]

    def log_predictive(self, fragment: int, slot: int, held: bool) -> float:
        """L(C + x) - L(C), with `held` of x's own cluster without it, in nats."""
        rows, counts = self._entries(fragment)
        of_slot = self._of_slot.get(slot, {})
        before = np.array([of_slot.get(row, 0) for row in rows.tolist()], dtype=np.int64)
        if held:
            before -= counts
        a = self.data.pseudo_counts[rows] + before
        terms = self.data.signs[rows] * (gammaln(a + counts) - gammaln(a))
        return float(terms.sum())

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L(C), in nats, shape [len(clusters)]."""
        out = np.zeros(len(clusters))
        for some in batches([len(cluster) for cluster in clusters]):
            members = np.concatenate([np.array(clusters[k], dtype=np.int64) for k in some])
            owners = np.array(some).repeat([len(clusters[k]) for k in some])
            starts, ends = self.data.starts[members], self.data.starts[members + 1]
            entries = ends - starts
            last = entries.cumsum()
            at = np.arange(last[-1]) + (starts - last + entries).repeat(entries)
            keys = owners.repeat(entries) * len(self.data.signs) + self.data.rows[at]
            distinct, place = np.unique(keys, return_inverse=True)
            counts = np.bincount(place, self.data.counts[at])
            owner, row = np.divmod(distinct, len(self.data.signs))
            np.add.at(out, owner, self._factors(row, counts))
        return out

    def remember(self, fragment: int, slot: int) -> None:
        """At the start: a fragment is in a cluster."""
        rows, _ = self._entries(fragment)
        for row in rows[self.data.signs[rows] > 0].tolist():
            first = self._first_clusters.setdefault(row, [])
            if len(first) < _REMEMBERED and slot not in first:
                first.append(slot)

    def recalled(self, fragment: int, most: int) -> list[int] | None:
        """At the start: the clusters with which it shares most of its rarest words."""
        rows, _ = self._entries(fragment)
        known = [row for row in rows.tolist() if row in self._first_clusters]
        known.sort(key=lambda row: (self._fragments_with[row], row))
        tally = Counter(slot for row in known[:_RAREST] for slot in self._first_clusters[row])
        return sorted(tally, key=lambda slot: (-tally[slot], slot))[:most]

    def projections(self, directions: Directions) -> FloatArray:
        """Inner products of phi(x) with the directions, shape [n, l]."""
        out = np.zeros((self.n, directions.bits))
        for fragment in range(self.n):
            rows, counts = self._entries(fragment)
            word = self.data.signs[rows] > 0
            out[fragment] = counts[word] @ directions.of(rows[word])
        return out

    def summary(
        self, slot: int, size: int, directions: Directions
    ) -> tuple[FloatArray, float, FloatArray]:
        """Of a cluster: theta*'s products with the directions [l], its length, and g [H]."""
        held = self._of_slot.get(slot, {})
        rows = np.array([row for row in held if self.data.signs[row] > 0], dtype=np.int64)
        counts = np.array([held[row] for row in rows.tolist()], dtype=np.float64)
        theta = self._theta(rows, counts)
        n = np.array([held.get(row, 0) for row in self.totals.tolist()], dtype=np.float64)
        of_all = n + self.data.pseudo_counts[self.totals]
        g = digamma(of_all) if self.taylor == "tangent" else np.log(of_all + self.half)
        rounded = np.rint(theta / self.unit)
        return rounded @ directions.of(rows), float(np.sqrt(theta @ theta)), np.asarray(g)


def batches(sizes: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of clusters of these sizes, few fragments at a time."""
    some: list[int] = []
    held = 0
    for k, size in enumerate(sizes):
        if some and held + size > _FRAGMENTS_AT_ONCE:
            yield some
            some, held = [], 0
        some.append(k)
        held += size
    if some:
        yield some


_LOG_2_PI = math.log(2 * math.pi)


class PointFamily:
    """The fragments, and the moments of the clusters by slot; attributes as in `DocumentFamily`."""

    def __init__(self, data: PlacedPoints) -> None:
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


ExponentialFamily: TypeAlias = DocumentFamily | PointFamily


@dataclass(frozen=True, slots=True)
class Mixture:
    """The prior; all values in nats."""

    alpha: float  # > 0
    components: int | None = None  # K; None is a Dirichlet process

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise UsageError(f"alpha: expected a finite positive number, got {self.alpha}")
        if self.components is not None and self.components < 1:
            raise UsageError(f"components: expected at least 1, got {self.components}")

    @property
    def share(self) -> float:
        """alpha/K, 0 of a Dirichlet process."""
        return 0.0 if self.components is None else self.alpha / self.components

    def log_join(self, size: int) -> float:
        """Of joining a cluster of this size, at least 1."""
        return math.log(size + self.share)

    def log_new(self, clusters: int) -> float:
        """Of opening a cluster beside so many; -inf if all components have one."""
        if self.components is None:
            return math.log(self.alpha)
        free = self.components - clusters
        return math.log(free * self.share) if free > 0 else -math.inf

    def log_clusters(self, sizes: IntArray) -> FloatArray:
        """What each cluster contributes to the log prior, but for `log_choices`, [k]."""
        if self.components is None:
            return np.asarray(math.log(self.alpha) + gammaln(sizes))
        share = self.share
        return np.asarray(gammaln(sizes + share) - math.lgamma(share))

    def log_choices(self, clusters: int) -> float:
        """log of the ways to give so many clusters components of their own, K! / (K - k)!."""
        if self.components is None:
            return 0.0
        return math.lgamma(self.components + 1) - math.lgamma(self.components - clusters + 1)
