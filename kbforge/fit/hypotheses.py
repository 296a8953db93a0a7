"""Hypotheses: groupings of a sample of a file along each likelihood's merge path.

**The sample** consists of seeds, each with the fragments that a model of pairs finds most similar:
a sample by rare keys alone would favour every grouping. Comparing all pairs of a large file takes
long, so the model of pairs reads only a *part*: some thousand fragments, each with those of the
whole file that share most with it. A key of an index counts more the fewer fragments have it, so
the wrong relatives of a common name come along as well. Neither depends on the order of the file or
on ids.

**A merge path** gives the grouping at every alpha at once. Clusters are merged greedily, the best
pair first. A merge gains

    gain(C, D) = L(C + D) - L(C) - L(D) - log alpha
                 + e (lgamma(|C| + |D|) - lgamma(|C|) - lgamma(|D|))

where alpha is a constant: it only determines where to stop, before the first merge without a gain.
The exponent e of sizes is 1, unless others are tried (`kbforge.fit.judge`).

**Exact names** group the fragments whose first names are equal, and no others. This is what people
try first by hand, so every other hypothesis is measured against it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    LiveClusters,
)
from kbforge.errors import LikelihoodError
from kbforge.fit.description import PairModel, PairOdds
from kbforge.indexes.selective import (
    MOST_RELATIVES,
    Sample,
    by_digest,
    drawn,
    holders_of,
    keys_of_each,
    neighbourhoods,
)
from kbforge.texts.statements import JoinedStatements

MOST_FRAGMENTS = 800
"""A larger file is sampled."""
MOST_COMPARED = 20_000
"""In a larger file only a part is compared, if its likelihood is known."""
MOST_TO_CHOOSE = 50_000
"""In a larger file only a part is compared, even if its likelihood must be chosen.

A part has fewer wrong relatives than the file, which favours likelihoods over exact names. In
25,000 products it selected attributes with an F1 of .81, whereas the whole file selects names with
.97."""
MOST_OF_PAIRS = 300_000
"""A larger file is not given to the model of pairs, unless the user names it.

