"""Indexes of long texts and many features: MinHash, and signs of random projections.

The features of a fragment are its words, or its character n-grams, each with its attribute.

*MinHash.* A hash function orders all features at random, and the first feature of a set is its
minimum. Two sets A and B have the same one with the probability J = |A & B| / |A | B|, Jaccard's
similarity (Broder, "On the resemblance and containment of documents", 1997). Of the `bands` keys
`single` are one minimum each, the others `rows` minima together: two fragments share a key with

    1 - (1 - J)^single (1 - J^rows)^(bands - single)

Minima together lead to few fragments of other entities, and miss fragments of the same entity when
J is small. Single ones, mostly of rare features, find these.

Where the file was looked at, rare features come earlier: at the exponential rate
w = log((n + 1) / (n_f + 1/2)) for one that n_f of n fragments have. Then J is the weighted
similarity w(A & B) / w(A | B).

*Times.* Every feature comes at a random time, and a fragment's hash is the time of its first one.
Two fragments have the same hash with the probability

    J(x, y) = sum over f of min(x_f, y_f) / sum over f of max(x_f, y_f)

*Sets* (`first_of_sets`): the times are exponential, at a rate w_f that is the feature's own, so
that x_f is w_f or nothing.

*Amounts* (`Amounts`): x_f is each fragment's own, above 0. This is consistent weighted
sampling (Ioffe, "Improved consistent sampling, weighted minhash and L1 sketching", 2010):

    r_f, c_f ~ Gamma(2, 1),  b_f ~ Uniform(0, 1)
    t = floor(log x_f / r_f + b_f),  the time is c_f / exp(r_f (t - b_f) + r_f)

An amount below 0 is one of another feature (Li, "Linearized GMM kernels and normalized random
Fourier features", 2017).

*Binary hashes.* A fragment is the vector of its features, each with the weight w. Two vectors at an
angle t are on the same side of a random hyperplane with probability 1 - t / pi (Goemans and
Williamson 1995; Charikar 2002; theorem 1 of the FastEx poster). `rows` such bits together are a
key, and there are `bands` keys.

Fragments that share nothing have every other bit equal, so that only many bits keep them apart; but
at 60 degrees two keys of 16 bits are equal once in 650 times. So each key reads only a *part* of
the features, the same ones of every fragment: each of weight w with probability
1 - (1 - part)^(w / W), where W is the weight of a feature that no fragment has. Two fragments have
a key of a part in common with the probability

    E over parts in which both have features of (1 - t_part / pi)^rows

which lies far above that of the mean angle, since a power of many rows is convex. The first key
reads all features, so that equal fragments always share one; a part without any has no key.
Coordinates are normal, in 256 steps, and weights whole numbers, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import ClassVar, Literal

import numpy as np
from scipy.special import ndtri

from kbforge.contracts import CandidateIndex, Features, LearnedState
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import IntArray
from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import UsageError, require_least
from kbforge.indexes.hashed import (
    HashedIndex,
    Hashes,
    OwnedNumbers,
    Said,
    Values,
    combined,
    counted,
    distinct,
    first_of_each,
    grams_of,
    mixed,
    of_owners,
    runs_of,
)
from kbforge.models.bundle import KeptReader
from kbforge.numerics import at_numbers, starts_of
from kbforge.texts import digest_of, normalised

_SCALE = 2.0**-53
_SHIFT = np.uint64(11)
_AMOUNTS_AT_ONCE = 1 << 20  # numbers of which the times are worked out at once
_DRAWS = 5  # uniform numbers of a feature


def seeds(seed: int, n: int) -> Hashes:
    """The first `n` numbers that follow from a seed."""
    return mixed(mixed(np.arange(n, dtype=np.uint64)) ^ np.uint64(seed))


def words_of(said: Sequence[Said], order: int, most: int) -> OwnedNumbers:
    """By value, the hashes of each `order` words in a row; fewer are one, too."""
    number: dict[Said, int] = {}
    of_value = [
        [number.setdefault((name, word), len(number)) for word in normalised(value[:most]).split()]
        for name, value in said
    ]
    of_word = np.array([digest_of("\0".join(one)) for one in number], dtype=np.uint64)
    lengths = np.array([len(words) for words in of_value], dtype=np.int64)
    words = of_word[np.fromiter((w for words in of_value for w in words), np.int64)]
    counts = np.where(lengths > 0, np.maximum(lengths - order + 1, 1), 0)
    return runs_of(words, lengths, counts, order, np.zeros(len(said), dtype=np.uint64))


def uniform(drawn: Hashes) -> FloatArray:
    """Random numbers of 64 bits as numbers above 0 and below 1."""
    return np.asarray(((drawn >> _SHIFT).astype(np.float64) + 0.5) * _SCALE)


def first_of_sets(drawn: Hashes, rates: FloatArray | None, begins: IntArray) -> Hashes:
    """By owner, the time of its first feature; each has one at least. Rates of None are equal."""
    if rates is None:
        return np.asarray(np.minimum.reduceat(drawn, begins, axis=-1))
    first = np.minimum.reduceat(-np.log(uniform(drawn)) / rates, begins, axis=-1)
    return np.asarray(first).view(np.uint64)


class Amounts:
    """The amounts of features, to be hashed by several seeds."""

    def __init__(self, features: Features) -> None:
        names = mixed(features.names) ^ (features.values < 0)
        self._names, self._place = np.unique(names, return_inverse=True)
        self._logs = np.log(np.abs(features.values))
        self._starts = features.starts

    def first(self, seed: int) -> Hashes:
        """The hash of each fragment, shape [n]; equal for all without features."""
        draws = [uniform(mixed(self._names ^ each)) for each in seeds(seed, _DRAWS)]
        r, c = (-np.log(draws[i] * draws[i + 1]) for i in (0, 2))
        log_c, b = np.log(c), draws[4]
        n = len(self._starts) - 1
        times = np.full(n, np.inf)
        having = np.flatnonzero(np.diff(self._starts))
        step = max(1, _AMOUNTS_AT_ONCE * n // max(int(self._starts[-1]), 1))
        for begin in range(0, len(having), step):
            some = having[begin : begin + step]
            low, high = self._starts[some[0]], self._starts[some[-1] + 1]
            at = self._place[low:high]
            rate, shift = r[at], b[at]
            log_time = log_c[at] - rate * (
                np.floor(self._logs[low:high] / rate + shift) - shift + 1.0
            )
            times[some] = np.minimum.reduceat(log_time, self._starts[some] - low)
        return times.view(np.uint64)

    def firsts(self, seed: int, rows: int) -> Hashes:
        """By fragment, the hashes by `rows` seeds from one, as one number, shape [n]."""
        out = self.first(seed)
        for each in seeds(seed, rows)[1:].tolist():
            out = mixed(out ^ mixed(self.first(each)))
        return out


_MOST_CHARACTERS = 65_536  # of a value that are read
_MOST_FEATURES = 4096  # of a fragment: those of the smallest numbers, which are drawn at random
_MOST_ORDER = 8
_MOST_KEYS = 512
_MOST_ROWS = 16
_FRAGMENTS_AT_ONCE = 512  # fragments of which features are counted at once
_MOST_DRAWN = 1 << 16  # random numbers of features that are drawn at once


class MinHash(HashedIndex):
    """Keys by the minima of random orders of a fragment's words or n-grams.

    Args:
        families: maximum families of clusters that a key leads to; a key with more is closed: it
            counts only for fragments without any other key that leads to a family.
        shared: minimum keys in common with a family of clusters, if any family has that many.
        compared: maximum families that a fragment is compared with, those with the most keys in
            common; 0 sets no limit.
        rows: K, minima of a key: with more minima, two fragments must be more similar.
        bands: L, keys of a fragment: with more keys, fewer pairs are missed.
        single: number of keys with one minimum each, whatever `rows` is: with more of them, fewer
            pairs with little in common are missed, and more are compared.
        order: consecutive words, or characters, of one feature.
        unit: whether features are of words or of characters.
        weighted: whether rare features count for more.
        attributes: the attributes to read; by default all.
        seed: random seed of the orders.

    Raises:
        UsageError: a number out of range.

    """

    name = "minhash"
    options: ClassVar[tuple[str, ...]] = (
        "rows",
        "bands",
        "single",
        "order",
        "unit",
        "weighted",
        "attributes",
        "seed",
    )

    def __init__(
        self,
        families: int = 16,
        shared: int = 1,
        compared: int = 64,
        rows: int = 2,
        bands: int = 40,
        single: int = 12,
        order: int = 1,
        unit: Literal["word", "character"] = "word",
        weighted: bool = True,
        attributes: tuple[str, ...] = (),
        seed: int = 0,
    ) -> None:
        require_least(1, f"index {self.name}: ", families=families, shared=shared)
        require_least(0, f"index {self.name}: ", compared=compared, single=single, seed=seed)
        for name, value, most in (
            ("rows", rows, _MOST_ROWS),
            ("bands", bands, _MOST_KEYS),
            ("order", order, _MOST_ORDER),
        ):
            if not 1 <= value <= most:
                raise UsageError(f"index {self.name}: {name}: expected 1 to {most}, got {value}")
        self.families, self.shared, self.compared = families, shared, compared
        self.rows, self.bands, self.single = rows, bands, single
        self.order, self.unit, self.weighted, self.seed = order, unit, weighted, seed
        self.attributes = tuple(sorted(set(attributes)))
        self._orders = seeds(seed, rows * bands)
        self._use(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), 0)

    def _use(self, features: Hashes, counts: IntArray, n: int) -> None:
        self._features, self._counts, self._n = features, counts, n

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Count how many fragments have each feature, if they are weighted by that."""
        if not self.weighted:
            return None
        left = iter(fragments)
        blocks = iter(lambda: list(islice(left, _FRAGMENTS_AT_ONCE)), [])
        features, counts = counted(map(self._features_of, blocks))
        self._use(features, counts, len(fragments))
        return None

    def dump(self) -> LearnedState:
        """The features of the file, and how many fragments have each."""
        arrays = {"features": self._features, "counts": self._counts}
        return LearnedState({"fragments": self._n}, arrays)

    def load(self, kept: LearnedState) -> None:
        """See `kbforge.contracts.index`."""
        read = KeptReader(kept, f"index {self.name}")
        n: int = read.only("fragments").get("fragments", int, "a whole number")
        if n < 0:
            raise read.wrong("fragments", "a whole number from 0", str(n))
        features = read.array("features", np.uint64, ascending=True)
        counts = read.array("counts", np.int64, len(features), least=1, most=max(n, 1))
        self._use(features, counts, n)

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """See `kbforge.contracts.index`; fragments without features have no keys."""
        features = self._features_of(fragments)
        longest = int(np.diff(features.starts).max(initial=1))
        step = max(1, _MOST_DRAWN // (len(self._orders) * longest))
        found = [
            self._keys_of(_between(features, begin, min(begin + step, len(fragments))))
            for begin in range(0, len(fragments), step)
        ]
        lengths = [np.zeros(0, dtype=np.int64), *(np.diff(keys.starts) for keys in found)]
        numbers = [np.zeros(0, dtype=np.uint64), *(keys.numbers for keys in found)]
        return starts_of(np.concatenate(lengths)), np.concatenate(numbers).view(np.int64)

    def _keys_of(self, features: OwnedNumbers) -> OwnedNumbers:
        """The keys of some fragments, by their features."""
        having = np.diff(features.starts) > 0
        begins = features.starts[:-1][having]
        drawn = mixed(features.numbers ^ self._orders[:, None])
        first = first_of_sets(drawn, self._rates(features.numbers), begins)
        bands = np.arange(self.bands, dtype=np.uint64)
        keys = mixed(bands[:, None] ^ first[:: self.rows])
        for row in range(1, self.rows):
            several = slice(self.single, None)
            keys[several] = mixed(keys[several] ^ first[row :: self.rows][several])
        return OwnedNumbers(starts_of(having * self.bands), keys.T.ravel())

    def _features_of(self, fragments: Sequence[Fragment]) -> OwnedNumbers:
        """The different features of each fragment, a bounded number."""
        values = Values(fragments, self.attributes)
        found = grams_of if self.unit == "character" else words_of
        of_values = found(values.said, self.order, _MOST_CHARACTERS)
        return first_of_each(distinct(combined(of_values, values.of_fragment)), _MOST_FEATURES)

    def _rates(self, features: Hashes) -> FloatArray | None:
        """The rate of each feature; None if all are equal."""
        if not self._n:
            return None
        counts = at_numbers(self._features, self._counts, features, 0)
        return np.asarray(np.log((self._n + 1) / (counts + 0.5)))


def _between(parts: OwnedNumbers, begin: int, end: int) -> OwnedNumbers:
    """The numbers of a range of owners."""
    starts = parts.starts[begin : end + 1]
    return OwnedNumbers(starts - starts[0], parts.numbers[starts[0] : starts[-1]])


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
        seed: random seed of the projections.

    Raises:
        UsageError: a number out of range.

    """

    name = "binary-hash"
    options = (*MinHash.options, "part")

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
    """By group of features, the sides of some directions that their sum is on, a bit each."""
    bits = np.zeros(len(begins), dtype=np.uint64)
    for row in range(0, rows, len(_BYTES)):
        drawn = mixed(drawn)
        steps = (drawn[:, None] >> _BYTES[: rows - row]) & np.uint64(_STEPS - 1)
        sums = np.add.reduceat(_COORDINATES[steps.astype(np.int64)] * weights[:, None], begins)
        for side in (sums > 0).T:
            bits = bits << np.uint64(1) | side.astype(np.uint64)
    return bits


INDEXES: Mapping[str, type[CandidateIndex]] = {"minhash": MinHash, "binary-hash": BinaryHash}
"""The laboratory's indexes by name."""
