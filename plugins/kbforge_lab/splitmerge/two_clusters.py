"""RGSM and SDDS: proposals that deal fragments to two clusters one after another.

What a kernel tries out must not change the grouping, so there are two clusters more: in a live
table of their own, or as whole sets where the likelihood is a black box.

**RGSM**: a restricted Gibbs sampler proposes splits. Jain and Neal, "A split-merge Markov chain
Monte Carlo procedure for the Dirichlet process mixture model" (2004), section 4.2. Two fragments i
and j are drawn, any pair as likely. Let C be the fragments of their clusters, which may be one.

1. *Launch.* C is dealt out to two clusters, i in A and j in B, all others by a coin. Then t scans
   of Gibbs sampling, in which each of the others may only change between A and B.
2. *Split*, if i and j share a cluster: one more such scan. q(there) is the product of the
   probabilities of what it chose, q(back) = 1: with i and j given there is one way to merge.
3. *Merge*, if they do not: q(there) = 1, and q(back) is the probability that one more scan from the
   launch state chooses the two clusters as they are.

The launch state is drawn anew each time and depends on C, i and j alone, so there and back are as
likely as the ratio says. It costs t + 1 times as much as a sweep over C with two clusters.

**SDDS**: the likelihood itself makes smart proposals. Wang and Russell, "A smart-dumb/dumb-smart
algorithm for efficient split-merge MCMC" (2015): the pairs of `SmartDumb`. The weights are this
module's own choice:

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

The way back is a dumb split. A split asks for |C| predictives, and a merge for 2 M unions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np
from scipy.special import gammaln

from kbforge.contracts import (
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    Observation,
)
from kbforge.numerics import log_sum_exp
from kbforge_lab.batch.grouping import Grouping
from kbforge_lab.batch.grouping_model import IMPOSSIBLE, GroupingModel, editable_clusters
from kbforge_lab.batch.splitmerge import (
    RandomChoices,
    SplitMergeGains,
    SplitMergeKernel,
    Suggestion,
    any_parts,
    any_two,
    log_dumb_split,
)

Side: TypeAlias = int
"""0 for A, 1 for B."""


class TwoClusters(ABC):
    """A and B, neither of them ever empty once they have begun."""

    def __init__(self) -> None:
        self.sides: tuple[set[int], set[int]] = (set(), set())

    @abstractmethod
    def begin(self, a: Sequence[int], b: Sequence[int]) -> None:
        """These are their fragments now, one at least in each."""

    @abstractmethod
    def log_likelihood_odds(self, fragment: int, home: Side | None) -> float:
        """L(A + x) - L(A) less the same of B, without x where it is now, nats."""

    @abstractmethod
    def put(self, fragment: int, side: Side) -> None:
        """A fragment goes to a side, from the other one or from none; or stays."""

    def home(self, fragment: int) -> Side | None:
        """Where a fragment is."""
        return next((side for side in (0, 1) if fragment in self.sides[side]), None)

    def log_odds(self, fragment: int) -> float:
        """log of p(x is of A) / p(x is of B), given all others, in nats.

        p(A) = |A| exp(L(A + x) - L(A)) with A without x; x is in one of them, not alone, or in
        none.
        """
        home = self.home(fragment)
        a, b = (len(self.sides[side]) - (side == home) for side in (0, 1))
        return math.log(a) - math.log(b) + self.log_likelihood_odds(fragment, home)


def two_clusters(
    likelihood: Likelihood, fragments: Sequence[Fragment], clusters: SplitMergeGains
) -> TwoClusters:
    """The faster way for a likelihood."""
    if isinstance(likelihood, ConjugateLikelihood):
        return _InTable(likelihood, fragments)
    return _AsSets(clusters)


class _InTable(TwoClusters):
    """By a live table with two slots."""

    def __init__(self, likelihood: ConjugateLikelihood, fragments: Sequence[Fragment]) -> None:
        super().__init__()
        self._table = editable_clusters(likelihood)
        self._fragments = fragments
        self._x: dict[int, Observation] = {}

    def begin(self, a: Sequence[int], b: Sequence[int]) -> None:
        if self.sides[0]:
            self._table.release(np.array([0, 1]))
        self.sides = set(a), set(b)
        for slot, part in enumerate((a, b)):
            self._table.gather([self._encoded(fragment) for fragment in part], slot)

    def log_likelihood_odds(self, fragment: int, home: Side | None) -> float:
        x = self._encoded(fragment)
        joins = self._table.log_predictive(x, 2).tolist()
        if home is not None:
            joins[home] = self._table.log_predictive_held(x, home)
        return _difference(*joins)

    def put(self, fragment: int, side: Side) -> None:
        home = self.home(fragment)
        if home == side:
            return
        x = self._encoded(fragment)
        if home is not None:
            self._table.remove(x, home)
            self.sides[home].remove(fragment)
        self._table.add(x, side)
        self.sides[side].add(fragment)

    def _encoded(self, fragment: int) -> Observation:
        if fragment not in self._x:
            self._x[fragment] = self._table.encode(self._fragments[fragment])
        return self._x[fragment]


class _AsSets(TwoClusters):
    """By L of whole sets."""

    def __init__(self, clusters: SplitMergeGains) -> None:
        super().__init__()
        self._clusters = clusters

    def begin(self, a: Sequence[int], b: Sequence[int]) -> None:
        self.sides = set(a), set(b)

    def log_likelihood_odds(self, fragment: int, home: Side | None) -> float:
        without = [side - {fragment} for side in self.sides]
        sets = [*without, *(side | {fragment} for side in without)]
        arrays = [np.array(sorted(one), dtype=np.int64) for one in sets]
        a, b, with_a, with_b = self._clusters.scores(arrays).tolist()
        return _difference(with_a - max(a, IMPOSSIBLE), with_b - max(b, IMPOSSIBLE))

    def put(self, fragment: int, side: Side) -> None:
        self.sides[1 - side].discard(fragment)
        self.sides[side].add(fragment)


def _difference(a: float, b: float) -> float:
    """a - b; as good either way if both are impossible."""
    return 0.0 if a == b else a - b


def dealt(
    two: TwoClusters, fragments: Sequence[int], draws: RandomChoices
) -> tuple[float, list[int]]:
    """Deal out fragments one after another, each by its odds given where the others are."""
    log_chosen, in_a = 0.0, []
    for x in fragments:
        log_odds = two.log_odds(x)
        chosen = draws.happens(math.exp(log_share(log_odds)))
        log_chosen += log_share(log_odds if chosen else -log_odds)
        two.put(x, 0 if chosen else 1)
        if chosen:
            in_a.append(x)
    return log_chosen, in_a


def log_dealt(two: TwoClusters, fragments: Sequence[int], a: Collection[int]) -> float:
    """log of the probability that `dealt` puts those of A to A, and no one else."""
    log_chosen = 0.0
    for x in fragments:
        log_odds = two.log_odds(x)
        log_chosen += log_share(log_odds if x in a else -log_odds)
        if log_chosen == -np.inf:
            break
        two.put(x, 0 if x in a else 1)
    return log_chosen


def log_share(log_odds: float) -> float:
    """log p(A) / (p(A) + p(B)), from log p(A) / p(B)."""
    return min(log_odds, 0.0) - math.log1p(math.exp(-abs(log_odds)))


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


def shuffled(items: Sequence[int], draws: RandomChoices) -> list[int]:
    """The items in random order."""
    out = list(items)
    for last in range(len(out) - 1, 0, -1):
        chosen = draws.below(last + 1)
        out[last], out[chosen] = out[chosen], out[last]
    return out


def weighted(log_weights: FloatArray, draws: RandomChoices) -> int:
    """An index with probability proportional to exp(log_weights), one of which is finite."""
    below = np.concatenate([[0.0], np.exp(log_weights - log_weights.max()).cumsum()])
    begin, end = 0, len(log_weights)
    while end - begin > 1:
        middle = (begin + end) // 2
        share = (below[middle] - below[begin]) / (below[end] - below[begin])
        begin, end = (begin, middle) if draws.happens(float(share)) else (middle, end)
    return begin


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
        others = shuffled(_without(members, u, v), draws)
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
        others = _without(np.concatenate([a, b]), u, v)
        self._two.begin([u], [v])
        log_chosen = log_dealt(self._two, shuffled(others, draws), set(a.tolist()))
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
        second = weighted(log_w, draws)
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
        clusters = self._clusters
        others = [s for s in grouping.slots() if s != slot]
        unions = [np.sort(np.concatenate([part, clusters.members(s)])) for s in others]
        alone, *united = clusters.scores([part, *unions]).tolist()
        ratios = np.full(grouping.n_slots, -np.inf)
        apart = np.array([clusters.known(s) for s in others]) + max(alone, IMPOSSIBLE)
        ratios[others] = np.array(united) - apart
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
