"""Multinomial resampling: P independent draws with replacement.

A particle's new weight is its share of the draws.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray, Resampler
from kbforge.numerics.logs import log_sum_exp


class Multinomial(Resampler):
    """The simplest unbiased scheme, and the one with the highest variance."""

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """See `kbforge.contracts.resampler`."""
        if len(log_weights) <= size:
            return np.arange(len(log_weights)), log_weights
        total = log_sum_exp(log_weights)
        share = np.exp(log_weights - total)
        counts = rng.multinomial(size, share / share.sum())
        kept = np.flatnonzero(counts)
        return kept, np.log(counts[kept]) - np.log(size) + total
