"""q: which cluster a fragment is proposed, by the distances of hashes.

    log q(y) = t (s(x, y) - log(n_y + a)) + log(n_y + a), rounded to sixteenths of a nat below the
               largest, at most 24 nats below it

As whole numbers of 2^-36, the weights have exact sums, whatever their order; q *is* these numbers,
so that the rounding costs nothing of the sampler's exactness.

A share ELSEWHERE of the proposals goes to places that have no hash: clusters that only fragments of
the block are in, and a new one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.fastex.hashes import distances

ELSEWHERE = 0.1
"""Share of the proposals that goes to places without a hash."""
EXPLORE = 0.05
"""Share of the steps that propose from the prior."""
STEPS, MOST = 16.0, 384
"""Weights in one nat, and how many there are."""
WEIGHTS: NDArray[np.int64] = np.rint(2.0**36 * np.exp(-np.arange(MOST + 1) / STEPS)).astype(
    np.int64
)
TEMPERATURES: tuple[float, ...] = tuple(2.0**-k for k in range(13))
"""Those of which the best is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Hashed:
    """Clusters as q knows them.

    Attributes:
        slots: ascending, shape [k].
        hashes: of theta*, shape [k, words].
        norms: |theta*|, shape [k].
        g: shape [k, H].
        log_join: log(n_y + a), shape [k].

    """

    slots: IntArray
    hashes: NDArray[np.uint64]
    norms: FloatArray
    g: FloatArray
    log_join: FloatArray

    def log_bound(
        self,
        x: NDArray[np.uint64],
        norm: float,
        lengths: FloatArray,
        cosines: FloatArray,
    ) -> FloatArray:
        """s(x, y) - log(n_y + a), in nats, but for what is the same for all clusters, shape [k].

        Args:
            x: hash of phi(x), shape [words].
            norm: |phi(x)|.
            lengths: see `Counts`, shape [H].
            cosines: by distance, see `hashes.cosines`.

        """
        bound = (norm * cosines)[distances(x, self.hashes)] * self.norms
        for h, length in enumerate(lengths.tolist()):
            bound = bound - length * self.g[:, h]
        return bound

    def weights(self, log_bound: FloatArray, temperature: float) -> IntArray:
        """q but for its sum, shape [k]."""
        log_q = temperature * log_bound + self.log_join
        below = np.minimum((log_q.max() - log_q) * STEPS, MOST).astype(np.int64)
        return np.asarray(WEIGHTS[below])


def log_weight(weight: int, total: int) -> float:
    """log q of a cluster with a hash."""
    return math.log1p(-ELSEWHERE) + math.log(weight / total)


def drawn(weights: IntArray, u: float) -> int:
    """The place of the cluster that a number in [0, 1) means."""
    cumulative = weights.cumsum()
    aim = min(int(u * float(cumulative[-1])), int(cumulative[-1]) - 1)
    return int(cumulative.searchsorted(aim, side="right"))
