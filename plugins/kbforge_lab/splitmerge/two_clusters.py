"""Two clusters that fragments are dealt out to, one after another, beside the grouping.

What a kernel tries out on the way to a proposal must not change the grouping. So there are two
clusters more, in a live table of their own, or as whole sets where the likelihood is a black box.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from kbforge.clustering.batch.grouping_model import IMPOSSIBLE, editable
from kbforge.clustering.batch.splitmerge import RandomChoices, SplitMergeGains
from kbforge.contracts import ConjugateLikelihood, Fragment, Likelihood, Observation

Side: TypeAlias = int
"""0 for A, 1 for B."""


class TwoClusters(Protocol):
    """A and B, neither of them ever empty."""

    def begin(self, a: Sequence[int], b: Sequence[int]) -> None:
        """These are their fragments now, one at least in each."""
        ...

    def log_odds(self, fragment: int) -> float:
        """log of p(x is of A) / p(x is of B), given all others, in nats.

        p(A) = |A| exp(L(A + x) - L(A)) with A without x; x is in one of them, and not alone, or in
        none.
        """
        ...

    def put(self, fragment: int, side: Side) -> None:
        """A fragment goes to a side, from the other one or from none; or stays."""
        ...


def two_clusters(
    likelihood: Likelihood, fragments: Sequence[Fragment], clusters: SplitMergeGains
) -> TwoClusters:
    """The faster way for a likelihood."""
    if isinstance(likelihood, ConjugateLikelihood):
        return _InTable(likelihood, fragments)
    return _AsSets(clusters)


class _Sides:
    """Who is where."""

    def __init__(self) -> None:
        self.sides: tuple[set[int], set[int]] = (set(), set())

    def home(self, fragment: int) -> Side | None:
        return next((side for side in (0, 1) if fragment in self.sides[side]), None)

    def log_prior_odds(self, fragment: int, home: Side | None) -> float:
        a, b = (len(self.sides[side]) - (side == home) for side in (0, 1))
        return math.log(a) - math.log(b)


class _InTable(_Sides):
    """By a live table with two slots."""

    def __init__(self, likelihood: ConjugateLikelihood, fragments: Sequence[Fragment]) -> None:
        super().__init__()
        self._table = editable(likelihood.live_clusters())
        self._fragments = fragments
        self._x: dict[int, Observation] = {}

    def begin(self, a: Sequence[int], b: Sequence[int]) -> None:
        if self.sides[0]:
            self._table.release(np.array([0, 1]))
        self.sides = set(a), set(b)
        for slot, part in enumerate((a, b)):
            self._table.gather([self._encoded(fragment) for fragment in part], slot)

    def log_odds(self, fragment: int) -> float:
        x, home = self._encoded(fragment), self.home(fragment)
        joins = self._table.log_predictive(x, 2).tolist()
        if home is not None:
            joins[home] = self._table.log_predictive_held(x, home)
        return self.log_prior_odds(fragment, home) + _difference(*joins)

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


class _AsSets(_Sides):
    """By L of whole sets."""

    def __init__(self, clusters: SplitMergeGains) -> None:
        super().__init__()
        self._clusters = clusters

    def begin(self, a: Sequence[int], b: Sequence[int]) -> None:
        self.sides = set(a), set(b)

    def log_odds(self, fragment: int) -> float:
        without = [side - {fragment} for side in self.sides]
        sets = [*without, *(side | {fragment} for side in without)]
        arrays = [np.array(sorted(one), dtype=np.int64) for one in sets]
        a, b, with_a, with_b = self._clusters.scores(arrays).tolist()
        joins = with_a - max(a, IMPOSSIBLE), with_b - max(b, IMPOSSIBLE)
        return self.log_prior_odds(fragment, self.home(fragment)) + _difference(*joins)

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
