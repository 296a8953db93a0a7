"""Exponential families: fragments as sufficient statistics, for samplers that need only these.

A conjugate likelihood whose clusters are of one of these families may say so, by
`ConjugateLikelihood.exponential_family(fragments)`. L(C), up to a constant for every fragment, is
then that of the family:

| class | L(C) |
|---|---|
| SparseCounts | sum over rows r of s_r [lgamma(n_r + a_r) - lgamma(a_r)], n_r the count of C in r |
| Points | Gaussian, dimensions independent, with a normal-inverse-gamma prior |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SparseCounts:
    """Bags of draws from distributions with Dirichlet priors (compound multinomials).

    A category of a distribution is a row of sign +1, whose pseudo-count is the category's; the
    draws of the whole distribution are a row of sign -1, whose pseudo-count is the sum of these.

    Attributes:
        starts: where each fragment's entries begin, shape [n + 1].
        rows: of the entries, ascending for each fragment; int32.
        counts: how often the fragment counts there, at least 1; int32.
        pseudo_counts: a of each row, > 0, shape [rows].
        signs: +1 or -1 of each row, shape [rows].

    """

    starts: IntArray
    rows: NDArray[np.int32]
    counts: NDArray[np.int32]
    pseudo_counts: FloatArray
    signs: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points of Gaussian clusters.

    The prior is sigma^2 ~ InverseGamma(a, b), mean | sigma^2 ~ Normal(centre, sigma^2 / lam).

    Attributes:
        points: shape [n, D].
        a: of the prior, by dimension, shape [D], as are `b`, `lam` and `centre`.
        b: likewise.
        lam: likewise.
        centre: likewise.

    """

    points: FloatArray
    a: FloatArray
    b: FloatArray
    lam: FloatArray
    centre: FloatArray


ExponentialFamily: TypeAlias = SparseCounts | Points
