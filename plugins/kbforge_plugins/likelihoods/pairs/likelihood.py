"""The likelihood `pairs`: needs no training on the user's file.

The shipped model scores whether two fragments are the same entity, from numbers that need no
schema: the similarity of their names, the rarity of what they share, which attributes agree or
conflict, and whether each is the other's best match. The weights depend on the clustered file.

A row that was seen n times has weight w_n = sqrt(n), so fifty equal mentions do not outvote all
other evidence, but still outweigh the prior's preference for large clusters:

    L(C) = sum over rows r < s of C of w(n_r) w(n_s) o(r, s) + sum over rows r of (n_r - 1) o(r, r)

with o the clipped log odds of a pair. A *bias*, a constant that answers choose
(`kbforge.fit.prepare`), is added for two different rows that are candidates. All sums are of
integers, so L depends only on the multiset, to the last bit.

*Contributions.* A tree's sum for a pair is split over the features on its path: each node's feature
gets the change of the mean of the leaves from the node to the child (Saabas 2014). Features of
agreement and of all words are distributed over the attributes that both rows state, in proportion
to their evidence in this file; all other features describe the name.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from ctypes import CDLL
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from math import isqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    EncodedFragments,
    FloatArray,
    Fragment,
    IntArray,
    LearnedState,
    LiveClusters,
)
from kbforge.errors import ModelError, OtherModelError, UsageError, quoted
from kbforge.files.io import read_small
from kbforge.fit.description import UNREAD, PairOdds
from kbforge.kernel.binding import address
from kbforge.models.bundle import default_folder, read_default
from kbforge.models.trees import Trees, load_parts, save_parts
from kbforge.numerics import capacity_for, starts_of
from kbforge_plugins.likelihoods.pairs.bags import PartReader, flattened
from kbforge_plugins.likelihoods.pairs.file import (
    AGREEMENT_FEATURES,
    ALL_TEXT_FEATURES,
    FEATURES,
    Rows,
)
from kbforge_plugins.likelihoods.pairs.odds import (
    APART,
    MODEL,
    MOST,
    MOST_SHIFT,
    UNITS,
    Odds,
    PairIndex,
    Row,
    leading_of,
)

_ONE = 1 << 8
"""The weight of a row seen once."""
_SCALE = float(UNITS * _ONE * _ONE)


def weight(n: int) -> int:
    """w_n in units, 256 of which are the weight of a row seen once."""
    return isqrt(n * _ONE * _ONE)


class Members:
    """A cluster: how often each row was seen, and the sum of the rows' weights."""

    __slots__ = ("counts", "weight")

    def __init__(self, counts: dict[Row, int], total: int) -> None:
        self.counts, self.weight = counts, total

    def joined(self, x: Row, more: int) -> Members:
        """The cluster with one x more (1) or less (-1)."""
        counts = dict(self.counts)
        before = counts.pop(x, 0)
        if before + more:
            counts[x] = before + more
        return Members(counts, self.weight + weight(before + more) - weight(before))


def nats(units: int) -> float:
    """A sum over pairs, in nats."""
    return units / _SCALE


def gain_of(odds: Odds, members: Members, x: Row, before: int | None = None) -> int:
    """The change of the cluster's sum by one more x, or by the last x, given its number
    `before`."""
    here = members.counts.get(x, 0)
    n = here if before is None else before
    step = weight(n + 1) - weight(n)
    near = odds.near(x)
    total = APART * (members.weight - weight(here))
    total += _shared(near, members.counts, x)
    return step * total + ((APART + near[x]) * _ONE * _ONE if n else 0)


def _shared(near: Mapping[Row, int], counts: Mapping[Row, int], x: Row) -> int:
    """The sum over candidates of x among the other members."""
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
    counts = Counter(rows)
    return Members(counts, sum(map(weight, counts.values())))


def both(one: Members, other: Members) -> Members:
    """The cluster with the observations of both."""
    counts = Counter(one.counts)
    counts.update(other.counts)
    return Members(counts, sum(map(weight, counts.values())))


