"""The Bayesian merge statistic: how much more probable two clusters are as one.

    gain(C, D) = [log p(C + D) + L(C + D)] - [log p(C) + L(C)] - [log p(D) + L(D)]

with log p(C) = log alpha + lgamma(|C|) of the Dirichlet process: what a merge adds to the log
posterior (Heller and Ghahramani 2005; split-SMC paper, section 4). A cluster's slot is its smallest
fragment.

The likelihood's part comes from a live table that can merge, one cluster against all at once, or
from sets scored through the cache, in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kbforge.clustering.batch.impossible import IMPOSSIBLE
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    LiveClusters,
)
from kbforge.models.score_cache import SetScores


class Clusters:
    """The clusters so far.

    Args:
        groups: a partition of the fragments 0..n-1 to start from.
        prior: of the groupings.

    """

    def __init__(self, groups: Sequence[Cluster], prior: DirichletProcess) -> None:
        n_fragments = sum(map(len, groups))
        self.members: list[list[int]] = [[i] for i in range(n_fragments)]
        self.alive = np.ones(n_fragments, dtype=np.bool_)
        self._size: IntArray = np.ones(n_fragments, dtype=np.int64)
        self._log_prior: FloatArray = np.full(n_fragments, prior.log_alpha)
        # by size less one; twice as long as the largest cluster, which a row pairs with itself
        self._log_cluster = prior.log_cluster(np.arange(1, 2 * n_fragments + 1))
        for group in groups:
            first, *others = sorted(group)
            for other in others:
                self.merge(first, other)

    def slots(self) -> IntArray:
        """The slots of the clusters there are, ascending."""
        return self.alive.nonzero()[0]

    def clusters(self) -> list[Cluster]:
        """The clusters there are, by smallest fragment."""
        return [self.cluster(slot) for slot in self.slots().tolist()]

    def cluster(self, slot: int) -> Cluster:
        """The fragments of a slot, ascending."""
        return tuple(sorted(self.members[slot]))

    def prior_gain(self, a: IntArray | int, b: IntArray | int) -> FloatArray:
        """The prior's part of the gain of pairs."""
        both = self._log_cluster[self._size[a] + self._size[b] - 1]
        return np.asarray(both - self._log_prior[a] - self._log_prior[b])

    def merge(self, a: int, b: int) -> None:
        """C_a := C_a + C_b; a < b."""
        self.members[a] += self.members[b]
        self.members[b] = []
        self.alive[b] = False
        self._size[a] += self._size[b]
        self._log_prior[a] = self._log_cluster[self._size[a] - 1]


class Ratios(Protocol):
    """A likelihood beside some clusters: it is told of every merge. Values in nats."""

    @property
    def evaluations(self) -> int:
        """Sets scored: distinct ones, or by a live table clusters made."""
        ...

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L of any clusters, shape [len(clusters)]."""
        ...

    def read(self, slots: IntArray) -> None:
        """Take in some of the clusters to start from, in one batch: all, before what follows.

        Raises:
            LikelihoodError: a fragment that the model cannot read.

        """
        ...

    def row(self, slot: int) -> FloatArray:
        """L(C + D) - L(C) - L(D) for all D, shape [n]; unspecified where there is no other."""
        ...

    def merge(self, a: int, b: int) -> None:
        """C_b is about to go into C_a."""
        ...


def ratios_of(likelihood: Likelihood, fragments: Sequence[Fragment], clusters: Clusters) -> Ratios:
    """By a table if it can merge, else by sets."""
    if isinstance(likelihood, ConjugateLikelihood):
        table = likelihood.live_clusters()
        if table.mergeable:
            return TableRatios(likelihood, table, fragments, clusters)
    return SetRatios(likelihood, fragments, clusters)


class TableRatios:
    """By a live table, of which the clusters' slots are the slots."""

    def __init__(
        self,
        likelihood: Likelihood,
        table: LiveClusters,
        fragments: Sequence[Fragment],
        clusters: Clusters,
    ) -> None:
        self._likelihood, self._fragments, self._table = likelihood, fragments, table
        self._clusters = clusters
        self.evaluations = 0

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self._likelihood.log_marginal([[self._fragments[i] for i in c] for c in clusters])

    def read(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            for fragment in self._clusters.cluster(slot):
                x = self._table.encode(self._fragments[fragment])
                self._table.extend(x, np.array([-1]), np.array([fragment]))
                self.evaluations += 1
                if fragment != slot:
                    self.merge(slot, fragment)

    def row(self, slot: int) -> FloatArray:
        return self._table.log_merge_ratio(slot, len(self._fragments))

    def merge(self, a: int, b: int) -> None:
        self._table.merge(b, a)
        self.evaluations += 1


class SetRatios:
    """By L of whole sets, each distinct content scored once.

    An impossible union is no merge, but one that makes impossible clusters possible is better
    than any other.
    """

    def __init__(
        self, likelihood: Likelihood, fragments: Sequence[Fragment], clusters: Clusters
    ) -> None:
        self._clusters = clusters
        self._sets = SetScores(likelihood, fragments)
        self._score = np.zeros(len(fragments))

    @property
    def evaluations(self) -> int:
        return len(self._sets)

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self._sets.score(clusters)

    def read(self, slots: IntArray) -> None:
        self._score[slots] = self._sets.score([self._clusters.cluster(s) for s in slots.tolist()])

    def row(self, slot: int) -> FloatArray:
        others = self._clusters.slots()
        others = others[others != slot]
        out = np.full(len(self._clusters.members), -np.inf)
        out[others] = self.pairs(np.full(len(others), slot), others)
        return out

    def pairs(self, a: IntArray, b: IntArray) -> FloatArray:
        """L(C + D) - L(C) - L(D) of pairs of clusters, shape [len(a)]; one batch."""
        union = self._sets.score([self._union(*pair) for pair in zip(a, b, strict=True)])
        apart = np.maximum(self._score[a], IMPOSSIBLE) + np.maximum(self._score[b], IMPOSSIBLE)
        return np.asarray(union - apart)

    def merge(self, a: int, b: int) -> None:
        self._score[a] = self._sets.score([self._union(a, b)])[0]

    def _union(self, a: int, b: int) -> tuple[int, ...]:
        members = self._clusters.members
        return tuple(sorted(members[a] + members[b]))
