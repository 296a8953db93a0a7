"""Resamplers: reduce many weighted putative particles to at most P.

*Greedy* keeps the P heaviest, the optimal choice in reverse KL divergence (split-SMC paper,
appendix B.2). The others are unbiased:

*Multinomial*: P independent draws with replacement; a particle's new weight is its share of draws.

*Stratified*: one draw in each stratum, all at one offset (Carpenter et al. 1999).

*Optimal* (Fearnhead and Clifford 2003): keep the heavy, resample the light. Of all unbiased schemes
that keep at most P particles it has the least variance. A threshold c solves
sum_i min(w_i / c, 1) = P. Particles above c keep their weights; others are kept with probability
w_i / c, by stratified draws, and get weight c.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray, Resampler
from kbforge.numerics import log_sum_exp


class Greedy(Resampler):
    """The first P of the canonical order: the heaviest, weights unchanged."""

    keeps_heaviest = True

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        return np.arange(min(size, len(log_weights))), log_weights[:size]


class Multinomial(Resampler):
    """The simplest unbiased scheme, and the one with the highest variance."""

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        if len(log_weights) <= size:
            return np.arange(len(log_weights)), log_weights
        total = log_sum_exp(log_weights)
        share = np.exp(log_weights - total)
        counts = rng.multinomial(size, share / share.sum())
        kept = np.flatnonzero(counts)
        return kept, np.log(counts[kept]) - np.log(size) + total


class Stratified(Resampler):
    """One point in each stratum of width 1/P, all at one random offset."""

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        if len(log_weights) <= size:
            return np.arange(len(log_weights)), log_weights
        total = log_sum_exp(log_weights)
        counts = stratified_counts(np.exp(log_weights - total), size, rng.random())
        kept = np.flatnonzero(counts)
        return kept, np.log(counts[kept]) - np.log(size) + total


def stratified_counts(share: FloatArray, size: int, offset: float) -> IntArray:
    """How many of `size` points (k + offset)/size fall into each particle's share.

    The offset is uniform in [0, 1). A count is the floor or the ceiling of its mean, size * share.
    """
    cumulative = np.cumsum(share)
    points = (np.arange(size) + offset) * (cumulative[-1] / size)
    found = np.searchsorted(cumulative, points, side="right")
    return np.bincount(np.minimum(found, len(share) - 1), minlength=len(share))


class Optimal(Resampler):
    """Unbiased, exactly P distinct particles, and the least expected squared error of weights."""

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        finite = np.flatnonzero(log_weights > -np.inf)
        if len(finite) <= size:
            kept = finite if len(log_weights) > size else np.arange(len(log_weights))
            return kept, log_weights[kept]
        total = log_sum_exp(log_weights)
        weights = np.exp(log_weights - total)
        heavy, threshold = _threshold(weights, size)
        if threshold == 0:  # all but a few are below the smallest float: there is nothing to draw
            return finite[:size], log_weights[finite[:size]]
        light = np.flatnonzero(~heavy)
        counts = stratified_counts(weights[light], size - int(heavy.sum()), rng.random())
        chosen = light[counts > 0]
        kept = np.sort(np.concatenate([np.flatnonzero(heavy), chosen]))
        value = np.where(heavy[kept], log_weights[kept], np.log(threshold) + total)
        return kept, value


def _threshold(weights: FloatArray, size: int) -> tuple[np.ndarray, float]:
    """(which particles are heavy, c) for normalised weights, more than `size` of them."""
    order = np.argsort(-weights, kind="stable")
    ranked = weights[order]
    # mass[k]: of all but the k heaviest; with k heavy ones, c = mass[k] / (size - k)
    mass = np.cumsum(ranked[::-1])[::-1][:size]
    thresholds = mass / (size - np.arange(size))
    k = int(np.argmax(ranked[:size] <= thresholds))
    heavy = np.zeros(len(weights), dtype=np.bool_)
    heavy[order[:k]] = True
    return heavy, float(thresholds[k])
