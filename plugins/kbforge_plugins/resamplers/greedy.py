"""Greedy resampling: keep the P heaviest particles.

That is the optimal choice in reverse KL divergence (split-SMC paper, appendix B.2).
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray, Resampler


class Greedy(Resampler):
    """The first P of the canonical order: the heaviest, weights unchanged."""

    keeps_heaviest = True

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """See `kbforge.contracts.resampler`."""
        return np.arange(min(size, len(log_weights))), log_weights[:size]
