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


class SignTables:
    """Buckets of several tables by the signs of projections, and those of the opposite signs.

    Args:
        signs: on which side of its directions each fragment is, shape [n, tables, rows].

    Attributes:
        code: the signs as the bits of a number, shape [n, tables].
        tables: L.

    """

    def __init__(self, signs: NDArray[np.bool_]) -> None:
        rows = signs.shape[2]
        self.tables = signs.shape[1]
        self._opposite = (1 << rows) - 1
        self.code: IntArray = signs.astype(np.int64) @ (1 << np.arange(rows))
        self._held = np.argsort(self.code, axis=0, kind="stable")
        self._starts = np.stack(
            [
                np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=1 << rows))])
                for codes in self.code.T
            ]
        )  # [tables, codes + 1]

    def opposite(self, codes: IntArray) -> IntArray:
        """The codes of the opposite signs."""
        return np.asarray(self._opposite - codes)

    def sizes(self, codes: IntArray) -> IntArray:
        """How many fragments have these codes, one a table, shape as `codes` [..., tables]."""
        tables = np.arange(self.tables)
        return np.asarray(self._starts[tables, codes + 1] - self._starts[tables, codes])

    def holds(self, table: int, code: int) -> IntArray:
        """The fragments with a code, ascending."""
        low, high = self._starts[table, code : code + 2]
        return np.asarray(self._held[low:high, table])
