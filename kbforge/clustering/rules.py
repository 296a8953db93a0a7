"""Rules and prior of sequential Monte Carlo clustering, and the possible results of a step.

Sources: Fearnhead (2004) for the sampler on partitions; the split-SMC paper (Trojan et al.) for
subproblems (section 3) and surrogates (appendix C.1).

| symbol | meaning |
|---|---|
| x | the new fragment |
| w_si | log weight of particle i of subproblem s, normalised within s |
| C | a cluster of that particle; |C| its size |
| L | log marginal likelihood of a cluster, nats |
| alpha | concentration of the Dirichlet process |
| P | maximum particles per subproblem |

A putative particle puts x into C, with weight w_si + log|C| + L(C + x) - L(C), or into a cluster
of its own, with weight w_si + log alpha + L({x}). The kernel takes the steps
(`kbforge/kernel/src/step.cpp`); `tests/kernel/oracle.py` defines a step in one page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import digamma, gammaln

from kbforge.clustering.resamplers import Resampler, greedy
from kbforge.contracts import Cluster, Fate, FloatArray, IntArray
from kbforge.errors import UsageError
from kbforge.numerics import on_grid

Weights: TypeAlias = Literal["target", "marginal"]
"""The weight of a partial grouping: the posterior's own value, which is the best choice for the
stored support, or the sum over the particles that contained it, as published."""

WAVE = 32
"""Enough for batches that keep a processor busy; with more, more sets are in vain."""

FATES = (Fate.OPENED, Fate.JOINED, Fate.MERGED)
"""Indexed by the number of subproblems involved."""

_FLOOR_OF_INDEXED = 1e-3
_NO_PAIRS = 1e9
"""An alpha this many times the number of fragments leaves each alone."""


class InfeasibleFragment(Exception):
    """Constraints leave the fragment no place in the current particles."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that distinguish the family of sequential Monte Carlo clusterers.

    Attributes:
        particles: P.
        resampler: how a pool is reduced to P.
        splits: whether the set splits into subproblems; False is plain SMC.
        weights: how partial groupings are weighed after a split.
        sampled_merges: join by sampling when more than two subproblems with several particles
            meet, as the published code does, instead of exactly.
        floor: putative particles below this fraction of the heaviest are dropped; 0 drops none.
            None leaves it to the spec (`settled`).
        wave: maximum fragments whose sets a black box scores ahead in one batch; 1 turns it off.
            The result is the same (`kbforge.clustering.ahead`).

    """

    particles: int
    resampler: Resampler
    splits: bool
    weights: Weights = "target"
    sampled_merges: bool = False
    floor: float | None = None
    wave: int = WAVE

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise UsageError(f"particles: expected at least 1, got {self.particles}")
        if self.floor is not None and not 0 <= self.floor < 1:
            raise UsageError(f"floor: expected a number from 0 to below 1, got {self.floor}")
        if self.wave < 1:
            raise UsageError(f"wave: expected at least 1, got {self.wave}")

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

    A new fragment joins a cluster C with probability proportional to |C| and opens a new cluster
    with probability proportional to alpha, the concentration, > 0. The shared normaliser
    log(t - 1 + alpha) cancels wherever assignments of one fragment are compared; it is left out.
    """

    alpha: float

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise UsageError(f"alpha: expected a finite positive number, got {self.alpha}")

    @property
    def log_alpha(self) -> float:
        """The prior term of a new cluster."""
        return math.log(self.alpha)

    def expected_clusters(self, fragments: int) -> float:
        """E[K] = alpha (psi(alpha + n) - psi(alpha)) of n fragments, Antoniak (1974)."""
        if self.alpha > _NO_PAIRS * fragments:  # the difference of the two loses all digits
            return float(fragments)
        return float(self.alpha * (digamma(self.alpha + fragments) - digamma(self.alpha)))

    def log_cluster(self, sizes: IntArray) -> FloatArray:
        """The factor of each cluster in the unnormalised prior: log alpha + lgamma(|C|)."""
        return np.asarray(self.log_alpha + gammaln(sizes), dtype=np.float64)

    def log_terms(self, clusters: Sequence[Cluster], log_marginal: FloatArray) -> FloatArray:
        """log alpha + lgamma(|C|) + L(C) of each cluster, on the grid of `kbforge.numerics`."""
        sizes = np.array([len(cluster) for cluster in clusters], dtype=np.int64)
        return on_grid(self.log_cluster(sizes) + log_marginal)