class PairTable(LiveClusters):
    """See `kbforge.contracts.likelihood`: clusters that fragments can leave, and that can be
    merged."""

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
            self._keep(child, members.joined(x, 1))

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            self._forget(slot)

    def log_predictive_held(self, x: Row, slot: int) -> float:
        held = self._held(slot)
        return nats(gain_of(self._odds, held, x, held.counts[x] - 1))

    def add(self, x: Row, slot: int) -> None:
        self._keep(slot, self._held(slot).joined(x, 1))

    def remove(self, x: Row, slot: int) -> None:
        self._keep(slot, self._held(slot).joined(x, -1))

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        held = self._held(slot)
        out = self._apart(slots, held.weight)
        near = {other for row in held.counts for other in (*self._odds.near(row), row)}
        for other in self._touched(near):
            if other < slots and other != slot:
                out[other] = nats(self._merge_gain(held, self._held(other)))
        return out

    def merge(self, slot: int, into: int) -> None:
        members = both(self._held(slot), self._held(into))
        self._forget(slot)
        self._keep(into, members)

    def _apart(self, slots: int, weight_of_one: int) -> FloatArray:
        """The gain of joining each slot without any candidate rows."""
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
            joined = both(one, other)
            return sum_of(self._odds, joined) - sum_of(self._odds, one) - sum_of(self._odds, other)
        if len(one.counts) > len(other.counts):
            one, other = other, one
        shared = sum(
            weight(n) * _shared(self._odds.near(row), other.counts, row)
            for row, n in one.counts.items()
        )
        return APART * one.weight * other.weight + shared

    def _held(self, slot: int) -> Members:
        members = self._clusters[slot]
        assert members is not None, f"slot {slot} is free"
        return members

    def _keep(self, slot: int, members: Members) -> None:
        self._forget(slot)
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


