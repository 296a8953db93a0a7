"""The likelihood of vectors whose entities all scatter alike.

| symbol | meaning |
|---|---|
| x | a vector of the entity, one column of it |
| p | the entity's mean, normal(0, 1) before |
| w | the variance of x given p, the same for all entities |

With n vectors of sum s and sum of squares q, the mean integrated out:

    L = -(n log(2 pi w) + log(1 + n / w) + q / w - s^2 / (w^2 + n w)) / 2        summed over columns

That is SCDP with one type, held where the labelled vectors have it. Columns are correlated and
count several times over, so w is their variance times a factor that training chooses.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import AdditiveLikelihood, FloatArray, Fragment


class Scatter(AdditiveLikelihood):
    """Of fragments with vectors on the scale of `scaling`.

    Args:
        variance: w, shape [F].

    """

    def __init__(self, variance: FloatArray) -> None:
        self._variance = variance

    def statistics(self, fragment: Fragment) -> FloatArray:
        """See `statistics_of`."""
        return self.statistics_of(np.array(fragment.vector))

    def statistics_of(self, x: FloatArray) -> FloatArray:
        """1, the sum over columns of x^2 / w, and x; shapes [F], to [F + 2]."""
        return np.concatenate([[1.0, (np.square(x) / self._variance).sum()], x])

    def log_marginal_of(self, sums: FloatArray) -> FloatArray:
        """See `kbforge.contracts.additive`."""
        w = self._variance
        n, squares, total = sums[:, :1], sums[:, 1], sums[:, 2:]
        known = n[:, 0] * np.log(2 * np.pi * w).sum() + np.log1p(n / w).sum(axis=1)
        explained = (np.square(total) / (np.square(w) + n * w)).sum(axis=1)
        return np.asarray(-(known + squares - explained) / 2)
