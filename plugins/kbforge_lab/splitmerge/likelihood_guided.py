"""SDDS: smart proposals by the likelihood itself.

Wang and Russell, "A smart-dumb/dumb-smart algorithm for efficient split-merge MCMC" (2015): the
pairs of `smart_dumb`, the smart moves weighted by the likelihood. Which weights, is this module's
own choice:

*Smart split.* u is uniform over the n fragments, and C is its cluster; v is uniform over the others
of C. u opens A and v opens B, and all others, in random order, go to A or B with probability
proportional to |A| exp(L(A + x) - L(A)) and the same of B. The way back, a dumb merge of two
clusters, draws which of the two is A, a u in A, a v in B and an order of the others, all uniformly.
Orders are as many there as back. With r the product of the probabilities of what was chosen,

    q(there) = r / (n (|C| - 1)),    q(back) = 1 / (M' (M' - 1) |A| |B|),   M' = M + 1

of this one way of getting there (u, v and the order are of the state for this step).

*Smart merge.* A is uniform over the M clusters, and B is drawn with probability proportional to
w(A, B), by how much the posterior gains if they are one:

    w(A, B) = exp(L(A + B) - L(A) - L(B)) (|A| + |B| - 1)! / ((|A| - 1)! (|B| - 1)!)
    q(merge) = (1/M) [w(A, B) / sum over D of w(A, D) + w(A, B) / sum over D of w(B, D)]

The way back is a dumb split. So a split asks for as many predictives as C has fragments, and a
merge for 2 M unions: it grows with the number of clusters.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.grouping_model import GroupingModel
from kbforge.clustering.batch.splitmerge import (
    RandomChoices,
    SplitMergeGains,
    SplitMergeKernel,
    Suggestion,
    any_parts,
    any_two,
    log_dumb_split,
)
from kbforge.contracts import FloatArray, IntArray
from kbforge.numerics import log_sum_exp
from kbforge_lab.splitmerge.two_clusters import TwoClusters, dealt, log_dealt


class LikelihoodGuidedKernel(SplitMergeKernel):
    """See the module."""

    def __init__(
        self,
        clusters: SplitMergeGains,
        model: GroupingModel,
        two: TwoClusters,
        moves: int | None = None,
    ) -> None:
        super().__init__(clusters, model, moves=moves)
        self._model, self._two = model, two

    def suggest(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        """One of the four moves."""
        moves = self._split_smartly, self._merge_dumbly, self._merge_smartly, self._split_dumbly
        return moves[draws.below(4)](grouping, draws)

    def _split_smartly(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        n = grouping.n_fragments
        u = draws.below(n)
        slot = grouping.slot_of[u]
        members = self._clusters.members(slot)
        if len(members) < 2:
            return None
        v = int(members[members != u][draws.below(len(members) - 1)])
        others = draws.shuffled([x for x in members.tolist() if x not in (u, v)])
        self._two.begin([u], [v])
        log_chosen, in_a = dealt(self._two, others, draws)
        a = np.array(sorted([u, *in_a]), dtype=np.int64)
        b = np.setdiff1d(members, a, assume_unique=True)
        log_ratio = self._log_back_there(a, b, n, self._clusters.n + 1) - log_chosen
        return self.splitting(grouping, slot, a, b, log_ratio)

    def _merge_dumbly(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        slots = any_two(self._clusters, draws)
        if slots is None:
            return None
        a, b = map(self._clusters.members, slots)  # either is the first as often
        u, v = int(a[draws.below(len(a))]), int(b[draws.below(len(b))])
        others = [x for x in np.concatenate([a, b]).tolist() if x not in (u, v)]
        self._two.begin([u], [v])
        log_chosen = log_dealt(self._two, draws.shuffled(sorted(others)), set(a.tolist()))
        log_ratio = log_chosen - self._log_back_there(a, b, grouping.n_fragments, self._clusters.n)
        return self.merging(grouping, slots, (a, b), log_ratio)

    @staticmethod
    def _log_back_there(a: IntArray, b: IntArray, n: int, apart: int) -> float:
        """log of q(back) r / q(there) of a smart split; `apart` is M', with C in two."""
        back = -math.log(apart * (apart - 1) * len(a) * len(b))
        return back + math.log(n * (len(a) + len(b) - 1))

    def _merge_smartly(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        clusters = self._clusters
        if clusters.n < 2:
            return None
        first = clusters.slot(draws.below(clusters.n))
        log_w = self._log_w(grouping, len(grouping.members[first]), self._model.merges(first))
        log_w[first] = -np.inf
        if log_w.max() == -np.inf:
            return None
        second = draws.index(log_w)
        back_w = self._log_w(grouping, len(grouping.members[second]), self._model.merges(second))
        back_w[second] = -np.inf
        log_there = np.logaddexp(
            log_w[second] - log_sum_exp(log_w), back_w[first] - log_sum_exp(back_w)
        ) - math.log(clusters.n)
        a, b = clusters.members(first), clusters.members(second)
        log_back = log_dumb_split(len(a) + len(b), clusters.n - 1)
        return self.merging(grouping, (first, second), (a, b), log_back - float(log_there))

    def _split_dumbly(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        clusters = self._clusters
        found = any_parts(clusters, draws)
        if found is None:
            return None
        slot, a, b = found
        whole, *parts = clusters.scores([clusters.members(slot), a, b]).tolist()
        size = len(a) + len(b)
        one = whole - sum(parts) + math.lgamma(size) - math.lgamma(len(a)) - math.lgamma(len(b))
        if math.isnan(one) or one == -np.inf:
            return None
        by_a, by_b = (self._log_choice(grouping, part, slot, one) for part in (a, b))
        log_back = float(np.logaddexp(by_a, by_b)) - math.log(clusters.n + 1)
        log_ratio = log_back - log_dumb_split(size, clusters.n)
        return self.splitting(grouping, slot, a, b, log_ratio)

    def _log_choice(self, grouping: Grouping, part: IntArray, slot: int, other: float) -> float:
        """log of w of the other part over the sum of w, if the slot's cluster were in two parts."""
        ratios = self._model.merges_with(part.tolist())
        log_w = self._log_w(grouping, len(part), ratios)
        log_w[slot] = other  # in the place of the cluster that would be no more
        return other - float(log_sum_exp(log_w))

    def _log_w(self, grouping: Grouping, size: int, ratios: FloatArray) -> FloatArray:
        """log w by slot, shape [n_slots], for a cluster of a size; -inf of free slots."""
        n_slots = grouping.n_slots
        log_size = grouping.log_size[:n_slots]
        used = log_size > -np.inf
        sizes = np.rint(np.exp(log_size[used]))
        out = np.full(n_slots, -np.inf)
        prior = gammaln(size + sizes) - gammaln(sizes) - math.lgamma(size)
        out[used] = ratios[:n_slots][used] + prior
        return out
