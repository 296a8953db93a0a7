"""The probability that two fragments are one entity, from the groupings that entities keep.

An entity's cluster and its alternatives are all that the particles make of its fragments, as far as
they were kept. So they say of every pair with a fragment in the entity:

| symbol | meaning |
|---|---|
| p_0, p_k | the entity's probability, and the probability of its k-th alternative |
| same_k(a, b) | whether a and b are in one group of the k-th grouping; k = 0 is the entity itself |
| probability(a, b) | the sum of p_k over the k with same_k(a, b) |
| rest | 1 less the sum of all p_k: groupings that were not kept |

The posterior probability is at least `probability` and at most `probability + rest`. With every
alternative kept (`kbforge cluster --alternatives all`) the rest is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kbforge.contracts import Entity, FloatArray, IntArray

DIGITS = 9
"""Of probabilities and losses: sums differ in their last bits from machine to machine."""
_MOST_ROWS = 1_000  # held at a time, one a class


@dataclass(frozen=True, slots=True)
class Pair:
    """Two fragments, by id, and the least that the posterior says of their being one.

    Attributes:
        one: of the entity that was asked.
        other: of the same entity, or of another.
        probability: that they are one, by the groupings that were kept.
        inside: whether both are of the entity.

    """

    one: str
    other: str
    probability: float
    inside: bool


class Groupings:
    """The groupings that an entity keeps, as far as its own fragments go.

    Fragments that no grouping tells apart are one class; all their pairs have one probability.
    """

    def __init__(self, entity: Entity) -> None:
        self._entity = entity
        probabilities = [entity.probability, *(a.probability for a in entity.alternatives)]
        self._probabilities = np.array(probabilities)
        rest = 1 - math.fsum(probabilities)
        self.rest = round(rest, DIGITS) if rest > 10**-DIGITS else 0.0
        """Probability of the groupings that were not kept."""

    def probability(self, one: str, other: str) -> float:
        """That a fragment of the entity is one with any fragment."""
        at = self._position[one]
        if other in self._position:
            return float(self._together(self._class_of[at])[self._class_of[self._position[other]]])
        return self._others(int(self._class_of[at])).get(other, 0.0)

    def similar(self, one: str) -> Mapping[str, float]:
        """Fragment -> probability, of all that may be one with a fragment of the entity."""
        at = self._position[one]
        inside = self._together(self._class_of[at])[self._class_of].tolist()
        found = dict(zip(self._entity.fragments, inside, strict=True))
        del found[one]
        return {k: p for k, p in found.items() if p > 0} | self._others(int(self._class_of[at]))

    def pairs(self, least: float) -> Iterator[Pair]:
        """The pairs with more than `least` probability, by the order of the entity's fragments."""
        ids = self._entity.fragments
        rows: dict[int, FloatArray] = {}
        others: dict[int, dict[str, float]] = {}
        for at, one in enumerate(ids):
            group = int(self._class_of[at])
            if len(rows) == _MOST_ROWS:
                rows, others = {}, {}
            if group not in rows:
                rows[group] = self._together(group)
                others[group] = {b: p for b, p in self._others(group).items() if p > least}
            beside = rows[group][self._class_of[at + 1 :]]
            for step in np.flatnonzero(beside > least).tolist():
                yield Pair(one, ids[at + 1 + step], float(beside[step]), True)
            for other, probability in others[group].items():
                yield Pair(one, other, probability, False)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {fragment: at for at, fragment in enumerate(self._entity.fragments)}

    @cached_property
    def _groups(self) -> IntArray:
        """The group of each fragment in each grouping, shape [fragments, groupings]."""
        n = len(self._entity.fragments)
        groups = np.zeros((n, 1 + len(self._entity.alternatives)), np.int64)
        for column, alternative in enumerate(self._entity.alternatives, 1):
            groups[:, column] = -1 - np.arange(n)  # who is in no group is alone
            for number, group in enumerate(alternative.groups):
                for fragment in group:
                    if fragment in self._position:
                        groups[self._position[fragment], column] = number
        return groups

    @cached_property
    def _classes(self) -> tuple[IntArray, IntArray]:
        """The groups of each class, shape [classes, groupings], and the class of each fragment."""
        found, number = np.unique(self._groups, axis=0, return_inverse=True)
        return found, number.reshape(-1)

    @property
    def _class_of(self) -> IntArray:
        return self._classes[1]

    def _together(self, group: int) -> FloatArray:
        """The probability of a class with every class, shape [classes]."""
        classes = self._classes[0]
        same = (classes == classes[group]) * self._probabilities
        found: FloatArray = np.minimum(np.round(same.sum(axis=1), DIGITS), 1.0)
        return found

    def _others(self, group: int) -> dict[str, float]:
        """Fragment -> probability, of the other entities' fragments with a class."""
        found: dict[str, list[float]] = {}
        for column, alternative in enumerate(self._entity.alternatives, 1):
            number = self._classes[0][group, column]
            if number >= 0:
                for fragment in alternative.groups[number]:
                    if fragment not in self._position:
                        found.setdefault(fragment, []).append(alternative.probability)
        return {b: min(round(math.fsum(p), DIGITS), 1.0) for b, p in sorted(found.items())}
