"""Rows that were met after the file was read, and which of them are near to one another."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.bags import Bags
from kbforge_plugins.models.pairs.description import Rows

_NEAR_COSINE = 0.25
_FEW = 64


class Met:
    """The rows met so far, numbered in the order in which they came."""

    def __init__(self) -> None:
        self._joined: Rows | None = None
        self._single: list[Rows] = []
        self._ways = (_Near(), _Near())
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def near(self, row: Rows) -> IntArray:
        """Which of them are near to another row, by letters or by words, ascending."""
        table = row.table
        near = np.zeros(self._n, dtype=bool)
        for way, bags in zip(self._ways, (table.trigrams, table.soup), strict=True):
            near |= way.cosines(bags, self._n) >= _NEAR_COSINE
        return np.flatnonzero(near)

    def add(self, row: Rows) -> None:
        """Take in one more."""
        for way, bags in zip(self._ways, (row.table.trigrams, row.table.soup), strict=True):
            way.add(bags, self._n)
        self._n += 1
        self._single.append(row)
        joined = self._n - len(self._single)
        # joined seldom enough that each is copied a few times only
        if len(self._single) > max(_FEW, joined // 8):
            self._joined = Rows.joined(self._parts(self._single))
            self._single = []

    def place(self, number: int) -> tuple[Rows, int]:
        """Where one of them is described, and its place there."""
        joined = self._n - len(self._single)
        if self._joined is not None and number < joined:
            return self._joined, number
        return self._single[number - joined], 0

    def take(self, numbers: IntArray) -> list[Rows]:
        """Some of them, by ascending number, in parts."""
        joined = self._n - len(self._single)
        singles = [self._single[at] for at in (numbers[numbers >= joined] - joined).tolist()]
        known = numbers[numbers < joined]
        if self._joined is None or not len(known):
            return singles
        return [self._joined.take(known), *singles]

    def _parts(self, singles: list[Rows]) -> list[Rows]:
        return singles if self._joined is None else [self._joined, *singles]


class _Near:
    """By token, the rows that have it, and how much of a unit row it is."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[array[int], array[float]]] = {}

    def add(self, bags: Bags, number: int) -> None:
        """Take in the one row of these bags."""
        for column, weight in _tokens(bags):
            rows, weights = self._rows.setdefault(column, (array("q"), array("d")))
            rows.append(number)
            weights.append(weight)

    def cosines(self, bags: Bags, n: int) -> FloatArray:
        """Of the one row of these bags with all rows taken in, shape [n]."""
        rows, products = [np.zeros(0, np.int64)], [np.zeros(0)]
        for column, weight in _tokens(bags):
            if column in self._rows:
                some, weights = self._rows[column]
                rows.append(np.frombuffer(some, np.int64))
                products.append(np.frombuffer(weights, np.float64) * weight)
        # each sum is taken in the order of the columns, so that it is that of the two rows alone
        sums = np.bincount(np.concatenate(rows), np.concatenate(products), minlength=n)
        return sums.astype(np.float64, copy=False)


def _tokens(bags: Bags) -> Iterator[tuple[int, float]]:
    columns, weights = bags.backwards()
    return zip(columns.tolist(), weights.tolist(), strict=True)
