"""Keep the P heaviest: the optimal choice in reverse KL divergence (split-SMC paper, B.2)."""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray


class Greedy:
    """The P heaviest particles, weights unchanged; earlier entries win ties."""

    deterministic = True

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """See `kbforge.contracts.resampler`."""
        if len(log_weights) <= size:
            return np.arange(len(log_weights)), log_weights
        kept = np.sort(np.argsort(-log_weights, kind="stable")[:size])
        return kept, log_weights[kept]
