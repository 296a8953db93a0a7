"""Finds candidate pairs: the nearest rows of each row.

A row is compared with the nearest rows by letters and by words, with the nearest rows in other
scripts by consonants, and with rows that have equal forms of a name. Nearness is the cosine of
weighted rows. Columns are used from the rarest on until a limit on the work is reached, so very
common columns are left out. Rows without a common compared attribute are left out, because what
such a pair shares is meaningless.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge.kernel.binding import address, kernel_library, workers
from kbforge_plugins.likelihoods.pairs.bags import Bags
from kbforge_plugins.likelihoods.pairs.table import RecordTable

WAYS = ("letters", "words")
"""The measures of nearness between rows."""
NEAREST = 24  # rows that a row is compared with, by letters and by words
_NEAREST_ACROSS = 8  # rows in other scripts that it is compared with, by consonants
_LEAST_ACROSS = 0.15
EQUAL_FORMS = (  # two rows with these forms of names equal are candidates
    *(("name", "name"), ("bare", "bare")),
    *(("acronym", "compact"), ("short acronym", "compact")),
)
_WORK_A_ROW = 20_000
_ROWS_AT_ONCE = 1 << 14
_MOST_EQUAL = 50
_LEAST_COSINE = 0.08

Near: TypeAlias = NDArray[np.int32]
"""The nearest rows of each row, -1 for none, shape [rows, nearest]."""


class NearIndex:
    """Finds the nearest rows of a file for rows of bags.

    Args:
        bags: of all rows of the file.
        linked: the linked table of each row; rows of one table are not compared.
        script: if given, rows in `but` are left out, and fewer rows are found, for rows in it.
        but: a script.

    """

    def __init__(
        self, bags: Bags, linked: IntArray, script: IntArray | None = None, but: int = 0
    ) -> None:
        kernel, told = kernel_library(), np.array(bags.addresses)
        self._linked, self._across = linked, script is not None
        work = _WORK_A_ROW * max(len(bags), 50)
        scripts = 0 if script is None else address(script)
        sizes = len(bags), address(told), len(bags.weight)
        self._handle = kernel.kb_near_new(*sizes, work, scripts, but)
        weakref.finalize(self, kernel.kb_near_free, self._handle)

    def nearest(
        self, bags: Bags, linked: IntArray, rows: IntArray | None = None
    ) -> tuple[Near, FloatArray]:
        """The nearest rows of the file, the nearest first, and their cosines, -1 for none.

        Given `rows`, these are rows of the file, and each leaves out itself. Otherwise they are
        outside it; their tokens are added up from the last on.
        """
        most, least = NEAREST, _LEAST_COSINE
        if self._across:
            most, least = _NEAREST_ACROSS, _LEAST_ACROSS
        own = rows is not None and not self._across
        asked = np.arange(len(bags)) if rows is None else rows
        out = np.empty((len(asked), most), np.int32)
        cosines, told = np.empty(out.shape), np.array(bags.addresses)
        tables = address(linked), address(self._linked)
        for start in range(0, len(asked), _ROWS_AT_ONCE):
            some, *found = (x[start : start + _ROWS_AT_ONCE] for x in (asked, out, cosines))
            kernel_library().kb_near_rows(
                *(self._handle, address(told), len(some), address(some), *tables),
                *(own, rows is None, most, least, workers(), *map(address, found)),
            )
        return out, cosines


class OtherScripts:
    """For each script, the nearest rows in other scripts, by the consonants of their names."""

    def __init__(self, table: RecordTable) -> None:
        self._table = table
        self._scripts = np.unique(table.script).tolist()
        self._others: dict[int, NearIndex] = {}  # cache

    def nearest(self) -> Iterator[tuple[IntArray, Near]]:
        """Rows of the table, script by script, and a bounded number of their nearest rows."""
        table = self._table
        for script in self._scripts if len(self._scripts) > 1 else ():
            rows = np.flatnonzero(table.script == script)
            yield rows, self._index(script).nearest(table.consonants, table.linked, rows)[0]

    def nearest_to(self, table: RecordTable) -> Near:
        """The same of one row outside the table."""
        return self._index(int(table.script[0])).nearest(table.consonants, table.linked)[0]

    def _index(self, script: int) -> NearIndex:
        if script not in self._others:
            table = self._table
            self._others[script] = NearIndex(table.consonants, table.linked, table.script, script)
        return self._others[script]


class EqualForms:
    """An index of the names of a table by one of their forms."""

    def __init__(self, table: RecordTable, form: str) -> None:
        self.rows, keys = numbers_by_row(table, form)
        # equal names keep the order of the table
        order = np.argsort(keys, kind="stable")
        self.keys, self.rows = keys[order], self.rows[order]

    def equal_to(self, numbers: IntArray) -> Iterator[tuple[int, int]]:
        """For each form in `numbers`, its place and the first rows with an equal form."""
        left = np.searchsorted(self.keys, numbers, side="left").tolist()
        right = np.searchsorted(self.keys, numbers, side="right").tolist()
        for place in np.flatnonzero(numbers).tolist():
            end = min(right[place], left[place] + _MOST_EQUAL)
            for row in self.rows[left[place] : end].tolist():
                yield place, row


def numbers_by_row(table: RecordTable, form: str) -> tuple[IntArray, IntArray]:
    """The row of each name of a table, ascending, and the number of a form of the name."""
    rows = np.repeat(np.arange(len(table)), np.diff(table.called))
    return rows, table.names.numbers(form)[table.which]


def compared(
    table: RecordTable, naming: tuple[str, ...]
) -> tuple[tuple[FloatArray, FloatArray], NDArray[np.int32]]:
    """The cosines of the nearest rows in each of `WAYS`, and the candidate pairs.

    Cosines are descending, -1 for none, each of shape [rows, nearest]; pairs are i < j, ascending,
    shape [pairs, 2].
    """
    n, rows = len(table), np.arange(len(table))
    letters, words = (
        NearIndex(bags, table.linked).nearest(bags, table.linked, rows)
        for bags in (table.trigrams, table.all_text)
    )
    kernel = kernel_library()
    pairs = kernel.kb_candidates_new(n)
    told: list[NDArray[Any]] = []  # which the kernel reads until the pairs are counted
    try:
        for some, near in ((rows, letters[0]), (rows, words[0]), *OtherScripts(table).nearest()):
            told += some, near
            kernel.kb_candidates_near(pairs, *near.shape, address(some), address(near))
        for mine, theirs in EQUAL_FORMS:
            forms, (some, wanted) = EqualForms(table, theirs), numbers_by_row(table, mine)
            told += forms.keys, forms.rows, some, wanted
            known = len(forms.keys), address(forms.keys), address(forms.rows)
            asked = len(wanted), address(wanted), address(some)
            # of a form of many rows, each is compared only with the following ones
            kernel.kb_candidates_equal(pairs, *known, *asked, _MOST_EQUAL)
        bits = attributes_compared(table, naming)
        count = kernel.kb_candidates_count(pairs, address(table.linked), address(bits), workers())
        out = np.empty((count, 2), np.int32)
        kernel.kb_candidates_pairs(pairs, workers(), address(out))
    finally:
        kernel.kb_candidates_free(pairs)
    return (letters[1], words[1]), out


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
