"""Fragments as vectors: each feature's distances by classical scaling, side by side.

Every different reading of a feature is embedded once, labelled and new ones together, on as many
axes as its distances span. Readings that are all unlike each other need as many axes as there are
readings, and of the longest alone most would be in the centre. So the axes are turned at random and
the first are taken: distances between readings stay nearly in proportion, by Johnson and
Lindenstrauss, and all columns of a feature are alike, as if it had the one precision that the paper
gives it. A fragment without a reading is in the centre, where it says little.

Of more readings than `LANDMARKS` only so many are embedded; each other one is placed by its
distances to them, at a cost that is linear in the readings:

    x_i = (mean over l of D_li^2 - D_i^2) . X_i / (2 |X_i|^2)       for axis i of the landmarks' X

Sources: Johnson and Lindenstrauss (1984), "Extensions of Lipschitz mappings into a Hilbert space";
de Silva and Tenenbaum (2004), "Sparse multidimensional scaling using landmark points".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts import FloatArray, Fragment
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge_lab.contracts.feature import Feature
from kbforge_lab.models.supervised.comparing import Compared
from kbforge_lab.scdp.embedding import embedding

LANDMARKS = 1000
_ROWS_AT_ONCE = 1000
_LEAST_AXIS = 1e-2
"""Of the variance of the longest axis: on a shorter one landmarks say nothing of other readings."""
_SEED = 20

Readings = tuple[tuple[str | None, ...], tuple[float, ...] | None]
"""All that a model reads of a fragment: a reading a feature, and the vector."""


class Columns:
    """The features of some fragments, embedded together.

    Args:
        fragments: all, at least two.
        compared: by what; may be empty if all fragments have vectors.
        dimensions: of each feature, at most.
        vectors: whether vectors are read, too.

    Raises:
        LikelihoodError: a fragment lacks a vector, or has another length than the first.

    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        compared: Sequence[Compared],
        dimensions: int,
        vectors: bool,
    ) -> None:
        self._features = [each.made() for each in compared]
        self._vectors = vectors
        self._blocks: list[FloatArray] = []
        for feature in self._features:
            feature.fit(fragments)
            self._blocks.append(_block(feature, fragments, dimensions))
        if vectors:
            self._own = _vectors(fragments)
        else:
            self._own = np.zeros((len(fragments), 0))

    def first(self, dimensions: int) -> FloatArray:
        """The vectors, by the first columns of each feature, shape [n, columns]."""
        return np.concatenate([*(b[:, :dimensions] for b in self._blocks), self._own], axis=1)

    def readings(self, fragment: Fragment) -> Readings:
        """What a fragment's vector depends on."""
        read = tuple(feature.reading(fragment) for feature in self._features)
        return read, fragment.vector if self._vectors else None


def _block(feature: Feature, fragments: Sequence[Fragment], dimensions: int) -> FloatArray:
    """One feature's columns; those of axes that are not there are left out."""
    read = [feature.reading(fragment) for fragment in fragments]
    different = sorted({reading for reading in read if reading is not None})
    if len(different) < 2:
        return np.zeros((len(fragments), 0))
    points = placed(feature, different, dimensions)
    number = {reading: i for i, reading in enumerate(different)}
    out = np.zeros((len(fragments), points.shape[1]))
    for row, reading in enumerate(read):
        if reading is not None:
            out[row] = points[number[reading]]
    return out


def placed(feature: Feature, readings: Sequence[str], dimensions: int) -> FloatArray:
    """Points of different readings, shape [len(readings), at most `dimensions`].

    Readings that are equally far apart have axes of equal variance, and which of all the bases of
    these LAPACK returns depends on the processor. Turned points are nearly the same for every one:
    the random numbers belong to readings, not to axes.
    """
    landmarks = readings
    if len(readings) > LANDMARKS:
        chosen = np.linspace(0, len(readings) - 1, LANDMARKS).astype(np.int64)
        landmarks = [readings[i] for i in chosen.tolist()]
    distances = feature.distances(landmarks, landmarks)
    axes = points = _spanned(distances)
    if len(readings) > LANDMARKS:
        variance = np.square(axes).sum(axis=0)
        axes = axes[:, variance > _LEAST_AXIS * variance[0]]
        points = _by_landmarks(
            feature, readings, landmarks, axes, np.square(distances).mean(axis=0)
        )
    if axes.shape[1] <= dimensions:
        return points
    turned = np.random.default_rng(_SEED).standard_normal((len(landmarks), dimensions))
    directions = axes / np.sqrt(np.square(axes).sum(axis=0))
    return np.asarray(points @ (directions.T @ turned / np.sqrt(dimensions)))


def _spanned(distances: FloatArray) -> FloatArray:
    """All axes that distances span."""
    points = embedding((distances + distances.T) / 2, len(distances))
    return np.asarray(points[:, np.abs(points).max(axis=0) > 0])


def _by_landmarks(
    feature: Feature,
    readings: Sequence[str],
    landmarks: Sequence[str],
    axes: FloatArray,
    centre: FloatArray,
) -> FloatArray:
    """All readings by their distances to landmarks, given what the mean squares of these are."""
    back = axes / (2 * np.square(axes).sum(axis=0))
    parts = [
        (centre - np.square(feature.distances(readings[at : at + _ROWS_AT_ONCE], landmarks))) @ back
        for at in range(0, len(readings), _ROWS_AT_ONCE)
    ]
    return np.concatenate(parts)


def require_readable(compared: Sequence[Compared], fragments: Sequence[Fragment]) -> None:
    """Refuse fragments of which nothing can be compared.

    Raises:
        UsageError: there are neither features nor vectors.

    """
    if not compared and any(fragment.vector is None for fragment in fragments):
        raise UsageError("the fragments have neither properties to compare nor vectors")


def _vectors(fragments: Sequence[Fragment]) -> FloatArray:
    width = len(fragments[0].vector or ())
    for fragment in fragments:
        if fragment.vector is None or len(fragment.vector) != width:
            got = "none" if fragment.vector is None else f"one of {len(fragment.vector)}"
            raise LikelihoodError(
                f'fragment "{quoted(fragment.id)}": expected a vector of {width} numbers, got {got}'
            )
    return np.array([fragment.vector for fragment in fragments], dtype=np.float64)