It needs a millisecond and 14 kilobytes per fragment, ten times as much as attributes."""
PART = 4_000

_LEAST_ODDS = -3.0  # nats: from here on two fragments might be one
_RELATIVES = 40  # that come along into a part with each fragment, right and wrong ones
_MOST_SHARING = 1_000  # a key that more fragments have does not say who is alike


def sample_of(
    fragments: Sequence[Fragment],
    index: CandidateIndex,
    pairs: PairModel | None,
    part: Sample | None = None,
) -> Sample:
    """The file, or a sample of a large one; `pairs` is fitted to the part, if there is one."""
    if pairs is None or len(fragments) <= MOST_FRAGMENTS:
        return neighbourhoods(fragments, index, MOST_FRAGMENTS)
    if part is None:
        return close_ones(fragments, pairs.pair_odds(fragments), MOST_FRAGMENTS)
    found = close_ones(part.fragments, pairs.pair_odds(part.fragments), MOST_FRAGMENTS)
    return replace(found, places=tuple(part.places[i] for i in found.places))


def close_ones(fragments: Sequence[Fragment], odds: PairOdds, most: int) -> Sample:
    """All fragments if there are at most `most`, else seeds, each with its nearest relatives."""
    order = by_digest(fragments)
    rows = odds.row[order]
    holders: dict[int, list[int]] = {}
    for place, row in enumerate(rows.tolist()):
        holders.setdefault(row, []).append(place)
    begin = np.searchsorted(odds.first, np.arange(int(odds.row.max(initial=-1)) + 2))

    def relatives(seed: int) -> Iterator[int]:
        row = rows[seed]
        links = slice(begin[row], begin[row + 1])
        near = odds.nats[links] >= _LEAST_ODDS
        places = [
            (-nats, place)
            for nats, other in zip(
                odds.nats[links][near].tolist(), odds.second[links][near].tolist(), strict=True
            )
            for place in holders.get(other, ())[: MOST_RELATIVES + 1]
            if place != seed
        ]
        return (place for _, place in sorted(places)[:MOST_RELATIVES])

    return drawn(fragments, order, relatives, most)


def part_of(fragments: Sequence[Fragment], index: CandidateIndex) -> Sample:
    """The part of a file, or all of a small one; the index is fitted to it."""
    order = by_digest(fragments)
    keys = keys_of_each([fragments[i] for i in order[:PART]], index)
    wanted = chain.from_iterable(keys)
    holders = holders_of(wanted, fragments, order, index, _MOST_SHARING)

    def relatives(seed: int) -> Iterator[int]:
        shared: defaultdict[int, float] = defaultdict(float)
        for key in keys[seed]:
            if held := holders[key]:
                worth = math.log(len(order) / len(held))
                for place in held:
                    shared[place] += worth
        shared.pop(seed, None)
        alike = sorted((-worth, place) for place, worth in shared.items())
        return (place for _, place in alike[:_RELATIVES])

    return drawn(fragments, order, relatives, PART)


_MOST_HOLDERS = 60  # a key that more fragments hold leads nowhere, unless no other key does
_OUT_OF_REACH = 8.0
"""A pair whose merge would lose this many nats at the smallest alpha is dropped, and its merged
clusters are not compared either, unless another pair connects them."""


class PairMatrix:
    """Gains of n clusters' pairs, shape [n, n]; -inf for pairs that are not compared. 8 n^2 bytes.

    The matrix is symmetric. Each row caches its best entry, so a merge, which changes one row and
    column and empties another, costs time proportional to n and to the few rows whose best entry
    was there. Ties go to the pair of the earliest clusters.
    """

    def __init__(self, n: int) -> None:
        # filled row by row: all of it at once would keep a run from looking at the clock
        self._gain = np.empty((n, n))
        self._best = np.full(n, -np.inf)
        self._partner = np.zeros(n, dtype=np.int64)

    def fill(self, a: int, gains: FloatArray) -> None:
        """Set a's row and column; fill all of them and call `settle` before `best`."""
        self._gain[a] = gains
        self._gain[:, a] = gains

    def settle(self) -> None:
        self._refresh(np.ones(len(self._best), dtype=np.bool_))

    def update(self, a: int, b: int, gains: FloatArray) -> None:
        """Record that C_b was merged into C_a; `gains` are those of the new C_a."""
        self._gain[b] = self._gain[:, b] = -np.inf
        self.fill(a, gains)
        # a row without a pair, as every row merged away is, has lost nothing
        stale = ((self._partner == a) | (self._partner == b)) & (self._best > -np.inf)
        stale[[a, b]] = True
        self._refresh(stale)
        earlier = (gains == self._best) & (a < self._partner)
        better = ~stale & ((gains > self._best) | earlier)
        self._best[better], self._partner[better] = gains[better], a

    def best(self) -> tuple[int, int, float]:
        """The pair with the largest gain, the earlier cluster first, and its gain."""
        a = int(self._best.argmax())
        return a, int(self._partner[a]), float(self._best[a])

    def _refresh(self, stale: np.ndarray) -> None:
        rows = stale.nonzero()[0]
        partner = self._gain[rows].argmax(axis=1)
        self._partner[rows], self._best[rows] = partner, self._gain[rows, partner]


@dataclass(frozen=True, eq=False)
class MergePath:
    """The merges of one greedy agglomeration, in order."""

    n: int  # fragments
    merges: IntArray  # [merges, 2] slots: the second goes into the first; a slot is a fragment
    gains: FloatArray  # [merges] what each gains at alpha 1, nats

    def floor(self) -> FloatArray:
        """[merges] The log alpha below which each merge is made: the smallest gain so far."""
        return np.minimum.accumulate(self.gains) if len(self.gains) else self.gains

    def labels(self, log_alphas: Sequence[float]) -> list[IntArray]:
        """The groupings at these alphas, [n] each: a cluster's number is its smallest fragment."""
        floor = self.floor()
        counts = [int(np.searchsorted(-floor, -log_alpha, side="left")) for log_alpha in log_alphas]
        at: dict[int, IntArray] = {}
        labels, done = np.arange(self.n), 0
        for count in sorted(set(counts)):
            for into, slot in self.merges[done:count].tolist():
                labels[labels == slot] = into
            done = count
            _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
            at[count] = np.asarray(first[inverse], dtype=np.int64)
        return [at[count] for count in counts]


def merge_path(
    likelihood: ConjugateLikelihood,
    fragments: Sequence[Fragment],
    index: CandidateIndex | None,
    least: float,
    exponent: float = 1.0,
) -> MergePath:
    """Agglomerate some thousand fragments until no merge has a gain; takes 16 bytes per pair.

    The index determines the compared pairs; None compares all. Merges that need a log alpha below
    `least` are not sought. A score of NaN or infinity is a LikelihoodError.
    """
    run = _GreedyMerges(likelihood, fragments, index, least, exponent)
    n = len(fragments)
    matrix = PairMatrix(n)
    for slot, gains in enumerate(run.first_gains()):
        matrix.fill(slot, gains)
    matrix.settle()
    merges: list[tuple[int, int]] = []
    found: list[float] = []
    while len(merges) < n - 1:
        into, slot, gain = matrix.best()
        if not gain > least:
            break
        merges.append((into, slot))
        found.append(gain)
        matrix.update(into, slot, run.merge(slot, into))
    return MergePath(n, np.array(merges, np.int64).reshape(-1, 2), np.array(found))


