"""RGSM: splits that a restricted Gibbs sampler proposes.

Jain and Neal, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture
model" (2004), section 4.2. Two fragments i and j are drawn, any pair as likely. Let C be the
fragments of their clusters, which may be one.

1. *Launch.* C is dealt out to two clusters, i in A and j in B, all others by a coin. Then t scans
   of Gibbs sampling, in which each of the others may only change between A and B.
2. *Split*, if i and j share a cluster: one more such scan. q(there) is the product of the
   probabilities of what it chose, q(back) = 1: with i and j given there is one way to merge.
3. *Merge*, if they do not: q(there) = 1, and q(back) is the probability that one more scan from the
   launch state chooses the two clusters as they are.

The launch state is drawn anew each time and depends on C, i and j alone, not on how C is grouped:
given it, there and back are as likely as the ratio says.

A scan asks for two predictives of every fragment of C: this costs t + 1 times as much as a sweep of
Gibbs sampling over C would with two clusters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.splitmerge import (
    RandomChoices,
    SplitMergeGains,
    SplitMergeKernel,
    Suggestion,
)
from kbforge.contracts import IntArray
from kbforge_lab.splitmerge.two_clusters import TwoClusters, dealt, log_dealt


class RestrictedGibbsKernel(SplitMergeKernel):
    """See the module."""

    def __init__(
        self, clusters: SplitMergeGains, two: TwoClusters, scans: int, moves: int | None = None
    ) -> None:
        super().__init__(clusters, moves=moves)
        self._two, self._scans = two, scans

    def suggest(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        """Split or merge the clusters of two fragments."""
        n = grouping.n_fragments
        if n < 2:
            return None
        i, other = draws.below(n), draws.below(n - 1)
        j = other + (other >= i)
        slots = grouping.slot_of[i], grouping.slot_of[j]
        if slots[0] == slots[1]:
            members = self._clusters.members(slots[0])
            others = _without(members, i, j)
            self._launch(i, j, others, draws)
            log_there, in_a = dealt(self._two, others, draws)
            a = np.array(sorted([i, *in_a]), dtype=np.int64)
            b = np.setdiff1d(members, a, assume_unique=True)
            return self.splitting(grouping, slots[0], a, b, -log_there)
        a, b = map(self._clusters.members, slots)
        others = _without(np.sort(np.concatenate([a, b])), i, j)
        self._launch(i, j, others, draws)
        log_back = log_dealt(self._two, others, set(a.tolist()))
        return self.merging(grouping, slots, (a, b), log_back)

    def _launch(self, i: int, j: int, others: Sequence[int], draws: RandomChoices) -> None:
        heads = draws.coins(len(others)).tolist()
        in_a = [x for x, head in zip(others, heads, strict=True) if head]
        in_b = [x for x, head in zip(others, heads, strict=True) if not head]
        self._two.begin([i, *in_a], [j, *in_b])
        for _ in range(self._scans):
            dealt(self._two, others, draws)


def _without(members: IntArray, i: int, j: int) -> list[int]:
    return [x for x in members.tolist() if x not in (i, j)]
