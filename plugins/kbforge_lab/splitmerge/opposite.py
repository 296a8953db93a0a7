"""LSHSM: splits and merges fragments by signs of random projections.

Luo and Shrivastava, "Scaling-up split-merge MCMC with locality sensitive sampling" (2018), section
3.1. There are L tables of K signs of random projections. S(u) are the fragments with the K signs of
u, and S(-u) those with the opposite ones, in one of the tables: which table comes first is drawn,
and where the bucket asked for is empty the next one is asked, round and round. That is drawn before
everything else, so S(u) and S(-u) are functions of the fragments alone. (The paper counts
probabilities averaged over all directions with buckets of one; see `AlikeKernel` for why that is
not exact.)

*Smart split.* u is uniform over the n fragments, v over S(-u) (without any, nothing moves). If both
are of one cluster C it falls apart: u and v are parted, each of the others goes with one of them by
a coin. Either part may have had u:

    q(split) = 2^(2-|C|) (1/n) [sum over u in A of |S(-u) & B| / |S(-u)|
                                + sum over v in B of |S(-v) & A| / |S(-v)|]

*Smart merge.* u is uniform over the fragments, v over S(u) without u:

    q(merge) = (1/n) [sum over u in A of |S(u) & B| / |S(u) - u| + the same of v in B and A]

As the table of S(v) need not be that of S(u), the sums may differ. Dumb moves and ratio are those
of `SmartDumb`.

**As published**: the ratios that LSHSM and MinSM were published with (equations 2 to 7). Unlike
the exact ones, these do *not* leave the posterior as it is:

- probabilities are averaged over all hash functions (equations 2, 3 and 7, by the collision
  probability of two fragments), but the bucket that they are multiplied with is of one;
- equation 4, for the probability that A collides and B does not, is only a lower bound;
- one side of a split or a merge is counted: that of A, which u is of;
- LSHSM makes a dumb move when the smart one leads nowhere, and does not count how often that is;
- a dumb split is counted one way round;
- the ratio is of likelihoods and leaves out the prior of the groupings.

u and v, where the paper leaves them open, are the first fragments of A and of B.

| symbol | meaning |
|---|---|
| J(u, v) | weighted Jaccard similarity of the amounts of two fragments |
| c(u, v) | 1 - angle / pi, the probability that a direction has both on one side |
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Features, FloatArray, IntArray
from kbforge_lab.batch.grouping import Grouping
from kbforge_lab.batch.splitmerge import (
    AlikeKernel,
    Buckets,
    BucketSplit,
    RandomChoices,
    Rotation,
    SmartDumb,
    SplitMergeGains,
    SplitMergeKernel,
    Suggestion,
    pairs_with,
)

_LOG_2 = math.log(2)


class SignTables:
    """Buckets of L tables by signs of projections [n, L, rows], and those of the opposite signs.

    `code` [n, tables] has the signs as the bits of a number.
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


class TableTurn(NamedTuple):
    """Tables, and which of them is asked first."""

    tables: SignTables
    first: int


