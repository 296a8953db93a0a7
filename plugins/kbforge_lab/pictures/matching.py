"""Matching the clusters of two groupings by their overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbforge.contracts import Cluster


def matched(before: Sequence[Cluster], after: Sequence[Cluster]) -> Mapping[int, int]:
    """Number of a cluster of `after` -> number of the same cluster of `before`.

    Two clusters are the same one, changed, if neither shares more fragments with any other. Ties
    go to the first; fragments that only one grouping has count for nothing.
    """
    home = {i: number for number, cluster in enumerate(before) for i in cluster}
    shared: dict[tuple[int, int], int] = {}
    for number, cluster in enumerate(after):
        for i in cluster:
            if i in home:
                pair = home[i], number
                shared[pair] = shared.get(pair, 0) + 1
    best_of_before: dict[int, tuple[int, int]] = {}
    best_of_after: dict[int, tuple[int, int]] = {}
    for pair in sorted(shared, key=lambda pair: (-shared[pair], pair)):
        best_of_before.setdefault(pair[0], pair)
        best_of_after.setdefault(pair[1], pair)
    return {b: a for b, (a, _) in best_of_after.items() if best_of_before[a] == (a, b)}


def moved(before: Sequence[Cluster], after: Sequence[Cluster]) -> tuple[int, ...]:
    """The fragments of `after` that are not in the same cluster as before, ascending."""
    same = matched(before, after)
    home = {i: number for number, cluster in enumerate(before) for i in cluster}
    return tuple(
        sorted(
            i
            for number, cluster in enumerate(after)
            for i in cluster
            if number not in same or home.get(i) != same[number]
        )
    )
