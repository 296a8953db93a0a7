"""Rows: what Dirichlet-multinomial models count, as small integers with their log factors.

A cluster is a bag of draws, each from one of several categorical distributions (one for every
history of an n-gram model, one for every attribute of a table) with Dirichlet priors. Its log
marginal is a sum over categories c and distributions h of

    F(n) = + lgamma(n + alpha[h, c]) - lgamma(alpha[h, c])       for n draws of c from h
    F(n) = - lgamma(n + alpha[h]) + lgamma(alpha[h])             for n draws from h

with alpha[h] the sum over c of alpha[h, c]. So categories and distributions are rows of one kind: a
pseudo-count and a sign. No multinomial coefficient: the draws were observed one by one.

*Exact sums.* F is rounded to multiples of 2^-34 nats (6e-11). Sums of such numbers below 2^19 nats
in size have no rounding error at all in float64, so a value never depends on the order of
additions: neither on how a table stores its clusters, nor on which other clusters there are, nor
on the order in which fragments came. The rounding is part of the model's definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kbforge.contracts.exponential import SparseCounts
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge.numerics.arrays import capacity_for, grown

_GRID = 2.0**34
_TABULATED = 32  # counts below this are looked up


@dataclass(frozen=True, slots=True, eq=False)
class RowCounts:
    """A fragment as the model sees it: distinct rows and how often it counts in each, shape [n].

    `log_marginal` is L({x}), in nats; `pairs` are (row, count) as Python numbers.
    """

    rows: IntArray
    counts: IntArray
    pairs: Sequence[tuple[int, int]]
    log_marginal: float


class Entries(NamedTuple):
    """Of several fragments: where each one's begin, shape [n + 1], and all rows and counts."""

    starts: IntArray
    rows: NDArray[np.int32]
    counts: NDArray[np.int32]


class DirichletRows:
    """The rows met so far and their factors F. Subclasses make rows of fragments."""

    def __init__(self) -> None:
        self._pseudo_counts = np.zeros(0)
        self._signs = np.zeros(0)
        self._factors = np.zeros((0, _TABULATED))
        self._gains_of_one = np.zeros((0, _TABULATED))
        self._settled = 0
        self._unsettled: list[tuple[float, float]] = []

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self._settled + len(self._unsettled)

    def count(self, fragment: Fragment) -> Mapping[int, int]:
        """How often a fragment counts in rows; new rows are made as needed, by `_made`."""
        raise NotImplementedError

    def encode(self, fragment: Fragment) -> RowCounts:
        """The rows and counts of a fragment."""
        return self._counted(self.pairs_of((fragment,))[0])

    def pairs_of(self, fragments: Sequence[Fragment]) -> list[list[tuple[int, int]]]:
        """By fragment, its (row, count), ascending."""
        pairs = [sorted(self.count(fragment).items()) for fragment in fragments]
        self._settle()
        return pairs

    def entries_of(self, fragments: Sequence[Fragment]) -> Entries:
        """The rows and counts of all fragments, one after another."""
        held = self.pairs_of(fragments)
        starts = np.zeros(len(held) + 1, dtype=np.int64)
        np.cumsum([len(pairs) for pairs in held], out=starts[1:])
        flat = chain.from_iterable(chain.from_iterable(held))
        both = np.fromiter(flat, dtype=np.int32, count=2 * int(starts[-1])).reshape(-1, 2)
        rows, counts = both.T.copy()
        return Entries(starts, rows, counts)

    def family_of(self, fragments: Sequence[Fragment]) -> SparseCounts:
        """The fragments for samplers of exponential families."""
        starts, rows, counts = self.entries_of(fragments)
        n = self._settled
        return SparseCounts(starts, rows, counts, self._pseudo_counts[:n], self._signs[:n])

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]: the closed form."""
        out = np.zeros(len(clusters))
        encoded = [(i, self.encode(f)) for i, c in enumerate(clusters) for f in c]
        if encoded:
            owners = np.repeat([i for i, _ in encoded], [len(x.rows) for _, x in encoded])
            rows = np.concatenate([x.rows for _, x in encoded])
            counts = np.concatenate([x.counts for _, x in encoded])
            owners, rows, counts = merged(owners, rows, counts, self.size)
            np.add.at(out, owners, self.factors(rows, counts))
        return out

    def set_marginals(self, fragments: Sequence[Fragment]) -> RowsOfSets:
        """These fragments' rows, read once."""
        return RowsOfSets(self, [self.encode(fragment) for fragment in fragments])

    def _counted(self, pairs: Sequence[tuple[int, int]]) -> RowCounts:
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        rows, numbers = both[:, 0].copy(), both[:, 1].copy()
        return RowCounts(rows, numbers, pairs, float(self.factors(rows, numbers).sum()))

    def _made(self, pseudo_count: float, sign: float) -> int:
        """The number of a new row."""
        self._unsettled.append((pseudo_count, sign))
        return self.size - 1

    def _settle(self) -> None:
        """Have the factors of all rows; those of several are worked out at once."""
        if not self._unsettled:
            return
        begin, end = self._settled, self.size
        if end > len(self._signs):
            capacity = capacity_for(end, len(self._signs))
            self._pseudo_counts = grown(self._pseudo_counts, capacity)
            self._signs = grown(self._signs, capacity)
            self._factors = grown(self._factors, capacity)
            self._gains_of_one = grown(self._gains_of_one, capacity)
        pseudo_counts, signs = zip(*self._unsettled, strict=True)
        self._pseudo_counts[begin:end] = pseudo_counts
        self._signs[begin:end] = signs
        factors = self._compute(np.arange(begin, end)[:, None], np.arange(_TABULATED + 1))
        self._factors[begin:end] = factors[:, :-1]
        self._gains_of_one[begin:end] = factors[:, 1:] - factors[:, :-1] - factors[:, 1:2]
        self._settled, self._unsettled = end, []

    def _compute(self, rows: IntArray, counts: IntArray) -> FloatArray:
        a = self._pseudo_counts[rows]
        factors = self._signs[rows] * (gammaln(counts + a) - gammaln(a))
        rounded: FloatArray = np.rint(factors * _GRID) / _GRID
        return rounded

    def factors(self, rows: IntArray, counts: IntArray) -> FloatArray:
        """F of rows at counts, broadcast against each other; exact multiples of 2^-34 nats."""
        if not counts.size or int(counts.max()) < _TABULATED:
            return self._factors.ravel().take(rows * _TABULATED + counts)
        rows, counts = np.broadcast_arrays(rows, counts)
        large = counts >= _TABULATED
        out = self._factors.ravel().take(rows * _TABULATED + np.where(large, 0, counts))
        out[large] = self._compute(rows[large], counts[large])
        return out

    def gains(self, rows: IntArray, counts: IntArray, more: IntArray | int) -> FloatArray:
        """F(counts + more) - F(counts) - F(more): what a shared row adds to a predictive."""
        extra = np.asarray(more)
        joined = self.factors(rows, counts + extra)
        joined -= self.factors(rows, counts)
        joined -= self.factors(rows, extra)
        return joined

    def gains_of_one(self, rows: IntArray, counts: IntArray) -> FloatArray:
        """`gains` for one more, rows and counts of one shape."""
        if counts.size and int(counts.max()) >= _TABULATED:
            return self.gains(rows, counts, 1)
        return self._gains_of_one.ravel().take(rows * _TABULATED + counts)


