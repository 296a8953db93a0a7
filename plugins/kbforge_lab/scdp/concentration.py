"""The concentration of a Dirichlet process, drawn anew given how many clusters there are.

| symbol | meaning |
|---|---|
| alpha | the concentration; its prior is gamma with shape a and rate b |
| n_m, k_m | references and clusters of group m, one of M |
| x_m | an auxiliary variable, beta(alpha + 1, n_m) |

Given x, alpha's density is proportional to

    alpha^(a - M - 1 + sum k) exp(-alpha (b - sum log x)) product over m of (alpha + n_m)

The product is a polynomial in alpha whose coefficients are the elementary symmetric polynomials of
the n_m. So alpha is a mixture of M + 1 gammas, of the shapes a - M + sum k + s for s = 0, ..., M,
and its weights take O(M^2) steps: nothing of it needs a Gibbs sampler over the 2^M subsets.

Sources: West (1992), "Hyperparameter estimation in Dirichlet process mixture models", for M = 1;
Daumé and Marcu (2005), appendix B, whose a-hat is one too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import FloatArray, IntArray


@dataclass(frozen=True)
class GammaPrior:
    """Of a concentration: its shape a and its rate b, both > 0."""

    shape: float = 1.0
    rate: float = 1.0

    def resample(
        self, alpha: float, sizes: IntArray, clusters: IntArray, rng: np.random.Generator
    ) -> float:
        """alpha, given its present value.

        Args:
            sizes: n_m of the groups that are not empty, shape [M], M at least 1.

        """
        rate = self.rate - np.log(rng.beta(alpha + 1, sizes)).sum()
        shapes = self.shape - len(sizes) + clusters.sum() + np.arange(len(sizes) + 1)
        log_weights = mixture_log_weights(shapes, rate, sizes)
        weights = np.exp(log_weights - log_weights.max())
        return float(rng.gamma(rng.choice(shapes, p=weights / weights.sum())) / rate)


def mixture_log_weights(shapes: FloatArray, rate: float, sizes: IntArray) -> FloatArray:
    """Unnormalised log weights of the gammas of these shapes, shape [M + 1]."""
    ordinary = log_symmetric(np.log(sizes))[::-1]  # alpha^s goes with the products of M - s sizes
    return np.asarray(ordinary + gammaln(shapes) - shapes * np.log(rate))


def log_symmetric(log_terms: FloatArray) -> FloatArray:
    """Logs of the elementary symmetric polynomials e_0, ..., e_M of exp(log_terms), [M + 1]."""
    found = np.full(len(log_terms) + 1, -np.inf)
    found[0] = 0.0
    for done, term in enumerate(log_terms):
        found[1 : done + 2] = np.logaddexp(found[1 : done + 2], found[: done + 1] + term)
    return found
