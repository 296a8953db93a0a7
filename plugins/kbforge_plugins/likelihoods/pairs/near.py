"""Finds candidate pairs: the nearest rows of each row.

A row is compared with the nearest rows by letters and by words, with the nearest rows in other
scripts by consonants, and with rows that have equal forms of a name. Nearness is the cosine of
weighted rows, computed with sparse products. Columns are used from the rarest on until a limit on
the work is reached, so very common columns are left out. Rows without a common compared attribute
are left out, because what such a pair shares is meaningless.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.likelihoods.pairs.bags import Bags
from kbforge_plugins.likelihoods.pairs.table import RecordTable

WAYS = ("letters", "words")
"""The measures of nearness between rows."""
Tops: TypeAlias = tuple[FloatArray, FloatArray]
"""The cosines of the nearest rows in each of `WAYS`, -1 for none, each [rows, nearest]."""
NEAREST = 24  # rows that a row is compared with, by letters and by words
_NEAREST_ACROSS = 8  # rows in other scripts that it is compared with, by consonants
_LEAST_ACROSS = 0.15
EQUAL_FORMS = (  # two rows with these forms of names equal are candidates
    *(("name", "name"), ("bare", "bare")),
    *(("acronym", "compact"), ("short acronym", "compact")),
)
_WORK_A_ROW = 20_000
_ROWS_AT_ONCE = 128  # a product of more takes memory that has to be asked for each time
_MOST_EQUAL = 50
_LEAST_COSINE = 0.08


def narrowed(bags: Bags) -> sparse.csr_array:
    """Unit rows without the columns that too many rows have for a product of all rows."""
    unit = bags.unit()
    shared = np.bincount(bags.columns, minlength=len(bags.weight)).astype(np.float64)
    order = np.argsort(shared, kind="stable")
    spent = np.cumsum(shared[order] ** 2)
    kept = np.zeros(len(shared), dtype=bool)
    kept[order[spent <= _WORK_A_ROW * max(len(bags), 50)]] = True
    if not kept[bags.columns].all():
        unit.data[~kept[bags.columns]] = 0.0
        unit.eliminate_zeros()
    return unit


def turned(rows: sparse.csr_array) -> sparse.csr_array:
    """For each column, its rows, in the form that `nearest` reads."""
    return sparse.csr_array(rows.T)


def nearest(
    rows: sparse.csr_array, among: sparse.csr_array, tables: tuple[IntArray, IntArray], other: bool
) -> Iterator[tuple[int, IntArray, FloatArray]]:
    """For each row, its nearest rows and their cosines, the nearest first.

    `among` is by column, shape [columns, all]; with `other`, row k of `rows` is its row k, which is
    left out. `tables` are those of the rows and of all; rows of one linked table are not compared.
    """
    for start in range(0, rows.shape[0], _ROWS_AT_ONCE):
        some = rows if rows.shape[0] <= _ROWS_AT_ONCE else rows[start : start + _ROWS_AT_ONCE]
        block = some @ among
        # a product has many entries, of which few are so large
        large = np.flatnonzero(block.data >= _LEAST_COSINE)
        sizes = np.diff(np.searchsorted(large, block.indptr))
        row = np.repeat(np.arange(start, start + block.shape[0]), sizes)
        others = block.indices[large].astype(np.int64)
        keep = comparable(tables[0][row], tables[1][others])
        if other:
            keep &= others != row
        row, others, negative = row[keep], others[keep], -block.data[large[keep]]
        begin = np.arange(start, start + block.shape[0] + 1)
        least = np.zeros(block.shape[0])  # of what may be among the nearest; all are below 0
        for k, (first, end) in enumerate(pairwise(np.searchsorted(row, begin).tolist())):
            if end - first > NEAREST:
                least[k] = np.partition(negative[first:end], NEAREST - 1)[NEAREST - 1]
        near = np.flatnonzero(negative <= least[row - start])
        row, others, negative = row[near], others[near], negative[near]
        order = np.lexsort((others, negative, row))
        others, cosines = others[order], -negative[order]
        for k, (first, end) in enumerate(pairwise(np.searchsorted(row, begin).tolist()), start):
            nearest_ones = slice(first, min(end, first + NEAREST))
            yield k, others[nearest_ones], cosines[nearest_ones]


class OtherScripts:
    """For each script, the nearest rows in other scripts, by the consonants of their names."""

    def __init__(self, table: RecordTable) -> None:
        self._script, self._linked, self._consonants = table.script, table.linked, table.consonants
        self._scripts = np.unique(self._script).tolist()
        self._others: dict[int, tuple[IntArray, sparse.csr_array]] = {}  # cache

    @cached_property
    def _unit(self) -> sparse.csr_array:
        return narrowed(self._consonants)

    def nearest(self) -> Iterator[tuple[int, IntArray]]:
        """For each row of the table, a bounded number of its nearest rows, the nearest first."""
        for script in self._scripts if len(self._scripts) > 1 else ():
            mine = np.flatnonzero(self._script == script)
            for row, found in self.nearest_to(self._unit[mine], self._linked[mine], script):
                yield int(mine[row]), found

    def nearest_to(
        self, rows: sparse.csr_array, linked: IntArray, script: int
    ) -> Iterator[tuple[int, IntArray]]:
        """The same for unit rows of these tables, all in one script."""
        if script not in self._others:
            others = np.flatnonzero(self._script != script)
            self._others[script] = others, turned(self._unit[others])
        others, by_column = self._others[script]
        for row, found, value in nearest(rows, by_column, (linked, self._linked[others]), False):
            yield row, others[found[value >= _LEAST_ACROSS][:_NEAREST_ACROSS]]


class EqualForms:
    """An index of the names of a table by one of their forms."""

    def __init__(self, table: RecordTable, form: str) -> None:
        keys = table.names.numbers(form)[table.which]
        # equal names keep the order of the table
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._rows = np.repeat(np.arange(len(table)), np.diff(table.called))[order]

    def equal_in(self, table: RecordTable, mine: str) -> Iterator[tuple[int, int]]:
        """Pairs of rows where this form of the first is the indexed form of the second.

        If many rows share a form, each is compared only with the following ones.
        """
        rows = np.repeat(np.arange(len(table)), np.diff(table.called))
        wanted = table.names.numbers(mine)[table.which]
        left = np.searchsorted(self._keys, wanted, side="left")
        right = np.searchsorted(self._keys, wanted, side="right")
        for at in np.flatnonzero((right > left) & (wanted != 0)).tolist():
            row, start, end = int(rows[at]), int(left[at]), int(right[at])
            if end - start > _MOST_EQUAL:  # start at the row itself
                start += int(np.searchsorted(self._rows[start:end], row))
            for other in self._rows[start : min(end, start + _MOST_EQUAL)].tolist():
                if other != row:
                    yield row, other

    def equal_to(self, numbers: IntArray) -> Iterator[tuple[int, int]]:
        """For each form in `numbers`, its place and the first rows with an equal form."""
        left = np.searchsorted(self._keys, numbers, side="left").tolist()
        right = np.searchsorted(self._keys, numbers, side="right").tolist()
        for place in np.flatnonzero(numbers).tolist():
            end = min(right[place], left[place] + _MOST_EQUAL)
            for row in self._rows[left[place] : end].tolist():
                yield place, row


def unit_row(bags: Bags) -> sparse.csr_array:
    """The single row of these bags, with its columns in reverse order."""
    columns, weights = bags.backwards()
    return sparse.csr_array((weights, columns, bags.starts), shape=(1, len(bags.weight)))


def compared(table: RecordTable) -> tuple[Tops, IntArray]:
    """The cosines of the nearest rows in each of `WAYS`, and the candidate pairs."""
    n, tables = len(table), (table.linked, table.linked)
    keys: list[IntArray] = [np.zeros(0, np.int64)]
    tops = []
    for bags in (table.trigrams, table.all_text):
        narrow = narrowed(bags)
        top = np.full((n, NEAREST), -1.0)
        others = np.full((n, NEAREST), -1, dtype=np.int64)
        for row, found, value in nearest(narrow, turned(narrow), tables, other=True):
            top[row, : len(found)] = value
            others[row, : len(found)] = found
        one, place = np.nonzero(others >= 0)
        keys.append(_pair_numbers(one, others[one, place], n))
        tops.append(top)
    for row, found in OtherScripts(table).nearest():
        keys.append(_pair_numbers(np.full(len(found), row), found, n))
    for mine, theirs in EQUAL_FORMS:
        some = np.array(list(EqualForms(table, theirs).equal_in(table, mine)), dtype=np.int64)
        i, j = some.reshape(-1, 2).T
        keys.append(_pair_numbers(i, j, n))
    flat = np.unique(np.concatenate(keys))
    pairs = np.stack([flat // max(n, 1), flat % max(n, 1)], axis=1)
    letters, words = tops
    return (letters, words), pairs[comparable(*table.linked[pairs].T)]


def comparable(one: IntArray, other: IntArray) -> NDArray[np.bool_]:
    """Whether rows of these linked tables may be one entity."""
    may: NDArray[np.bool_] = (one != other) | (one == 0)
    return may


def attributes_compared(table: RecordTable, naming: tuple[str, ...]) -> IntArray:
    """Which compared attributes each row states, as bits; shape [rows].

    `naming` are the attributes that form the names. Rows without a common bit are not compared.
    """
    named = table.numbers("name") != 0
    bits: IntArray = named.astype(np.int64) * (len(naming) == 1)
    for at, column in enumerate(table.columns.values(), 1):
        bits |= (column.numbers[column.which] != 0).astype(np.int64) << at
    return bits


def _pair_numbers(i: IntArray, j: IntArray, n: int) -> IntArray:
    """A unique number for each pair of n rows."""
    return np.minimum(i, j) * n + np.maximum(i, j)
