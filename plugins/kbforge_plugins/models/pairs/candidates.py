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
_WORK_A_ROW = 20_000
_BLOCK = 1024
_MOST_EQUAL = 24
_LEAST_COSINE = 0.08


def narrowed(bags: Bags) -> sparse.csr_array:
    """Unit rows without the columns that too many rows have for a product of all rows."""
    unit = bags.unit
    shared = np.diff(unit.tocsc().indptr).astype(np.float64)
    order = np.argsort(shared, kind="stable")
    spent = np.cumsum(shared[order] ** 2)
    kept = np.zeros(len(shared))
    kept[order[spent <= _WORK_A_ROW * max(unit.shape[0], 50)]] = 1.0
    return sparse.csr_array(unit @ sparse.diags_array(kept))


def nearest(
    rows: sparse.csr_array, among: sparse.csr_array, other: bool
) -> Iterator[tuple[int, IntArray, FloatArray]]:
    """For each row, those nearest to it and their cosines, the nearest first.

    Args:
        rows: shape [rows, columns].
        among: shape [all, columns].
        other: row k of `rows` is row k of `among`, and not near to itself.

    """
    turned = sparse.csr_array(among.T)
    for start in range(0, rows.shape[0], _BLOCK):
        block = sparse.csr_array(rows[start : start + _BLOCK] @ turned)
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


def equal_in(table: Table, form: str, others: str | None = None) -> Iterator[tuple[int, int]]:
    """Pairs of rows whose names are equal in a form, or one's form is the other's other form."""
    keys = table.numbers[form]
    order = np.argsort(keys, kind="stable")
    if others is None:
        bounds = np.flatnonzero(np.diff(keys[order])) + 1
        for group in np.split(order, bounds):
            if len(group) < 2 or not keys[group[0]]:
                continue
            for step in range(1, min(len(group), _MOST_EQUAL // 2 + 1)):
                yield from zip(group[:-step].tolist(), group[step:].tolist(), strict=True)
        return
    sorted_keys = keys[order]
    wanted = table.numbers[others]
    left = np.searchsorted(sorted_keys, wanted, side="left")
    right = np.searchsorted(sorted_keys, wanted, side="right")
    for row in np.flatnonzero((right > left) & (wanted != 0)).tolist():
        for other in order[left[row] : min(right[row], left[row] + _MOST_EQUAL)].tolist():
            if other != row:
                yield row, other
