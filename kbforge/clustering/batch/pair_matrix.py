"""A matrix of what every merge of two clusters gains, kept up to date merge after merge.

The matrix is symmetric. Each row remembers its best entry, so that a merge, which changes one row
and column and empties another, costs time proportional to n and to the few rows that had their
best there. Among equals the pair of the earliest clusters is the best.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray


class PairMatrix:
    """Gains of n clusters' pairs, shape [n, n]; -inf where there is no pair. 8 n^2 bytes."""

    def __init__(self, n: int) -> None:
        # filled row by row: all of it at once would keep a run from looking at the clock
        self._gain = np.empty((n, n))
        self._best = np.full(n, -np.inf)
        self._partner = np.zeros(n, dtype=np.int64)

    def fill(self, a: int, gains: FloatArray) -> None:
        """Set a's row and column; all are to be, and `settle` is to be called, before `best`."""
        self._gain[a] = gains
        self._gain[:, a] = gains

    def settle(self) -> None:
        """Find every row's best."""
        self._refresh(np.ones(len(self._best), dtype=np.bool_))

    def update(self, a: int, b: int, gains: FloatArray) -> None:
        """C_b has gone into C_a; `gains` are those of the new C_a."""
        self._gain[b] = self._gain[:, b] = -np.inf
        self.fill(a, gains)
        # a row without a pair, as every row merged away is, has lost nothing
        stale = ((self._partner == a) | (self._partner == b)) & (self._best > -np.inf)
        stale[[a, b]] = True
        self._refresh(stale)
        earlier = (gains == self._best) & (a < self._partner)
        better = ~stale & ((gains > self._best) | earlier)
        self._best[better], self._partner[better] = gains[better], a

    def best(self) -> tuple[int, int, float]:
        """The pair that gains most, the earlier cluster first, and its gain."""
        a = int(self._best.argmax())
        return a, int(self._partner[a]), float(self._best[a])

    def heaviest(self, count: int) -> tuple[IntArray, IntArray]:
        """The `count` pairs that gain most (fewer if there are fewer), best first."""
        # every pair is there twice, and is at most what either row has best
        rows = _largest(self._best, 2 * count)
        gain = self._gain[rows].ravel()
        index = _largest(gain, 2 * count)
        index = index[gain[index] > -np.inf]
        n = len(self._best)
        one, other = rows[index // n], index % n
        pair = np.unique(np.minimum(one, other) * n + np.maximum(one, other))
        pair = pair[np.argsort(-self._gain.ravel()[pair], kind="stable")][:count]
        return pair // n, pair % n

    def _refresh(self, stale: np.ndarray) -> None:
        rows = stale.nonzero()[0]
        partner = self._gain[rows].argmax(axis=1)
        self._partner[rows], self._best[rows] = partner, self._gain[rows, partner]


def _largest(values: FloatArray, count: int) -> IntArray:
    """Where the `count` largest are, or all if there are fewer, in no order."""
    if count >= len(values):
        return np.arange(len(values))
    return np.asarray(np.argpartition(-values, count)[:count])