class _GreedyMerges:
    """Clusters that merge, one slot per fragment, and their compared pairs."""

    def __init__(
        self,
        likelihood: ConjugateLikelihood,
        fragments: Sequence[Fragment],
        index: CandidateIndex | None,
        least: float,
        exponent: float,
    ) -> None:
        self._least = least - _OUT_OF_REACH
        n = self._n = len(fragments)
        self._table = _single_clusters(likelihood, fragments)
        near = np.ones((n, n), dtype=np.bool_) if index is None else candidates(fragments, index)
        np.fill_diagonal(near, False)
        self._near, self._live = near, np.ones(n, dtype=np.bool_)
        self._size = np.ones(n, dtype=np.int64)
        self._log_cluster = exponent * gammaln(np.arange(1, 2 * n + 2))

    def first_gains(self) -> FloatArray:
        """The gain of every pair of fragments, [n, n]; -inf for pairs that are not compared."""
        gains = np.full((self._n, self._n), -np.inf)
        for slot in range(self._n):
            others = slot + 1 + np.flatnonzero(self._near[slot, slot + 1 :])
            if len(others):
                gains[slot, others] = gains[others, slot] = self._gains(slot, others)
        self._near &= gains > self._least
        return gains

    def merge(self, slot: int, into: int) -> FloatArray:
        """Merge two clusters; returns the union's gain with each other cluster, [n]."""
        near = self._near
        self._table.merge(slot, into)
        self._size[into] += self._size[slot]
        self._live[slot] = False
        near[into] |= near[slot]
        near[into] &= self._live
        near[into, into] = False
        gains = np.full(self._n, -np.inf)
        others = np.flatnonzero(near[into])
        if len(others):
            gains[others] = self._gains(into, others)
        near[into] &= gains > self._least
        near[:, into] = near[into]
        near[slot] = near[:, slot] = False
        return gains

    def _gains(self, slot: int, others: IntArray) -> FloatArray:
        ratio = self._table.log_merge_ratio_of(slot, others)
        if np.isnan(ratio).any() or (ratio == np.inf).any():
            raise LikelihoodError("the likelihood returned NaN or +inf")
        own, sizes = self._size[slot], self._size[others]
        prior = self._log_cluster[own + sizes - 1] - self._log_cluster[sizes - 1]
        return np.asarray(ratio + prior - self._log_cluster[own - 1])


def _single_clusters(
    likelihood: ConjugateLikelihood, fragments: Sequence[Fragment]
) -> LiveClusters:
    """A cluster for each fragment."""
    live = likelihood.live_clusters()
    for slot, x in enumerate(live.encode_all(fragments)):
        live.extend(x, np.array([-1]), np.array([slot]))
    return live


def candidates(fragments: Sequence[Fragment], index: CandidateIndex) -> NDArray[np.bool_]:
    """Which pairs share a key of the index, [n, n], symmetric; keys of many fragments are left out.

    Fragments without any other shared key are compared with the first holders of such a key.
    """
    holders: dict[int, list[int]] = {}
    keys = keys_of_each(fragments, index)
    for i, of_fragment in enumerate(keys):
        for key in of_fragment:
            holders.setdefault(key, []).append(i)
    near = np.zeros((len(fragments), len(fragments)), dtype=np.bool_)
    for held in holders.values():
        if 1 < len(held) <= _MOST_HOLDERS:
            near[np.ix_(held, held)] = True
    for i in np.flatnonzero(near.sum(axis=1) == 0).tolist():
        shared = [held for key in keys[i] if len(held := holders[key]) > 1]
        least = min(map(len, shared), default=0)
        for held in shared:
            if len(held) == least:
                near[i, held[:_MOST_HOLDERS]] = near[held[:_MOST_HOLDERS], i] = True
    np.fill_diagonal(near, False)
    return near


_LONGEST_NAME = 4_096


