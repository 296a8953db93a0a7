"""The prior of a match between tables without duplicates, from the pairs' log odds alone.

A record has at most one partner in another table, so its second best partner is none: the log odds
of second best partners show how near records of different entities come in this file. Where the
best partners of a table's records are as far, they are no partners either. That gives the share of
records without a partner, as the share of nulls is estimated (Storey 2002; Efron 2004):

    p0 = (share of best log odds below t) / (share of second best log odds below t)

with t the median of the second best. Where few records have a partner, p0 errs low, since the
second best of a record without one is further than its best. The odds of all pairs get the constant
b under which as many records are expected to have a partner:

    sum over records i of S_i / (1 + S_i) = (1 - p0) n    where S_i = sum over j of exp(b + o_ij)
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray

MOST_BIAS = 6.0
"""Nats either side of 0."""
_LEAST_RECORDS = 30
_QUANTILE = 0.5
_STEPS = 30


def match_bias(pairs: IntArray, log_odds: FloatArray, linked: IntArray) -> tuple[float, float]:
    """What is added to the log odds of every pair, nats, and how many matches are expected.

    Both are 0 where too few records tell. `pairs` [pairs, 2] are of rows of different tables,
    `linked` the number of each row's table. Each two tables are looked at from the smaller one.
    """
    record = _records(pairs, linked)
    order = np.lexsort((-log_odds, record))
    first = np.flatnonzero(np.diff(record[order], prepend=-1) > 0)
    if not len(first):
        return 0.0, 0.0
    sizes = np.diff(np.append(first, len(order)))
    best, several = log_odds[order[first]], sizes > 1
    second = log_odds[order[first[several] + 1]]
    if len(second) < _LEAST_RECORDS:
        return 0.0, 0.0
    limit = np.quantile(second, _QUANTILE)
    alone = min(1.0, float(np.mean(best < limit)) / _QUANTILE)
    expected = (1.0 - alone) * len(best)
    return _solved(record, log_odds, expected), expected


def _records(pairs: IntArray, linked: IntArray) -> IntArray:
    """By pair, a number for the record of the smaller of its two tables and the other table."""
    tables, which = np.unique(linked, return_inverse=True)
    sizes = np.bincount(which)
    table = which[pairs]
    size = sizes[table]
    # of tables of one size the first counts as the smaller
    larger = (size[:, 0] > size[:, 1]) | ((size[:, 0] == size[:, 1]) & (table[:, 0] > table[:, 1]))
    place = larger.astype(np.int64)
    at = np.arange(len(pairs))
    both = pairs[at, place] * len(tables) + table[at, 1 - place]
    return np.unique(both, return_inverse=True)[1].reshape(-1)


def _solved(record: IntArray, log_odds: FloatArray, wanted: float) -> float:
    """The bias under which so many records are expected to have a partner, by bisection."""
    low, high = -MOST_BIAS, MOST_BIAS
    for _ in range(_STEPS):
        bias = (low + high) / 2
        sums = np.bincount(record, np.exp(log_odds + bias))
        if float((sums / (1.0 + sums)).sum()) < wanted:
            low = bias
        else:
            high = bias
    return (low + high) / 2
