"""L of many sets of the same points under a Gaussian likelihood.

The closed form of `kbforge_plugins.likelihoods.gaussian` (equation 95 of its source), with the
points in one matrix and the constants of every size of set worked out once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge_plugins.models.gaussian.prior import PlacedPrior


class GaussianSets:
    """Points that were read once; D dimensions.

    Args:
        placed: the prior around the first point.
        points: relative to that, shape [n, D].

    """

    def __init__(self, placed: PlacedPrior, points: FloatArray) -> None:
        self._placed, self._points = placed, points
        self._constants: dict[int, float] = {}

    def log_marginal(self, sets: Sequence[IntArray]) -> FloatArray:
        """See `kbforge.contracts.likelihood`."""
        return np.array([self._log_marginal(self._points.take(of_one, axis=0)) for of_one in sets])

    def _log_marginal(self, x: FloatArray) -> float:
        n, placed = len(x), self._placed
        mean = np.add.reduce(x, axis=0)
        mean /= n
        x -= mean  # a copy: `take` made it
        squares = np.einsum("nd,nd->d", x, x)
        mean -= placed.centre
        mean *= mean
        mean *= placed.lam * n / (placed.lam + n)
        b_n = placed.b + 0.5 * (squares + mean)
        return self._constant(n) - float((placed.a + 0.5 * n) @ np.log(b_n))

    def _constant(self, n: int) -> float:
        """What does not depend on where n points are."""
        known = self._constants.get(n)
        if known is None:
            placed = self._placed
            terms = gammaln(placed.a + 0.5 * n) - gammaln(placed.a) + placed.a * np.log(placed.b)
            terms += 0.5 * np.log(placed.lam / (placed.lam + n)) - 0.5 * n * math.log(2 * math.pi)
            known = self._constants[n] = float(terms.sum())
        return known
