"""Transition kernels that split a cluster and merge two: MinSM, and what others share.

*Metropolis-Hastings.* A kernel suggests to split a cluster C into {A, B}, or to merge A and B into
C, and says how much more often the way back is suggested than the way there. The suggestion is
followed with the probability

    min(1, [posterior after / posterior before] x [q(back) / q(there)])

A kernel that can suggest the same split in several ways may count all of them, in q(there) and in
q(back), or only the way that it took; what else it drew is then part of the state for that step,
and the way back draws the same. The prior's part of a split of C, by Ewens' formula, is
log alpha + lgamma|A| + lgamma|B| - lgamma|C|.

*MinSM.* Fragments with the same weighted MinHash are split off, and bring clusters together (Luo
and Shrivastava, "Scaling-up split-merge MCMC with locality sensitive sampling", 2018, section 3.2,
with K = L = 1). One hash h is drawn, and S(u) are the fragments v with h(v) = h(u).

| symbol | meaning |
|---|---|
| n, M | number of fragments and of clusters |
| C, {A, B} | a cluster, and the two parts of a split, as ascending numbers of fragments |
| S(u) | the bucket of u, which holds u itself |

The paper averages the probability of a proposal over all h. Only K = 1 MinHash has a formula for
that, a lower bound (its equation 4). Here h is drawn first, whatever the grouping, and is then
given, so everything can be counted:

*Smart split.* u is uniform over the n fragments; its cluster C falls apart into C & S(u) and the
rest. C becomes {A, B} if C & S(u) is A or is B, so

    q(split) = #{u in C: C & S(u) is A or B} / n

A is such a part if it has one hash, which no fragment of B has; then all of its |A| members lead
there. Likewise B. If C & S(u) is all of C, nothing moves.

*Smart merge.* u is uniform over the fragments, v over the others in its bucket (without any,
nothing moves); if their clusters A and B differ, they merge. Either may have been drawn first:

    q(merge) = (1/n) [sum over u in A of |S(u) & B| / |S(u) - u|
                      + sum over v in B of |S(v) & A| / |S(v) - v|]

S(u) and S(v) are the same bucket, so the sums are equal. Let bucket k hold N_k fragments, a_k of A
and b_k of B: q(merge) = (2/n) sum over k of a_k b_k / (N_k - 1).

*Smart and dumb* (Wang and Russell, 2015). A proposal that is smart both ways is rarely accepted:
what is easy to find one way is hard to find the other way. So one coin chooses a pair of moves, and
a second coin the move:

| pair | there and back | dumb, and how likely |
|---|---|---|
| 1 | smart split of C into {A, B}, dumb merge | any two of M clusters: 2 / (M (M - 1)) |
| 2 | smart merge of A and B, dumb split | any of M clusters, a coin a fragment: 2^(1 - |C|) / M |

Both coins cancel. A move that turns out to be none (nothing to merge, an empty part) is rejected.

*Proof that the posterior p stays.* Given h, u and v depend on the grouping z alone. The move
{C} -> {A, B} of pair 1 is suggested with probability q(split)/4 and undone with 1/4 2/(M'(M'-1)),
M' = M + 1; that of pair 2 is suggested with 2^(1-|C|)/(4M) and undone with q(merge)/4.
Each pair by itself has detailed balance. So has their mixture, and a mixture over h that does not
depend on z. How buckets are made does not matter: several MinHashes may be one hash together
(K > 1), which is better with many clusters, where a bucket of one MinHash mixes too many.

*Cost.* A split costs O(|C|) and a merge O(|A| + |B|). A hash table of all fragments serves as many
moves as there are fragments. A few tables are kept, and every move draws one, its `Given`, whatever
the grouping is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
)
from kbforge.errors import LikelihoodError
from kbforge_lab.batch.chain import GibbsKernel, TransitionKernel
from kbforge_lab.batch.grouping import STAY, Follower, Grouping, Move, merge, split
from kbforge_lab.batch.grouping_model import IMPOSSIBLE
from kbforge_lab.batch.sets import PointSets, SetScores
from kbforge_lab.likelihoods.discrete import DirichletMultinomial
from kbforge_lm.likelihoods.counts import RowsOfSets
from kbforge_lm.likelihoods.ngram import NgramLikelihood
from kbforge_plugins.likelihoods.gaussian import Gaussian


class RandomChoices:
    """Independent choices by a random number generator; a test enumerates them instead."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def below(self, n: int) -> int:
        """A number of 0..n-1; a double is random enough, and much faster than an exact draw."""
        return int(self._rng.random() * n)

    def happens(self, p: float) -> bool:
        """Whether something happens that has the probability p."""
        return bool(self._rng.random() < p)

    def coins(self, n: int) -> NDArray[np.bool_]:
        """n fair coins, shape [n]."""
        return self._rng.random(n) < 0.5


