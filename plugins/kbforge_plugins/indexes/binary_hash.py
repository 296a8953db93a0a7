"""Index of texts by the signs of random projections, with bands: `minhash` by angles.

A fragment is the vector of its features (words or character n-grams), each weighted as `minhash`
weights it. Two vectors at an angle t are on the same side of a random hyperplane with probability
1 - t / pi (Goemans and Williamson 1995; Charikar 2002; theorem 1 of the FastEx poster). `rows` such
bits together are a key, and there are `bands` keys.

Vectors that share nothing are at a right angle, where every other bit is equal, so that it takes
many bits a key to leave them out, 2^rows of them a bucket; and then those that share half the words
are hardly ever found: at 60 degrees two keys of 16 bits are equal once in 650 times. So each key
reads only a *part* of the features, the same ones of every fragment: each for itself, with the
probability 1 - (1 - part)^(w / W) for one of weight w, where W is that of a feature nobody has. In
some parts the two have the same features, or nearly, and their angle is none. What shares nothing
shares nothing in any part. Two fragments have a key of a part in common with the probability

    E over parts in which both have features of (1 - t_part / pi)^rows

which lies far above that of the mean angle, since a power of many rows is convex. The first key
reads all features, so that equal fragments always share one; a part without any has no key.

Coordinates are normal, in 256 steps, and weights whole numbers, so that sums are exact. For the
vectors of fragments there is `projection` with `angles`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import ndtri

from kbforge.contracts.index import CandidateIndex, IntArray
from kbforge.errors import UsageError
from kbforge_plugins.indexes.hashed import Hashes, OwnedNumbers, mixed, of_owners, seeds
from kbforge_plugins.indexes.minhash import MinHash, uniform

_STEPS = 256
_COORDINATES = np.round(4096 * ndtri((np.arange(_STEPS) + 0.5) / _STEPS)).astype(np.int64)
_BYTES = np.arange(0, 64, 8, dtype=np.uint64)  # of a number, by how far they are shifted
_WEIGHT = 1024.0  # of a feature that weighs 1


class BinaryHash(MinHash):
    """Keys of the signs of random projections of a fragment's words or n-grams.

    Args:
        families: maximum families of clusters that a key leads to; a key with more is closed: it
            counts only for fragments without any other key that leads to a family.
        shared: minimum keys in common with a family of clusters, if any family has that many.
        compared: maximum families that a fragment is compared with, those with the most keys in
            common; 0 sets no limit.
        rows: bits of a key: with more bits, two fragments must be more similar.
        bands: maximum keys of a fragment: with more keys, fewer pairs are missed.
        part: average share of a fragment's rarest features that a key reads; it reads less of more
            common features. With a smaller share, two fragments need less in common; 1 reads all.
        order: consecutive words, or characters, of one feature.
        unit: whether features are of words or of characters.
        weighted: whether rare features count for more.
        attributes: the attributes to read; by default all.
        seed: of the projections.

    Raises:
        UsageError: a number out of range.

    """

    name = "binary-hash"

    def __init__(
        self,
        families: int = 32,
        shared: int = 1,
        compared: int = 64,
        rows: int = 16,
        bands: int = 100,
        part: float = 0.25,
        order: int = 1,
        unit: Literal["word", "character"] = "word",
        weighted: bool = True,
        attributes: tuple[str, ...] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(
            families, shared, compared, rows, bands, 0, order, unit, weighted, attributes, seed
        )
        if not 0 < part <= 1:
            raise UsageError(f"index {self.name}: part: expected above 0 to 1, got {part}")
        self.part = part
        self._orders = seeds(seed, bands)

    def like(self, other: CandidateIndex) -> bool:
        """See `kbforge.contracts.index`; the bounds do not matter."""
        return super().like(other) and isinstance(other, BinaryHash) and other.part == self.part

    def _keys_of(self, features: OwnedNumbers) -> OwnedNumbers:
        """The keys of some fragments, by their features."""
        n, rates = len(features.starts) - 1, self._rates(features.numbers)
        if rates is None:
            rates, most = np.ones(len(features.numbers)), 1.0
        else:
            most = np.log((self._n + 1) / 0.5)
        drawn = mixed(features.numbers ^ self._orders[:, None])
        read = uniform(drawn) < 1.0 - (1.0 - self.part) ** (rates / most)
        read[0] = True
        bands, places = read.nonzero()
        if not len(bands):
            return OwnedNumbers(np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.uint64))
        owners = features.owners[places]
        changes = np.diff(bands * n + owners, prepend=-1)
        begins = changes.nonzero()[0]
        weights = np.round(_WEIGHT * rates).astype(np.int64)[places]
        bits = _sides(drawn[read], weights, begins, self.rows)
        bands, owners = bands[begins], owners[begins]
        order = np.argsort(owners, kind="stable")
        keys = mixed(bits ^ mixed(bands.astype(np.uint64)))[order]
        return of_owners(owners[order], keys, n)


def _sides(drawn: Hashes, weights: IntArray, begins: IntArray, rows: int) -> Hashes:
    """By group of features, on which sides of some directions their sum is; a bit each.

    Args:
        drawn: a random number for each feature.
        weights: of the features.
        begins: where each group begins.
        rows: directions.

    """
    bits = np.zeros(len(begins), dtype=np.uint64)
    for row in range(0, rows, len(_BYTES)):
        drawn = mixed(drawn)
        steps = (drawn[:, None] >> _BYTES[: rows - row]) & np.uint64(_STEPS - 1)
        sums = np.add.reduceat(_COORDINATES[steps.astype(np.int64)] * weights[:, None], begins)
        for side in (sums > 0).T:
            bits = bits << np.uint64(1) | side.astype(np.uint64)
    return bits
