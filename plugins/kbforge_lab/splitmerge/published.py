"""The ratios that LSHSM and MinSM were published with, to see how far off they are.

Luo and Shrivastava (2018), equations 2 to 7. They differ from those of MinSM
(`alike`) and LSHSM (`opposite`), which are exact, in this:

- probabilities are averaged over all hash functions (equations 2, 3 and 7, by the collision
  probability of two fragments), but the bucket that they are multiplied with is of one;
- equation 4, for the probability that A collides and B does not, is only a lower bound;
- one side of a split or a merge is counted: that of A, which u is of;
- LSHSM makes a dumb move when the smart one leads nowhere, and does not count how often that is;
- a dumb split is counted one way round;
- the ratio is of likelihoods and leaves out the prior of the groupings.

Where the paper leaves open by which u and v a move is judged, it is the first fragment of A and of
B. These kernels do *not* leave the posterior as it is.

| symbol | meaning |
|---|---|
| J(u, v) | weighted Jaccard similarity of the amounts of two fragments |
| c(u, v) | 1 - angle / pi, the probability that a direction has both on one side |
"""

from __future__ import annotations

import math

import numpy as np

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.splitmerge import (
    AlikeKernel,
    Buckets,
    RandomChoices,
    Rotation,
    SplitMergeGains,
    SplitMergeKernel,
    Suggestion,
)
from kbforge.contracts import Features, FloatArray, IntArray
from kbforge_lab.splitmerge.opposite import Looked, OppositeKernel, SignTables, shares

_LOG_2 = math.log(2)


class _OfLikelihoods(SplitMergeKernel):
    """Ratios without the prior of the groupings."""

    def splitting(
        self, grouping: Grouping, slot: int, a: IntArray, b: IntArray, log_back_there: float
    ) -> Suggestion:
        prior = self._clusters.prior_of_split(len(a), len(b))
        return super().splitting(grouping, slot, a, b, log_back_there - prior)

    def merging(
        self,
        grouping: Grouping,
        slots: tuple[int, int],
        parts: tuple[IntArray, IntArray],
        log_back_there: float,
    ) -> Suggestion:
        prior = self._clusters.prior_of_split(*map(len, parts))
        return super().merging(grouping, slots, parts, log_back_there + prior)


class PublishedAlike(_OfLikelihoods, AlikeKernel):
    """MinSM as published; its proposals are those of `AlikeKernel`."""

    def __init__(
        self,
        clusters: SplitMergeGains,
        tables: Rotation[Buckets],
        features: Features,
        moves: int | None = None,
    ) -> None:
        super().__init__(clusters, tables, moves)
        self._features = features

    def log_split(self, a: IntArray, b: IntArray, given: Buckets) -> float:
        """Equations 4 and 5: |S_u| / n times the bound."""
        amounts = amounts_of(self._features, np.concatenate([a, b]))
        least, most = amounts[: len(a)].min(axis=0), amounts[len(a) :].max(axis=0)
        bound = np.maximum(least - most, 0.0).sum()
        if not bound:
            return -np.inf
        size = int(given.size[given.number[a[0]]])
        return math.log(size / len(given.number) * bound / amounts.max(axis=0).sum())

    def log_merge(self, a: IntArray, b: IntArray, given: Buckets) -> float:
        """Equation 7: J(u, v) / (M |S_u|), and the 2 that its way back lacks."""
        amounts = amounts_of(self._features, np.array([a[0], b[0]]))
        same = amounts.min(axis=0).sum()
        if not same:
            return -np.inf
        size = int(given.size[given.number[a[0]]])
        log_m = math.log(self._clusters.n + self._clusters.together(int(a[0]), int(b[0])))
        return _LOG_2 + math.log(same / amounts.max(axis=0).sum() / size) - log_m


class PublishedOpposite(_OfLikelihoods, OppositeKernel):
    """LSHSM as published."""

    def __init__(
        self,
        clusters: SplitMergeGains,
        tables: Rotation[SignTables],
        features: Features,
        rows: int,
        moves: int | None = None,
    ) -> None:
        super().__init__(clusters, tables, moves)
        self._features, self._rows = features, rows

    def suggest(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        """A smart move, and where that leads nowhere the dumb one."""
        given = self.given(draws)
        if draws.below(2):
            return self._merge_smartly(grouping, given, draws) or self._split_dumbly(
                grouping, given, draws
            )
        return self._split_smartly(grouping, given, draws) or self._merge_dumbly(
            grouping, given, draws
        )

    def log_split(self, a: IntArray, b: IntArray, given: Looked) -> float:
        """Equation 2."""
        total = self._total(a, b, given, opposite=True)
        return math.log(total) + (2 - len(a) - len(b)) * _LOG_2 if total else -np.inf

    def log_merge(self, a: IntArray, b: IntArray, given: Looked) -> float:
        """Equation 3, and the 2 that its way back lacks."""
        total = self._total(a, b, given, opposite=False)
        return _LOG_2 + math.log(total) if total else -np.inf

    def _total(self, a: IntArray, b: IntArray, given: Looked, opposite: bool) -> float:
        """Sum over u in A and v in B of (1 - (1 - c^K)^L) |S & B| / (n |S|)."""
        c = self._sides(a, b)
        c = 1 - c if opposite else c
        met = 1 - (1 - c**self._rows) ** given.tables.tables
        share = shares(given, a, b, opposite)
        return float((met.sum(axis=1) * share).sum()) / len(given.tables.code)

    def _sides(self, a: IntArray, b: IntArray) -> FloatArray:
        """c(u, v), shape [A, B]; of what has no features, 1/2."""
        amounts = amounts_of(self._features, np.concatenate([a, b]))
        plus, minus = np.split(amounts, 2, axis=1)
        x = plus - minus
        lengths = np.linalg.norm(x, axis=1)
        products = np.outer(lengths[: len(a)], lengths[len(a) :])
        dots = x[: len(a)] @ x[len(a) :].T
        cosines = np.divide(dots, products, out=np.zeros_like(dots), where=products > 0)
        return np.asarray(1 - np.arccos(np.clip(cosines, -1, 1)) / math.pi)


def amounts_of(features: Features, fragments: IntArray) -> FloatArray:
    """How much fragments have of what any of them has: 2 D columns, of which the last D are of
    what was below 0; shape [fragments, 2 D].
    """
    spans = [slice(*features.starts[i : i + 2].tolist()) for i in fragments.tolist()]
    names = [features.names[span] for span in spans]
    columns, at = np.unique(np.concatenate(names), return_inverse=True)
    owners = np.arange(len(fragments)).repeat([len(held) for held in names])
    values = np.concatenate([features.values[span] for span in spans])
    out = np.zeros((len(fragments), 2 * len(columns)))
    out[owners, at + len(columns) * (values < 0)] = np.abs(values)
    return out
