"""The Dirichlet-process prior over partitions (Ewens 1972; split-SMC paper, eqs. 1 and 3).

| symbol | meaning |
|---|---|
| alpha | concentration, > 0 |
| C | a cluster, |C| its size |

A new fragment joins C with probability proportional to |C| and opens a new cluster with
probability proportional to alpha. The shared normaliser log(t - 1 + alpha) cancels
wherever assignments of one fragment are compared, and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from kbforge.contracts import Cluster, FloatArray, IntArray
from kbforge.errors import UsageError
from kbforge.numerics import on_grid

_NO_PAIRS = 1e9
"""An alpha so many times the fragments leaves each alone."""


@dataclass(frozen=True, slots=True)
class DirichletProcess:
    """The prior; all values in nats."""

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
        """log alpha + lgamma(|C|) + L(C): what clusters contribute to the log posterior, one each,
        on the grid of `kbforge.numerics`.

        Args:
            clusters: any.
            log_marginal: their L, shape [len(clusters)].

        """
        sizes = np.array([len(cluster) for cluster in clusters], dtype=np.int64)
        return on_grid(self.log_cluster(sizes) + log_marginal)
