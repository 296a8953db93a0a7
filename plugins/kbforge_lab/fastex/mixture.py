"""The prior of a grouping: a Dirichlet process, or a mixture of K components.

| | x joins C | x opens a new cluster, beside k others |
|---|---|---|
| Dirichlet process | |C| | alpha |
| K components, weights Dirichlet(alpha/K, ..., alpha/K) | |C| + alpha/K | (K - k) alpha/K |

The second becomes the first as K grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import UsageError


@dataclass(frozen=True, slots=True)
class Mixture:
    """The prior; all values in nats.

    Attributes:
        alpha: concentration, > 0.
        components: K; None is a Dirichlet process.

    """

    alpha: float
    components: int | None = None

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
