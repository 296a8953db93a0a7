"""Estimates the prior of a match between tables without duplicates.

A record has at most one partner in another table, so its second best partner is none: the log odds
of second best partners show how near records of different entities come in this file. Where the
best partners of a table's records are as far, they are no partners either. That gives the share of
records without a partner, as the share of nulls is estimated (Storey 2002; Efron 2004):

    p0 = (share of best log odds below t) / (share of second best log odds below t)

with t the median of the second best. Where few records have a partner, p0 errs low, since the
second best of a record without one is further than its best. The odds of all pairs get the constant
b under which as many records are expected to have a partner:

    sum over records i of S_i / (1 + S_i) = (1 - p0) n    where S_i = sum over j of exp(b + o_ij)

Where no record has a partner, the best of them are below t far seldomer than the second best: of
independent odds a share G of the best, where G - G ln G = .5, so G = .19 and 1 - p0 = .63. Only a
share near 1 is evidence, so under a smaller one the odds are raised little: labelled sets that were
split into two tables, a fifth of whose records had a partner, lost up to .12 of F1 by it.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import FloatArray, IntArray

MOST_BIAS = 6.0
"""Nats either side of 0."""
_LEAST_RECORDS = 30
_QUANTILE = 0.5
_NEARLY_ALL = 0.9
"""Of the records; from here on the share that has a partner is believed."""
_UNSURE_BIAS = 1.0
"""Nats that odds are raised by at most if a smaller share seems to have a partner."""
_MOST_WITH_TWO = 0.1
"""Of the records with a partner; where more have a second one, tables have duplicates.

On four pairs of tables without duplicates at most .03, on artists_nga .27. Files that were split at
random have .00 to .66: the less, the fewer fragments an entity has, so this alone tells little."""
_STEPS = 30


def match_bias(pairs: IntArray, log_odds: FloatArray, linked: IntArray) -> tuple[float, float]:
    """What is added to the log odds of every pair, nats, and how many matches are expected.

    Both are 0 where too few records tell. More than a nat is only added where nearly all records
    have a partner. `pairs` [pairs, 2] are of rows of different tables,
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
    bias = _solved(record, log_odds, expected)
    if expected >= _NEARLY_ALL * len(best) or bias <= _UNSURE_BIAS:
        return bias, expected
    return _UNSURE_BIAS, _partners(record, log_odds + _UNSURE_BIAS)


def one_to_one(pairs: IntArray, log_odds: FloatArray, linked: IntArray, expected: float) -> bool:
    """Whether nearly all records of the smaller of each two tables have one partner in the other.

    `expected` matches are as `match_bias` gives them. A duplicate within a table gives its partner
    a second one, and has none of its own if the two are all there is of an entity. So tables that
    are one to one have few duplicates, whatever these look like.
    """
    sizes = np.sort(np.unique(linked, return_counts=True)[1])[::-1]
    # each table is the smaller one beside all that are larger
    if expected < _NEARLY_ALL * float((sizes * np.arange(len(sizes))).sum()):
        return False
    likely = log_odds > 0
    found = pairs[likely]
    rows = np.concatenate([found, found[:, ::-1]])
    both = np.stack([rows[:, 0], linked[rows[:, 1]]], axis=1)
    partners = np.unique(both, axis=0, return_counts=True)[1]
    return len(partners) > 0 and float(np.mean(partners > 1)) <= _MOST_WITH_TWO


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
        if _partners(record, log_odds + bias) < wanted:
            low = bias
        else:
            high = bias
    return (low + high) / 2


def _partners(record: IntArray, log_odds: FloatArray) -> float:
    """How many records are expected to have a partner."""
    sums = np.bincount(record, np.exp(log_odds))
    return float((sums / (1.0 + sums)).sum())
