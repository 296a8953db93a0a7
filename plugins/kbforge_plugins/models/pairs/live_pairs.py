"""The live clusters of a run: how often each row was seen, and the sum over pairs of rows.

A row that was seen n times weighs w_n = sqrt(n), so that fifty equal mentions do not outvote all
else, and yet no number of fragments makes the prior's taste for large clusters outvote them:

    L(C) = sum over rows r < s of C of w(n_r) w(n_s) o(r, s) + sum over rows r of (n_r - 1) o(r, r)

with o the clipped log odds of a pair. All is added as whole numbers, so that L depends on the
multiset alone, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isqrt

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray, LiveClusters
from kbforge.numerics.arrays import capacity_for
from kbforge_plugins.models.pairs.odds import APART, UNITS, Odds, Row

_ONE = 1 << 8
"""The weight of a row that was seen once."""
_SCALE = float(UNITS * _ONE * _ONE)


def weight(n: int) -> int:
    """w_n in units of which a row seen once has 256."""
    return isqrt(n * _ONE * _ONE)


class Members:
    """One cluster: how often each row was seen.

    Attributes:
        counts: by row.
        weight: the sum of the rows' weights.

    """

    __slots__ = ("counts", "weight")

    def __init__(self, counts: dict[Row, int], total: int) -> None:
        self.counts, self.weight = counts, total

    def joined(self, x: Row, more: int) -> Members:
        """With one observation of x more (1) or less (-1)."""
        counts = dict(self.counts)
        before = counts.pop(x, 0)
        if before + more:
            counts[x] = before + more
        return Members(counts, self.weight + weight(before + more) - weight(before))


def nats(units: int) -> float:
    """A sum over pairs, in nats."""
    return units / _SCALE


def gain_of(odds: Odds, members: Members, x: Row, before: int | None = None) -> int:
    """What one x more adds to the cluster's sum, or the last x did.

    Args:
        odds: of pairs.
        members: of the cluster.
        x: the row.
        before: how often x was seen without that one, if the cluster holds it.

    """
    here = members.counts.get(x, 0)
    n = here if before is None else before
    step = weight(n + 1) - weight(n)
    near = odds.near(x)
    total = APART * (members.weight - weight(here))
    total += _shared(near, members.counts, x)
    return step * total + ((APART + near[x]) * _ONE * _ONE if n else 0)


def _shared(near: Mapping[Row, int], counts: Mapping[Row, int], x: Row) -> int:
    """The sum over candidates of x among the members, x left out."""
    if len(near) < len(counts):
        return sum(
            above * weight(counts[row]) for row, above in near.items() if row in counts and row != x
        )
    return sum(weight(n) * near[row] for row, n in counts.items() if row in near and row != x)


def sum_of(odds: Odds, members: Members) -> int:
    """L of a cluster, in units."""
    squares = sum(weight(n) ** 2 for n in members.counts.values())
    total = APART * ((members.weight**2 - squares) // 2)
    twice = 0
    for row, n in members.counts.items():
        near = odds.near(row)
        twice += weight(n) * _shared(near, members.counts, row)
        total += (n - 1) * (APART + near[row]) * _ONE * _ONE
    return total + twice // 2


def counted(rows: Iterable[Row]) -> Members:
    """The cluster of some observations."""
    counts: dict[Row, int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    return Members(counts, sum(map(weight, counts.values())))


class PairTable(LiveClusters):
    """See `kbforge.contracts.likelihood`: clusters that fragments can leave, and that can merge.

    Args:
        odds: of pairs; shared by all tables of a likelihood.

    """

    editable = mergeable = True

    def __init__(self, odds: Odds) -> None:
        self._odds = odds
        self._clusters: list[Members | None] = []
        self._holders: dict[Row, set[int]] = {}
        self._weights = np.zeros(0, dtype=np.int64)
        self._out: FloatArray = np.zeros(0)

    def encode(self, fragment: Fragment) -> Row:
        return self._odds.encode(fragment)

    def log_predictive(self, x: Row, slots: int) -> FloatArray:
        out = self._apart(slots, weight(1))
        for slot in self._touched((*self._odds.near(x), x)):
            if slot < slots:
                out[slot] = nats(gain_of(self._odds, self._held(slot), x))
        return out

    def log_predictive_of(self, x: Row, slots: IntArray) -> FloatArray:
        odds = self._odds
        return np.array([nats(gain_of(odds, self._held(s), x)) for s in slots.tolist()])

    def log_predictive_new(self, x: Row) -> float:
        return 0.0

    def extend(self, x: Row, parents: IntArray, children: IntArray) -> None:
        top = int(children.max(initial=-1))
        if top >= len(self._clusters):
            self._clusters.extend([None] * (top + 1 - len(self._clusters)))
        empty = Members({}, 0)
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            members = self._held(parent) if parent >= 0 else empty
            self._forget(child)
            self._keep(child, members.joined(x, 1))

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            self._forget(slot)

    def log_predictive_held(self, x: Row, slot: int) -> float:
        held = self._held(slot)
        return nats(gain_of(self._odds, held, x, held.counts[x] - 1))

    def add(self, x: Row, slot: int) -> None:
        self._replace(slot, self._held(slot).joined(x, 1))

    def remove(self, x: Row, slot: int) -> None:
        self._replace(slot, self._held(slot).joined(x, -1))

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        held = self._held(slot)
        out = self._apart(slots, held.weight)
        near = {other for row in held.counts for other in (*self._odds.near(row), row)}
        for other in self._touched(near):
            if other < slots and other != slot:
                out[other] = nats(self._merge_gain(held, self._held(other)))
        return out

    def merge(self, slot: int, into: int) -> None:
        members = self._both(self._held(slot), self._held(into))
        self._forget(slot)
        self._replace(into, members)

    def _apart(self, slots: int, weight_of_one: int) -> FloatArray:
        """What joining is worth where no row is a candidate of another."""
        if len(self._out) < slots:
            self._out = np.zeros(capacity_for(slots, len(self._out)))
        self._fit_weights(slots)
        np.divide(self._weights[:slots] * (APART * weight_of_one), _SCALE, out=self._out[:slots])
        return self._out[:slots]

    def _touched(self, rows: Iterable[Row]) -> set[int]:
        holders = self._holders
        return {slot for row in rows for slot in holders.get(row, ())}

    def _merge_gain(self, one: Members, other: Members) -> int:
        if not one.counts.keys().isdisjoint(other.counts):
            both = self._both(one, other)
            return sum_of(self._odds, both) - sum_of(self._odds, one) - sum_of(self._odds, other)
        if len(one.counts) > len(other.counts):
            one, other = other, one
        shared = sum(
            weight(n) * _shared(self._odds.near(row), other.counts, row)
            for row, n in one.counts.items()
        )
        return APART * one.weight * other.weight + shared

    @staticmethod
    def _both(one: Members, other: Members) -> Members:
        counts = dict(one.counts)
        for row, n in other.counts.items():
            counts[row] = counts.get(row, 0) + n
        return Members(counts, sum(map(weight, counts.values())))

    def _held(self, slot: int) -> Members:
        members = self._clusters[slot]
        assert members is not None, f"slot {slot} is free"
        return members

    def _replace(self, slot: int, members: Members) -> None:
        self._forget(slot)
        self._keep(slot, members)

    def _keep(self, slot: int, members: Members) -> None:
        self._clusters[slot] = members
        self._fit_weights(slot + 1)
        self._weights[slot] = members.weight
        for row in members.counts:
            self._holders.setdefault(row, set()).add(slot)

    def _forget(self, slot: int) -> None:
        members = self._clusters[slot]
        if members is not None:
            for row in members.counts:
                self._holders[row].discard(slot)
            self._clusters[slot] = None

    def _fit_weights(self, slots: int) -> None:
        if len(self._weights) < slots:
            wider = np.zeros(capacity_for(slots, len(self._weights)), dtype=np.int64)
            wider[: len(self._weights)] = self._weights
            self._weights = wider
