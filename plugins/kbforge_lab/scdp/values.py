"""Draws of means and types, given the clusters.

Without separation both are drawn from their conditionals. With separation, an independence sampler
draws candidates from those conditionals, has the current value among them, and chooses one by what
separation gives to each; it does so feature by feature, over which everything is a product.

Source: Daumé and Marcu (2005), section 4.2, which draws the candidates from the base density and
weighs them by all the rest; in 64 dimensions none of those would ever be chosen.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge_lab.scdp.gaussian import TypePrior, draw_means, draw_types, sums
from kbforge_lab.scdp.separation import Separation


def resample_means(
    references: FloatArray,
    publication: IntArray,
    precisions: FloatArray,
    means: FloatArray,
    types: FloatArray,
    variance: float,
    separation: Separation | None,
    power: float,
    candidates: int,
    rng: np.random.Generator,
) -> FloatArray:
    """New means, one publication after another where they depend on each other.

    Args:
        references: r, shape [n, F].
        publication: of each, shape [n].
        precisions: the type of each reference, shape [n, F].
        means: present ones, shape [K, F].
        types: every type, shape [L, F].

    """
    total = power * sums(precisions, publication, len(means))
    weighted = power * sums(precisions * references, publication, len(means))
    if separation is None:
        return draw_means(weighted, total, variance, rng)
    found = means.copy()
    wide = (candidates - 1, *means.shape)
    drawn = draw_means(weighted, np.broadcast_to(total, wide), variance, rng)
    for k in range(len(means)):
        tried = np.concatenate([found[k][None], drawn[:, k]])
        others = np.delete(found, k, axis=0)
        found[k] = _chosen(tried, separation.of_means(tried, others, types), rng)
    return found


def resample_types(
    squares: FloatArray,
    kind: IntArray,
    types: FloatArray,
    means: FloatArray,
    prior: TypePrior,
    separation: Separation | None,
    power: float,
    candidates: int,
    rng: np.random.Generator,
) -> FloatArray:
    """New types, which are independent given the means.

    Args:
        squares: (r - p)^2 by feature, shape [n, F].
        kind: the type of each reference, shape [n].
        types: present ones, shape [L, F].
        means: every publication's, shape [K, F].

    """
    total = sums(squares, kind, len(types))
    counts = np.bincount(kind, minlength=len(types))[:, None].astype(np.float64)
    if separation is None:
        return draw_types(total, counts, prior, power, rng)
    wide = np.broadcast_to(total, (candidates - 1, *total.shape))
    tried = np.concatenate([types[None], draw_types(wide, counts, prior, power, rng)])
    return _chosen(tried, separation.of_types(tried, means), rng)


def _chosen(tried: FloatArray, log_weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One of the values along the first axis, for each place of the others."""
    best = (log_weights + rng.gumbel(size=log_weights.shape)).argmax(axis=0)
    return np.asarray(np.take_along_axis(tried, best[None], axis=0)[0])
