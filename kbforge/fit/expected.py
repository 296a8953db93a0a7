"""What a model of pairs expects of groupings: how much of a cluster is one entity, what it lacks.

The model says of two fragments how probable it is that they are one entity, whatever else is. From
that follow the B-cubed precision and recall that a grouping is expected to have, fragment by
fragment (Bagga and Baldwin, 1998, with probabilities for counts).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from kbforge.contracts import FloatArray, IntArray
from kbforge.fit.heard import PairOdds

EXPECTED = (
    "expected precision by pairs",
    "expected recall by pairs",
    "expected F1 by pairs",
    "entities expected by pairs over found",
)


class Expected:
    """Expectations of groupings of one sample.

    Args:
        odds: of the sample's fragments.

    """

    def __init__(self, odds: PairOdds) -> None:
        self._n = len(odds.row)
        self._first, self._second, self._probability = _links(odds)
        self._others = self._summed(np.ones(len(self._first), dtype=np.bool_))

    def of(self, labels: IntArray) -> dict[str, float]:
        """What is expected of a grouping, by name.

        Args:
            labels: [n] cluster numbers below n, n at least 1.

        """
        sizes = np.bincount(labels, minlength=self._n)
        size = sizes[labels]
        right = 1 + self._summed(labels[self._first] == labels[self._second])
        wanted = 1 + self._others
        values = (
            float(np.mean(right / size)),
            float(np.mean(right / wanted)),
            float(np.mean(2 * right / (size + wanted))),
            math.log(float((1 / wanted).sum()) / max(int((sizes > 0).sum()), 1)),
        )
        return dict(zip(EXPECTED, values, strict=True))

    def _summed(self, chosen: NDArray[np.bool_]) -> FloatArray:
        """By fragment, the probabilities of these links of it."""
        return np.bincount(
            self._first[chosen], self._probability[chosen], minlength=self._n
        ).astype(np.float64)


def _links(odds: PairOdds) -> tuple[IntArray, IntArray, FloatArray]:
    """Two fragments and the probability that they are one, both ways round; no fragment twice."""
    rows, of_fragment = np.unique(odds.row, return_inverse=True)
    here = np.isin(odds.first, rows) & np.isin(odds.second, rows)
    ends = np.searchsorted(rows, odds.first[here]), np.searchsorted(rows, odds.second[here])
    between = csr_array((expit(odds.nats[here]), ends), shape=(len(rows), len(rows)))
    of_fragments = between[of_fragment][:, of_fragment].tocoo()
    one, two = of_fragments.coords
    other = one != two
    return one[other].astype(np.int64), two[other].astype(np.int64), of_fragments.data[other]
