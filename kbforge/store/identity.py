"""Stable ids: which entity of today is which one of before.

An entity keeps its id while the majority of its fragments stay together. Exactly half of them are
the majority if its earliest fragment is among them. Where several entities come together, the one
that brings the most fragments gives the id; of equals the one whose earliest fragment is the
earliest. An entity that nobody follows gets an id that is told from its earliest fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kbforge.contracts import Cluster


@dataclass(frozen=True, slots=True)
class Followed:
    """What became of some entities.

    Attributes:
        ids: of the clusters that there are, in their order.
        lost: by id that is no more, the ids of the clusters that have its fragments, the one with
            the most first.

    """

    ids: tuple[str, ...]
    lost: Mapping[str, tuple[str, ...]]


def followed(
    before: Mapping[str, Cluster], after: Sequence[Cluster], fresh: Callable[[Cluster], str]
) -> Followed:
    """Give ids to clusters.

    Args:
        before: entities by id, without fragments that were removed; they are disjoint.
        after: the clusters that there are now, disjoint; fragments may be new.
        fresh: an id for a cluster that has none; it is asked in the order of the clusters.

    """
    holder = {fragment: place for place, cluster in enumerate(after) for fragment in cluster}
    claims: dict[int, tuple[int, int, str]] = {}
    shares: dict[str, dict[int, int]] = {}
    for entity, cluster in before.items():
        share: dict[int, int] = {}
        for fragment in cluster:
            share[holder[fragment]] = share.get(holder[fragment], 0) + 1
        shares[entity] = share
        place = _majority(cluster, share, holder)
        if place is not None:
            claim = (-share[place], cluster[0], entity)
            claims[place] = min(claims.get(place, claim), claim)
    ids = tuple(
        claims[place][2] if place in claims else fresh(cluster)
        for place, cluster in enumerate(after)
    )
    kept = set(ids)
    lost = {
        entity: tuple(ids[place] for place in sorted(share, key=lambda p: (-share[p], p)))
        for entity, share in shares.items()
        if entity not in kept
    }
    return Followed(ids, lost)


def _majority(cluster: Cluster, share: Mapping[int, int], holder: Mapping[int, int]) -> int | None:
    """Where the majority of an entity's fragments are, if they are together."""
    if not cluster:
        return None
    place = max(share, key=lambda p: (share[p], p == holder[cluster[0]]))
    twice = 2 * share[place]
    if twice > len(cluster) or (twice == len(cluster) and place == holder[cluster[0]]):
        return place
    return None