class CompiledPairs:
    """See `kbforge.contracts.CompiledClusters`."""

    def __init__(self, kernel: CDLL, odds: Odds) -> None:
        self._kernel, self._odds = kernel, odds
        self._arrays = odds.links.arrays  # the kernel reads them as long as the table lives
        self._told = len(odds.links.own)
        self.handle: int = kernel.kb_pairs_new(
            self._told, *map(address, self._arrays), APART, float(UNITS)
        )
        self._finalizer = weakref.finalize(self, kernel.kb_table_free, self.handle)

    def encode(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        """See `kbforge.contracts.CompiledClusters`."""
        odds = self._odds
        rows = np.array([odds.encode(fragment) for fragment in fragments], dtype=np.int32)
        starts = np.arange(len(rows) + 1)
        first, self._told = self._told, odds.n_rows
        # each new row's candidates among the rows before it, so that a pair is told once
        near = [
            [(other, above) for other, above in odds.near(row).items() if other <= row]
            for row in range(first, self._told)
        ]
        sizes = np.array([len(some) for some in near], dtype=np.int64)
        pairs = np.array([one for some in near for one in some], dtype=np.int32).reshape(-1, 2)
        told = first, starts_of(sizes), *pairs.T.copy()
        return EncodedFragments(starts, np.zeros(len(rows), np.int32), rows, told)

    def tell(self, encoded: EncodedFragments) -> None:
        """See `kbforge.contracts.CompiledClusters`."""
        first, starts, *arrays = encoded.new
        n = len(starts) - 1
        self._kernel.kb_pairs_rows(self.handle, first, n, address(starts), *map(address, arrays))


_MOST_BYTES = 1 << 26
_FORMAT = "pairs 2"


class Pairs(ConjugateLikelihood):
    """A pretrained model of pairs, for any attributes.

    Args:
        model: use this model (a file, or its folder) instead of the shipped one.
        link: an attribute, or "source": fragments that share a value of it are different entities,
            and are not compared.
        bias: constant added to the log odds of every compared pair, from -6 to 6 nats.

    Raises:
        KBForgeError: the file cannot be read, or (ModelError) is not such a model; or the bias is
            out of range.

    """

    explains = alpha_from_file = keeps = takes_link = True
    probability = False

    def __init__(
        self, model: str | None = None, link: str | None = None, bias: float = 0.0
    ) -> None:
        self._trees = _read(model, link)
        self._link = link
        self._digest = sha256(self._trees.to_bytes()).hexdigest()
        self.default_alpha = 1.0
        self._odds = Odds.fitted((), self._trees, link, _units_of(bias))
        self._nearby = PairIndex(self._odds)
        self.index: CandidateIndex = self._nearby

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Learn how rare names and values are, and the weight of agreement; returns a note."""
        self._odds = Odds.fitted(fragments, self._trees, self._link, self._odds.shift)
        self._nearby.follow(self._odds)
        pairs, expected = len(self._odds.links), ""
        if self._link is not None and self._odds.bias:
            expected = f"; about {self._odds.matches:,.0f} matches expected"
        return (
            f"pairs: {pairs:,} pairs of {len(fragments):,} fragments compared by the model that "
            f"was trained on other data{expected}"
        )

    @property
    def one_to_one(self) -> bool:
        """Whether the fitted linked tables seem one to one; False for a loaded state."""
        return self._odds.one_to_one

    def biased(self, nats: float) -> Pairs:
        """The likelihood of the same file with this bias; no pair is described again."""
        other = copy(self)
        other._odds = self._odds.shifted(_units_of(nats))
        other._nearby = PairIndex(other._odds)
        other.index = other._nearby
        return other

    def dump(self) -> LearnedState:
        """The fitted state of the file, the log odds of its pairs, and the model's identity."""
        leading = self._nearby.kept_leading()
        own = {"format": _FORMAT, "model": self._digest, "leading": leading}
        return flattened({**own, **self._odds.dump()})

    def load(self, kept: LearnedState) -> None:
        """Load a saved state; a ModelError if it is damaged, an OtherModelError if of another
        model."""
        reading = PartReader(kept)
        if (reading.value("format"), reading.value("model")) != (_FORMAT, self._digest):
            raise OtherModelError("the saved state has another format or pair model")
        odds = Odds.load(reading, self._trees, self._link)
        leading = leading_of(reading, odds.links)
        reading.require_all_read()
        self._nearby.follow(odds, leading)
        self._odds = odds

    def forget(self) -> None:
        """Drop the rows of fragments outside the file."""
        self._odds.forget()

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), nats, shape [len(clusters)]."""
        odds = self._odds
        sums = [sum_of(odds, counted(map(odds.encode, cluster))) for cluster in clusters]
        return np.array([nats(units) for units in sums], dtype=np.float64)

    def live_clusters(self) -> PairTable:
        """A new, empty table."""
        return PairTable(self._odds)

    def compiled_clusters(self, kernel: CDLL) -> CompiledPairs:
        """A new, empty table in the compiled kernel."""
        return CompiledPairs(kernel, self._odds)

    def pair_odds(
        self, fragments: Sequence[Fragment], placed: NDArray[np.bool_] | None = None
    ) -> PairOdds:
        """The clipped log odds of the pairs of these fragments, by row, without the bias.

        Fragments outside the file are compared with it if `placed` marks them (None: all); the
        others are `UNREAD`.
        """
        odds = self._odds
        row = np.full(len(fragments), UNREAD, np.int64)
        for number, fragment in enumerate(fragments):
            found = odds.row_of(fragment, placed is None or bool(placed[number]))
            row[number] = UNREAD if found is None else found
        first, second, above = odds.near_of(np.unique(row[row != UNREAD]))
        plain = above - np.where(first != second, odds.shift, 0)
        return PairOdds(row, first, second, (plain + APART) / UNITS, APART / UNITS)

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """The contribution of each attribute (or `name`) to the fragment's joining the cluster, in
        nats.

        The sum over attributes is L(C + x) - L(C) - L({x}).
        """
        return self.contributions_to(fragment, [cluster])[0]

    def contributions_to(
        self, fragment: Fragment, clusters: Sequence[Sequence[Fragment]]
    ) -> list[dict[str, float]]:
        """Like `contributions`, for several clusters; all pairs are described together."""
        odds = self._odds
        x = odds.encode(fragment)
        joined = [counted(map(odds.encode, cluster)) for cluster in clusters]
        near = odds.near(x)
        rows = sorted({row for members in joined for row in members.counts if row in near})
        parts = _pair_contributions(odds, self._trees, self._node_means, x, rows)
        return [self._summed(fragment, x, members, parts) for members in joined]

    def _summed(
        self, fragment: Fragment, x: Row, members: Members, parts: Mapping[Row, Mapping[str, float]]
    ) -> dict[str, float]:
        """The contributions of a row's candidates among the members, by attribute."""
        odds = self._odds
        naming = next(
            (a for a in (*odds.file.naming, *fragment.properties) if a in fragment.properties),
            "name",
        )
        said = dict.fromkeys((naming, *fragment.properties), 0.0)
        here = members.counts.get(x, 0)
        for row, n in sorted(members.counts.items()):
            times = 1.0 if row == x else weight(n) / weight(1)
            if row != x:
                times *= (weight(here + 1) - weight(here)) / weight(1)
            for attribute, part in parts.get(row, {}).items():
                said[attribute if attribute in said else naming] += times * part
        # rows that are no candidates are apart by their names; the bias counts there as well
        said[naming] += nats(gain_of(odds, members, x)) - sum(said.values())
        return said

    @cached_property
    def _node_means(self) -> FloatArray:
        """For each node of the trees, the mean of its children's means."""
        trees = self._trees
        mean = np.zeros(len(trees.feature))
        for node in range(len(mean) - 1, -1, -1):
            children = (int(trees.left[node]), int(trees.right[node]))
            mean[node] = sum(mean[c] if c >= 0 else trees.leaves[-1 - c] for c in children) / 2
        return mean


_SHARED = np.isin(np.array(FEATURES), (*AGREEMENT_FEATURES, *ALL_TEXT_FEATURES))


