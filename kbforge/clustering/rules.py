"""Rules, prior and resamplers of sequential Monte Carlo clustering, and the results of a step.

Sources: Fearnhead (2004) for the sampler on partitions; the split-SMC paper (Trojan et al.) for
subproblems (section 3) and surrogates (appendix C.1).

| symbol | meaning |
|---|---|
| x | the new fragment |
| w_si | log weight of particle i of subproblem s, normalised within s |
| C | a cluster of that particle; |C| its size |
| L | log marginal likelihood of a cluster, nats |
| alpha | concentration of the Dirichlet process |
| e | exponent of the factor (|C| - 1)! in the prior, 1 in the paper |
| P | maximum number of particles per subproblem |

A putative particle puts x into C, with weight w_si + e log|C| + L(C + x) - L(C), or into a cluster
of its own, with weight w_si + log alpha + L({x}). The kernel takes the steps
(`kbforge/kernel/src/step.cpp`); `tests/kernel/oracle.py` defines a step in Python.

Resamplers reduce many weighted putative particles to at most P. One signature for the family:

    resample(log_weights[n], size, rng) -> (indices[m], log_weights[m]),  m <= min(n, size)

| name | keeps |
|---|---|
| greedy | the P heaviest, the best choice in reverse KL divergence (split-SMC paper, B.2) |
| multinomial | P independent draws with replacement; a weight is a share of the draws |
| stratified | one draw in each stratum, all at one offset (Carpenter et al. 1999) |
| optimal | the heavy, and resamples the light (Fearnhead and Clifford 2003) |

Laws: indices are distinct and ascending; `greedy` keeps the weights of the particles that it keeps,
and draws no random numbers; the others are unbiased, E[W_i] = w_i for each i, where W_i is the new
weight (0 if i was dropped); n <= size returns everything unchanged; a constant that is added to the
weights is added to the result; -inf is never kept when a finite weight is dropped.

Inputs arrive in the canonical order (heaviest first, ties broken by the caller).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from kbforge.contracts import Cluster, Fate, FloatArray, IntArray, ModelSpec
from kbforge.errors import UsageError, option, require_least
from kbforge.numerics import log_sum_exp, on_grid

Resampler: TypeAlias = Callable[[FloatArray, int, np.random.Generator], tuple[IntArray, FloatArray]]
ResamplerName: TypeAlias = Literal["greedy", "multinomial", "stratified", "optimal"]


def greedy(
    log_weights: FloatArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """The first P, with their weights unchanged."""
    return np.arange(min(size, len(log_weights))), log_weights[:size]


def multinomial(
    log_weights: FloatArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """The simplest unbiased scheme, and the one with the highest variance."""
    return _redrawn(log_weights, size, lambda share: rng.multinomial(size, share / share.sum()))


def stratified(
    log_weights: FloatArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """One point in each stratum of width 1/P, all at one random offset."""
    return _redrawn(log_weights, size, lambda share: _stratified_counts(share, size, rng.random()))


def optimal(
    log_weights: FloatArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Unbiased, exactly P distinct particles, and the least expected squared error of weights.

    A threshold c solves sum_i min(w_i / c, 1) = P. Particles above c keep their weights; others are
    kept with probability w_i / c, by stratified draws, and get weight c.
    """
    finite = np.flatnonzero(log_weights > -np.inf)
    if len(finite) <= size:
        kept = finite if len(log_weights) > size else np.arange(len(log_weights))
        return kept, log_weights[kept]
    total = log_sum_exp(log_weights)
    weights = np.exp(log_weights - total)
    heavy, threshold = _threshold(weights, size)
    if threshold == 0:  # all but a few are below the smallest float: there is nothing to draw
        return finite[:size], log_weights[finite[:size]]
    light = np.flatnonzero(~heavy)
    counts = _stratified_counts(weights[light], size - int(heavy.sum()), rng.random())
    chosen = light[counts > 0]
    kept = np.sort(np.concatenate([np.flatnonzero(heavy), chosen]))
    value = np.where(heavy[kept], log_weights[kept], np.log(threshold) + total)
    return kept, value


