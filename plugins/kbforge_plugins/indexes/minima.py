"""The first feature of a fragment in a random order: MinHash, of sets and of amounts.

Every feature comes at a random time, and a fragment's hash is the time of its first one, which says
which feature it was. Two fragments have the same hash with the probability

    J(x, y) = sum over f of min(x_f, y_f) / sum over f of max(x_f, y_f)

*Sets* (`first_of_sets`): the times are exponential, at a rate w_f that is the feature's own, so
that x_f is w_f or nothing. The least of independent exponential times is each one's with a
probability in proportion to its rate.

*Amounts* (`Amounts`): x_f is each fragment's own, above 0. This is consistent weighted
sampling (Ioffe, "Improved consistent sampling, weighted minhash and L1 sketching", 2010):

    r_f, c_f ~ Gamma(2, 1),  b_f ~ Uniform(0, 1)
    t = floor(log x_f / r_f + b_f),  the time is c_f / exp(r_f (t - b_f) + r_f)

An amount below 0 is one of another feature (Li, "Linearized GMM kernels and normalized random
Fourier features", 2017), so that there are twice as many.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import Features
from kbforge.contracts.index import IntArray
from kbforge.contracts.likelihood import FloatArray
from kbforge_plugins.indexes.hashed import Hashes, mixed, seeds

_SCALE = 2.0**-53
_SHIFT = np.uint64(11)
_AT_ONCE = 1 << 20  # numbers of which the times are worked out at once
_DRAWS = 5  # uniform numbers of a feature


def uniform(drawn: Hashes) -> FloatArray:
    """Random numbers of 64 bits as numbers above 0 and below 1."""
    return np.asarray(((drawn >> _SHIFT).astype(np.float64) + 0.5) * _SCALE)


def first_of_sets(drawn: Hashes, rates: FloatArray | None, begins: IntArray) -> Hashes:
    """By owner, which of its features comes first, told by the time when it comes.

    Args:
        drawn: a random number for each feature, shape [..., features].
        rates: of the features; None is that all have the same.
        begins: where each owner's features begin; every owner has one at least.

    """
    if rates is None:
        return np.asarray(np.minimum.reduceat(drawn, begins, axis=-1))
    first = np.minimum.reduceat(-np.log(uniform(drawn)) / rates, begins, axis=-1)
    return np.asarray(first).view(np.uint64)


class Amounts:
    """The amounts of features, hashed by one seed after another.

    Args:
        features: any.

    """

    def __init__(self, features: Features) -> None:
        names = mixed(features.names) ^ (features.values < 0)
        self._names, self._place = np.unique(names, return_inverse=True)
        self._logs = np.log(np.abs(features.values))
        self._starts = features.starts

    def first(self, seed: int) -> Hashes:
        """By fragment, its hash, shape [n]; all without features have the same."""
        draws = [uniform(mixed(self._names ^ each)) for each in seeds(seed, _DRAWS)]
        r, c = (-np.log(draws[i] * draws[i + 1]) for i in (0, 2))
        log_c, b = np.log(c), draws[4]
        n = len(self._starts) - 1
        times = np.full(n, np.inf)
        having = np.flatnonzero(np.diff(self._starts))
        step = max(1, _AT_ONCE * n // max(int(self._starts[-1]), 1))
        for begin in range(0, len(having), step):
            some = having[begin : begin + step]
            low, high = self._starts[some[0]], self._starts[some[-1] + 1]
            at = self._place[low:high]
            rate, shift = r[at], b[at]
            log_time = log_c[at] - rate * (
                np.floor(self._logs[low:high] / rate + shift) - shift + 1.0
            )
            times[some] = np.minimum.reduceat(log_time, self._starts[some] - low)
        return times.view(np.uint64)

    def firsts(self, seed: int, rows: int) -> Hashes:
        """By fragment, the hashes by some seeds that follow from one, as one number, shape [n]."""
        out = self.first(seed)
        for each in seeds(seed, rows)[1:].tolist():
            out = mixed(out ^ mixed(self.first(each)))
        return out
