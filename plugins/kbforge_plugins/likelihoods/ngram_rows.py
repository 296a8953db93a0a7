"""Rows: the n-grams and histories of one run as small integers, with their log factors.

A cluster's log marginal is a sum over its n-grams (h, c) and histories h of

    F(n) = + lgamma(n + alpha[h, c]) - lgamma(alpha[h, c])       for a count n of the n-gram
    F(n) = - lgamma(n + scale) + lgamma(scale)                   for a count n of the history

so n-grams and histories are rows of one kind: a pseudo-count and a sign. No multinomial
coefficient: the order of the characters was observed.

*Exact sums.* F is rounded to multiples of 2^-34 nats (6e-11). Sums of such numbers below 2^19 nats
in size have no rounding error at all in float64, so a value never depends on the order of
additions: neither on how a table stores its clusters, nor on which other clusters there are, nor
on the order in which fragments came. The rounding is part of the model's definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge_plugins.likelihoods.arrays import capacity_for, grown
from kbforge_plugins.likelihoods.ngram_prior import NgramPrior
from kbforge_plugins.likelihoods.ngram_text import ngrams

_GRID = 2.0**34
_TABULATED = 32  # counts below this are looked up
_REMEMBERED = 1 << 15  # fragments whose encoding is kept, because names recur


@dataclass(frozen=True, slots=True, eq=False)
class Ngrams:
    """A fragment as the model sees it: distinct rows and their counts, each shape [n].

    `log_marginal` is L({x}), in nats.
    """

    rows: IntArray
    counts: IntArray
    pairs: Sequence[tuple[int, int]]
    log_marginal: float


class NgramRows:
    """The rows met so far and their factors F.

    Args:
        prior: P(c | h).
        scale: the pseudo-observations of each history.
        attributes: the attributes to read; each has histories of its own.

    """

    def __init__(self, prior: NgramPrior, scale: float, attributes: Iterable[str]) -> None:
        self._prior, self._scale = prior, scale
        self._order = prior.counts.order
        self._numbers: dict[str, dict[str, int]] = {attribute: {} for attribute in attributes}
        self._pseudo_counts = np.zeros(0)
        self._signs = np.zeros(0)
        self._factors = np.zeros((0, _TABULATED))
        self._gains_of_one = np.zeros((0, _TABULATED))
        self._known: dict[tuple[tuple[str, ...], ...], Ngrams] = {}
        self.size = 0

    def encode(self, fragment: Fragment) -> Ngrams:
        """The rows of a fragment's values; none if it has none of the attributes."""
        values = tuple(fragment.properties.get(attribute, ()) for attribute in self._numbers)
        found = self._known.get(values)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[values] = self._encode(values)
        return found

    def _encode(self, values: tuple[tuple[str, ...], ...]) -> Ngrams:
        counts: Counter[int] = Counter()
        new: list[tuple[float, float]] = []
        for (attribute, numbers), texts in zip(self._numbers.items(), values, strict=True):
            for text in texts:
                for gram, count in ngrams(text, self._order).items():
                    for key in (gram, gram[:-1]):
                        row = numbers.get(key)
                        if row is None:
                            row = numbers[key] = self.size + len(new)
                            new.append(self._pseudo_count_and_sign(attribute, key))
                        counts[row] += count
        if new:
            self._append(new)
        pairs = sorted(counts.items())
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        rows, numbers_of = both[:, 0].copy(), both[:, 1].copy()
        return Ngrams(rows, numbers_of, pairs, float(self.factors(rows, numbers_of).sum()))

    def _pseudo_count_and_sign(self, attribute: str, key: str) -> tuple[float, float]:
        if len(key) < self._order:
            return self._scale, -1.0
        return self._scale * self._prior.probability(attribute, key), 1.0

    def _append(self, new: list[tuple[float, float]]) -> None:
        begin, self.size = self.size, self.size + len(new)
        if self.size > len(self._signs):
            capacity = capacity_for(self.size, len(self._signs))
            self._pseudo_counts = grown(self._pseudo_counts, capacity)
            self._signs = grown(self._signs, capacity)
            self._factors = grown(self._factors, capacity)
            self._gains_of_one = grown(self._gains_of_one, capacity)
        self._pseudo_counts[begin : self.size], self._signs[begin : self.size] = zip(
            *new, strict=True
        )
        rows = np.arange(begin, self.size)[:, None]
        factors = self._compute(rows, np.arange(_TABULATED + 1))
        self._factors[begin : self.size] = factors[:, :-1]
        self._gains_of_one[begin : self.size] = factors[:, 1:] - factors[:, :-1] - factors[:, 1:2]

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
