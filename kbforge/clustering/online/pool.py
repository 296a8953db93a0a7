"""The putative particles of one step, as parallel arrays in canonical order.

A putative particle is a live particle with the new fragment x put somewhere: into one of its
clusters (a *cell* of the arena), or into a new cluster (a singleton, cell -1). Canonical order is
heaviest first; equal weights stand in the order of subproblem (by smallest fragment), particle
rank, cluster (by smallest fragment), singletons last. All choices among equals follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray


@dataclass(slots=True)  # a step makes ten of them, and to freeze one takes longer than to make it
class Pool:
    """Putative particles. Nothing changes one: `take` and `with_value` make another.

    Attributes:
        value: unnormalised log weights, shape [n].
        cell: arena position of the cluster that takes x, -1 for a singleton.
        slot: that cluster's slot, -1 for a singleton.
        row: rank of the live particle in its subproblem.
        subproblem: the subproblem's name.

    """

    value: FloatArray
    cell: IntArray
    slot: IntArray
    row: IntArray
    subproblem: IntArray

    def __len__(self) -> int:
        return len(self.value)

    def take(self, index: IntArray | NDArray[np.bool_]) -> Pool:
        """The entries of an index array or mask, in its order."""
        return Pool(
            self.value[index],
            self.cell[index],
            self.slot[index],
            self.row[index],
            self.subproblem[index],
        )

    def with_value(self, value: FloatArray) -> Pool:
        """The same particles with other weights."""
        return Pool(value, self.cell, self.slot, self.row, self.subproblem)

    def heaviest_first(self) -> Pool:
        """Sorted by weight; equals keep their order."""
        return self.take((-self.value).argsort(kind="stable"))


@dataclass(frozen=True, slots=True)
class PutativeScores:
    """What the likelihood says of the new fragment's joining clusters.

    Attributes:
        log_predictive: L(C + x) - L(C) by slot, nats; at least as long as there are slots, and
            unspecified where `slots` does not point.
        slots: the clusters to consider, ascending; None is all.

    """

    log_predictive: FloatArray
    slots: IntArray | None = None


def joined(first: Pool, second: Pool) -> Pool:
    """Two pools, one after the other."""
    return Pool(
        np.concatenate([first.value, second.value]),
        np.concatenate([first.cell, second.cell]),
        np.concatenate([first.slot, second.slot]),
        np.concatenate([first.row, second.row]),
        np.concatenate([first.subproblem, second.subproblem]),
    )


def distinct(values: IntArray) -> IntArray:
    """The distinct values, ascending: np.unique at half the cost on short arrays."""
    ordered = np.sort(values)
    first = np.empty(len(ordered), dtype=np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
