"""Stratified resampling: one draw a stratum, all at one offset (Carpenter et al. 1999)."""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray, Resampler
from kbforge.numerics.logs import log_sum_exp


class Stratified(Resampler):
    """One point in each stratum of width 1/P, all at one random offset."""

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """See `kbforge.contracts.resampler`."""
        if len(log_weights) <= size:
            return np.arange(len(log_weights)), log_weights
        total = log_sum_exp(log_weights)
        counts = stratified_counts(np.exp(log_weights - total), size, rng.random())
        kept = np.flatnonzero(counts)
        return kept, np.log(counts[kept]) - np.log(size) + total


def stratified_counts(share: FloatArray, size: int, offset: float) -> IntArray:
    """How many of the points (k + offset)/size fall into each particle's share.

    Args:
        share: non-negative weights, in the order in which the strata walk through them.
        size: the number of points.
        offset: uniform in [0, 1).

    Returns:
        Counts, shape [len(share)], that sum to `size`; count i has mean size * share_i and is
        its floor or its ceiling.

    """
    cumulative = np.cumsum(share)
    points = (np.arange(size) + offset) * (cumulative[-1] / size)
    found = np.searchsorted(cumulative, points, side="right")
    return np.bincount(np.minimum(found, len(share) - 1), minlength=len(share))
