"""Which pairs of rows are worth a look: the nearest by letters and by words, and odd spellings.

Nearness is the cosine of rows of weights, found by sparse products. Columns that many rows have
are left out, rarest first until the work that is allowed is spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.bags import Bags
from kbforge_plugins.models.pairs.records import Table

NEAREST = 24
"""Rows that a row is compared with for being near in one way."""
_WORK_A_ROW = 20_000
_BLOCK = 1024
_MOST_EQUAL = 50
_LEAST_COSINE = 0.08
_NEAR_COSINE = 0.25


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


def equal_in(table: Table, mine: str, theirs: str) -> Iterator[tuple[int, int]]:
    """Pairs of different rows, a name of the one in one form equal to one of the other's.

    Of a form that many rows share, each is compared with the next ones only.
    """
    rows = np.repeat(np.arange(len(table)), table.called)
    keys, wanted = (table.names.numbers[form][table.which] for form in (theirs, mine))
    order = np.lexsort((rows, keys))
    ordered = keys[order]
    left = np.searchsorted(ordered, wanted, side="left")
    right = np.searchsorted(ordered, wanted, side="right")
    for at in np.flatnonzero((right > left) & (wanted != 0)).tolist():
        row = int(rows[at])
        start = int(left[at])
        if right[at] - start > _MOST_EQUAL:  # go on from the row itself
            start = max(start, int(np.searchsorted(rows[order[start : right[at]]], row)) + start)
        for other in rows[order[start : min(int(right[at]), start + _MOST_EQUAL)]].tolist():
            if other != row:
                yield row, other


def equal_between(some: Table, mine: str, among: Table, theirs: str) -> Iterator[tuple[int, int]]:
    """As `equal_in`, of rows of one table with the first ones of another."""
    rows = np.repeat(np.arange(len(among)), among.called)
    keys = among.names.numbers[theirs][among.which]
    for row, number in zip(
        np.repeat(np.arange(len(some)), some.called).tolist(),
        some.names.numbers[mine][some.which].tolist(),
        strict=True,
    ):
        if number:
            for other in rows[np.flatnonzero(keys == number)[:_MOST_EQUAL]].tolist():
                yield row, other


def near_ones(one: Table, others: Sequence[Table]) -> list[int]:
    """Which of some tables of one row are near to another such table, by letters or by words."""
    if not others:
        return []
    near = np.zeros(len(others), dtype=bool)
    for mine, theirs in (
        (one.trigrams.unit, [other.trigrams.unit for other in others]),
        (one.soup.unit, [other.soup.unit for other in others]),
    ):
        product = sparse.csr_array(sparse.vstack(theirs)) @ sparse.csr_array(mine).T
        near |= product.toarray().ravel() >= _NEAR_COSINE
    return [int(place) for place in np.flatnonzero(near)]
