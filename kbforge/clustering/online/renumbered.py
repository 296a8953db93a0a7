"""A live table with slots of its own, for a run of which it holds few clusters.

A table sizes its arrays to the largest slot that it has seen. A session whose pages lie elsewhere
has as many slots as all of them, and few clusters here. No score depends on slots, to the last bit,
as none depends on which other clusters there are.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray, LiveClusters, Observation
from kbforge.numerics import capacity_for, grown


class CompactTable(LiveClusters):
    """See `kbforge.contracts.likelihood`; slots may have any gaps.

    Args:
        table: holds the clusters; it is empty.

    """

    def __init__(self, table: LiveClusters) -> None:
        self._table = table
        self._place: IntArray = np.zeros(0, dtype=np.int64)  # by slot, where the table has it
        self._free: list[int] = []
        self._places = 0

    def encode(self, fragment: Fragment) -> Observation:
        return self._table.encode(fragment)

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        if not self._places:
            return np.zeros(slots)
        self._reach(slots)
        # a slot that holds nothing has some place or other: what is said of it is not specified
        return self._table.log_predictive(x, self._places)[self._place[:slots]]

    def log_predictive_new(self, x: Observation) -> float:
        return self._table.log_predictive_new(x)

    def log_predictive_of(self, x: Observation, slots: IntArray) -> FloatArray:
        return self._table.log_predictive_of(x, self._place[slots])

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        self._reach(int(children.max(initial=-1)) + 1)
        # -1 would be the last slot, and is no one's
        held = np.where(parents >= 0, self._place[parents], -1)
        self._place[children] = places = self._taken(len(children))
        self._table.extend(x, held, places)

    def release(self, slots: IntArray) -> None:
        places = self._place[slots]
        self._table.release(places)
        self._free += places.tolist()

    def _taken(self, count: int) -> IntArray:
        """Places that are free from now on no more: the latest freed first, then new ones."""
        reused = self._free[: -count - 1 : -1]
        del self._free[len(self._free) - len(reused) :]
        fresh = range(self._places, self._places + count - len(reused))
        self._places += len(fresh)
        return np.array([*reused, *fresh], dtype=np.int64)

    def _reach(self, slots: int) -> None:
        if slots > len(self._place):
            self._place = grown(self._place, capacity_for(slots, len(self._place)))
