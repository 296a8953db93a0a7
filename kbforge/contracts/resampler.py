"""Resamplers: reduce many weighted putative particles to at most P.

One signature for the family:

    resample(log_weights[n], size, rng) -> (indices[m], log_weights[m]),  m <= min(n, size)

Laws, tested for every member by `kbforge.testing.ResamplerContract`:

1. Indices are distinct and ascending in the order of their input.
2. Mass: the greedy member keeps the kept particles' weights unchanged; every other member is
   unbiased, E[W_i] = w_i for each i, where W_i is the new weight (0 if i was dropped).
3. n <= size returns everything unchanged.
4. Weights need not be normalised; adding a constant to the input adds it to the output.
5. -inf weights are never kept while a finite one is dropped.

Inputs arrive in the canonical order (heaviest first, ties broken by the caller), so a member that
prefers earlier entries among equals is deterministic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from kbforge.contracts.likelihood import FloatArray, IntArray


class Resampler(ABC):
    """One resampling scheme."""

    keeps_heaviest: bool = False
    """Whether the scheme keeps the heaviest, in the order given, and draws no random numbers."""

    @abstractmethod
    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """Choose at most `size` of the particles; weights in nats."""