class OppositeKernel(SmartDumb[TableTurn]):
    """See the module."""

    def __init__(
        self, clusters: SplitMergeGains, tables: Rotation[SignTables], moves: int | None = None
    ) -> None:
        super().__init__(clusters, moves=moves)
        self._tables = tables

    def given(self, draws: RandomChoices) -> TableTurn:
        tables = self._tables.next(draws)
        return TableTurn(tables, draws.below(tables.tables))

    def smart_split(
        self, grouping: Grouping, given: TableTurn, draws: RandomChoices
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

    def log_split(self, a: IntArray, b: IntArray, given: TableTurn) -> float:
        share = _both_shares(given, a, b, opposite=True)
        if not share:
            return -np.inf
        size = len(a) + len(b)
        return math.log(share / len(given.tables.code)) + (2 - size) * _LOG_2

    def smart_merge(
        self, grouping: Grouping, given: TableTurn, draws: RandomChoices
    ) -> tuple[int, int] | None:
        u = draws.below(grouping.n_fragments)
        bucket = _bucket(given, u, opposite=False)
        if not len(bucket):
            return None
        index = draws.below(len(bucket) - 1)
        v = int(bucket[index + (index >= bucket.searchsorted(u))])
        slots = grouping.slot_of[u], grouping.slot_of[v]
        return None if slots[0] == slots[1] else slots

    def log_merge(self, a: IntArray, b: IntArray, given: TableTurn) -> float:
        share = _both_shares(given, a, b, opposite=False)
        return math.log(share / len(given.tables.code)) if share else -np.inf


def _bucket(given: TableTurn, u: int, opposite: bool) -> IntArray:
    """S(-u), or S(u) if that holds another one than u; else none."""
    table, size, codes = _asked(given, np.array([u]), opposite)
    if not size[0]:
        return np.zeros(0, dtype=np.int64)
    return given.tables.holds(int(table[0]), int(codes[0]))


def _asked(
    given: TableTurn, fragments: IntArray, opposite: bool
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


def shares(given: TableTurn, part: IntArray, other: IntArray, opposite: bool) -> FloatArray:
    """By u of a part, which share of what u is offered is of the other part, shape [part]."""
    table, offered, codes = _asked(given, part, opposite)
    out = np.zeros(len(part))
    for one in np.unique(table[offered > 0]).tolist():
        here = (table == one) & (offered > 0)
        met = pairs_with(given.tables.code[other, one], codes[here])
        out[here] = met / offered[here]
    return out


def _both_shares(given: TableTurn, a: IntArray, b: IntArray, opposite: bool) -> float:
    """The sum of the shares of both parts."""
    return float(shares(given, a, b, opposite).sum() + shares(given, b, a, opposite).sum())


class _OfLikelihoods(SplitMergeKernel):
    """Ratios without the prior of the groupings."""

    def splitting(
        self, grouping: Grouping, slot: int, a: IntArray, b: IntArray, log_back_there: float
    ) -> Suggestion:
        prior = self._clusters.prior_of_split(len(a), len(b))
        return super().splitting(grouping, slot, a, b, log_back_there - prior)

    def merging(
        self,
        grouping: Grouping,
        slots: tuple[int, int],
        parts: tuple[IntArray, IntArray],
        log_back_there: float,
    ) -> Suggestion:
        prior = self._clusters.prior_of_split(*map(len, parts))
        return super().merging(grouping, slots, parts, log_back_there + prior)


class PublishedAlike(_OfLikelihoods, AlikeKernel):
    """MinSM as published; its proposals are those of `AlikeKernel`."""

    def __init__(
        self,
        clusters: SplitMergeGains,
        tables: Rotation[Buckets],
        features: Features,
        moves: int | None = None,
    ) -> None:
        super().__init__(clusters, tables, moves)
        self._features = features

    def log_split(self, a: IntArray, b: IntArray, given: Buckets) -> float:
        """Equations 4 and 5: |S_u| / n times the bound."""
        amounts = amounts_of(self._features, np.concatenate([a, b]))
        least, most = amounts[: len(a)].min(axis=0), amounts[len(a) :].max(axis=0)
        bound = np.maximum(least - most, 0.0).sum()
        if not bound:
            return -np.inf
        size = int(given.size[given.number[a[0]]])
        return math.log(size / len(given.number) * bound / amounts.max(axis=0).sum())

    def log_merge(self, a: IntArray, b: IntArray, given: Buckets) -> float:
        """Equation 7: J(u, v) / (M |S_u|), and the 2 that its way back lacks."""
        amounts = amounts_of(self._features, np.array([a[0], b[0]]))
        same = amounts.min(axis=0).sum()
        if not same:
            return -np.inf
        size = int(given.size[given.number[a[0]]])
        slot_of = self._clusters.grouping.slot_of
        log_m = math.log(self._clusters.n + (slot_of[a[0]] == slot_of[b[0]]))
        return _LOG_2 + math.log(same / amounts.max(axis=0).sum() / size) - log_m


class PublishedOpposite(_OfLikelihoods, OppositeKernel):
    """LSHSM as published."""

    def __init__(
        self,
        clusters: SplitMergeGains,
        tables: Rotation[SignTables],
        features: Features,
        rows: int,
        moves: int | None = None,
    ) -> None:
        super().__init__(clusters, tables, moves)
        self._features, self._rows = features, rows

    def suggest(self, grouping: Grouping, draws: RandomChoices) -> Suggestion | None:
        """A smart move, and where that leads nowhere the dumb one."""
        given = self.given(draws)
        if draws.below(2):
            return self._merge_smartly(grouping, given, draws) or self._split_dumbly(
                grouping, given, draws
            )
        return self._split_smartly(grouping, given, draws) or self._merge_dumbly(
            grouping, given, draws
        )

    def log_split(self, a: IntArray, b: IntArray, given: TableTurn) -> float:
        """Equation 2."""
        total = self._total(a, b, given, opposite=True)
        return math.log(total) + (2 - len(a) - len(b)) * _LOG_2 if total else -np.inf

    def log_merge(self, a: IntArray, b: IntArray, given: TableTurn) -> float:
        """Equation 3, and the 2 that its way back lacks."""
        total = self._total(a, b, given, opposite=False)
        return _LOG_2 + math.log(total) if total else -np.inf

    def _total(self, a: IntArray, b: IntArray, given: TableTurn, opposite: bool) -> float:
        """Sum over u in A and v in B of (1 - (1 - c^K)^L) |S & B| / (n |S|)."""
        c = self._sides(a, b)
        c = 1 - c if opposite else c
        met = 1 - (1 - c**self._rows) ** given.tables.tables
        share = shares(given, a, b, opposite)
        return float((met.sum(axis=1) * share).sum()) / len(given.tables.code)

    def _sides(self, a: IntArray, b: IntArray) -> FloatArray:
        """c(u, v), shape [A, B]; of what has no features, 1/2."""
        amounts = amounts_of(self._features, np.concatenate([a, b]))
        plus, minus = np.split(amounts, 2, axis=1)
        x = plus - minus
        lengths = np.linalg.norm(x, axis=1)
        products = np.outer(lengths[: len(a)], lengths[len(a) :])
        dots = x[: len(a)] @ x[len(a) :].T
        cosines = np.divide(dots, products, out=np.zeros_like(dots), where=products > 0)
        return np.asarray(1 - np.arccos(np.clip(cosines, -1, 1)) / math.pi)


def amounts_of(features: Features, fragments: IntArray) -> FloatArray:
    """Amounts above 0 in D columns, and those below 0 in D more, shape [fragments, 2 D]."""
    spans = [slice(*features.starts[i : i + 2].tolist()) for i in fragments.tolist()]
    names = [features.names[span] for span in spans]
    columns, at = np.unique(np.concatenate(names), return_inverse=True)
    owners = np.arange(len(fragments)).repeat([len(held) for held in names])
    values = np.concatenate([features.values[span] for span in spans])
    out = np.zeros((len(fragments), 2 * len(columns)))
    out[owners, at + len(columns) * (values < 0)] = np.abs(values)
    return out
