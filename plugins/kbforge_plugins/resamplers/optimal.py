"""Optimal resampling (Fearnhead and Clifford 2003): keep the heavy, resample the light.

Of all unbiased schemes that keep at most P particles it has the least variance.

A threshold c solves sum_i min(w_i / c, 1) = P. Particles above c are kept with their weights; the
others are kept with probability w_i / c, by stratified draws, and get weight c.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray, Resampler
from kbforge.numerics.logs import log_sum_exp
from kbforge_plugins.resamplers.stratified import stratified_counts


class Optimal(Resampler):
    """Unbiased, exactly P distinct particles, and the least expected squared error of weights."""

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """See `kbforge.contracts.resampler`."""
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