def exact_name(fragment: Fragment) -> str:
    """The first name with folded case and single spaces; "" without a name.

    Without an attribute `name` it joins those whose names contain "name" (first_name, surname), in
    the order of the fragment, or else all values.
    """
    names = fragment.names
    if names:
        return _folded(names[0])
    properties = fragment.properties
    parts = [values[0] for key, values in properties.items() if "name" in key.casefold()]
    if parts:
        return _folded(" ".join(parts))
    stated = (f"{key}: {values[0]}" for key, values in sorted(properties.items()))
    return _folded("; ".join(stated))


def exact_names(fragments: Sequence[Fragment]) -> set[str]:
    """The different exact names of some fragments."""
    said = JoinedStatements.of(fragments)
    named = np.zeros(len(fragments), np.bool_)
    found = set()
    if "name" in said.attributes:
        names = said.attribute == said.attributes.index("name")
        named[np.searchsorted(said.starts, np.flatnonzero(names), side="right") - 1] = True
        found = {_folded(said.values_of(k)[0]) for k in np.unique(said.value[names]).tolist()}
    nameless = np.flatnonzero(~named)
    if 4 * len(nameless) > len(fragments):  # going through all of them is faster
        return found | {exact_name(fragment) for fragment in fragments if not fragment.names}
    return found | {exact_name(fragments[i]) for i in nameless.tolist()}


def exact_groups(fragments: Sequence[Fragment]) -> list[int]:
    """For each fragment, the first one with the same exact name; without a name, the fragment
    itself."""
    first: dict[str, int] = {}
    return [
        first.setdefault(name, i) if (name := exact_name(fragment)) else i
        for i, fragment in enumerate(fragments)
    ]


def _folded(text: str) -> str:
    return " ".join(text[:_LONGEST_NAME].casefold().split())


NAMES = "names"
KINDS = (NAMES, "bigram", "attributes", "pairs")
"""Likelihoods that the judge was trained with."""
ANCHORS = ("attributes", "pairs")
"""Likelihoods whose own alpha is informative for a file, if not sufficient."""
_JUDGED_AS = {"trigram": "bigram"}
_LOG_ALPHAS: Mapping[str, tuple[float, ...]] = {
    "bigram": tuple(float(a) for a in range(27)),
    "attributes": tuple(float(a) for a in range(1, 22)),
    "pairs": tuple(a / 2 for a in range(-6, 13)),
}


def kind_of(likelihood: str) -> str:
    """The member of `KINDS` that a likelihood is judged as; others are judged as themselves."""
    return _JUDGED_AS.get(likelihood, likelihood)


def log_alphas_of(likelihood: str) -> tuple[float, ...]:
    """The log alphas examined on the merge path of a likelihood, ascending; by default those of
    attributes."""
    return _LOG_ALPHAS.get(kind_of(likelihood), _LOG_ALPHAS["attributes"])


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A grouping of a sample."""

    likelihood: str  # whose merge path it is on; "names" for exact names
    log_alpha: float  # where on the path; 0 for exact names
    labels: IntArray  # [n] the smallest fragment of each one's cluster
    own: float = math.nan  # the likelihood's own log alpha; NaN if that says nothing of a file
    bias: float = 0.0  # what the pair model adds to its log odds, nats (`kbforge.fit.prepare`)

    @property
    def alpha(self) -> float:
        """The concentration at which the likelihood finds this grouping."""
        return math.exp(self.log_alpha)

    @property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """Its clusters, by smallest fragment; each ascending."""
        held: dict[int, list[int]] = {}
        for i, label in enumerate(self.labels.tolist()):
            held.setdefault(label, []).append(i)
        return tuple(tuple(held[label]) for label in sorted(held))


def hypotheses(
    exact: IntArray, paths: Mapping[str, MergePath], own: Mapping[str, float]
) -> list[Hypothesis]:
    """Exact names [n], then each path's groupings by alpha, given the log alphas of each
    likelihood.

    Of equal groupings along a path the one with the middle alpha is kept.
    """
    out = [Hypothesis(NAMES, 0.0, exact)]
    for name, path in paths.items():
        log_alphas = log_alphas_of(name)
        groupings = path.labels(log_alphas)
        telling = own[name] if kind_of(name) in ANCHORS else math.nan
        first = 0
        for k in range(len(log_alphas)):
            last = k + 1 == len(log_alphas)
            if last or not np.array_equal(groupings[k], groupings[k + 1]):
                log_alpha = 0.5 * (log_alphas[first] + log_alphas[k])
                out.append(Hypothesis(name, log_alpha, groupings[k], telling))
                first = k + 1
    return out
