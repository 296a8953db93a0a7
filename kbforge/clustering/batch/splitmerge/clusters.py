"""The clusters of a grouping for split-merge kernels, with the gain of splits and merges.

A split or a merge asks for L of three sets. A likelihood that has read the fragments once
(`ConjugateLikelihood.set_marginals`) adds up what it has read of the members, so that a proposal
costs as much as the clusters that it concerns are large, whatever else there is. L of a cluster is
kept until it changes.

| symbol | meaning |
|---|---|
| A, B | the parts of C, as numbers of fragments, ascending |
| M | how many clusters there are |
| gain | what a split or a merge adds to the log posterior, nats |

The prior's part of a split of C, by Ewens' formula, is log alpha + lgamma|A| + lgamma|B| -
lgamma|C|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.grouping_model import IMPOSSIBLE
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    SetMarginals,
)
from kbforge.errors import LikelihoodError
from kbforge.models.score_cache import SetScores


class RandomChoices(Protocol):
    """Choices, each independent of all others."""

    def below(self, n: int) -> int:
        """A number of 0..n-1, each as likely."""
        ...

    def happens(self, p: float) -> bool:
        """Whether something happens that has the probability p."""
        ...

    def coins(self, n: int) -> NDArray[np.bool_]:
        """n fair coins, shape [n]."""
        ...

    def index(self, log_weights: FloatArray) -> int:
        """An index with probability proportional to exp(log_weights), one of which is finite."""
        ...

    def shuffled(self, items: Sequence[int]) -> list[int]:
        """The items in an order that is as likely as any other."""
        ...


class RandomDraws:
    """Choices by a random number generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def below(self, n: int) -> int:
        """See `RandomChoices`; a double is random enough, and much faster than an exact draw."""
        return int(self._rng.random() * n)

    def happens(self, p: float) -> bool:
        """See `RandomChoices`."""
        return bool(self._rng.random() < p)

    def coins(self, n: int) -> NDArray[np.bool_]:
        """See `RandomChoices`."""
        return self._rng.random(n) < 0.5

    def index(self, log_weights: FloatArray) -> int:
        """See `RandomChoices`."""
        cumulative = np.exp(log_weights - log_weights.max()).cumsum()
        u = self._rng.random() * cumulative[-1]
        return int(cumulative.searchsorted(u, side="right"))

    def shuffled(self, items: Sequence[int]) -> list[int]:
        """See `RandomChoices`."""
        order: list[int] = self._rng.permutation(np.asarray(items, dtype=np.int64)).tolist()
        return order


class SplitMergeGains:
    """L of the clusters and of parts of them, and a cluster drawn at random.

    It follows the grouping as any model does (`grouping_model.Follower`).

    Args:
        likelihood: L.
        fragments: all of them.
        grouping: of these.
        log_alpha: of the prior.

    Attributes:
        evaluations: sets scored.

    """

    def __init__(
        self,
        likelihood: Likelihood,
        fragments: Sequence[Fragment],
        grouping: Grouping,
        log_alpha: float,
    ) -> None:
        self.fragments = fragments
        self._likelihood, self._grouping, self._log_alpha = likelihood, grouping, log_alpha
        conjugate = isinstance(likelihood, ConjugateLikelihood)
        self._sets = None if conjugate else SetScores(likelihood, fragments)
        self._read: SetMarginals | None = None
        self._asked = 0
        self._score: dict[int, float] = {}
        self._slots: list[int] = []
        self._place: dict[int, int] = {}

    @property
    def evaluations(self) -> int:
        return self._asked if self._sets is None else len(self._sets)

    @property
    def n(self) -> int:
        """How many there are: M."""
        return len(self._slots)

    def slot(self, index: int) -> int:
        """The slot of cluster 0..M-1, in an order of no meaning."""
        return self._slots[index]

    def members(self, slot: int) -> IntArray:
        """The fragments of a cluster, ascending."""
        held = self._grouping.members[slot]
        members = np.fromiter(held, np.int64, len(held))
        members.sort()
        return members

    def split_gain(self, slot: int, a: IntArray, b: IntArray) -> float:
        """Of the cluster's falling apart into these parts; -inf if one of them is impossible."""
        apart = self.scores([a, b]).sum()
        return self.prior_of_split(len(a), len(b)) + float(apart) - self._known(slot)

    def merge_gain(self, slots: Sequence[int], a: IntArray, b: IntArray) -> float:
        """Of two clusters' becoming one; -inf if that is impossible.

        Args:
            slots: theirs.
            a: the fragments of the first.
            b: of the second.

        """
        one = self.scores([np.sort(np.concatenate([a, b]))])[0]
        return float(one) - self.prior_of_split(len(a), len(b)) - sum(map(self._known, slots))

    def scores(self, sets: Sequence[IntArray]) -> FloatArray:
        """L of sets of fragments, shape [len(sets)].

        Raises:
            LikelihoodError: NaN or +inf.

        """
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

    def _known(self, slot: int) -> float:
        """L of a cluster."""
        score = self._score.get(slot)
        if score is None:
            score = max(float(self.scores([self.members(slot)])[0]), IMPOSSIBLE)
            self._score[slot] = score
        return score

    def together(self, one: int, other: int) -> bool:
        """Whether two fragments share a cluster."""
        return self._grouping.slot_of[one] == self._grouping.slot_of[other]

    def prior_of_split(self, a: int, b: int) -> float:
        """What the prior says to a cluster's falling apart into parts of these sizes."""
        return self._log_alpha + math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self.scores([np.array(cluster, dtype=np.int64) for cluster in clusters])

    def read(self, fragments: range) -> None:
        if not fragments.start and isinstance(self._likelihood, ConjugateLikelihood):
            self._read = self._likelihood.set_marginals(self.fragments)

    def moved(self, fragments: Sequence[int], old: int, new: int) -> None:
        members = self._grouping.members
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
        self._slots = self._grouping.slots()
        self._place = {slot: place for place, slot in enumerate(self._slots)}
        self._score.clear()
