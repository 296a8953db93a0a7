"""Vectors of fragments: in one array, and where and how wide they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray

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
