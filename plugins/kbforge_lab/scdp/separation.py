"""The separation term of model 3, for each pair of means and each type.

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
from typing import Protocol

import numpy as np

from kbforge.contracts import FloatArray


class Separation(Protocol):
    """Log terms by feature, each at most 0."""

    def of_types(self, types: FloatArray, means: FloatArray) -> FloatArray:
        """All pairs of means, for each of the types; shapes [..., F] and [K, F], to [..., F]."""
        ...

    def of_means(self, means: FloatArray, others: FloatArray, types: FloatArray) -> FloatArray:
        """Each mean with all others, under all types; shapes [m, F], [K, F], [L, F], to [m, F]."""
        ...


@dataclass(frozen=True)
class Near:
    """-lambda d."""

    rate: float = 1.0

    def of_types(self, types: FloatArray, means: FloatArray) -> FloatArray:
        centred = means - means.mean(axis=0)
        return np.asarray(-self.rate * types * (len(means) * np.square(centred).sum(axis=0)))

    def of_means(self, means: FloatArray, others: FloatArray, types: FloatArray) -> FloatArray:
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
