"""The probability that two fragments are one entity, from an entity's alternatives.

An entity's cluster and its kept alternatives are the groupings of its fragments in the particles.
So they determine, for every pair with a fragment in the entity:

| symbol | meaning |
|---|---|
| p_0, p_k | the entity's probability, and the probability of its k-th alternative |
| same_k(a, b) | whether a and b are in one group of the k-th grouping; k = 0 is the entity itself |
| probability(a, b) | the sum of p_k over the k with same_k(a, b) |
| rest | 1 minus the sum of all p_k: groupings that were not kept |

The posterior probability is at least `probability` and at most `probability + rest`. With every
alternative kept (`kbforge cluster --set alternatives=all`) the rest is 0. A pair of fragments in
two entities has two such bounds, because each entity may have dropped what the other kept; the
tighter ones hold. Fragments of two subproblems share no cluster: their probability is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from kbforge.contracts import Entity, FloatArray, IntArray
from kbforge.errors import NotFoundError, UsageError, quoted
from kbforge.evaluation.reliability import LEAST
from kbforge.kb.entities import fragments_of, merged_order, name_of, naming

DIGITS = 9
"""Tolerance for probabilities and losses, whose last bits differ between machines."""
_MOST_ROWS = 1_000  # held at a time, one a class


class Groupings:
    """The stored groupings of an entity, restricted to its own fragments."""

    def __init__(self, entity: Entity) -> None:
        self._entity = entity
        probabilities = [entity.probability, *(a.probability for a in entity.alternatives)]
        self._probabilities = np.array(probabilities)
        rest = 1 - math.fsum(probabilities)
        self.rest = round(rest, DIGITS) if rest > 10**-DIGITS else 0.0
        """Probability of the groupings that were not kept."""

    def probability(self, one: str, other: str) -> float:
        """The probability that a fragment of the entity and any fragment are one entity."""
        at = self._position[one]
        if other in self._position:
            return float(self._together(self._class_of[at])[self._class_of[self._position[other]]])
        return self._others(int(self._class_of[at])).get(other, 0.0)

    def similar(self, one: str) -> Mapping[str, float]:
        """Fragment -> probability of being one entity with a fragment of this entity."""
        at = self._position[one]
        inside = self._together(self._class_of[at])[self._class_of].tolist()
        found = dict(zip(self._entity.fragments, inside, strict=True))
        del found[one]
        return {k: p for k, p in found.items() if p > 0} | self._others(int(self._class_of[at]))

    def pairs(self, least: float) -> Iterator[tuple[str, str, float, bool]]:
        """The pairs with more than `least` probability, by the order of the entity's fragments.

        Each is a fragment of the entity, another one, the probability, and whether the other
        belongs to the entity, too.
        """
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
                yield one, ids[at + 1 + step], float(beside[step]), True
            for other, probability in others[group].items():
                yield one, other, probability, False

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
        """Fragment -> probability, for fragments of other entities and a class."""
        found: dict[str, list[float]] = {}
        for column, alternative in enumerate(self._entity.alternatives, 1):
            number = self._classes[0][group, column]
            if number >= 0:
                for fragment in alternative.groups[number]:
                    if fragment not in self._position:
                        found.setdefault(fragment, []).append(alternative.probability)
        return {b: min(round(math.fsum(p), DIGITS), 1.0) for b, p in sorted(found.items())}


_LEAF_CHARACTERS = 44

Calibrate: TypeAlias = Callable[[float, float], float]
"""The calibrated probability of a reported one, and the size of the subproblem it comes from."""


@dataclass(frozen=True, slots=True)
class SimilarFragment:
    """A fragment, its entity, and the probability that it is one entity with another fragment."""

    fragment: str
    entity: Entity
    probability: float
    rest: float  # probability of groupings that were not kept
    calibrated: float | None = None  # by a map, fitted on pairs above 1 %

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        out: dict[str, Any] = {
            "fragment": self.fragment,
            "entity": self.entity.id,
            "name": self.entity.name,
            "probability": self.probability,
            "rest": self.rest,
        }
        return out if self.calibrated is None else {**out, "calibrated": self.calibrated}


def similar(
    read: Callable[[], Iterable[Entity]],
    fragment: str,
    other: str | None = None,
    calibrate: Calibrate | None = None,
) -> list[SimilarFragment]:
    """The fragments that may be one entity with a fragment, the most probable first.

    `read` returns the entities from the first on, and is called twice; `other` is the only fragment
    to report, however improbable; `calibrate` maps a pair's probability.
    """
    if fragment == other:
        raise UsageError(f'expected two fragments, got "{quoted(fragment)}" twice')
    homes = _homes(read(), [fragment] if other is None else [fragment, other])
    home = homes[fragment]
    if other is not None and homes[other].subproblem != home.subproblem:
        return [SimilarFragment(other, homes[other], 0.0, 0.0)]
    block = [entity for entity in read() if entity.subproblem == home.subproblem]
    size = sum(len(entity.fragments) for entity in block)
    known = Groupings(home)
    said = known.similar(fragment)
    found = []
    for entity in block:
        back = known if entity.id == home.id else Groupings(entity)
        for one in entity.fragments if other is None else [other]:
            if one == fragment or one not in entity.fragments:
                continue
            low, high = _bounds(said.get(one, 0.0), known, back, one, fragment)
            if low > 0 or other is not None:
                sure = calibrate(low, size) if calibrate is not None and low > LEAST else None
                found.append(
                    SimilarFragment(one, entity, low, max(round(high - low, DIGITS), 0.0), sure)
                )
    return sorted(found, key=lambda one: (-one.probability, one.fragment))


def block_of(
    read: Callable[[], Iterable[Entity]], fragment: str, most: int
) -> tuple[list[Entity], FloatArray]:
    """The entities of the subproblem that holds a fragment, and the similarity of their fragments.

    The similarity, [n, n], is the minimum probability of each pair under the kept groupings, with 1
    on the diagonal. UsageError: more than `most` fragments.
    """
    home = _homes(read(), [fragment])[fragment]
    block = [entity for entity in read() if entity.subproblem == home.subproblem]
    held = [one for entity in block for one in entity.fragments]
    if len(held) > most:
        raise UsageError(
            f'the subproblem of fragment "{quoted(fragment)}" has {len(held):,} fragments: '
            f"expected at most {most:,}"
        )
    place = {one: at for at, one in enumerate(held)}
    together = np.eye(len(held))
    for entity in block:
        known = Groupings(entity)
        for one in entity.fragments:
            for other, probability in known.similar(one).items():
                if other in place:
                    at = place[one], place[other]
                    together[at] = together[at[::-1]] = max(probability, together[at])
    return block, together


def leaf_names(entities: Iterable[Entity]) -> list[str]:
    """Names for fragments of entities: distinguishing values, and the id."""
    fragments = [fragment for entity in entities for fragment in fragments_of(entity)]
    names = naming(merged_order(tuple({tuple(one.properties): None for one in fragments})))
    values: dict[str, list[tuple[str, ...]]] = {}
    for one in fragments:
        for attribute, held in one.properties.items():
            values.setdefault(attribute, []).append(held)
    same = {a for a, held in values.items() if len(held) == len(fragments) and len(set(held)) == 1}
    out = []
    for one in fragments:
        telling = [a for a in one.properties if a not in names and a not in same]
        said = [name_of(one), *(", ".join(one.properties[a]) for a in telling)]
        text = quoted(", ".join(filter(None, said)), _LEAF_CHARACTERS)
        out.append(f"{text} ({quoted(one.id)})" if text else quoted(one.id))
    return out


def _homes(entities: Iterable[Entity], fragments: Sequence[str]) -> dict[str, Entity]:
    """The entity of each fragment."""
    found = {f: entity for entity in entities for f in fragments if f in entity.fragments}
    for fragment in fragments:
        if fragment not in found:
            raise NotFoundError(f'the knowledge base has no fragment "{quoted(fragment)}"')
    return found


def _bounds(
    said: float, known: Groupings, back: Groupings, one: str, fragment: str
) -> tuple[float, float]:
    """The bounds of a probability from both entities."""
    if back is known:
        return said, min(said + known.rest, 1.0)
    again = back.probability(one, fragment)
    return max(said, again), min(said + known.rest, again + back.rest, 1.0)
