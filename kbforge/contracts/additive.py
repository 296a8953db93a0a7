"""Additive likelihoods: L depends only on the sum of the fragments' statistics.

Two functions make a conjugate likelihood with every ability:

    statistics(fragment) -> [D]          what a fragment adds to its cluster
    log_marginal_of(sums) -> [K]         L of clusters with these sums, shape [K, D]

Counts, sums and the number of fragments (a statistic that is always 1) all fit: the
Poisson, Bernoulli, multinomial, exponential and geometric families with their conjugate priors,
among others. Laws beside those of `kbforge.contracts.likelihood`:

1. D is the same for all fragments of a run. Zero sums (no fragments) give 0.
2. Sums are exact enough to be undone: whole numbers are; squares of large numbers, which cancel,
   are not, and a Gaussian needs a table of its own.
3. L is finite, and `log_marginal_of` does not raise: `statistics` refuses what cannot be read.

A table takes 8 D bytes a cluster and scores all clusters for each fragment, so this is for
statistics of up to some hundreds of numbers. Where that is too slow, write `LiveClusters`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import ConjugateLikelihood, FloatArray, IntArray, LiveClusters
from kbforge.errors import LikelihoodError, quoted

_FIRST_SLOTS = 64


class AdditiveLikelihood(ConjugateLikelihood):
    """A likelihood of sums of statistics; its tables are editable and mergeable."""

    @abstractmethod
    def statistics(self, fragment: Fragment) -> FloatArray:
        """What a fragment adds to its cluster, shape [D].

        Raises:
            LikelihoodError: the fragment lacks what the model reads.

        """

    @abstractmethod
    def log_marginal_of(self, sums: FloatArray) -> FloatArray:
        """L of clusters by the sums of their fragments' statistics [K, D], in nats, shape [K]."""

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        out = np.zeros(len(clusters))
        held = [i for i, cluster in enumerate(clusters) if cluster]
        if held:
            table = SumsOfClusters(self)
            sums = [np.sum([table.encode(f) for f in clusters[i]], axis=0) for i in held]
            out[held] = self.log_marginal_of(np.stack(sums))
        return out

    def live_clusters(self) -> LiveClusters:
        return SumsOfClusters(self)


class SumsOfClusters(LiveClusters):
    """The clusters of an `AdditiveLikelihood`: row 0 is the empty cluster, row s + 1 slot s."""

    editable = mergeable = True

    def __init__(self, model: AdditiveLikelihood) -> None:
        self._model = model
        self._sums: FloatArray = np.zeros((0, 0))  # [rows, D]
        self._scores: FloatArray = np.zeros(0)  # L of each row

    def encode(self, fragment: Fragment) -> FloatArray:
        """The fragment's statistics, shape [D]; the first fragment sets D.

        Raises:
            LikelihoodError: the fragment lacks what the model reads, or its D differs.

        """
        x = np.asarray(self._model.statistics(fragment), dtype=np.float64)
        if not len(self._scores):
            self._sums, self._scores = np.zeros((_FIRST_SLOTS, len(x))), np.zeros(_FIRST_SLOTS)
        dimensions = self._sums.shape[1]
        if x.shape != (dimensions,):
            raise LikelihoodError(
                f'fragment "{quoted(fragment.id)}" has {x.size} statistics, expected '
                f"{dimensions} as the first one has"
            )
        return x

    def log_predictive(self, x: FloatArray, slots: int) -> FloatArray:
        self._reach(slots)
        rows = slice(1, slots + 1)
        return self._model.log_marginal_of(self._sums[rows] + x) - self._scores[rows]

    def log_predictive_of(self, x: FloatArray, slots: IntArray) -> FloatArray:
        rows = slots + 1
        return self._model.log_marginal_of(self._sums[rows] + x) - self._scores[rows]

    def log_predictive_new(self, x: FloatArray) -> float:
        return float(self._model.log_marginal_of(x[None])[0])

    def extend(self, x: FloatArray, parents: IntArray, children: IntArray) -> None:
        self._reach(int(children.max(initial=-1)) + 1)
        self._write(children, self._sums[parents + 1] + x)

    def log_predictive_held(self, x: FloatArray, slot: int) -> float:
        row = slot + 1
        without = self._model.log_marginal_of(self._sums[row : row + 1] - x)
        return float(self._scores[row] - without[0])

    def add(self, x: FloatArray, slot: int) -> None:
        slots = np.array([slot])
        self._write(slots, self._sums[slots + 1] + x)

    def remove(self, x: FloatArray, slot: int) -> None:
        slots = np.array([slot])
        self._write(slots, self._sums[slots + 1] - x)

    def gather(self, xs: Sequence[FloatArray], slot: int) -> None:
        self._reach(slot + 1)
        self._write(np.array([slot]), np.sum(xs, axis=0)[None])

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        self._reach(slots)
        rows = slice(1, slots + 1)
        ratio = self._model.log_marginal_of(self._sums[rows] + self._sums[slot + 1])
        ratio = ratio - self._scores[rows]
        ratio -= self._scores[slot + 1]
        return ratio

    def merge(self, slot: int, into: int) -> None:
        self.add(self._sums[slot + 1], into)

    def _write(self, slots: IntArray, sums: FloatArray) -> None:
        rows, scores = slots + 1, self._model.log_marginal_of(sums)
        self._sums[rows], self._scores[rows] = sums, scores

    def _reach(self, slots: int) -> None:
        """Grow the arrays to at least this many slots."""
        have = len(self._scores)
        if slots >= have:
            more = max(slots + 1 - have, have)
            self._sums = np.pad(self._sums, ((0, more), (0, 0)))
            self._scores = np.pad(self._scores, (0, more))
