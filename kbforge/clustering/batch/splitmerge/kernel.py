"""What split-merge kernels share: a proposal, and whether the chain accepts it.

A kernel suggests to split a cluster C into {A, B}, or to merge A and B into C, and says how much
more often the way back is suggested than the way there. By Metropolis and Hastings it is followed
with the probability

    min(1, [posterior after / posterior before] x [q(back) / q(there)])

A kernel that can suggest the same split in several ways may count all of them, in q(there) and in
q(back), or only the way that it has come (what else it drew then is part of the state for that
one step, and the way back draws the same). Both leave the posterior as it is.

*With Gibbs.* Split-merge moves change clusters, and Gibbs sampling corrects single fragments that
they leave in the wrong one. Each leaves the posterior invariant, and so does doing them in turn.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kbforge.clustering.batch.chain import GibbsKernel, Kernel
from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.grouping_model import STAY, Follower, Move, merge, split
from kbforge.clustering.batch.splitmerge.clusters import RandomChoices, RandomDraws, SplitMergeGains
from kbforge.contracts import IntArray


class WithGibbs(Kernel):
    """A sweep of split-merge moves, then some sweeps of Gibbs sampling.

    Args:
        first: splits and merges.
        gibbs: moves single fragments, and places them at the start.
        sweeps: of Gibbs sampling after each sweep of the other; perhaps none.

    """

    def __init__(self, first: SplitMergeKernel, gibbs: GibbsKernel, sweeps: int) -> None:
        super().__init__(*dict.fromkeys([*first.models, *gibbs.models]))
        self._first, self._gibbs, self._sweeps = first, gibbs, sweeps

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        """A split or a merge."""
        return self._first.propose(grouping, rng)

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        """One sweep of each, and so on."""
        yield from self._first.sweep(grouping, rng)
        for _ in range(self._sweeps):
            yield from self._gibbs.sweep(grouping, rng)

    def place(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        """By Gibbs sampling."""
        return self._gibbs.place(grouping, fragment, u)


class Suggestion(NamedTuple):
    """A split or merge, and the log of the ratio that it is followed by."""

    move: Move
    log_ratio: float


class SplitMergeKernel(Kernel):
    """A kernel of suggestions.

    Args:
        clusters: of the grouping that it is to work on.
        others: further models that follow the grouping.
        moves: suggestions of a sweep; None is as many as there are fragments.

    """

    def __init__(
        self, clusters: SplitMergeGains, *others: Follower, moves: int | None = None
    ) -> None:
        super().__init__(clusters, *others)
        self._clusters, self._moves = clusters, moves

    @abstractmethod
    def suggest(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        """A split or a merge; None: there is none this time, and everything stays."""

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        """A suggestion, if it is followed."""
        return self.decided(grouping, RandomDraws(rng))

    def decided(self, grouping: Grouping, draws: RandomChoices) -> Move:
        """A suggestion, if it is followed; else STAY."""
        suggestion = self.suggest(grouping, draws)
        if suggestion is None or suggestion.log_ratio == -np.inf:
            return STAY
        followed = draws.happens(math.exp(min(suggestion.log_ratio, 0.0)))
        return suggestion.move if followed else STAY

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        """So many suggestions as were asked for."""
        for _ in range(grouping.n_fragments if self._moves is None else self._moves):
            yield self.propose(grouping, rng)

    def splitting(
        self, grouping: Grouping, slot: int, a: IntArray, b: IntArray, log_back_there: float
    ) -> Suggestion:
        """A cluster is to become two.

        Args:
            grouping: the state.
            slot: of C.
            a: A, of one fragment at least.
            b: B, likewise.
            log_back_there: log q(back) / q(there).

        """
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
        """The clusters of two slots are to become one; `parts` are their fragments."""
        gain = self._clusters.merge_gain(slots, *parts)
        return Suggestion(merge(grouping, *slots, gain), gain + log_back_there)
