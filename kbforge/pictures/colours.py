"""A colour for every cluster: kept from grouping to grouping, unlike its neighbours' colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts import Cluster, FloatArray
from kbforge.pictures.canvas import PALETTE
from kbforge.pictures.matching import matched


class Colours:
    """Paints one grouping after another of points of shape [n, 2]."""

    def __init__(self, points: FloatArray) -> None:
        self._points = points
        self._clusters: Sequence[Cluster] = ()
        self._numbers: list[int] = []

    def paint(self, clusters: Sequence[Cluster]) -> list[str]:
        """A colour a cluster; one that is the same as in the grouping before keeps its own."""
        same = matched(self._clusters, clusters)
        centres = [self._points[list(cluster)].mean(axis=0) for cluster in clusters]
        numbers = [self._numbers[same[i]] if i in same else -1 for i in range(len(clusters))]
        for i, number in enumerate(numbers):
            if number < 0:
                numbers[i] = self._farthest(centres[i], centres, numbers)
        self._clusters, self._numbers = tuple(clusters), numbers
        return [PALETTE[number] for number in numbers]

    @staticmethod
    def _farthest(centre: FloatArray, centres: Sequence[FloatArray], numbers: Sequence[int]) -> int:
        """The colour whose nearest cluster is farthest away; an unused one before all."""
        nearest = np.full(len(PALETTE), np.inf)
        for other, number in zip(centres, numbers, strict=True):
            if number >= 0:
                nearest[number] = min(nearest[number], float(np.linalg.norm(other - centre)))
        return int(np.argmax(nearest))
