"""Merge paths: one agglomeration that gives the grouping at every alpha at once.

Clusters are merged greedily, the best pair first. What a merge gains is

    gain(C, D) = L(C + D) - L(C) - L(D) + lgamma(|C| + |D|) - lgamma(|C|) - lgamma(|D|) - log alpha

of which alpha is a constant, so that the order of merges is the same for every alpha, and alpha
only says where to stop: before the first merge that gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kbforge.clustering.batch.agglomerate import PairMatrix
from kbforge.clustering.sample import keys_of_each
from kbforge.contracts import CandidateIndex, ConjugateLikelihood, FloatArray, Fragment, IntArray
from kbforge.errors import LikelihoodError

_MOST_HOLDERS = 60
"""A key that more fragments hold leads nowhere, unless no other key leads anywhere."""
_OUT_OF_REACH = 8.0
"""A pair whose merge would lose so many nats at the least alpha is forgotten, and what its clusters
grow into is not compared either, unless another pair leads there."""


@dataclass(frozen=True, eq=False)
class MergePath:
    """The merges of one greedy agglomeration, in order.

    Attributes:
        n: fragments.
        merges: [merges, 2] slots: the second cluster goes into the first; a slot is a fragment.
        gains: [merges] what each gains at alpha 1, nats.

    """

    n: int
    merges: IntArray
    gains: FloatArray

    def floor(self) -> FloatArray:
        """[merges] The log alpha below which each merge is made: the least gain so far."""
        return np.minimum.accumulate(self.gains) if len(self.gains) else self.gains

    def labels(self, log_alphas: Sequence[float]) -> list[IntArray]:
        """The groupings at these alphas: cluster numbers by fragment, [n] each.

        A cluster's number is its smallest fragment.
        """
        floor = self.floor()
        made = [int(np.searchsorted(-floor, -log_alpha, side="left")) for log_alpha in log_alphas]
        at: dict[int, IntArray] = {}
        labels, done = np.arange(self.n), 0
        for count in sorted(set(made)):
            for into, slot in self.merges[done:count].tolist():
                labels[labels == slot] = into
            done = count
            at[count] = _by_smallest(labels)
        return [at[count] for count in made]


def merge_path(
    likelihood: ConjugateLikelihood,
    fragments: Sequence[Fragment],
    index: CandidateIndex | None,
    least: float,
) -> MergePath:
    """Agglomerate fragments until nothing is left to gain.

    Takes 16 bytes for each pair of fragments.

    Args:
        likelihood: fitted; its tables are mergeable.
        fragments: some thousand at most.
        index: says which pairs are looked at; None looks at all.
        least: log alpha; merges that need a smaller one are not looked for.

    Raises:
        LikelihoodError: NaN or infinity, or a fragment that the likelihood cannot read.

    """
    run = _GreedyMerges(likelihood, fragments, index, least)
    matrix = PairMatrix(run.n)
    for slot, gains in enumerate(run.first_gains()):
        matrix.fill(slot, gains)
    matrix.settle()
    merges: list[tuple[int, int]] = []
    found: list[float] = []
    while len(merges) < run.n - 1:
        into, slot, gain = matrix.best()
        if not gain > least:
            break
        merges.append((into, slot))
        found.append(gain)
        matrix.update(into, slot, run.merge(slot, into))
    return MergePath(run.n, np.array(merges, np.int64).reshape(-1, 2), np.array(found))


class _GreedyMerges:
    """Clusters that merge, a slot a fragment, and which pairs of them are looked at.

    Attributes:
        n: fragments.

    """

    def __init__(
        self,
        likelihood: ConjugateLikelihood,
        fragments: Sequence[Fragment],
        index: CandidateIndex | None,
        least: float,
    ) -> None:
        self._least = least - _OUT_OF_REACH
        n = self.n = len(fragments)
        self._table = likelihood.live_clusters()
        for slot, fragment in enumerate(fragments):
            x = self._table.encode(fragment)
            self._table.extend(x, np.array([-1]), np.array([slot]))
        near = np.ones((n, n), dtype=np.bool_) if index is None else candidates(fragments, index)
        np.fill_diagonal(near, False)
        self._near, self._live = near, np.ones(n, dtype=np.bool_)
        self._size = np.ones(n, dtype=np.int64)
        self._log_cluster = gammaln(np.arange(1, 2 * n + 2))

    def first_gains(self) -> FloatArray:
        """What every pair of fragments gains, [n, n]; -inf for those that are not looked at."""
        gains = np.full((self.n, self.n), -np.inf)
        for slot in range(self.n):
            others = slot + 1 + np.flatnonzero(self._near[slot, slot + 1 :])
            if len(others):
                gains[slot, others] = gains[others, slot] = self._gains(slot, others)
        self._near &= gains > self._least
        return gains

    def merge(self, slot: int, into: int) -> FloatArray:
        """Merge two clusters; what the one they make gains with each other, [n]."""
        near = self._near
        self._table.merge(slot, into)
        self._size[into] += self._size[slot]
        self._live[slot] = False
        near[into] |= near[slot]
        near[into] &= self._live
        near[into, into] = False
        gains = np.full(self.n, -np.inf)
        others = np.flatnonzero(near[into])
        if len(others):
            gains[others] = self._gains(into, others)
        near[into] &= gains > self._least
        near[:, into] = near[into]
        near[slot] = near[:, slot] = False
        return gains

    def _gains(self, slot: int, others: IntArray) -> FloatArray:
        ratio = self._table.log_merge_ratio_of(slot, others)
        if np.isnan(ratio).any() or (ratio == np.inf).any():
            raise LikelihoodError("the likelihood returned NaN or +inf")
        own, sizes = self._size[slot], self._size[others]
        prior = self._log_cluster[own + sizes - 1] - self._log_cluster[sizes - 1]
        return np.asarray(ratio + prior - self._log_cluster[own - 1])


def candidates(fragments: Sequence[Fragment], index: CandidateIndex) -> NDArray[np.bool_]:
    """Which pairs share a key of the index, [n, n], symmetric.

    Keys that many fragments hold are left out. Fragments that no other key leads anywhere are
    compared with the first holders of such a key, through which they come together all the same.
    """
    holders: dict[int, list[int]] = {}
    keys = keys_of_each(fragments, index)
    for i, of_fragment in enumerate(keys):
        for key in of_fragment:
            holders.setdefault(key, []).append(i)
    near = np.zeros((len(fragments), len(fragments)), dtype=np.bool_)
    for held in holders.values():
        if 1 < len(held) <= _MOST_HOLDERS:
            near[np.ix_(held, held)] = True
    for i in np.flatnonzero(near.sum(axis=1) == 0).tolist():
        shared = [held for key in keys[i] if len(held := holders[key]) > 1]
        least = min(map(len, shared), default=0)
        for held in shared:
            if len(held) == least:
                near[i, held[:_MOST_HOLDERS]] = near[held[:_MOST_HOLDERS], i] = True
    np.fill_diagonal(near, False)
    return near


def _by_smallest(labels: IntArray) -> IntArray:
    """The same grouping, each cluster numbered by its smallest fragment."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first[inverse], dtype=np.int64)
