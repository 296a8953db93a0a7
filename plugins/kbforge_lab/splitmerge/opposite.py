"""LSHSM: fragments on opposite sides of random directions are parted, those on the same merge.

Luo and Shrivastava, "Scaling-up split-merge MCMC with locality sensitive sampling" (2018), section
3.1. There are L tables of K signs of random projections. S(u) are the fragments with the K signs of
u, and S(-u) those with the opposite ones, in one of the tables: which table comes first is drawn,
and where the bucket asked for is empty the next one is asked, round and round. That is drawn before
everything else, whatever the grouping, and is given from then on; so S(u) and S(-u) are functions
of the fragments alone. (The paper counts probabilities averaged over all directions with buckets of
one; see `alike` for why that is not exact.)

*Smart split.* u is uniform over the n fragments, v over S(-u) (without any, nothing moves). If both
are of one cluster C it falls apart: u and v are parted, each of the others goes with one of them by
a coin. Either part may have had u:

    q(split) = 2^(2-|C|) (1/n) [sum over u in A of |S(-u) & B| / |S(-u)|
                                + sum over v in B of |S(-v) & A| / |S(-v)|]

*Smart merge.* u is uniform over the fragments, v over S(u) without u:

    q(merge) = (1/n) [sum over u in A of |S(u) & B| / |S(u) - u| + the same of v in B and A]

As the table of S(v) need not be that of S(u), the sums may differ. Dumb moves and ratio are those
of `smart_dumb`. What decides a split are coins but for two fragments, so that a large cluster will
hardly ever fall apart as it should; that is how the method is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.splitmerge import (
    BucketSplit,
    RandomChoices,
    Rotation,
    SmartDumb,
    SplitMergeGains,
    pairs_with,
)
from kbforge.contracts import FloatArray, IntArray

_LOG_2 = math.log(2)


class SignTables:
    """Buckets of several tables by the signs of projections, and those of the opposite signs.

    Args:
        signs: on which side of its directions each fragment is, shape [n, tables, rows].

    Attributes:
        code: the signs as the bits of a number, shape [n, tables].
        tables: L.

    """

    def __init__(self, signs: NDArray[np.bool_]) -> None:
        rows = signs.shape[2]
        self.tables = signs.shape[1]
        self._opposite = (1 << rows) - 1
        self.code: IntArray = signs.astype(np.int64) @ (1 << np.arange(rows))
        self._held = np.argsort(self.code, axis=0, kind="stable")
        self._starts = np.stack(
            [
                np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=1 << rows))])
                for codes in self.code.T
            ]
        )  # [tables, codes + 1]

    def opposite(self, codes: IntArray) -> IntArray:
        """The codes of the opposite signs."""
        return np.asarray(self._opposite - codes)

    def sizes(self, codes: IntArray) -> IntArray:
        """How many fragments have these codes, one a table, shape as `codes` [..., tables]."""
        tables = np.arange(self.tables)
        return np.asarray(self._starts[tables, codes + 1] - self._starts[tables, codes])

    def holds(self, table: int, code: int) -> IntArray:
        """The fragments with a code, ascending."""
        low, high = self._starts[table, code : code + 2]
        return np.asarray(self._held[low:high, table])


class Looked(NamedTuple):
    """Tables, and which of them is asked first."""

    tables: SignTables
    first: int


class OppositeKernel(SmartDumb[Looked]):
    """See the module."""

    def __init__(
        self, clusters: SplitMergeGains, tables: Rotation[SignTables], moves: int | None = None
    ) -> None:
        super().__init__(clusters, moves=moves)
        self._tables = tables

    def given(self, draws: RandomChoices) -> Looked:
        tables = self._tables.next(draws)
        return Looked(tables, draws.below(tables.tables))

    def smart_split(
        self, grouping: Grouping, given: Looked, draws: RandomChoices
    ) -> BucketSplit | None:
        u = draws.below(grouping.n_fragments)
        slot = grouping.slot_of[u]
        if len(grouping.members[slot]) < 2:
            return None
        bucket = _bucket(given, u, opposite=True)
        if not len(bucket):
            return None
        v = int(bucket[draws.below(len(bucket))])
        if grouping.slot_of[v] != slot:
            return None
        members = self._clusters.members(slot)
        with_u = np.zeros(len(members), dtype=np.bool_)
        rest = (members != u) & (members != v)
        with_u[rest] = draws.coins(len(members) - 2)
        with_u |= members == u
        return BucketSplit(slot, members[with_u], members[~with_u])

    def log_split(self, a: IntArray, b: IntArray, given: Looked) -> float:
        share = _both_shares(given, a, b, opposite=True)
        if not share:
            return -np.inf
        size = len(a) + len(b)
        return math.log(share / len(given.tables.code)) + (2 - size) * _LOG_2

    def smart_merge(
        self, grouping: Grouping, given: Looked, draws: RandomChoices
    ) -> tuple[int, int] | None:
        u = draws.below(grouping.n_fragments)
        bucket = _bucket(given, u, opposite=False)
        if not len(bucket):
            return None
        index = draws.below(len(bucket) - 1)
        v = int(bucket[index + (index >= bucket.searchsorted(u))])
        slots = grouping.slot_of[u], grouping.slot_of[v]
        return None if slots[0] == slots[1] else slots

    def log_merge(self, a: IntArray, b: IntArray, given: Looked) -> float:
        share = _both_shares(given, a, b, opposite=False)
        return math.log(share / len(given.tables.code)) if share else -np.inf


def _bucket(given: Looked, u: int, opposite: bool) -> IntArray:
    """S(-u), or S(u) if that holds another one than u; else none."""
    table, size, codes = _asked(given, np.array([u]), opposite)
    if not size[0]:
        return np.zeros(0, dtype=np.int64)
    return given.tables.holds(int(table[0]), int(codes[0]))


def _asked(
    given: Looked, fragments: IntArray, opposite: bool
) -> tuple[IntArray, IntArray, IntArray]:
    """By fragment u: the table that answers, how many v it has to offer, and their code there."""
    tables = given.tables
    codes = tables.code[fragments]
    codes = tables.opposite(codes) if opposite else codes
    offered = tables.sizes(codes)
    if not opposite:
        offered = offered - 1  # u itself
    turn = np.roll(np.arange(tables.tables), -given.first)
    table = turn[(offered[:, turn] > 0).argmax(axis=1)]
    rows = np.arange(len(fragments))
    return table, offered[rows, table], codes[rows, table]


def shares(given: Looked, part: IntArray, other: IntArray, opposite: bool) -> FloatArray:
    """By u of a part, which share of what u is offered is of the other part, shape [part]."""
    table, offered, codes = _asked(given, part, opposite)
    out = np.zeros(len(part))
    for one in np.unique(table[offered > 0]).tolist():
        here = (table == one) & (offered > 0)
        met = pairs_with(given.tables.code[other, one], codes[here])
        out[here] = met / offered[here]
    return out


def _both_shares(given: Looked, a: IntArray, b: IntArray, opposite: bool) -> float:
    """The sum of the shares of both parts."""
    return float(shares(given, a, b, opposite).sum() + shares(given, b, a, opposite).sum())
