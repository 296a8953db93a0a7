"""The clusters of replicas, by slot, and the likelihood of one more fragment.

Replicas that hold the same cluster share its slot. There are two ways to score: by a live table of
a conjugate likelihood, and by whole sets of a black box, each of which is scored once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from kbforge.contracts import (
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    Observation,
)
from kbforge.models.score_cache import SetScores


class HeldClusters(ABC):
    """Clusters by slot."""

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Sets scored: distinct ones by a black box, clusters made by a table."""

    @abstractmethod
    def predict(self, x: int, slots: IntArray, n_slots: int) -> tuple[FloatArray, float]:
        """What the likelihood says of a fragment; reads only.

        Args:
            x: the fragment's number.
            slots: of the clusters that are held, ascending.
            n_slots: how many slots are numbered.

        Returns:
            L(C + x) - L(C) by slot, nats, shape [n_slots], unspecified of slots not asked for; and
            L({x}).

        Raises:
            LikelihoodError: as `Likelihood.log_marginal`.

        """

    @abstractmethod
    def extend(self, parents: IntArray, children: IntArray) -> None:
        """Make cluster children[k] := parents[k] + x of the x predicted; -1 is the empty one."""

    @abstractmethod
    def release(self, slots: IntArray) -> None:
        """No replica holds these clusters any more."""


def held_clusters(likelihood: Likelihood, fragments: Sequence[Fragment]) -> HeldClusters:
    """None yet, of these fragments."""
    if isinstance(likelihood, ConjugateLikelihood):
        return _ByTable(likelihood, fragments)
    return _BySets(likelihood, fragments)


class _ByTable(HeldClusters):
    """Sufficient statistics."""

    def __init__(self, likelihood: ConjugateLikelihood, fragments: Sequence[Fragment]) -> None:
        self._live, self._fragments = likelihood.live_clusters(), fragments
        self._x: Observation = None
        self._made = 0

    @property
    def evaluations(self) -> int:
        return self._made

    def predict(self, x: int, slots: IntArray, n_slots: int) -> tuple[FloatArray, float]:
        self._x = self._live.encode(self._fragments[x])
        predictive = self._live.log_predictive(self._x, n_slots)
        return predictive, self._live.log_predictive_new(self._x)

    def extend(self, parents: IntArray, children: IntArray) -> None:
        self._live.extend(self._x, parents, children)
        self._made += len(children)

    def release(self, slots: IntArray) -> None:
        self._live.release(slots)


class _BySets(HeldClusters):
    """Members of each cluster; L is asked of whole sets."""

    def __init__(self, likelihood: Likelihood, fragments: Sequence[Fragment]) -> None:
        self._scores = SetScores(likelihood, fragments)
        self._members: dict[int, tuple[int, ...]] = {}
        self._score: dict[int, float] = {}
        self._x = -1
        self._joined = np.zeros(0)
        self._alone = 0.0

    @property
    def evaluations(self) -> int:
        return len(self._scores)

    def predict(self, x: int, slots: IntArray, n_slots: int) -> tuple[FloatArray, float]:
        held = [self._members[slot] for slot in slots.tolist()]
        sets = [*((*members, x) for members in held), (x,)]
        scores = self._scores.score(sets)
        self._x, self._alone = x, float(scores[-1])
        self._joined = np.full(n_slots, -np.inf)
        self._joined[slots] = scores[:-1]
        before = np.array([self._score[slot] for slot in slots.tolist()])
        predictive = np.full(n_slots, -np.inf)
        predictive[slots] = scores[:-1] - before
        return predictive, self._alone

    def extend(self, parents: IntArray, children: IntArray) -> None:
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            self._members[child] = (*self._members.get(parent, ()), self._x)
            self._score[child] = self._alone if parent < 0 else float(self._joined[parent])

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._members[slot], self._score[slot]
