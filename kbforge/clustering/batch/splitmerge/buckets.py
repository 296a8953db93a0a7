"""Hash tables of all fragments: which of them are together by their hashes.

Fragments do not change, so neither do these: what a kernel does to the grouping is no business of
theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import IntArray


class Buckets:
    """Fragments with the same hash are in one bucket: S(u) is that of u.

    Args:
        hashes: of all fragments, shape [n].

    Attributes:
        number: the bucket of each fragment, shape [n].
        size: how many each bucket holds, shape [buckets].

    """

    def __init__(self, hashes: NDArray[Any]) -> None:
        found = np.unique(hashes, return_inverse=True, return_counts=True)
        self.number: IntArray = found[1]
        self.size: IntArray = found[2]
        self._held = np.argsort(self.number, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(self.size)])
        self._place = np.empty(len(self.number), dtype=np.int64)
        self._place[self._held] = np.arange(len(self.number))

    def other(self, fragment: int, index: int) -> int:
        """The fragment with this index, from 0, among the others in a fragment's bucket."""
        at = int(self._starts[self.number[fragment]]) + index
        return int(self._held[at + (at >= self._place[fragment])])
