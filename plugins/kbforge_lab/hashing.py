"""What split-merge samplers hash: features of fragments, and signs of random projections.

*Features* of a fragment are the coordinates of its vector, or counts of n-grams. Vectors are
projected on random directions. Two vectors at the angle v lie on the same side of a direction with
the probability 1 - v / pi (Charikar, "Similarity estimation techniques from rounding algorithms",
2002).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Features, FloatArray, Fragment, Likelihood
from kbforge.indexes.hashed import RandomDirections, gram_counts, located, mixed, ordinary, stacked
from kbforge.numerics import starts_of

_ORDER = 2  # characters of an n-gram
_FOLDED = 256  # dimensions of features that are not coordinates
_AT_ONCE = 4096  # fragments that are projected at once


def features_of(
    fragments: Sequence[Fragment], likelihood: Likelihood, standardised: bool
) -> Features:
    """What a likelihood compares fragments by; by default their vectors, or else their bigrams.

    If `standardised`, each dimension of vectors is centred and scaled, as in `located`.
    """
    own = likelihood.features(fragments)
    if own is not None:
        return own
    lengths = {None if f.vector is None else len(f.vector) for f in fragments}
    if len(lengths) == 1 and lengths != {None}:
        vectors = ordinary(stacked(fragments))
        if standardised:
            centre, spread = located(vectors, standardised)
            vectors = ordinary((vectors - centre) / spread)
        return of_vectors(vectors)
    return gram_counts(fragments, (), _ORDER)


def of_vectors(vectors: FloatArray) -> Features:
    """Coordinates other than 0 as features, of vectors [n, dimensions]."""
    owners, names = vectors.nonzero()
    starts = starts_of(np.bincount(owners, minlength=len(vectors)))
    return Features(starts, names.astype(np.uint64), vectors[owners, names])


def sides_of(features: Features, seed: int, tables: int, rows: int) -> NDArray[np.bool_]:
    """On which sides of random directions fragments are, shape [n, tables, rows]."""
    directions = RandomDirections(seed, _dimensions_of(features), tables, rows)
    n = len(features.starts) - 1
    out = np.empty((n, tables, rows), dtype=np.bool_)
    for begin in range(0, n, _AT_ONCE):
        some = slice(begin, min(begin + _AT_ONCE, n))
        out[some] = directions.projected(dense(features, some)) > 0
    return out


def dense(features: Features, rows: slice) -> FloatArray:
    """Some fragments' features as vectors, shape [rows, D].

    Names below D are coordinates; other features are added up with random signs.
    """
    low, high = features.starts[rows.start], features.starts[rows.stop]
    owners = np.arange(rows.stop - rows.start).repeat(
        np.diff(features.starts[rows.start : rows.stop + 1])
    )
    names, values = features.names[low:high], features.values[low:high]
    dimensions = _dimensions_of(features)
    if dimensions == _FOLDED:
        names = mixed(names)
        values = np.where(names >> np.uint64(63), values, -values)
        names = names % np.uint64(_FOLDED)
    out = np.zeros((rows.stop - rows.start, dimensions))
    np.add.at(out, (owners, names.astype(np.int64)), values)
    return out


def _dimensions_of(features: Features) -> int:
    """D of `dense`."""
    highest = int(features.names.max(initial=np.uint64(0)))
    return highest + 1 if highest < _FOLDED - 1 else _FOLDED
