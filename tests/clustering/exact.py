"""Posteriors by enumeration of all partitions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tests.clustering.toys import Point, Predictive

Group = tuple[int, ...]
Grouping = frozenset[Group]


def partitions(items: Sequence[int]) -> Iterator[Grouping]:
    """All partitions of the items."""
    if not items:
        yield frozenset()
        return
    *rest, last = items
    for partition in partitions(rest):
        yield partition | {(last,)}
        for group in partition:
            yield (partition - {group}) | {(*group, last)}


class Target:
    """The unnormalised posterior of groupings of some points."""

    def __init__(self, values: Sequence[Point], predictive: Predictive, alpha: float) -> None:
        self.values = values
        self.predictive = predictive
        self.log_alpha = math.log(alpha)
        self._scores: dict[Group, float] = {(): 0.0}

    def gain(self, group: Group, x: int) -> float:
        """L(C + x) - L(C)."""
        return self.predictive([self.values[i] for i in group], self.values[x])

    def score(self, group: Group) -> float:
        """L(C), by the chain of predictives."""
        if group not in self._scores:
            self._scores[group] = self.score(group[:-1]) + self.gain(group[:-1], group[-1])
        return self._scores[group]

    def log_posterior(self, grouping: Grouping) -> float:
        return sum(
            self.log_alpha + math.lgamma(len(group)) + self.score(group)
            for group in sorted(grouping)
        )

    def exact(self, n: int) -> dict[Grouping, float]:
        """The posterior by enumeration, normalised log weights."""
        weights = {z: self.log_posterior(z) for z in partitions(range(n))}
        total = log_sum_exp(weights.values())
        return {z: w - total for z, w in weights.items()}


def log_sum_exp(values: object) -> float:
    listed = list(values)  # type: ignore[call-overload]
    top = max(listed)
    return top + math.log(math.fsum(math.exp(v - top) for v in listed))
