"""Index of texts by the signs of random projections, with bands: `minhash` by angles.

A fragment is the vector of its features (words or character n-grams), each weighted as `minhash`
weights it. Two vectors at an angle t are on the same side of a random hyperplane with probability
1 - t / pi (Goemans and Williamson 1995; Charikar 2002; theorem 1 of the FastEx poster). `rows` such
bits together are a key, and there are `bands` keys, so that two fragments share one with the
probability

    1 - (1 - (1 - t / pi)^rows)^bands

Vectors that share nothing are at a right angle, where every other bit is equal: it takes many bits
a key to leave them out, and then those that share half are found less often than by minima. For the
vectors of fragments there is `projection` with `angles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import ndtri

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import IntArray
from kbforge_plugins.indexes.hashed import mixed, starts_of
from kbforge_plugins.indexes.minhash import MinHash

_SCALE = 2.0**-53
_SHIFT = np.uint64(11)


class BinaryHash(MinHash):
    """Keys of the signs of random projections of a fragment's words or n-grams.

    Args:
        families: most families of clusters that a key may lead to; one that leads to more is
            closed: it is followed only for fragments that no other key leads anywhere.
        shared: keys that must lead to a family of clusters, if any family is led to by so many.
        compared: most families that a fragment is compared with, those that most of its keys lead
            to; 0 is no bound.
        rows: bits that are a key together: the more, the more alike two fragments must be.
        bands: keys of a fragment: the more, the fewer are missed.
        order: words in a row, or characters, that are one feature.
        unit: whether features are of words or of characters.
        weighted: whether features that few fragments have count for more.
        attributes: the attributes to read; none reads all.
        seed: of the projections.

    Raises:
        UsageError: a number out of range.

    """

    name = "binary-hash"

    def __init__(
        self,
        families: int = 64,
        shared: int = 1,
        compared: int = 64,
        rows: int = 12,
        bands: int = 60,
        order: int = 1,
        unit: Literal["word", "character"] = "word",
        weighted: bool = True,
        attributes: tuple[str, ...] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(
            families, shared, compared, rows, bands, order, unit, weighted, attributes, seed
        )

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """See `kbforge.contracts.index`; fragments without features have no keys."""
        features = self._features_of(fragments)
        having = np.diff(features.starts) > 0
        starts = starts_of(having * self.bands)
        if not having.any():
            return starts, np.zeros(0, dtype=np.int64)
        begins, rates = features.starts[:-1][having], self._rates(features.numbers)
        keys = np.empty((len(begins), self.bands), dtype=np.uint64)
        for band in range(self.bands):
            bits = np.zeros(len(begins), dtype=np.uint64)
            for row in range(band * self.rows, (band + 1) * self.rows):
                drawn = mixed(features.numbers ^ self._orders[row])
                normal = ndtri(((drawn >> _SHIFT).astype(np.float64) + 0.5) * _SCALE)
                sums = np.add.reduceat(normal if rates is None else normal * rates, begins)
                bits = bits << np.uint64(1) | (sums > 0).astype(np.uint64)
            keys[:, band] = mixed(bits ^ mixed(np.full(1, band, dtype=np.uint64)))
        return starts, keys.ravel().view(np.int64)
