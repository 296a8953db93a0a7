"""Smart splits with dumb merges, and dumb splits with smart merges (Wang and Russell, 2015).

A proposal that is smart both ways is rarely accepted: what is easy to find one way is then hard to
find the other way. So a coin says which pair of moves is taken, and a second coin which of the two.

| pair | there and back | dumb, and how likely |
|---|---|---|
| 1 | smart split of C into {A, B}, dumb merge | any two of M clusters: 2 / (M (M - 1)) |
| 2 | smart merge of A and B, dumb split | any of M clusters, a coin a fragment: 2^(1 - |C|) / M |

Both coins are the same there and back, so that they cancel; a move that turns out to be none (one
cluster and nothing to merge, a part without a fragment) is a rejection. Nothing of it depends on
what the other moves of the state are, as it would if a smart move without a result became a dumb
one.

What a smart move depends on besides the grouping (a hash table, an order of fragments) is drawn
first, independently of the grouping: the `Given` of the move. Given it, there and back are as
likely as `log_split` and `log_merge` say, and each `Given` has detailed balance by itself.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.splitmerge.clusters import Clusters
from kbforge.clustering.batch.splitmerge.draws import Draws
from kbforge.clustering.batch.splitmerge.kernel import SplitMergeKernel, Suggestion
from kbforge.contracts import IntArray

Given = TypeVar("Given")

_LOG_2 = math.log(2)


class Parted(NamedTuple):
    """A smart split: the cluster's slot, and its parts."""

    slot: int
    a: IntArray
    b: IntArray


class SmartDumb(SplitMergeKernel, Generic[Given]):
    """A kernel with these four moves; whoever subclasses it writes the smart ones."""

    @abstractmethod
    def given(self, draws: Draws) -> Given:
        """What the next move depends on; it must not depend on the grouping."""

    @abstractmethod
    def smart_split(self, grouping: Grouping, given: Given, draws: Draws) -> Parted | None:
        """A cluster that could be two; None: there is none."""

    @abstractmethod
    def log_split(self, a: IntArray, b: IntArray, given: Given) -> float:
        """log of the probability that `smart_split` gives these parts of C, -inf if never."""

    @abstractmethod
    def smart_merge(self, grouping: Grouping, given: Given, draws: Draws) -> tuple[int, int] | None:
        """The slots of two clusters that could be one; None: there are none."""

    @abstractmethod
    def log_merge(self, a: IntArray, b: IntArray, given: Given) -> float:
        """log of the probability that `smart_merge` gives these clusters, -inf if never."""

    def suggest(self, grouping: Grouping, draws: Draws) -> Suggestion | None:
        """One of the four moves."""
        given = self.given(draws)
        moves = self._split_smartly, self._merge_dumbly, self._merge_smartly, self._split_dumbly
        return moves[draws.below(4)](grouping, given, draws)

    def _split_smartly(self, grouping: Grouping, given: Given, draws: Draws) -> Suggestion | None:
        found = self.smart_split(grouping, given, draws)
        if found is None:
            return None
        back = log_dumb_merge(self._clusters.n + 1)
        there = self.log_split(found.a, found.b, given)
        return self.splitting(grouping, *found, back - there)

    def _merge_dumbly(self, grouping: Grouping, given: Given, draws: Draws) -> Suggestion | None:
        slots = any_two(self._clusters, draws)
        if slots is None:
            return None
        a, b = map(self._clusters.members, slots)
        back = self.log_split(a, b, given)
        if back == -np.inf:
            return None
        return self.merging(grouping, slots, (a, b), back - log_dumb_merge(self._clusters.n))

    def _merge_smartly(self, grouping: Grouping, given: Given, draws: Draws) -> Suggestion | None:
        slots = self.smart_merge(grouping, given, draws)
        if slots is None:
            return None
        a, b = map(self._clusters.members, slots)
        back = log_dumb_split(len(a) + len(b), self._clusters.n - 1)
        return self.merging(grouping, slots, (a, b), back - self.log_merge(a, b, given))

    def _split_dumbly(self, grouping: Grouping, given: Given, draws: Draws) -> Suggestion | None:
        found = any_parts(self._clusters, draws)
        if found is None:
            return None
        back = self.log_merge(found.a, found.b, given)
        if back == -np.inf:
            return None
        size = len(found.a) + len(found.b)
        return self.splitting(grouping, *found, back - log_dumb_split(size, self._clusters.n))


def any_two(clusters: Clusters, draws: Draws) -> tuple[int, int] | None:
    """The slots of two clusters, any pair as likely; None if there is but one."""
    if clusters.n < 2:
        return None
    first, second = draws.below(clusters.n), draws.below(clusters.n - 1)
    return clusters.slot(first), clusters.slot(second + (second >= first))


def any_parts(clusters: Clusters, draws: Draws) -> Parted | None:
    """A cluster and a coin for each of its fragments; None if all of these fall alike."""
    slot = clusters.slot(draws.below(clusters.n))
    members = clusters.members(slot)
    if len(members) < 2:
        return None
    heads = draws.coins(len(members))
    parted = Parted(slot, members[heads], members[~heads])
    return parted if len(parted.a) and len(parted.b) else None


def log_dumb_merge(n_clusters: int) -> float:
    """Any two of so many clusters."""
    return _LOG_2 - math.log(n_clusters * (n_clusters - 1))


def log_dumb_split(size: int, n_clusters: int) -> float:
    """Any of so many clusters, and either way round that its coins can fall."""
    return (1 - size) * _LOG_2 - math.log(n_clusters)
