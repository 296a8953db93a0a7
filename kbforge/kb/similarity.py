"""The probability that fragments are one entity, read from a knowledge base.

Every entity says it of its own fragments (`kbforge.kb.pairs`). Of two fragments in two entities
both entities know, and each may have dropped groupings that the other kept. So the closer bounds
hold: the larger of the two sums, and the smaller of the two with what is missing. Fragments of two
subproblems share a cluster on no particle: their probability is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kbforge.contracts import Entity, FloatArray
from kbforge.errors import UsageError, quoted
from kbforge.evaluation.reliability import LEAST
from kbforge.kb.pairs import DIGITS, Groupings
from kbforge.kb.properties import fragments_of, merged_order, name_of, naming

_LEAF_CHARACTERS = 44

Calibrate: TypeAlias = Callable[[float, float], float]
"""The calibrated probability of a reported one, and the size of the subproblem it comes from."""


@dataclass(frozen=True, slots=True)
class SimilarFragment:
    """A fragment, and how probable it is that it is one entity with another.

    Attributes:
        fragment: its id.
        entity: the entity that holds it.
        probability: that they are one, by the groupings that were kept.
        rest: as much more it may be, by groupings that were not kept.
        calibrated: by a map, if one was given; maps are fitted on pairs above 1 %.

    """

    fragment: str
    entity: Entity
    probability: float
    rest: float
    calibrated: float | None = None

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

    Args:
        read: gives the entities from the first on; called twice.
        fragment: id of the one.
        other: id of the only one to tell of, however improbable; None tells of all.
        calibrate: the map of a pair's probability.

    Raises:
        UsageError: no entity holds one of the two, or they are the same.

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


@dataclass(frozen=True, slots=True)
class SimilarityBlock:
    """A subproblem's fragments.

    Attributes:
        fragments: ids, entity by entity.
        entities: that each is in.
        together: the least probability of each pair that the groupings kept say, 1 on the diagonal,
            shape [n, n].

    """

    fragments: tuple[str, ...]
    entities: tuple[Entity, ...]
    together: FloatArray


def block_of(read: Callable[[], Iterable[Entity]], fragment: str, most: int) -> SimilarityBlock:
    """The subproblem that holds a fragment.

    Args:
        read: gives the entities from the first on; called twice.
        fragment: its id.
        most: fragments that a subproblem may have.

    Raises:
        UsageError: no entity holds the fragment, or the subproblem has too many.

    """
    home = _homes(read(), [fragment])[fragment]
    block = [entity for entity in read() if entity.subproblem == home.subproblem]
    held = [(one, entity) for entity in block for one in entity.fragments]
    if len(held) > most:
        raise UsageError(
            f'the subproblem of fragment "{quoted(fragment)}" has {len(held):,} fragments: '
            f"expected at most {most:,}"
        )
    place = {one: at for at, (one, _) in enumerate(held)}
    together = np.eye(len(held))
    for entity in block:
        known = Groupings(entity)
        for one in entity.fragments:
            for other, probability in known.similar(one).items():
                if other in place:
                    at = place[one], place[other]
                    together[at] = together[at[::-1]] = max(probability, together[at])
    return SimilarityBlock(
        tuple(one for one, _ in held), tuple(entity for _, entity in held), together
    )


def leaf_names(block: SimilarityBlock) -> list[str]:
    """What to call the fragments of a block: the values that tell them apart, and the id.

    Of each fragment these are its name and its values of other attributes that are not the same
    in all of the block, as far as there is room.
    """
    stated = {
        one.id: one for e in {e.id: e for e in block.entities}.values() for one in fragments_of(e)
    }
    fragments = [stated[id] for id in block.fragments]
    names = naming(merged_order(tuple({tuple(one.properties): None for one in fragments})))
    values: dict[str, list[tuple[str, ...]]] = {}
    for one in fragments:
        for attribute, held in one.properties.items():
            values.setdefault(attribute, []).append(held)
    same = {a for a, held in values.items() if len(held) == len(fragments) and len(set(held)) == 1}
    out = []
    for one in fragments:
        telling = [a for a in one.properties if a not in names and a not in same]
        said = [name_of([one]) or "", *(", ".join(one.properties[a]) for a in telling)]
        text = quoted(", ".join(filter(None, said)), _LEAF_CHARACTERS)
        out.append(f"{text} ({quoted(one.id)})" if text else quoted(one.id))
    return out


def _homes(entities: Iterable[Entity], fragments: Sequence[str]) -> dict[str, Entity]:
    """The entity of each of some fragments."""
    found = {f: entity for entity in entities for f in fragments if f in entity.fragments}
    for fragment in fragments:
        if fragment not in found:
            raise UsageError(f'the knowledge base has no fragment "{quoted(fragment)}"')
    return found


def _bounds(
    said: float, known: Groupings, back: Groupings, one: str, fragment: str
) -> tuple[float, float]:
    """The least and the most, by what both entities say."""
    if back is known:
        return said, min(said + known.rest, 1.0)
    again = back.probability(one, fragment)
    return max(said, again), min(said + known.rest, again + back.rest, 1.0)
