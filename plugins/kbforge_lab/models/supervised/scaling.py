"""What labelled vectors teach of all: the scale of their columns, and how much an entity scatters.

Columns are moved and scaled so that the means of labelled entities are centred and have variance 1,
which is what the base density of publications' means expects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray, IntArray

MOST_COUNTED = 10
"""Fragments that an entity counts for at most, so that no large one says it all."""
_LEAST_SPREAD = 1e-6
_LEAST_SCATTER = 1e-3
"""Of an entity, where that of the means is 1: equal values do not make it certain."""


@dataclass(frozen=True)
class Scaled:
    """Labelled and new vectors on one scale.

    Attributes:
        train: shape [n, F].
        labels: entities 0, 1, ... of the labelled ones, shape [n].
        test: shape [m, F].
        within: the mean square of a labelled vector's deviation from its entity's mean, shape [F].

    """

    train: FloatArray
    labels: IntArray
    test: FloatArray
    within: FloatArray


def scaled(train: FloatArray, labels: IntArray, test: FloatArray) -> Scaled:
    """By the labelled ones alone.

    Args:
        train: shape [n, F].
        labels: any whole numbers, shape [n].
        test: shape [m, F].

    """
    _, labels = np.unique(labels, return_inverse=True)
    means = _means(train, labels)
    spread = means.std(axis=0)
    scale = np.where(spread > _LEAST_SPREAD, spread, 1.0)
    centre = means.mean(axis=0)
    train, test, means = (train - centre) / scale, (test - centre) / scale, (means - centre) / scale
    sizes = np.bincount(labels)
    weights = np.where(sizes > 1, np.minimum(1.0, MOST_COUNTED / sizes), 0.0)[labels]
    squares = (weights[:, None] * np.square(train - means[labels])).sum(axis=0)
    # an entity of k fragments has k - 1 degrees of freedom
    freedom = (weights * (1 - 1 / sizes[labels])).sum()
    within = np.maximum(squares / max(freedom, 1.0), _LEAST_SCATTER)
    return Scaled(train, labels.astype(np.int64), test, within)


def _means(values: FloatArray, labels: IntArray) -> FloatArray:
    sums = np.zeros((int(labels.max()) + 1, values.shape[1]))
    np.add.at(sums, labels, values)
    return np.asarray(sums / np.bincount(labels)[:, None])
