"""Bags of tokens as sparse rows, each token weighted by how rare it is in the file.

A token's weight is log((rows + 1) / (rows that have it + 1/2)). Tokens that the file does not have
share columns by their digest, so that two texts never seen still agree in what they have in common.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from kbforge.contracts import FloatArray, IntArray

_UNSEEN_COLUMNS = 1 << 12


class Weights:
    """The tokens of a file, and their weights.

    Args:
        rows: the tokens of each text of the file, distinct within a text.

    Attributes:
        columns: of the rows that are made with it.

    """

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        counts = Counter(token for row in rows for token in row)
        self._column = {token: column for column, token in enumerate(sorted(counts))}
        n = len(rows)
        self._weight = np.array(
            [math.log((n + 1) / (counts[token] + 0.5)) for token in self._column], dtype=np.float64
        ).clip(min=0.05)
        self._unseen = max(math.log((n + 1) / 0.5), 0.05)
        self.columns = len(self._column) + _UNSEEN_COLUMNS
        self.shared = np.array([counts[token] for token in self._column], dtype=np.int64)

    def rows(self, texts: Sequence[Sequence[str]]) -> sparse.csr_array:
        """One row of weights a text, shape [texts, columns]."""
        starts, columns, weights = [0], list[int](), list[float]()
        known, first = self._column, len(self._column)
        for tokens in texts:
            row: dict[int, float] = {}
            for token in tokens:
                column = known.get(token)
                if column is None:
                    digest = zlib.crc32(token.encode(errors="surrogatepass"))
                    row[first + digest % _UNSEEN_COLUMNS] = self._unseen
                else:
                    row[column] = float(self._weight[column])
            for column in sorted(row):
                columns.append(column)
                weights.append(row[column])
            starts.append(len(columns))
        return sparse.csr_array(
            (np.array(weights, dtype=np.float64), np.array(columns, np.int32), np.array(starts)),
            shape=(len(texts), self.columns),
        )


class Bags:
    """Rows of weights, with what is asked of them again and again.

    Attributes:
        weights: shape [texts, columns].
        unit: the same with squares that sum to 1, or 0 for a text without tokens.
        mass: the sum of each row.
        sizes: tokens of each row.

    """

    def __init__(self, weights: sparse.csr_array) -> None:
        self.weights = weights
        self.mass = np.asarray(weights.sum(axis=1)).ravel()
        squares = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
        scale = np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0)
        self.unit = sparse.csr_array(sparse.diags_array(scale) @ weights)
        self.sizes = np.diff(weights.indptr).astype(np.int64)

    def take(self, rows: IntArray) -> Bags:
        """Some of the rows."""
        return Bags(self.weights[rows])


def cosine(a: Bags, i: IntArray, b: Bags, j: IntArray) -> FloatArray:
    """The cosine of rows i of one and j of another, shape [pairs]."""
    return np.asarray(a.unit[i].multiply(b.unit[j]).sum(axis=1)).ravel()


def shared_mass(a: Bags, i: IntArray, b: Bags, j: IntArray) -> FloatArray:
    """The weight of the tokens that both have, shape [pairs]."""
    return np.asarray(a.weights[i].minimum(b.weights[j]).sum(axis=1)).ravel()


def unmatched(a: Bags, i: IntArray, b: Bags, j: IntArray) -> tuple[FloatArray, FloatArray]:
    """The largest weight of a token that only the one has, and that only the other has."""
    left = a.weights[i] - b.weights[j]
    if not left.shape[1] or not left.shape[0]:
        return np.zeros(len(i)), np.zeros(len(i))
    most = left.max(axis=1).toarray().ravel()
    least = left.min(axis=1).toarray().ravel()
    return np.maximum(most, 0.0), np.maximum(-least, 0.0)
