"""Features of fragments for hashing: coordinates, or counts of n-grams; and random directions.

Vectors are projected on random directions. Two vectors at the angle v lie on the same side of a
direction with the probability 1 - v / pi (Charikar, "Similarity estimation techniques from rounding
algorithms", 2002).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Features, Fragment, Likelihood
from kbforge.contracts.likelihood import FloatArray
from kbforge_plugins.indexes.hashed import Values, grams_of, mixed, starts_of, taken

_MOST_DIMENSIONS = 4096  # of more, several are added up, with random signs


class RandomDirections:
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


LARGEST = 1e100
"""Numbers beyond are taken for it: sums of their squares would be no numbers."""


def stacked(fragments: Sequence[Fragment]) -> FloatArray:
    """The vectors of fragments, all of one length, shape [vectors, dimensions]."""
    vectors = np.array([f.vector for f in fragments], dtype=np.float64)
    return np.clip(vectors, -LARGEST, LARGEST)


def ordinary(vectors: FloatArray) -> FloatArray:
    """The same without what is too large to be added up."""
    return np.clip(np.nan_to_num(vectors), -LARGEST, LARGEST)


def located(vectors: FloatArray, standardised: bool) -> tuple[FloatArray, FloatArray]:
    """The median of each dimension, and how far its values spread, 1 if all dimensions count alike.

    Half of the values are as near to each other as the spread, so that a few far ones say nothing.
    """
    low, median, high = np.quantile(vectors, [0.25, 0.5, 0.75], axis=0)
    spread = np.ones(vectors.shape[1])
    if standardised:
        deviation = np.sqrt(np.mean(np.square(vectors - median), axis=0))
        spread = np.where(high > low, high - low, deviation)
        spread = np.where(spread > 0, spread, 1.0)
    return median, spread


_ORDER = 2  # characters of an n-gram
_MOST_CHARACTERS = 65_536  # of a value that are read
_FOLDED = 256  # dimensions of what has no dimensions of its own
_AT_ONCE = 4096  # fragments that are projected at once


def features_of(
    fragments: Sequence[Fragment], likelihood: Likelihood, standardised: bool
) -> Features:
    """What a likelihood compares fragments by, or else their vectors, or else their bigrams.

    Args:
        fragments: at least one.
        likelihood: may say which.
        standardised: whether vectors are taken from their median, and each dimension is divided by
            the spread of its values.

    """
    own = likelihood.features(fragments)
    if own is not None:
        return own
    if _alike(fragments):
        vectors = ordinary(stacked(fragments))
        if standardised:
            centre, spread = located(vectors, standardised)
            vectors = ordinary((vectors - centre) / spread)
        return of_vectors(vectors)
    return gram_counts(fragments, (), _ORDER)


def of_vectors(vectors: FloatArray) -> Features:
    """Coordinates as features, shape [n, dimensions]; those that are 0 are none."""
    owners, names = vectors.nonzero()
    starts = starts_of(np.bincount(owners, minlength=len(vectors)))
    return Features(starts, names.astype(np.uint64), vectors[owners, names])


def gram_counts(fragments: Sequence[Fragment], attributes: Sequence[str], order: int) -> Features:
    """How often each character n-gram of the values of some attributes occurs; none reads all."""
    values = Values(fragments, attributes)
    grams = taken(grams_of(values.said, order, _MOST_CHARACTERS), values.of_fragment)
    order_of = np.lexsort((grams.numbers, grams.owners))
    owners, names = grams.owners[order_of], grams.numbers[order_of]
    new = np.ones(len(names), dtype=np.bool_)
    new[1:] = (owners[1:] != owners[:-1]) | (names[1:] != names[:-1])
    first = new.nonzero()[0]
    counts = np.diff(first, append=len(names)).astype(np.float64)
    starts = starts_of(np.bincount(owners[first], minlength=len(fragments)))
    return Features(starts, names[first], counts)


def sides_of(features: Features, seed: int, tables: int, rows: int) -> NDArray[np.bool_]:
    """On which sides of random directions fragments are, shape [n, tables, rows]."""
    directions = RandomDirections(seed, dimensions_of(features), tables, rows)
    n = len(features.starts) - 1
    out = np.empty((n, tables, rows), dtype=np.bool_)
    for begin in range(0, n, _AT_ONCE):
        some = slice(begin, min(begin + _AT_ONCE, n))
        out[some] = sides(directions.projected(dense(features, some)))
    return out


def dense(features: Features, rows: slice) -> FloatArray:
    """Some fragments' features as vectors, shape [rows, D].

    Names below D are coordinates; of others several are added up, each with a random sign.
    """
    low, high = features.starts[rows.start], features.starts[rows.stop]
    owners = np.arange(rows.stop - rows.start).repeat(
        np.diff(features.starts[rows.start : rows.stop + 1])
    )
    names, values = features.names[low:high], features.values[low:high]
    dimensions = dimensions_of(features)
    if dimensions == _FOLDED:
        names = mixed(names)
        values = np.where(names >> np.uint64(63), values, -values)
        names = names % np.uint64(_FOLDED)
    out = np.zeros((rows.stop - rows.start, dimensions))
    np.add.at(out, (owners, names.astype(np.int64)), values)
    return out


def dimensions_of(features: Features) -> int:
    """D of `dense`."""
    highest = int(features.names.max(initial=np.uint64(0)))
    return highest + 1 if highest < _FOLDED - 1 else _FOLDED


def _alike(fragments: Sequence[Fragment]) -> bool:
    """Whether all have vectors of one length."""
    first = fragments[0].vector
    return first is not None and all(
        f.vector is not None and len(f.vector) == len(first) for f in fragments
    )
