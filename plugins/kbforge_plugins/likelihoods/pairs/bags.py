"""Bags of tokens as sparse rows, each token weighted by how rare it is in the file.

A token's weight is log((rows + 1) / (rows that have it + 1/2)). Tokens that the file does not have
share columns by their digest, so that two texts never seen still agree in what they have in common.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.likelihoods.pairs.keeping import (
    PartReader,
    PartWriter,
    Strings,
    sizes_of,
    spread,
    starts_of,
)

_UNSEEN_COLUMNS = 1 << 12


class Weights:
    """The tokens of a file, and their weights.

    Args:
        tokens: different ones, ascending; the number of a token is its column.
        counts: texts of the file that have each.
        n: texts of the file.

    Attributes:
        weight: by column; the last ones are of tokens that the file does not have.

    """

    def __init__(self, tokens: Strings, counts: IntArray, n: int) -> None:
        self._tokens, self._counts, self._n = tokens, counts, n
        self._found: dict[str, int] = {}
        some, which = np.unique(counts, return_inverse=True)
        of_count = [max(math.log((n + 1) / (count + 0.5)), 0.05) for count in some.tolist()]
        unseen = max(math.log((n + 1) / 0.5), 0.05)
        self.weight = np.concatenate(
            [np.array(of_count, dtype=np.float64)[which], np.full(_UNSEEN_COLUMNS, unseen)]
        )

    @classmethod
    def fitted(cls, rows: Sequence[Sequence[str]]) -> Weights:
        """Those of the tokens of each text of the file, distinct within a text."""
        counts = Counter(token for row in rows for token in row)
        tokens = sorted(counts)
        made = cls(
            Strings.of(tokens), np.array([counts[t] for t in tokens], dtype=np.int64), len(rows)
        )
        made._found = {token: column for column, token in enumerate(tokens)}
        return made

    def settle(self) -> None:
        """Have no place for tokens that were looked up, now that all of the file are."""
        self._found = {}

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.value("texts", self._n)
        into.strings("tokens", self._tokens)
        into.array("counts", self._counts.astype(np.int32))

    @classmethod
    def taken(cls, kept: PartReader) -> Weights:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        tokens = kept.strings("tokens")
        n = kept.whole("texts")
        counts = kept.array("counts", np.int32, len(tokens), low=1)
        return cls(tokens, counts.astype(np.int64), n)

    def rows(self, texts: Sequence[Sequence[str]]) -> Bags:
        """One row a text."""
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        columns = np.fromiter(
            (self._column(token) for tokens in texts for token in tokens),
            np.int64,
            int(sizes.sum()),
        )
        row = np.repeat(np.arange(len(texts)), sizes)
        # tokens that the file does not have may share a column
        keys = np.unique(row * len(self.weight) + columns)
        row, columns = keys // len(self.weight), keys % len(self.weight)
        starts = starts_of(np.bincount(row, minlength=len(texts)).astype(np.int64))
        return Bags.made(self.weight, starts, columns.astype(np.int32))

    def _column(self, token: str) -> int:
        column = self._found.get(token)
        if column is None:
            column = bisect_left(self._tokens, token)
            if column == len(self._tokens) or self._tokens[column] != token:
                digest = zlib.crc32(token.encode(errors="surrogatepass"))
                return len(self._tokens) + digest % _UNSEEN_COLUMNS
            self._found[token] = column
        return column


class Bags:
    """Rows of tokens.

    Args:
        weight: by column.
        starts: of each row, shape [rows + 1].
        columns: of the rows, one row after the other, each ascending.
        mass: the sum of the weights of each row.
        scale: what makes the squares of a row sum to 1; 0 of a text without tokens.

    """

    __slots__ = ("columns", "mass", "scale", "starts", "weight")

    def __init__(
        self,
        weight: FloatArray,
        starts: IntArray,
        columns: NDArray[np.int32],
        mass: FloatArray,
        scale: FloatArray,
    ) -> None:
        self.weight, self.starts, self.columns = weight, starts, columns
        self.mass, self.scale = mass, scale

    @classmethod
    def made(cls, weight: FloatArray, starts: IntArray, columns: NDArray[np.int32]) -> Bags:
        """Rows with their masses and scales."""
        weights, n = weight[columns], len(starts) - 1
        filled = sizes_of(starts).nonzero()[0]
        mass, squares = np.zeros(n), np.zeros(n)
        if len(filled):
            mass[filled] = np.add.reduceat(weights, starts[filled])
            squares[filled] = np.add.reduceat(weights * weights, starts[filled])
        lengths = np.sqrt(squares)
        scale = np.divide(1.0, lengths, out=np.zeros(n), where=lengths > 0)
        return cls(weight, starts, columns, mass, scale)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def keep(self, into: PartWriter) -> None:
        """Write what `taken` reads."""
        into.array("sizes", sizes_of(self.starts).astype(np.int32))
        into.array("columns", self.columns)

    @classmethod
    def taken(cls, kept: PartReader, weights: Weights, rows: int) -> Bags:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        starts = starts_of(kept.array("sizes", np.int32, rows, low=0).astype(np.int64))
        if kept.length("columns") > starts[-1]:
            raise kept.damaged(
                "columns",
                f"{starts[-1]:,} tokens by the sizes of the rows, {kept.length('columns'):,} in "
                "all; version 0.1 wrote this for files with a token in many rows",
            )
        last = len(weights.weight) - 1
        columns = kept.array("columns", np.int32, int(starts[-1]), low=0, high=last)
        return cls.made(weights.weight, starts, columns)

    def take(self, rows: IntArray) -> Bags:
        """Some of the rows."""
        at, _ = spread(self.starts, rows)
        sizes = self.starts[rows + 1] - self.starts[rows]
        starts = starts_of(sizes)
        return Bags(self.weight, starts, self.columns[at], self.mass[rows], self.scale[rows])

    @classmethod
    def joined(cls, some: Sequence[Bags]) -> Bags:
        """The rows of all, one after the other; all have the same columns."""
        return cls(
            some[0].weight,
            starts_of(np.concatenate([sizes_of(one.starts) for one in some])),
            np.concatenate([one.columns for one in some]),
            np.concatenate([one.mass for one in some]),
            np.concatenate([one.scale for one in some]),
        )

    def unit(self) -> sparse.csr_array:
        """Weights with squares that sum to 1 in each row, shape [rows, columns].

        The matrix shares no memory with the bags, as SciPy removes zeros in place.
        """
        data = self.weight[self.columns] * self.scale.repeat(sizes_of(self.starts))
        shape = len(self), len(self.weight)
        return sparse.csr_array((data, self.columns, self.starts), shape=shape, copy=True)

    def backwards(self) -> tuple[NDArray[np.int32], FloatArray]:
        """The columns of bags of one row, and its unit weights, the last column first."""
        columns = self.columns[::-1]
        return columns, self.weight[columns] * self.scale


@dataclass(frozen=True, slots=True)
class Overlap:
    """What pairs of rows have in common, and what not, each of shape [pairs].

    Attributes:
        cosine: of the rows of weights.
        shared: the weight of the tokens that both have.
        unmatched: the largest weight of a token that only the one has, and that only the other.

    """

    cosine: FloatArray
    shared: FloatArray
    unmatched: tuple[FloatArray, FloatArray]


def compared(a: Bags, i: IntArray, b: Bags, j: IntArray) -> Overlap:
    """Rows i of one and j of another that has the same columns."""
    pair, place, both = _both(a, i, b, j)
    weights = a.weight[a.columns[place[0][both[0]]]]
    return Overlap(
        _cosines(a, i, b, j, pair[0][both[0]], weights),
        _sums(weights, pair[0][both[0]], len(i)),
        (
            _most_unmatched(a, place[0], pair[0], both[0], len(i)),
            _most_unmatched(b, place[1], pair[1], both[1], len(i)),
        ),
    )


def cosine(a: Bags, i: IntArray, b: Bags, j: IntArray) -> FloatArray:
    """The cosine of rows i of one and j of another, shape [pairs]."""
    pair, place, both = _both(a, i, b, j)
    weights = a.weight[a.columns[place[0][both[0]]]]
    return _cosines(a, i, b, j, pair[0][both[0]], weights)


_Two = tuple[IntArray, IntArray]


def _both(a: Bags, i: IntArray, b: Bags, j: IntArray) -> tuple[_Two, _Two, _Two]:
    """The tokens of pairs of rows: their pairs and places, and which of these the other has, too.

    The last are places among those of the one, and of the other, of the same tokens.
    """
    (x, pair_a), (y, pair_b) = spread(a.starts, i), spread(b.starts, j)
    width = len(a.weight)
    one, other = pair_a * width + a.columns[x], pair_b * width + b.columns[y]
    if not len(other):
        return (pair_a, pair_b), (x, y), (other, other)
    at = other.searchsorted(one)
    np.minimum(at, len(other) - 1, out=at)
    both = (other[at] == one).nonzero()[0]
    return (pair_a, pair_b), (x, y), (both, at[both])


def _cosines(
    a: Bags, i: IntArray, b: Bags, j: IntArray, pair: IntArray, weights: FloatArray
) -> FloatArray:
    products = (a.scale[i][pair] * weights) * (b.scale[j][pair] * weights)
    return _sums(products, pair, len(i))


def _sums(values: FloatArray, pair: IntArray, n: int) -> FloatArray:
    """The sum of the values of each pair, given by ascending pair."""
    return _reduced(np.add, values, pair, n)


def _most_unmatched(
    bags: Bags, place: IntArray, pair: IntArray, both: IntArray, n: int
) -> FloatArray:
    weights = bags.weight[bags.columns[place]]
    weights[both] = 0.0
    return _reduced(np.maximum, weights, pair, n)


def _reduced(how: np.ufunc, values: FloatArray, pair: IntArray, n: int) -> FloatArray:
    out = np.zeros(n)
    if len(pair):
        first = np.append(0, (pair[1:] != pair[:-1]).nonzero()[0] + 1)
        out[pair[first]] = how.reduceat(values, first)
    return out
