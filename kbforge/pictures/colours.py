"""A colour for every cluster: kept from grouping to grouping, unlike its neighbours' colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts import Cluster, FloatArray
from kbforge.pictures.canvas import PALETTE
from kbforge.pictures.matching import matched

_MOST_APART = 1000  # above, neighbours are too small to tell apart, and their distances too many


class Colours:
    """Paints one grouping after another of points of shape [n, 2]."""

    def __init__(self, points: FloatArray) -> None:
        self._points = points
        self._clusters: Sequence[Cluster] = ()
        self._numbers: list[int] = []

    def paint(self, clusters: Sequence[Cluster]) -> list[str]:
        """A colour a cluster; one that is the same as in the grouping before keeps its own."""
        same = matched(self._clusters, clusters)
        numbers = [self._numbers[same[i]] if i in same else -1 for i in range(len(clusters))]
        if len(clusters) > _MOST_APART:
            numbers = [i % len(PALETTE) if n < 0 else n for i, n in enumerate(numbers)]
        elif -1 in numbers:
            centres = [self._points[list(cluster)].mean(axis=0) for cluster in clusters]
            _fill(numbers, np.array(centres))
        self._clusters, self._numbers = tuple(clusters), numbers
        return [PALETTE[number] for number in numbers]


def _fill(numbers: list[int], centres: FloatArray) -> None:
    """Replace each -1 by the colour whose nearest cluster is farthest; an unused one before all.

    Args:
        numbers: of colours.
        centres: of the same clusters, shape [k, 2].

    """
    nearest = np.full((len(centres), len(PALETTE)), np.inf)
    for i in sorted(range(len(numbers)), key=lambda i: numbers[i] < 0):  # those with a colour first
        if numbers[i] < 0:
            numbers[i] = int(nearest[i].argmax())
        own = nearest[:, numbers[i]]
        np.minimum(own, np.linalg.norm(centres - centres[i], axis=1), out=own)
