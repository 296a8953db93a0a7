"""Sign random projections: hashes of vectors whose Hamming distances are angles (theorems 1, 2).

    angle(u, v) = pi Pr{sgn<u, w> != sgn<v, w>}     for w with a spherically symmetric distribution

Directions w have independent normal coordinates, rounded to 1/32 and cut off at four standard
deviations, so that they are whole numbers of a byte. Other directions are the same ones under a
random permutation of the rows: to draw as many new ones would take longer than all else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray

WORD = 64
"""Bits of a word of a packed hash."""


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """l directions in the space of the rows.

    Attributes:
        table: shape [length, l], the length a prime number; in 32nds.
        multiplier: not a multiple of the length.
        offset: row r has the coordinates `table[(r multiplier + offset) mod length]`.

    """

    table: NDArray[np.int8]
    multiplier: int = 1
    offset: int = 0

    @classmethod
    def drawn(cls, rows: int, bits: int, rng: np.random.Generator) -> Directions:
        """Some for vectors of so many rows."""
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
