"""Which pairs of rows are worth a look: the nearest by letters and by words, and odd spellings.

Nearness is the cosine of rows of weights, found by sparse products. Columns that many rows have
are left out, rarest first until the work that is allowed is spent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.bags import Bags
from kbforge_plugins.models.pairs.records import Table

NEAREST = 24
"""Rows that a row is compared with for being near in one way."""
FORMS = (
    *(("name", "name"), ("bare", "bare")),
    *(("acronym", "compact"), ("short acronym", "compact")),
)
"""Forms of names that make two rows candidates where they are equal."""
_WORK_A_ROW = 20_000
_BLOCK = 1024
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
    """By column, the rows that have it: what `nearest` looks among."""
    return sparse.csr_array(rows.T)


def nearest(
    rows: sparse.csr_array, among: sparse.csr_array, other: bool
) -> Iterator[tuple[int, IntArray, FloatArray]]:
    """For each row, those nearest to it and their cosines, the nearest first.

    Args:
        rows: shape [rows, columns].
        among: as `turned`, shape [columns, all].
        other: row k of `rows` is row k of `among`, and not near to itself.

    """
    for start in range(0, rows.shape[0], _BLOCK):
        some = rows if rows.shape[0] <= _BLOCK else rows[start : start + _BLOCK]
        block = some @ among
        for k in range(block.shape[0]):
            part = slice(block.indptr[k], block.indptr[k + 1])
            found, value = block.indices[part], block.data[part]
            keep = value >= _LEAST_COSINE
            if other:
                keep &= found != start + k
            found, value = found[keep].astype(np.int64), value[keep]
            if len(found) > NEAREST:
                some = np.argpartition(-value, NEAREST - 1)
                least = value[some[NEAREST - 1]]
                some = np.flatnonzero(value >= least)
                found, value = found[some], value[some]
            order = np.lexsort((found, -value))[:NEAREST]
            yield start + k, found[order], value[order]


class EqualForms:
    """The names of a table by one form of theirs.

    Args:
        table: of all rows.
        form: of their names.

    """

    def __init__(self, table: Table, form: str) -> None:
        keys = table.names.numbers[form][table.which]
        # names in the order of the table where several rows have one
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._rows = np.repeat(np.arange(len(table)), np.diff(table.called))[order]

    def equal_in(self, table: Table, mine: str) -> Iterator[tuple[int, int]]:
        """Pairs of different rows of the table: this form of the one is a form of the other.

        Of a form that many rows share, each is compared with the next ones only.
        """
        rows = np.repeat(np.arange(len(table)), np.diff(table.called))
        wanted = table.names.numbers[mine][table.which]
        left = np.searchsorted(self._keys, wanted, side="left")
        right = np.searchsorted(self._keys, wanted, side="right")
        for at in np.flatnonzero((right > left) & (wanted != 0)).tolist():
            row, start, end = int(rows[at]), int(left[at]), int(right[at])
            if end - start > _MOST_EQUAL:  # go on from the row itself
                start += int(np.searchsorted(self._rows[start:end], row))
            for other in self._rows[start : min(end, start + _MOST_EQUAL)].tolist():
                if other != row:
                    yield row, other

    def equal_to(self, numbers: IntArray) -> Iterator[tuple[int, int]]:
        """Of forms of names: the place, and the first rows that have a form equal to it."""
        left = np.searchsorted(self._keys, numbers, side="left").tolist()
        right = np.searchsorted(self._keys, numbers, side="right").tolist()
        for place in np.flatnonzero(numbers).tolist():
            end = min(right[place], left[place] + _MOST_EQUAL)
            for row in self._rows[left[place] : end].tolist():
                yield place, row
