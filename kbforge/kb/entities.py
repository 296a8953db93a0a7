"""From a posterior over groupings to entities with provenance, confidence and alternatives.

An entity is a cluster of its subproblem's heaviest particle, or of another point estimate
(`kbforge.kb.consensus`). What is reported of it is the total probability of the particles that
contain exactly that cluster; its alternatives are what the other particles make of its fragments:

| symbol | meaning |
|---|---|
| p_i | probability of particle i of the subproblem, exp(log weight) |
| C | a cluster of the point estimate |
| z_i \\| C | the clusters of particle i that touch a fragment of C |
| reported(C) | the sum of p_i over the i with z_i \\| C = {C} |
| alternative | a value G != {C} of z_i \\| C, with the sum of p_i over the i that take it |
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from kbforge.contracts import Alternative, Cluster, Entity, Fragment, Posterior, Subproblem
from kbforge.kb.properties import collect, mean_vector, name_of

MOST_ALTERNATIVES = 3

_ID_DIGITS = 12
_MOST_CHARACTERS = 2_000_000  # of an entity's alternatives: a line has 16 MB at most

Fragments: TypeAlias = Sequence[Fragment] | Mapping[int, Fragment]
"""Fragments by number."""
_Rival: TypeAlias = tuple[float, tuple[Cluster, ...]]
"""An alternative: its probability, and the clusters."""


def assemble(
    fragments: Sequence[Fragment],
    posterior: Posterior,
    most_alternatives: int | None = MOST_ALTERNATIVES,
    least_probability: float = 0.01,
    calibrated: Mapping[Cluster, float] | None = None,
) -> Iterator[Entity]:
    """The entities of the point estimate, by subproblem, then by earliest fragment.

    Args:
        fragments: what was clustered, in order of arrival; an interrupted run's posterior covers
            a prefix of them.
        posterior: a clusterer's result.
        most_alternatives: how many alternatives an entity keeps, the most probable ones; None
            keeps all, as many as their ids have room in one line.
        least_probability: alternatives must exceed this, unless all are kept.
        calibrated: confidence of every cluster of the point estimate; None gives them none.

    Raises:
        AssertionError: the point estimate is not a partition of the fragments, which is a bug of
            the clusterer; raised before the first entity.

    """
    _check_partition(posterior)
    taken: set[str] = set()

    def fresh(cluster: Cluster) -> str:
        return _fresh_id(fragments[cluster[0]].id, taken)

    for number, subproblem in enumerate(posterior.subproblems):
        yield from assemble_subproblem(
            fragments, subproblem, number, fresh, most_alternatives, least_probability, calibrated
        )


def assemble_subproblem(
    fragments: Fragments,
    subproblem: Subproblem,
    number: int,
    id_of: Callable[[Cluster], str],
    most_alternatives: int | None = MOST_ALTERNATIVES,
    least_probability: float = 0.01,
    calibrated: Mapping[Cluster, float] | None = None,
) -> Iterator[Entity]:
    """The entities of one subproblem, by earliest fragment.

    Args:
        fragments: those of the subproblem, by the numbers that it calls them by.
        subproblem: of a clusterer's result.
        number: of the subproblem.
        id_of: the id of each cluster of the point estimate.
        most_alternatives: as of `assemble`.
        least_probability: likewise.
        calibrated: likewise.

    """
    beliefs = _Beliefs(subproblem)
    for cluster in sorted(subproblem.clusters):
        least = -1.0 if most_alternatives is None else least_probability
        reported, rivals = beliefs.about(cluster, least)
        kept = _fitting(fragments, rivals) if most_alternatives is None else rivals
        kept = kept[:most_alternatives]
        sure = None if calibrated is None else calibrated[cluster]
        yield _entity(fragments, cluster, id_of(cluster), number, reported, sure, kept)


def _fitting(fragments: Fragments, rivals: Sequence[_Rival]) -> list[_Rival]:
    """The most probable alternatives whose ids fit into one line."""
    kept, characters = [], 0
    for rival in rivals:
        characters += sum(len(fragments[index].id) for group in rival[1] for index in group)
        if characters > _MOST_CHARACTERS:
            break
        kept.append(rival)
    return kept


def _check_partition(posterior: Posterior) -> None:
    n = posterior.n_fragments
    seen, held, inside = bytearray(n), 0, True
    for cluster in chain.from_iterable(posterior.estimates()):
        held += len(cluster)
        for fragment in cluster:
            if 0 <= fragment < n:
                seen[fragment] = 1
            else:
                inside = False
    if not inside or held != n or seen.count(1) != n:
        raise AssertionError("the clusterer's point estimate is not a partition of the fragments")


def _fresh_id(earliest: str, taken: set[str]) -> str:
    """An id that depends on the earliest fragment alone, as long as no earlier entity has it.

    The digits are hexadecimal behind "e-", so that no reader takes it for a Wikidata id.
    """
    digest = hashlib.blake2b(earliest.encode(), digest_size=32).hexdigest()
    digits = _ID_DIGITS
    while (entity_id := f"e-{digest[:digits]}") in taken:
        if digits > len(digest):
            raise AssertionError("two fragments have one id")
        digits += 1
    taken.add(entity_id)
    return entity_id


def _entity(
    fragments: Fragments,
    cluster: Cluster,
    entity_id: str,
    subproblem: int,
    reported: float,
    calibrated: float | None,
    rivals: Sequence[_Rival],
) -> Entity:
    members = [fragments[index] for index in cluster]
    return Entity(
        id=entity_id,
        name=name_of(members) or members[0].id,
        properties=collect(members),
        fragments=tuple(member.id for member in members),
        confidence=reported if calibrated is None else calibrated,
        subproblem=subproblem,
        alternatives=tuple(
            Alternative(probability, tuple(_ids(fragments, group) for group in groups))
            for probability, groups in rivals
        ),
        vector=mean_vector(members),
        reported=None if calibrated is None else reported,
    )


def _ids(fragments: Fragments, cluster: Cluster) -> tuple[str, ...]:
    return tuple(fragments[index].id for index in cluster)


class _Beliefs:
    """What the particles of a subproblem say about its fragments.

    Clusters recur from particle to particle, so each distinct one knows the particles that have it,
    and each fragment the clusters that hold it. Of most entities all particles say the same: then
    no other cluster touches a fragment of it.
    """

    def __init__(self, subproblem: Subproblem) -> None:
        self._fragments = subproblem.fragments
        self._probabilities = [math.exp(p.log_weight) for p in subproblem.particles]
        self._having: dict[Cluster, list[int]] = {}
        for number, particle in enumerate(subproblem.particles):
            for cluster in particle.clusters:
                having = self._having.get(cluster)
                if having is None:
                    self._having[cluster] = [number]
                else:
                    having.append(number)

    @functools.cached_property
    def _holding(self) -> dict[int, list[Cluster]]:
        """By fragment the clusters that hold it; nobody asks where all particles agree."""
        holding: dict[int, list[Cluster]] = {f: [] for f in self._fragments}
        for cluster in self._having:
            for fragment in cluster:
                holding[fragment].append(cluster)
        return holding

    def about(self, cluster: Cluster, least: float) -> tuple[float, list[_Rival]]:
        """The cluster's probability, and its alternatives, most probable first.

        Args:
            cluster: of the point estimate.
            least: alternatives must exceed this.

        """
        agreeing = self._having.get(cluster, ())  # a consensus may have it, and no particle
        # exactly 1 when nothing disagrees: rounding must not read as doubt
        if len(agreeing) == len(self._probabilities):
            return 1.0, []
        touching = {other for fragment in cluster for other in self._holding[fragment]}
        touching.discard(cluster)
        # a bit each: particles with the same bits are of one mind; agreeing ones have none
        ordered = sorted(touching)
        minds: dict[int, int] = {}
        for place, other in enumerate(ordered):
            bit = 1 << place
            for number in self._having[other]:
                minds[number] = minds.get(number, 0) | bit
        masses: dict[int, list[float]] = {}
        for number, mind in minds.items():
            masses.setdefault(mind, []).append(self._probabilities[number])
        agreed = [self._probabilities[number] for number in agreeing]
        found = []
        for mind, mass in masses.items():
            probability = min(math.fsum(mass), 1.0)
            if probability > least:
                found.append((probability, _at(ordered, mind)))
        return min(math.fsum(agreed), 1.0), sorted(found, key=lambda r: (-r[0], r[1]))


def _at(ordered: Sequence[Cluster], bits: int) -> tuple[Cluster, ...]:
    """Those of the clusters that have a bit."""
    out = []
    while bits:
        lowest = bits & -bits
        out.append(ordered[lowest.bit_length() - 1])
        bits ^= lowest
    return tuple(out)