class SplitMergeGains(Follower):
    """What splits and merges gain, in nats; L of a cluster is kept until the cluster changes."""

    def __init__(
        self,
        likelihood: Likelihood,
        fragments: Sequence[Fragment],
        grouping: Grouping,
        log_alpha: float,
    ) -> None:
        self.fragments = fragments
        self.grouping = grouping
        self._likelihood, self._log_alpha = likelihood, log_alpha
        conjugate = isinstance(likelihood, ConjugateLikelihood)
        self._sets = None if conjugate else SetScores(likelihood, fragments)
        self._read: PointSets | RowsOfSets | None = None
        self._asked = 0
        self._score: dict[int, float] = {}
        self._slots: list[int] = []
        self._place: dict[int, int] = {}

    @property
    def evaluations(self) -> int:
        return self._asked if self._sets is None else len(self._sets)

    @property
    def n(self) -> int:
        """M, the number of clusters."""
        return len(self._slots)

    def slot(self, index: int) -> int:
        """The slot of cluster 0..M-1, in no order."""
        return self._slots[index]

    def members(self, slot: int) -> IntArray:
        """Ascending."""
        held = self.grouping.members[slot]
        members = np.fromiter(held, np.int64, len(held))
        members.sort()
        return members

    def split_gain(self, slot: int, a: IntArray, b: IntArray) -> float:
        """The gain of a split into these parts; -inf if one of them is impossible."""
        apart = self.scores([a, b]).sum()
        return self.prior_of_split(len(a), len(b)) + float(apart) - self.known(slot)

    def merge_gain(self, slots: Sequence[int], a: IntArray, b: IntArray) -> float:
        """The gain of a merge of two slots' clusters A and B; -inf if that is impossible."""
        one = self.scores([np.sort(np.concatenate([a, b]))])[0]
        return float(one) - self.prior_of_split(len(a), len(b)) - sum(map(self.known, slots))

    def scores(self, sets: Sequence[IntArray]) -> FloatArray:
        """L of sets of fragments, shape [len(sets)]; NaN and +inf are errors."""
        if self._sets is not None:
            return self._sets.score([tuple(one.tolist()) for one in sets])
        self._asked += len(sets)
        if self._read is not None:
            scores = self._read.log_marginal(sets)
        else:
            named = [[self.fragments[i] for i in one.tolist()] for one in sets]
            scores = self._likelihood.log_marginal(named)
        if not scores.max(initial=-np.inf) < np.inf:
            raise LikelihoodError(f"the likelihood returned {scores.max()}")
        return scores

    def known(self, slot: int) -> float:
        """L of a cluster, at least IMPOSSIBLE."""
        score = self._score.get(slot)
        if score is None:
            score = max(float(self.scores([self.members(slot)])[0]), IMPOSSIBLE)
            self._score[slot] = score
        return score

    def prior_of_split(self, a: int, b: int) -> float:
        """The prior's part of the gain of a split into parts of these sizes."""
        return self._log_alpha + math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self.scores([np.array(cluster, dtype=np.int64) for cluster in clusters])

    def read(self, fragments: range) -> None:
        if fragments.start or not self.fragments:
            return
        match self._likelihood:
            case Gaussian() as gaussian:
                self._read = PointSets(gaussian, self.fragments)
            case DirichletMultinomial() as documents:
                self._read = documents.rows.rows_of_sets(self.fragments)
            case NgramLikelihood() as names:
                self._read = names.rows.rows_of_sets(self.fragments)

    def moved(self, fragments: Sequence[int], old: int, new: int) -> None:
        members = self.grouping.members
        if old >= 0:
            self._score.pop(old, None)
            if not members[old]:
                place, last = self._place.pop(old), self._slots.pop()
                if last != old:
                    self._slots[place], self._place[last] = last, place
        self._score.pop(new, None)
        if new not in self._place:
            self._place[new] = len(self._slots)
            self._slots.append(new)

    def regrouped(self, old: Sequence[int]) -> None:
        self._slots = self.grouping.slots()
        self._place = {slot: place for place, slot in enumerate(self._slots)}
        self._score.clear()


class Suggestion(NamedTuple):
    """A split or merge, and the log of its acceptance ratio."""

    move: Move
    log_ratio: float