class RowsOfSets:
    """L of sets of fragments of which the rows are known; the same bits as `log_marginal`.

    Args:
        rows: scores them.
        encoded: all fragments.

    """

    def __init__(self, rows: DirichletRows, encoded: Sequence[RowCounts]) -> None:
        self._rows = rows
        none = [np.zeros(0, dtype=np.int64)]
        self._numbers = np.concatenate([*none, *(x.rows for x in encoded)])
        self._counts = np.concatenate([*none, *(x.counts for x in encoded)])
        self._lengths = np.array([len(x.rows) for x in encoded], dtype=np.int64)
        self._starts = self._lengths.cumsum() - self._lengths

    def log_marginal(self, sets: Sequence[IntArray]) -> FloatArray:
        """See `kbforge.contracts.likelihood`."""
        out = np.zeros(len(sets))
        if not sets:
            return out
        members = np.concatenate(sets)
        owners = np.arange(len(sets)).repeat([len(of_one) for of_one in sets])
        lengths = self._lengths[members]
        at = ranges(self._starts[members], lengths)
        owners, rows, counts = merged(
            owners.repeat(lengths), self._numbers[at], self._counts[at], self._rows.size
        )
        np.add.at(out, owners, self._rows.factors(rows, counts))
        return out


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """starts[0], starts[0]+1, ... (lengths[0] of them), starts[1], ...: one flat index."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    flat: IntArray = np.arange(total) + (starts - ends + lengths).repeat(lengths)
    return flat


def merged(
    owners: IntArray, rows: IntArray, counts: IntArray, n_rows: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Add up the counts of equal (owner, row) pairs; sorted by owner, then row."""
    if not len(rows):
        return owners, rows, counts
    keys = owners * n_rows + rows
    order = keys.argsort()
    keys = keys.take(order)
    is_first = np.empty(len(keys), dtype=bool)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    first = is_first.nonzero()[0]
    keys = keys.take(first)
    owner = keys // n_rows
    return owner, keys - owner * n_rows, np.add.reduceat(counts.take(order), first)
