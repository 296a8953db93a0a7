"""Resamplers: reduce many weighted putative particles to at most P.

One signature for the family:

    resample(log_weights[n], size, rng) -> (indices[m], log_weights[m]),  m <= min(n, size)

| name | keeps |
|---|---|
| greedy | the P heaviest, the best choice in reverse KL divergence (split-SMC paper, B.2) |
| multinomial | P independent draws with replacement; a weight is a share of the draws |
| stratified | one draw in each stratum, all at one offset (Carpenter et al. 1999) |
| optimal | the heavy, and resamples the light (Fearnhead and Clifford 2003) |

Laws: indices are distinct and ascending; `greedy` keeps the weights of the particles that it keeps,
and draws no random numbers; the others are unbiased, E[W_i] = w_i for each i, where W_i is the new
weight (0 if i was dropped); n <= size returns everything unchanged; a constant that is added to the
weights is added to the result; -inf is never kept when a finite weight is dropped.

Inputs arrive in the canonical order (heaviest first, ties broken by the caller).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge.numerics import log_sum_exp

Resampler: TypeAlias = Callable[[FloatArray, int, np.random.Generator], tuple[IntArray, FloatArray]]
ResamplerName: TypeAlias = Literal["greedy", "multinomial", "stratified", "optimal"]


def greedy(
    log_weights: FloatArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """The first P, with their weights unchanged."""
    return np.arange(min(size, len(log_weights))), log_weights[:size]


def multinomial(
    log_weights: FloatArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """The simplest unbiased scheme, and the one with the highest variance."""
    if len(log_weights) <= size:
        return np.arange(len(log_weights)), log_weights
    total = log_sum_exp(log_weights)
    share = np.exp(log_weights - total)
    counts = rng.multinomial(size, share / share.sum())
    kept = np.flatnonzero(counts)
    return kept, np.log(counts[kept]) - np.log(size) + total


def stratified(
    log_weights: FloatArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """One point in each stratum of width 1/P, all at one random offset."""
    if len(log_weights) <= size:
        return np.arange(len(log_weights)), log_weights
    total = log_sum_exp(log_weights)
    counts = _stratified_counts(np.exp(log_weights - total), size, rng.random())
    kept = np.flatnonzero(counts)
    return kept, np.log(counts[kept]) - np.log(size) + total


def optimal(
    log_weights: FloatArray, size: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Unbiased, exactly P distinct particles, and the least expected squared error of weights.

    A threshold c solves sum_i min(w_i / c, 1) = P. Particles above c keep their weights; others are
    kept with probability w_i / c, by stratified draws, and get weight c.
    """
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
    counts = _stratified_counts(weights[light], size - int(heavy.sum()), rng.random())
    chosen = light[counts > 0]
    kept = np.sort(np.concatenate([np.flatnonzero(heavy), chosen]))
    value = np.where(heavy[kept], log_weights[kept], np.log(threshold) + total)
    return kept, value


RESAMPLERS: Mapping[ResamplerName, Resampler] = {
    "greedy": greedy,
    "multinomial": multinomial,
    "stratified": stratified,
    "optimal": optimal,
}


def draw(log_weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Indices drawn with replacement in proportion to exp(log_weights), shape [size]."""
    cumulative = np.cumsum(np.exp(log_weights - log_sum_exp(log_weights)))
    found = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.asarray(np.minimum(found, len(cumulative) - 1))


def _stratified_counts(share: FloatArray, size: int, offset: float) -> IntArray:
    """How many of `size` points (k + offset)/size fall into each particle's share.

    The offset is uniform in [0, 1). A count is the floor or the ceiling of its mean, size * share.
    """
    cumulative = np.cumsum(share)
    points = (np.arange(size) + offset) * (cumulative[-1] / size)
    found = np.searchsorted(cumulative, points, side="right")
    return np.bincount(np.minimum(found, len(share) - 1), minlength=len(share))


def _threshold(weights: FloatArray, size: int) -> tuple[NDArray[np.bool_], float]:
    """(which particles are heavy, c) for normalised weights of more than `size` particles."""
    order = np.argsort(-weights, kind="stable")
    ranked = weights[order]
    # mass[k]: of all but the k heaviest; with k heavy ones, c = mass[k] / (size - k)
    mass = np.cumsum(ranked[::-1])[::-1][:size]
    thresholds = mass / (size - np.arange(size))
    k = int(np.argmax(ranked[:size] <= thresholds))
    heavy = np.zeros(len(weights), dtype=np.bool_)
    heavy[order[:k]] = True
    return heavy, float(thresholds[k])
