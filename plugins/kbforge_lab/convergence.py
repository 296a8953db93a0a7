"""Convergence of chains, and their effective sample size.

With M half chains of N draws (split, so that a drift is noticed), W the mean variance within half
chains, V = (N - 1) / N W + the variance of their means, and rho_t = 1 - (W - mean autocovariance at
lag t) / V: R-hat is sqrt(V / W), and the effective sample size is M N / (1 + 2 sum of rho_t). The
sum goes over pairs of lags while they are positive, and is made to fall (Geyer 1992). The bulk's
effective sample size is that of the draws' normal scores.

Sources: Gelman, Carlin, Stern, Dunson, Vehtari and Rubin, "Bayesian Data Analysis", third edition,
sections 11.4 and 11.5; Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), "Rank-normalization,
folding, and localization", sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.fft import next_fast_len
from scipy.stats import norm, rankdata

from kbforge.contracts import FloatArray

LEAST = 4
"""Draws of a chain, so that each of its halves has a variance."""


def scale_reduction(chains: Sequence[FloatArray]) -> float:
    """Split R-hat: 1 if all halves of the chains look alike, far above it if they do not."""
    halves = _halves(chains)
    within, overall = _variances(halves)
    if within == 0:
        return 1.0 if overall == 0 else float("inf")
    return float(np.sqrt(overall / within))


def bulk_effective_size(chains: Sequence[FloatArray]) -> float:
    """Independent draws that the chains' are worth for means and medians, at least 1."""
    halves = _halves(chains)
    ranks = rankdata(halves).reshape(halves.shape)
    return effective_size(np.asarray(norm.ppf((ranks - 3 / 8) / (halves.size + 1 / 4))))


def effective_size(draws: FloatArray) -> float:
    """Of chains that are not split again, shape [M, N]; at least 1, at most M N log10(M N)."""
    within, overall = _variances(draws)
    count = draws.size
    if overall == 0:
        return float(count)
    rho = 1 - (within - _autocovariances(draws).mean(axis=0)) / overall
    rho[0] = 1.0
    length = len(rho) // 2 * 2
    pairs = rho[:length].reshape(-1, 2).sum(axis=1)
    stop = np.flatnonzero(pairs < 0)
    positive = pairs[: stop[0]] if len(stop) else pairs
    tau = max(2 * np.minimum.accumulate(positive).sum() - 1, 1 / np.log10(count))
    return float(max(count / tau, 1.0))


def _halves(chains: Sequence[FloatArray]) -> FloatArray:
    """Shape [2 chains, length // 2]; of an odd length the middle is left out."""
    length = len(chains[0]) // 2
    return np.stack([half for chain in chains for half in (chain[:length], chain[-length:])])


def _variances(draws: FloatArray) -> tuple[float, float]:
    """W and V."""
    length = draws.shape[1]
    within = float(draws.var(axis=1, ddof=1).mean())
    between = float(draws.mean(axis=1).var(ddof=1)) if len(draws) > 1 else 0.0
    return within, (length - 1) / length * within + between


def _autocovariances(draws: FloatArray) -> FloatArray:
    """At lags 0, 1, ..., over N - 1, as W is; shape [M, N]."""
    length = draws.shape[1]
    centred = draws - draws.mean(axis=1, keepdims=True)
    size = next_fast_len(2 * length, real=True)
    power = np.square(np.abs(np.fft.rfft(centred, size)))
    return np.asarray(np.fft.irfft(power, size)[:, :length] / (length - 1))
