"""A colour for every cluster: kept from grouping to grouping, unlike its neighbours' colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kbforge.contracts import Cluster, FloatArray
from kbforge.pictures.canvas import PALETTE
from kbforge.pictures.matching import matched

_MOST_APART = 1000  # above, neighbours are too small to tell apart, and their distances too many


class Colours:
    """Paints one grouping after another, in the colours of the one before or of the first.

    Args:
        points: what is grouped, shape [n, 2].
        of_the_first: whether each grouping is compared with the first; otherwise it is with the
            one before.

    """

    def __init__(self, points: FloatArray, of_the_first: bool = False) -> None:
        self._points, self._of_the_first = points, of_the_first
        self._clusters: Sequence[Cluster] = ()
        self._numbers: list[int] = []

    def paint(self, clusters: Sequence[Cluster]) -> list[str]:
        """A colour a cluster; one that is the same as in the other grouping keeps its own.

        A new one takes none that the other grouping has, while there are some: it is not the
        cluster that had it.
        """
        same = matched(self._clusters, clusters)
        numbers = [self._numbers[same[i]] if i in same else -1 for i in range(len(clusters))]
        if len(clusters) > _MOST_APART:
            numbers = [i % len(PALETTE) if n < 0 else n for i, n in enumerate(numbers)]
        elif -1 in numbers:
            others = zip(self._numbers, self._centres(self._clusters), strict=True)
            _fill(numbers, self._centres(clusters), others)
        if not (self._of_the_first and self._clusters):
            self._clusters, self._numbers = tuple(clusters), numbers
        return [PALETTE[number] for number in numbers]

    def _centres(self, clusters: Sequence[Cluster]) -> FloatArray:
        """Shape [clusters, 2]."""
        return np.array([self._points[list(c)].mean(axis=0) for c in clusters]).reshape(-1, 2)


def _fill(
    numbers: list[int], centres: FloatArray, others: Iterable[tuple[int, FloatArray]]
) -> None:
    """Replace each -1 by the colour whose nearest cluster is farthest; an unused one before all.

    Args:
        numbers: of colours.
        centres: of the same clusters, shape [k, 2].
        others: the number and the centre of each cluster of the other grouping.

    """
    nearest = np.full((len(centres), len(PALETTE)), np.inf)
    for number, other in others:
        _bring_near(nearest[:, number], centres, other)
    for i in sorted(range(len(numbers)), key=lambda i: numbers[i] < 0):  # those with a colour first
        if numbers[i] < 0:
            numbers[i] = int(nearest[i].argmax())
        _bring_near(nearest[:, numbers[i]], centres, centres[i])


def _bring_near(nearest: FloatArray, centres: FloatArray, other: FloatArray) -> None:
    np.minimum(nearest, np.linalg.norm(centres - other, axis=1), out=nearest)