RESAMPLERS: Mapping[ResamplerName, Resampler] = {
    "greedy": greedy,
    "multinomial": multinomial,
    "stratified": stratified,
    "optimal": optimal,
}


def draw(log_weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Indices drawn with replacement in proportion to exp(log_weights), shape [size]."""
    cumulative = np.cumsum(np.exp(log_weights - log_sum_exp(log_weights)))
    found = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.asarray(np.minimum(found, len(cumulative) - 1))


def _redrawn(
    log_weights: FloatArray, size: int, counts_of: Callable[[FloatArray], IntArray]
) -> tuple[IntArray, FloatArray]:
    """P particles with equal weights by count; all of them, if there are no more than P."""
    if len(log_weights) <= size:
        return np.arange(len(log_weights)), log_weights
    total = log_sum_exp(log_weights)
    counts = counts_of(np.exp(log_weights - total))
    kept = np.flatnonzero(counts)
    return kept, np.log(counts[kept]) - np.log(size) + total


def _stratified_counts(share: FloatArray, size: int, offset: float) -> IntArray:
    """How many of `size` points (k + offset)/size fall into each particle's share.

    The offset is uniform in [0, 1). A count is the floor or the ceiling of its mean, size * share.
    """
    cumulative = np.cumsum(share)
    points = (np.arange(size) + offset) * (cumulative[-1] / size)
    found = np.searchsorted(cumulative, points, side="right")
    return np.bincount(np.minimum(found, len(share) - 1), minlength=len(share))


def _threshold(weights: FloatArray, size: int) -> tuple[NDArray[np.bool_], float]:
    """(which particles are heavy, c) for normalised weights of more than `size` particles."""
    order = np.argsort(-weights, kind="stable")
    ranked = weights[order]
    # mass[k]: of all but the k heaviest; with k heavy ones, c = mass[k] / (size - k)
    mass = np.cumsum(ranked[::-1])[::-1][:size]
    thresholds = mass / (size - np.arange(size))
    k = int(np.argmax(ranked[:size] <= thresholds))
    heavy = np.zeros(len(weights), dtype=np.bool_)
    heavy[order[:k]] = True
    return heavy, float(thresholds[k])


Weights: TypeAlias = Literal["target", "marginal"]
"""The weight of a partial grouping: the posterior's own value, which is the best choice for the
stored support, or the sum over the particles that contained it, as published."""

WAVE = 32
"""Enough for batches that keep a processor busy; with more, more sets are wasted."""

FATES = (Fate.OPENED, Fate.JOINED, Fate.MERGED)
"""Indexed by the number of subproblems involved."""

_FLOOR_OF_INDEXED = 1e-3
_MOST_EXPONENT = 10.0
_NO_PAIRS = 1e9
"""An alpha this many times the number of fragments leaves each alone."""


class InfeasibleFragment(Exception):
    """Constraints leave the fragment no place in the current particles."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that distinguish the family of sequential Monte Carlo clusterers."""

    particles: int  # P
    resampler: Resampler  # how a pool is reduced to P
    splits: bool  # whether the set splits into subproblems; False is plain SMC
    weights: Weights = "target"  # how partial groupings are weighed after a split
    # join by sampling when more than two subproblems with several particles meet, as the published
    # code does, instead of exactly
    sampled_merges: bool = False
    # putative particles below this fraction of the heaviest are dropped; 0 drops none. None leaves
    # it to the spec (`settled`)
    floor: float | None = None
    # maximum number of fragments whose sets a black box scores ahead in one batch; 1 turns it off.
    # The result is the same (`LookAhead` of `kbforge.clustering.scoring`)
    wave: int = WAVE

    def __post_init__(self) -> None:
        require_least(1, particles=self.particles, wave=self.wave)
        if self.floor is not None and not 0 <= self.floor < 1:
            raise UsageError(f"floor: expected a number from 0 to below 1, got {self.floor}")

    @property
    def keeps_heaviest(self) -> bool:
        """Whether the resampler keeps the heaviest, in the given order, without random draws."""
        return self.resampler is greedy

    @property
    def draws(self) -> bool:
        """Whether a step may draw random numbers."""
        return self.sampled_merges or not self.keeps_heaviest

    @property
    def limit(self) -> int | None:
        """How many joins the resampler can use; None for all, because it may use more than P."""
        return self.particles if self.keeps_heaviest else None

    def settled(self, indexed: bool) -> Rules:
        """The same rules with a floor: low if an index leaves out clusters anyway, else 0.

        A stochastic resampler is unbiased only without a floor.
        """
        if self.floor is not None:
            return self
        low = indexed and self.keeps_heaviest
        return replace(self, floor=_FLOOR_OF_INDEXED if low else 0.0)


@dataclass(frozen=True, slots=True)
class DirichletProcess:
    """The prior over partitions (Ewens 1972; split-SMC paper, eqs. 1 and 3); all values in nats.

    A new fragment joins a cluster C with probability proportional to |C|^e and opens a new cluster
    with probability proportional to alpha, the concentration, > 0. The shared normaliser, for
    e = 1 log(t - 1 + alpha), cancels wherever assignments of one fragment are compared; it is left
    out.

    With an exponent e other than 1 this is the powered Chinese restaurant process (Lu, Li and
    Dunson 2018), in the form that ignores the order of the fragments: the product over clusters of
    alpha ((|C| - 1)!)^e, normalised over the partitions of n fragments. Such a prior grows
    clusters slower than the Dirichlet process for e < 1, as entities with few records do (Zanella
    et al. 2016), but its marginal over fewer fragments is another one; e = 0 is indifferent to
    sizes.
    """

    alpha: float
    exponent: float = 1.0

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise UsageError(f"alpha: expected a finite positive number, got {self.alpha}")
        if not 0 <= self.exponent <= _MOST_EXPONENT:
            raise UsageError(
                f"{option('size-exponent')}: expected a number from 0 to {_MOST_EXPONENT:g}, got "
                f"{self.exponent}"
            )

    @classmethod
    def of(cls, spec: ModelSpec) -> DirichletProcess:
        """The prior of a spec."""
        return cls(spec.alpha, spec.exponent)

    @property
    def log_alpha(self) -> float:
        """The prior term of a new cluster."""
        return math.log(self.alpha)

    def expected_clusters(self, fragments: int) -> float:
        """E[K] = alpha (psi(alpha + n) - psi(alpha)) of n fragments for e = 1, Antoniak (1974)."""
        if self.alpha > _NO_PAIRS * fragments:  # the difference of the two loses all digits
            return float(fragments)
        return float(self.alpha * (digamma(self.alpha + fragments) - digamma(self.alpha)))

    def log_cluster(self, sizes: IntArray) -> FloatArray:
        """The factor of each cluster in the unnormalised prior: log alpha + e lgamma(|C|)."""
        return np.asarray(self.log_alpha + self.exponent * gammaln(sizes), dtype=np.float64)

    def log_cluster_by_size(self, largest: int) -> FloatArray:
        """`log_cluster` of each size, with 0 for size 0; shape [largest + 1]."""
        return np.concatenate([[0.0], self.log_cluster(np.arange(1, largest + 1))])

    def log_terms(self, clusters: Sequence[Cluster], log_marginal: FloatArray) -> FloatArray:
        """log alpha + e lgamma(|C|) + L(C) of each cluster, on the grid of `kbforge.numerics`."""
        sizes = np.array([len(cluster) for cluster in clusters], dtype=np.int64)
        return on_grid(self.log_cluster(sizes) + log_marginal)