class SplitMergeKernel(TransitionKernel):
    """A kernel of suggestions; by default a sweep has as many as there are fragments."""

    def __init__(
        self, clusters: SplitMergeGains, *others: Follower, moves: int | None = None
    ) -> None:
        super().__init__(clusters, *others)
        self._clusters, self._moves = clusters, moves

    @abstractmethod
    def suggest(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        """A split or a merge, or None, which changes nothing."""

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        return self.decided(grouping, RandomChoices(rng))

    def decided(self, grouping: Grouping, draws: RandomChoices) -> Move:
        """A suggestion, if it is accepted; else STAY."""
        suggestion = self.suggest(grouping, draws)
        if suggestion is None or suggestion.log_ratio == -np.inf:
            return STAY
        followed = draws.happens(math.exp(min(suggestion.log_ratio, 0.0)))
        return suggestion.move if followed else STAY

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        for _ in range(grouping.n_fragments if self._moves is None else self._moves):
            yield self.propose(grouping, rng)

    def splitting(
        self, grouping: Grouping, slot: int, a: IntArray, b: IntArray, log_back_there: float
    ) -> Suggestion:
        """Suggest to split a slot's cluster into A and B, given log q(back) / q(there)."""
        gain = self._clusters.split_gain(slot, a, b)
        fewer = min(a, b, key=len).tolist()
        return Suggestion(split(grouping, slot, fewer, gain), gain + log_back_there)

    def merging(
        self,
        grouping: Grouping,
        slots: tuple[int, int],
        parts: tuple[IntArray, IntArray],
        log_back_there: float,
    ) -> Suggestion:
        """Suggest to merge the clusters of two slots; `parts` are their fragments."""
        gain = self._clusters.merge_gain(slots, *parts)
        return Suggestion(merge(grouping, *slots, gain), gain + log_back_there)


class WithGibbs(TransitionKernel):
    """Sweeps of split-merge moves, each followed by some sweeps of Gibbs sampling, perhaps none."""

    def __init__(self, first: SplitMergeKernel, gibbs: GibbsKernel, sweeps: int) -> None:
        super().__init__(*dict.fromkeys([*first.models, *gibbs.models]))
        self._first, self._gibbs, self._sweeps = first, gibbs, sweeps

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        return self._first.propose(grouping, rng)

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        yield from self._first.sweep(grouping, rng)
        for _ in range(self._sweeps):
            yield from self._gibbs.sweep(grouping, rng)

    def place(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        return self._gibbs.place(grouping, fragment, u)


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


Table = TypeVar("Table")

_SEEDS = 1 << 62
_FEWEST_MOVES = 1000


class Rotation(Generic[Table]):
    """The `kept` newest hash tables; a new one comes after as many moves as there are fragments."""

    def __init__(self, make: Callable[[int], Table], n_fragments: int, kept: int) -> None:
        self._make, self._every = make, max(n_fragments, _FEWEST_MOVES)
        self._tables: deque[Table] = deque(maxlen=kept)
        self._moves = 0

    def next(self, draws: RandomChoices) -> Table:
        if self._moves % self._every == 0:
            self._tables.append(self._make(draws.below(_SEEDS)))
        self._moves += 1
        return self._tables[draws.below(len(self._tables))]


Given = TypeVar("Given")

_LOG_2 = math.log(2)


class BucketSplit(NamedTuple):
    """A smart split: the cluster's slot, and its parts."""

    slot: int
    a: IntArray
    b: IntArray


class SmartDumb(SplitMergeKernel, Generic[Given]):
    """A kernel with the four moves above; a subclass writes the smart ones."""

    @abstractmethod
    def given(self, draws: RandomChoices) -> Given:
        """What the next move depends on; it must not depend on the grouping."""

    @abstractmethod
    def smart_split(
        self, grouping: Grouping, given: Given, draws: RandomChoices
    ) -> BucketSplit | None:
        """A cluster that could be two; None: there is none."""

    @abstractmethod
    def log_split(self, a: IntArray, b: IntArray, given: Given) -> float:
        """log of the probability that `smart_split` gives these parts of C, -inf if never."""

    @abstractmethod
    def smart_merge(
        self, grouping: Grouping, given: Given, draws: RandomChoices
    ) -> tuple[int, int] | None:
        """The slots of two clusters that could be one; None: there are none."""

    @abstractmethod
    def log_merge(self, a: IntArray, b: IntArray, given: Given) -> float:
        """log of the probability that `smart_merge` gives these clusters, -inf if never."""

    def suggest(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        given = self.given(draws)
        moves = self._split_smartly, self._merge_dumbly, self._merge_smartly, self._split_dumbly
        return moves[draws.below(4)](grouping, given, draws)

    def _split_smartly(
        self, grouping: Grouping, given: Given, draws: RandomChoices
    ) -> Suggestion | None:
        found = self.smart_split(grouping, given, draws)
        if found is None:
            return None
        back = log_dumb_merge(self._clusters.n + 1)
        there = self.log_split(found.a, found.b, given)
        return self.splitting(grouping, *found, back - there)

    def _merge_dumbly(
        self, grouping: Grouping, given: Given, draws: RandomChoices
    ) -> Suggestion | None:
        slots = any_two(self._clusters, draws)
        if slots is None:
            return None
        a, b = map(self._clusters.members, slots)
        back = self.log_split(a, b, given)
        if back == -np.inf:
            return None
        return self.merging(grouping, slots, (a, b), back - log_dumb_merge(self._clusters.n))

    def _merge_smartly(
        self, grouping: Grouping, given: Given, draws: RandomChoices
    ) -> Suggestion | None:
        slots = self.smart_merge(grouping, given, draws)
        if slots is None:
            return None
        a, b = map(self._clusters.members, slots)
        back = log_dumb_split(len(a) + len(b), self._clusters.n - 1)
        return self.merging(grouping, slots, (a, b), back - self.log_merge(a, b, given))

    def _split_dumbly(
        self, grouping: Grouping, given: Given, draws: RandomChoices
    ) -> Suggestion | None:
        found = any_parts(self._clusters, draws)
        if found is None:
            return None
        back = self.log_merge(found.a, found.b, given)
        if back == -np.inf:
            return None
        size = len(found.a) + len(found.b)
        return self.splitting(grouping, *found, back - log_dumb_split(size, self._clusters.n))


def any_two(clusters: SplitMergeGains, draws: RandomChoices) -> tuple[int, int] | None:
    """The slots of two clusters, any pair as likely; None if there is but one."""
    if clusters.n < 2:
        return None
    first, second = draws.below(clusters.n), draws.below(clusters.n - 1)
    return clusters.slot(first), clusters.slot(second + (second >= first))


def any_parts(clusters: SplitMergeGains, draws: RandomChoices) -> BucketSplit | None:
    """A cluster and a coin for each of its fragments; None if all of these fall alike."""
    slot = clusters.slot(draws.below(clusters.n))
    members = clusters.members(slot)
    if len(members) < 2:
        return None
    heads = draws.coins(len(members))
    parted = BucketSplit(slot, members[heads], members[~heads])
    return parted if len(parted.a) and len(parted.b) else None


def log_dumb_merge(n_clusters: int) -> float:
    """Any two of this many clusters."""
    return _LOG_2 - math.log(n_clusters * (n_clusters - 1))


def log_dumb_split(size: int, n_clusters: int) -> float:
    """Any of this many clusters, and either way round that its coins can fall."""
    return (1 - size) * _LOG_2 - math.log(n_clusters)


class AlikeKernel(SmartDumb[Buckets]):
    """MinSM, see the module; `moves` is the suggestions of a sweep, None one for each fragment."""

    def __init__(
        self, clusters: SplitMergeGains, tables: Rotation[Buckets], moves: int | None = None
    ) -> None:
        super().__init__(clusters, moves=moves)
        self._tables = tables

    def given(self, draws: RandomChoices) -> Buckets:
        return self._tables.next(draws)

    def smart_split(
        self, grouping: Grouping, given: Buckets, draws: RandomChoices
    ) -> BucketSplit | None:
        u = draws.below(grouping.n_fragments)
        slot = grouping.slot_of[u]
        if len(grouping.members[slot]) < 2:
            return None
        members = self._clusters.members(slot)
        inside = given.number[members] == given.number[u]
        a, b = members[inside], members[~inside]
        return BucketSplit(slot, a, b) if len(b) else None

    def log_split(self, a: IntArray, b: IntArray, given: Buckets) -> float:
        in_a, in_b = given.number[a], given.number[b]
        leading = len(a) * _bucket_of_its_own(in_a, in_b)
        leading += len(b) * _bucket_of_its_own(in_b, in_a)
        return math.log(leading / len(given.number)) if leading else -np.inf

    def smart_merge(
        self, grouping: Grouping, given: Buckets, draws: RandomChoices
    ) -> tuple[int, int] | None:
        u = draws.below(grouping.n_fragments)
        others = int(given.size[given.number[u]]) - 1
        if not others:
            return None
        v = given.other(u, draws.below(others))
        slots = grouping.slot_of[u], grouping.slot_of[v]
        return None if slots[0] == slots[1] else slots

    def log_merge(self, a: IntArray, b: IntArray, given: Buckets) -> float:
        in_a, in_b = given.number[a], given.number[b]
        together = pairs_with(in_a, in_b)
        met = together > 0
        if not met.any():
            return -np.inf
        share = (together[met] / (given.size[in_b[met]] - 1)).sum()
        return math.log(2 * float(share) / len(given.number))


def _bucket_of_its_own(part: IntArray, rest: IntArray) -> bool:
    """Whether a part is all that the cluster has in one bucket."""
    first = part[0]
    return bool((part == first).all()) and not bool((rest == first).any())


def pairs_with(some: IntArray, others: IntArray) -> IntArray:
    """By number of `others`, how many of `some` equal it, shape [len(others)]."""
    ordered = np.sort(some)
    return np.asarray(ordered.searchsorted(others, "right") - ordered.searchsorted(others, "left"))