def _pair_contributions(
    odds: Odds, trees: Trees, means: FloatArray, x: Row, rows: Sequence[Row]
) -> dict[Row, dict[str, float]]:
    """For each other row and attribute ("" for the name), its part of the clipped log odds."""
    a, i = odds.rows_of(x)
    described: dict[int, tuple[Rows, list[Row], list[int]]] = {}
    for row in rows:
        b, j = odds.rows_of(row)
        _, some, places = described.setdefault(id(b), (b, [], []))
        some.append(row)
        places.append(j)
    out: dict[Row, dict[str, float]] = {}
    for b, some, places in described.values():
        at, others = np.full(len(some), i), np.array(places)
        parts = _feature_contributions(trees, means, odds.described(x, b, others))
        parts[:, -1] += odds.bias * (np.array(some) != x)
        log_odds = parts.sum(axis=1)
        clipped = np.clip(log_odds, -MOST, MOST)
        nothing = log_odds == 0
        parts *= ((clipped + nothing) / (log_odds + nothing))[:, None]
        # what agreement says is shared out by the evidence of the attributes that both state
        evidence = _evidence(odds, a, at, b, others)
        total = sum(evidence.values(), np.zeros(len(some)))
        shared = parts[:, :-1][:, _SHARED].sum(axis=1)
        for k, row in enumerate(some):
            told = {}
            if total[k]:
                told = {
                    name: float(shared[k] * (of[k] / total[k])) for name, of in evidence.items()
                }
            told[""] = float(clipped[k]) - sum(told.values())
            out[row] = told
    return out


def _evidence(odds: Odds, a: Rows, i: IntArray, b: Rows, j: IntArray) -> dict[str, FloatArray]:
    """The weight of each attribute's nearness for each pair of rows; 0 if one lacks it."""
    out = {}
    for name, worth in odds.file.worths.items():
        one, other = a.table.columns[name], b.table.columns[name]
        both = np.flatnonzero((one.value(i) != 0) & (other.value(j) != 0))
        if len(both):
            told = np.zeros(len(i))
            told[both] = np.abs(worth.compare(one, i[both], other, j[both])[2])
            out[name] = told
    return out


def _feature_contributions(trees: Trees, means: FloatArray, features: FloatArray) -> FloatArray:
    """The contribution of each feature to the trees' sum, and last the constant part.

    Args:
        trees: of the model.
        means: by node, as `_node_means`.
        features: shape [pairs, features].

    Returns:
        shape [pairs, features + 1].

    """
    n, width = features.shape[0], features.shape[1] + 1

    def mean_of(node: IntArray) -> FloatArray:
        inner = means[np.maximum(node, 0)]
        return np.where(node >= 0, inner, trees.leaves[np.maximum(-1 - node, 0)])

    roots = trees.roots.astype(np.int64)
    parts = np.zeros((n, width))
    parts[:, -1] = trees.offset[0] + mean_of(roots).sum()
    inner = np.tile(roots >= 0, n)
    node, pair = np.tile(roots, n)[inner], np.repeat(np.arange(n), len(roots))[inner]
    while len(node):
        column = trees.feature[node]
        value = features[pair, column]
        left = np.where(np.isnan(value), trees.missing_left[node], value <= trees.threshold[node])
        child = np.where(left, trees.left[node], trees.right[node]).astype(np.int64)
        gained = mean_of(child) - means[node]
        parts += np.bincount(pair * width + column, gained, n * width).reshape(n, width)
        inner = child >= 0
        node, pair = child[inner], pair[inner]
    return parts


_PARTS = ("fragments", "tables")


def _units_of(bias: float) -> int:
    if not -MOST_SHIFT <= bias <= MOST_SHIFT:
        raise UsageError(f"bias: expected {-MOST_SHIFT:g} to {MOST_SHIFT:g} nats, got {bias:g}")
    return round(bias * UNITS)


def _read(model: str | None, link: str | None) -> Trees:
    """The trees of a file or folder, by default the shipped ones: for a file or for linked
    tables."""
    if model is not None and not Path(model).is_dir():
        content, where = read_small(model, "a pair model", _MOST_BYTES, ModelError), model
    else:
        folder = default_folder(None, MODEL) if model is None else Path(model)
        content, where = read_default(folder, MODEL), str(folder / MODEL)
    where = quoted(where, 400)
    trees = load_parts(content, where, _PARTS, ())[0]["fragments" if link is None else "tables"]
    place = {feature: column for column, feature in enumerate(FEATURES)}
    unknown = sorted({*trees.features} - {*place})
    if unknown:
        raise ModelError(
            f"{where}: expected features of this version, got {quoted(unknown[0])}; train it anew "
            "with python -m kbforge_lab.training.defaults.pairs"
        )
    columns = np.array([place[feature] for feature in trees.features], dtype=np.int32)
    return replace(trees, features=FEATURES, feature=columns[trees.feature])


def model_bytes(fragments: Trees, tables: Trees) -> bytes:
    """A model for the fragments of a file, and one for linked tables."""
    return save_parts(dict(zip(_PARTS, (fragments, tables), strict=True)), {})
