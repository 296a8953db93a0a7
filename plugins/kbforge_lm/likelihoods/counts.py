"""Dirichlet-multinomial counts of rows of features.

A cluster is a bag of draws, each from one of several categorical distributions (one for every
history of an n-gram model, one for every attribute of a table) with Dirichlet priors. Its log
marginal is a sum over categories c and distributions h of

    F(n) = + lgamma(n + alpha[h, c]) - lgamma(alpha[h, c])       for n draws of c from h
    F(n) = - lgamma(n + alpha[h]) + lgamma(alpha[h])             for n draws from h

with alpha[h] the sum over c of alpha[h, c], and of `unread_marginal` for the fragments without any
row. Categories and distributions are rows of one kind, with a pseudo-count and a sign. There is no
multinomial coefficient: the draws are ordered.

*Exact sums.* F is rounded to multiples of 2^-34 nats (6e-11). Sums of such numbers below 2^19 nats
in size have no rounding error in float64, so a value never depends on the order of additions, on
how a table stores its clusters, on other clusters, or on the order of fragments. The rounding is
part of the model's definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kbforge.contracts import Fragment, unread_marginal
from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge.kernel.binding import (
    FACTORS,
    EncodedFragments,
    MergingClusters,
    address,
    kernel_library,
)
from kbforge.numerics import capacity_for, grown, on_grid, spread, starts_of

_TABULATED = 32  # counts below this are looked up


@dataclass(frozen=True, slots=True, eq=False)
class RowCounts:
    """A fragment: distinct rows and its counts there, shape [n], also as `pairs`, and L({x})."""

    rows: IntArray
    counts: IntArray
    pairs: Sequence[tuple[int, int]]
    log_marginal: float
    unread: bool  # whether nothing is read of it


class DirichletRows:
    """The rows so far and their factors F. Subclasses count fragments in rows."""

    counts_type: type[np.signedinteger] = np.int32  # of what a cluster counts in a row
    always_read: ClassVar[bool] = False  # whether a fragment without rows says that it has none

    def __init__(self) -> None:
        self._pseudo_counts = np.zeros(0)
        self._signs = np.zeros(0)
        self._factors = np.zeros((0, _TABULATED))
        self._settled = 0
        self._unsettled: list[tuple[float, float]] = []

    @property
    def size(self) -> int:
        return self._settled + len(self._unsettled)

    def count(self, fragment: Fragment) -> Mapping[int, int]:
        """How often a fragment counts in each row; `_made` adds new rows."""
        raise NotImplementedError

    def encode(self, fragment: Fragment) -> RowCounts:
        return self._counted(self.pairs_of((fragment,))[0])

    def pairs_of(self, fragments: Sequence[Fragment]) -> list[list[tuple[int, int]]]:
        """The (row, count) of each fragment, ascending."""
        pairs = [sorted(self.count(fragment).items()) for fragment in fragments]
        self._settle()
        return pairs

    def entries_of(
        self, fragments: Sequence[Fragment]
    ) -> tuple[IntArray, NDArray[np.int32], NDArray[np.int32]]:
        """The position of each fragment's first entry, shape [n + 1], and all rows and counts."""
        held = self.pairs_of(fragments)
        flat = chain.from_iterable(chain.from_iterable(held))
        rows, counts = np.fromiter(flat, dtype=np.int32).reshape(-1, 2).T.copy()
        return starts_of(list(map(len, held))), rows, counts

    @property
    def priors(self) -> tuple[FloatArray, FloatArray]:
        """Pseudo-count and sign of each row that a fragment has, shape [rows]."""
        return self._pseudo_counts[: self._settled], self._signs[: self._settled]

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        sets = self.rows_of_sets([fragment for cluster in clusters for fragment in cluster])
        ends = np.cumsum([0, *map(len, clusters)]).tolist()
        return sets.log_marginal([np.arange(*bounds) for bounds in pairwise(ends)])

    def rows_of_sets(self, fragments: Sequence[Fragment]) -> RowsOfSets:
        """These fragments' rows, read once."""
        return RowsOfSets(self, [self.encode(fragment) for fragment in fragments])

    def _counted(self, pairs: Sequence[tuple[int, int]]) -> RowCounts:
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        rows, numbers = both[:, 0].copy(), both[:, 1].copy()
        unread = not (pairs or self.always_read)
        return RowCounts(rows, numbers, pairs, float(self.factors(rows, numbers).sum()), unread)

    def _made(self, pseudo_count: float, sign: float) -> int:
        """The number of a new row."""
        self._unsettled.append((pseudo_count, sign))
        return self.size - 1

    def _settle(self) -> None:
        """Compute the factors of new rows, all at once."""
        if not self._unsettled:
            return
        begin, end = self._settled, self.size
        if end > len(self._signs):
            capacity = capacity_for(end, len(self._signs))
            self._pseudo_counts = grown(self._pseudo_counts, capacity)
            self._signs = grown(self._signs, capacity)
            self._factors = grown(self._factors, capacity)
        pseudo_counts, signs = zip(*self._unsettled, strict=True)
        self._pseudo_counts[begin:end] = pseudo_counts
        self._signs[begin:end] = signs
        self._factors[begin:end] = self._compute(
            np.arange(begin, end)[:, None], np.arange(_TABULATED)
        )
        self._settled, self._unsettled = end, []

    def _compute(self, rows: IntArray, counts: IntArray) -> FloatArray:
        a = self._pseudo_counts[rows]
        return on_grid(self._signs[rows] * (gammaln(counts + a) - gammaln(a)))

    def factors(self, rows: IntArray, counts: IntArray) -> FloatArray:
        """F of rows at counts, broadcast against each other; exact multiples of 2^-34 nats."""
        if not counts.size or int(counts.max()) < _TABULATED:
            return self._factors.ravel().take(rows * _TABULATED + counts)
        rows, counts = np.broadcast_arrays(rows, counts)
        large = counts >= _TABULATED
        out = self._factors.ravel().take(rows * _TABULATED + np.where(large, 0, counts))
        out[large] = self._compute(rows[large], counts[large])
        return out


