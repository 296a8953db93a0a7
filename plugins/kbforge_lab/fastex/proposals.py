"""Random numbers by seed, sweep, fragment and purpose, independent of the order of draws.

SplitMix64 (Steele, Lea and Flood 2014), as `mixed` in kbforge/kernel/src/numbers.hpp.

Sign random projections: hashes of vectors whose Hamming distances are angles (theorems 1, 2).

    angle(u, v) = pi Pr{sgn<u, w> != sgn<v, w>}     for w with a spherically symmetric distribution

Directions w have independent normal coordinates, rounded to 1/32 and cut off at four standard
deviations, so that they are whole numbers of a byte. Other directions are the same ones under a
random permutation of the rows: to draw as many new ones would take longer than all else.

q: which cluster a fragment is proposed, by the distances of hashes.

    log q(y) = t (s(x, y) - log(n_y + a)) + log(n_y + a), rounded to sixteenths of a nat below the
               largest, at most 24 nats below it

As whole numbers of 2^-36, the weights have exact sums, whatever their order; q *is* these numbers,
so that the rounding costs nothing of the sampler's exactness.

A share ELSEWHERE of the proposals goes to places that have no hash: clusters that only fragments of
the block are in, and a new one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray

_MASK = 2**64 - 1
_PURPOSES = 64


class Purpose(IntEnum):
    """What a fragment's numbers are for; try j has the two numbers from TRY + 2 j on."""

    EXPLORE = 0
    PICK = 1
    COMPONENT = 2
    CHOICE = 3
    ACCEPT = 4
    TRY = 8


def mixed(x: int) -> int:
    """A fixed random-looking number of 64 bits."""
    x = (x + 1) * 0x9E3779B97F4A7C15 & _MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)


def stream(seed: int, sweep: int) -> int:
    """Where the numbers of a sweep begin; sweep 0 is the start."""
    return mixed((mixed(seed & _MASK) + sweep) & _MASK)


def uniform(stream: int, fragment: int, purpose: int) -> float:
    """A number in [0, 1), a multiple of 2^-53."""
    return float(mixed((stream + fragment * _PURPOSES + purpose) & _MASK) >> 11) * 2.0**-53


WORD = 64
"""Bits of a word of a packed hash."""


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """l directions in the space of the rows."""

    table: NDArray[np.int8]  # [length, l], in 32nds; the length is prime
    multiplier: int = 1  # not a multiple of the length
    offset: int = 0  # row r is `table[(r multiplier + offset) mod length]`

    @classmethod
    def drawn(cls, rows: int, bits: int, rng: np.random.Generator) -> Directions:
        """Some for vectors of this many rows."""
        normal = rng.standard_normal((_prime_from(rows), bits), dtype=np.float32)
        return cls(np.clip(np.rint(32 * normal), -127, 127).astype(np.int8))

    def permuted(self, rng: np.random.Generator) -> Directions:
        """Other ones: the coordinates of the rows changed places."""
        length = len(self.table)
        return Directions(
            self.table, int(rng.integers(1, max(length, 2))), int(rng.integers(length))
        )

    @property
    def bits(self) -> int:
        """l."""
        return int(self.table.shape[1])

    def of(self, rows: IntArray | NDArray[np.int32]) -> FloatArray:
        """The coordinates of rows, shape [rows, l]."""
        places = (rows.astype(np.int64) * self.multiplier + self.offset) % len(self.table)
        return self.table[places].astype(np.float64)


def _prime_from(n: int) -> int:
    n = max(n, 2)
    while any(n % d == 0 for d in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


def packed(projections: FloatArray) -> NDArray[np.uint64]:
    """Bit b of a hash is whether projection b is above 0; [n, l] to [n, words]."""
    n, bits = projections.shape
    words = -(-bits // WORD)
    signs = np.zeros((n, words * WORD), dtype=np.uint8)
    signs[:, :bits] = projections > 0
    return np.packbits(signs, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def distances(one: NDArray[np.uint64], others: NDArray[np.uint64]) -> IntArray:
    """Hamming distances of a hash [words] to others [k, words], shape [k]."""
    return np.asarray(np.bitwise_count(one ^ others).sum(axis=1, dtype=np.int64))


def error_term(clusters: int, bits: int, delta: float | None) -> float:
    """e of the bound; None of delta leaves it out, so that s is an estimate."""
    if delta is None or not clusters:
        return 0.0
    return math.sqrt(max(math.log(clusters / delta), 0.0) / (2 * bits))


def cosines(bits: int, error: float) -> FloatArray:
    """cos(pi max(0, h / l - e)) of every Hamming distance h, shape [l + 1]."""
    shares = np.arange(bits + 1) / bits
    return np.asarray(np.cos(np.pi * np.maximum(shares - error, 0.0)))


ELSEWHERE = 0.1
"""Share of the proposals that goes to places without a hash."""
EXPLORE = 0.05
"""Share of the steps that propose from the prior."""
STEPS, MOST = 16.0, 384
"""Weights in one nat, and how many there are."""
WEIGHTS: NDArray[np.int64] = np.rint(2.0**36 * np.exp(-np.arange(MOST + 1) / STEPS)).astype(
    np.int64
)
TEMPERATURES: tuple[float, ...] = tuple(2.0**-k for k in range(13))
"""Those of which the best is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class HashedClusters:
    """Clusters as q knows them."""

    slots: IntArray  # ascending, [k]
    hashes: NDArray[np.uint64]  # of theta*, [k, words]
    norms: FloatArray  # |theta*|, [k]
    g: FloatArray  # [k, H]
    log_join: FloatArray  # log(n_y + a), [k]

    def log_bound(
        self,
        x: NDArray[np.uint64],
        norm: float,
        lengths: FloatArray,
        cosines: FloatArray,
    ) -> FloatArray:
        """s(x, y) - log(n_y + a) in nats, up to what all clusters share, shape [k].

        `x` [words] is the hash of phi(x), `norm` its length; `lengths` [H] are as in
        `DocumentFamily`.
        """
        bound = (norm * cosines)[distances(x, self.hashes)] * self.norms
        for h, length in enumerate(lengths.tolist()):
            bound = bound - length * self.g[:, h]
        return bound

    def weights(self, log_bound: FloatArray, temperature: float) -> IntArray:
        """q but for its sum, shape [k]."""
        log_q = temperature * log_bound + self.log_join
        below = np.minimum((log_q.max() - log_q) * STEPS, MOST).astype(np.int64)
        return np.asarray(WEIGHTS[below])


def log_weight(weight: int, total: int) -> float:
    """log q of a cluster with a hash."""
    return math.log1p(-ELSEWHERE) + math.log(weight / total)


def drawn(weights: IntArray, u: float) -> int:
    """The place of the cluster that a number in [0, 1) means."""
    cumulative = weights.cumsum()
    aim = min(int(u * float(cumulative[-1])), int(cumulative[-1]) - 1)
    return int(cumulative.searchsorted(aim, side="right"))
