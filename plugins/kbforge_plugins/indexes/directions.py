"""Random directions on which vectors are projected, and the sides of them that they lie on.

Two vectors at the angle v lie on the same side of a direction with the probability 1 - v / pi
(Charikar, "Similarity estimation techniques from rounding algorithms", 2002).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts.likelihood import FloatArray

_MOST_DIMENSIONS = 4096  # of more, several are added up, with random signs


class Directions:
    """Normal directions, `rows` of them for each of some tables.

    Args:
        seed: of the directions.
        dimensions: of the vectors.
        tables: L.
        rows: K.

    """

    def __init__(self, seed: int, dimensions: int, tables: int, rows: int) -> None:
        draws = np.random.Generator(np.random.PCG64([seed, 3, dimensions]))
        folded = min(dimensions, _MOST_DIMENSIONS)
        self._signs = draws.choice([-1.0, 1.0], size=dimensions)
        self._directions = draws.normal(size=(folded, tables, rows))

    def projected(self, vectors: FloatArray) -> FloatArray:
        """On every direction, shape [vectors, tables, rows].

        Sums are taken in one order, so that they are the same bits whoever is asked about beside.
        """
        n, dimensions = vectors.shape
        folded, *shape = self._directions.shape
        out = np.zeros((n, *shape))
        for place in range(folded):
            # more dimensions than are held are added up, with random signs
            x = np.zeros(n)
            for other in range(place, dimensions, folded):
                x = x + vectors[:, other] * self._signs[other]
            out += x[:, None, None] * self._directions[place]
        return out


def sides(projected: FloatArray) -> NDArray[np.bool_]:
    """On which side of its direction each projection is; 0 is on the one below."""
    return np.asarray(projected > 0)