class RowsOfSets:
    """L of sets of fragments whose rows are known."""

    def __init__(self, rows: DirichletRows, encoded: Sequence[RowCounts]) -> None:
        self._rows = rows
        none = [np.zeros(0, dtype=np.int64)]
        self._numbers = np.concatenate([*none, *(x.rows for x in encoded)])
        self._counts = np.concatenate([*none, *(x.counts for x in encoded)])
        self._starts = starts_of([len(x.rows) for x in encoded])
        self._unread = np.array([x.unread for x in encoded], dtype=np.bool_)

    def log_marginal(self, sets: Sequence[IntArray]) -> FloatArray:
        out = np.zeros(len(sets))
        if not sets:
            return out
        owners = np.arange(len(sets)).repeat([len(of_one) for of_one in sets])
        at, of = spread(self._starts, np.concatenate(sets))
        owners, rows, counts = merged(
            owners[of], self._numbers[at], self._counts[at], self._rows.size
        )
        np.add.at(out, owners, self._rows.factors(rows, counts))
        if self._unread.any():
            for number, of_one in enumerate(sets):
                unread = int(self._unread[of_one].sum())
                out[number] += unread_marginal(unread, unread < len(of_one))
        return out


def firsts(ordered: IntArray) -> IntArray:
    """Where each run of equal numbers begins; there is one at least."""
    is_first = np.empty(len(ordered), dtype=bool)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first.nonzero()[0]


def merged(
    owners: IntArray, rows: IntArray, counts: IntArray, n_rows: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Add up the counts of equal (owner, row) pairs; sorted by owner, then row."""
    if not len(rows):
        return owners, rows, counts
    keys = owners * n_rows + rows
    order = keys.argsort()
    keys = keys.take(order)
    first = firsts(keys)
    keys = keys.take(first)
    owner = keys // n_rows
    return owner, keys - owner * n_rows, np.add.reduceat(counts.take(order), first)


_TOLD = 24
"""The kernel receives the factors of counts below this, and calls back for larger ones."""


class RowClusters(MergingClusters):
    """The clusters of one run; no fragment may count 2^31 times in a row."""

    def __init__(self, rows: DirichletRows) -> None:
        self._rows, self._told = rows, 0
        self._asked = FACTORS(self._more)  # the kernel calls it as long as the table lives
        super().__init__(kernel_library().kb_counts_new(self._asked))

    def read(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        starts, rows, counts = self._rows.entries_of(fragments)
        first, self._told = self._told, self._rows.size
        new = np.arange(first, self._told)[:, None]
        factors = self._rows.factors(new, np.arange(_TOLD))
        return EncodedFragments(starts, rows, counts, (first, factors))

    def tell(self, encoded: EncodedFragments) -> None:
        first, factors = encoded.new
        self.kernel.kb_counts_rows(self.handle, first, *factors.shape, address(factors))

    def _more(self, row: int, begin: int, n: int, out: Any) -> None:
        factors = self._rows.factors(np.array(row), np.arange(begin, begin + n))
        np.ctypeslib.as_array(out, (n,))[:] = factors
