"""The groupings that a Markov chain visits, and their posterior.

After a burn-in, the first half of the sweeps, they are a sample of the posterior. This module makes
them a `Posterior` of the common form: subproblems, each with at most P distinct weighted groupings.

*Subproblems.* They start as the clusters of the most probable grouping visited; two that share a
cluster in at least 1/P of the sample are joined, until none do. So that rare crossings do not add
up, a subproblem whose border is crossed in 5/P of the sample (at most half of it) is also joined
with those that it shares clusters with most often. A grouping with a cluster across a subproblem's
border is not counted there. Without such clusters the posterior factorises, because prior and
likelihood do.

*Weights.* How often each grouping of a subproblem was visited. Of more than P different ones the
most probable is kept, and a resampler chooses among the others. Which of two groupings is the more
probable is known, but chance may visit the other one more often. So the frequencies are replaced by
their maximum-likelihood estimate under the known order, their isotonic regression (Robertson,
Wright and Dykstra, "Order restricted statistical inference", 1988, chapter 1), which is never
further from the truth; the heaviest grouping is then the most probable.

*Point estimate.* Each subproblem's most probable grouping: together at least as probable as the
most probable grouping that was visited as a whole, which counts as one more visit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kbforge.clustering.rules import optimal
from kbforge.contracts import Cluster, FloatArray, IntArray, Particle, Subproblem

_MOST_BYTES = 2**26
_MOST_GROUPINGS = 4096
_FEWEST_GROUPINGS = 16
# a subproblem is crossed in fewer than so many of P visits, and in fewer than this share of them
_CROSSINGS, _MOST_CROSSED = 5, 0.5
_SEED = 0


class Visits:
    """The groupings visited, one a sweep; with many different ones, every second, fourth, ..."""

    def __init__(self, n_fragments: int) -> None:
        size = 4 * max(n_fragments, 1)
        self._n_fragments = n_fragments
        self._limit = max(_FEWEST_GROUPINGS, min(_MOST_GROUPINGS, _MOST_BYTES // size))
        self._numbers: dict[bytes, int] = {}
        self._order: list[int] = []
        self._seen, self._stride = 0, 1

    def record(self, grouping: IntArray) -> None:
        """Add the grouping after a sweep, as `leaders`, shape [n]."""
        if self._seen % self._stride == 0:
            key = grouping.astype(np.int32).tobytes()
            self._order.append(self._numbers.setdefault(key, len(self._numbers)))
            if len(self._numbers) > self._limit:
                self._thin()
        self._seen += 1

    def _thin(self) -> None:
        keys = list(self._numbers)
        kept = [keys[number] for number in self._order[::2]]
        self._stride *= 2
        self._numbers = {}
        self._order = [self._numbers.setdefault(key, len(self._numbers)) for key in kept]

    def after_burn_in(self) -> VisitSample:
        """The second half of the recorded visits."""
        keys = list(self._numbers)
        numbers, often = np.unique(self._order[len(self._order) // 2 :], return_counts=True)
        joined = b"".join(keys[int(number)] for number in numbers)
        rows = np.frombuffer(joined, dtype=np.int32).reshape(len(numbers), self._n_fragments)
        return VisitSample(rows, often)


@dataclass(frozen=True, slots=True)
class VisitSample:
    """Different groupings, and how often each was visited."""

    groupings: NDArray[np.int32]  # as `leaders`, shape [groupings, n]
    often: IntArray  # at least 1, shape [groupings]

    @property
    def visits(self) -> int:
        return int(self.often.sum())


LogTerms = Callable[[Sequence[Cluster]], FloatArray]
"""log alpha + lgamma(|C|) + L(C) of clusters: their terms of the log posterior, nats."""


def subproblems_of(
    sample: VisitSample, best: IntArray, particles: int, log_terms: LogTerms
) -> tuple[tuple[Subproblem, ...], float]:
    """The subproblems, and the log posterior of the point estimate, in nats.

    The sample may have no visit; `best` is the most probable grouping visited, shape [n].
    """
    if not sample.visits:
        sample = VisitSample(best[None].astype(np.int32), np.ones(1, dtype=np.int64))
    block = _blocks(sample, best, particles)
    crossed = _crossed(sample.groupings, block)
    tallies = [
        _kept(_tally(sample, ~crossed[:, number], best, members), particles)
        for number, members in enumerate(_members(block))
    ]
    clusters = list({c: None for t in tallies for grouping in t for c in grouping})
    terms = dict(zip(clusters, log_terms(clusters).tolist(), strict=True))
    parts = [_subproblem(tally, terms) for tally in tallies]
    parts.sort(key=lambda part: part[0].fragments[0])
    return tuple(part for part, _ in parts), float(sum(value for _, value in parts))


def _blocks(sample: VisitSample, best: IntArray, particles: int) -> IntArray:
    """The subproblem of each fragment, shape [n]."""
    block = np.unique(best, return_inverse=True)[1]
    while True:
        pairs = _joined(sample, block, particles)
        if not len(pairs):
            return block
        count = int(block.max()) + 1
        edges = coo_array((np.ones(len(pairs)), pairs.T), (count, count))
        block = connected_components(edges, directed=False)[1][block]


def _joined(sample: VisitSample, block: IntArray, particles: int) -> IntArray:
    """The pairs of blocks to join, shape [pairs, 2]."""
    pairs, together = _shared(sample, block)
    joined = together * particles >= sample.visits
    crossed = sample.often @ _crossed(sample.groupings, block)
    bound = sample.visits * min(_CROSSINGS / particles, _MOST_CROSSED)
    for one in np.flatnonzero(crossed >= bound):
        own = np.flatnonzero((pairs == one).any(axis=1))
        own = own[np.argsort(-together[own], kind="stable")]
        # the visits that still cross are at most those that any of the others takes part in
        left = together[own].sum() - np.cumsum(together[own])
        joined[own[: 1 + int(np.argmax(left < bound))]] = True
    return pairs[joined]


def _shared(sample: VisitSample, block: IntArray) -> tuple[IntArray, IntArray]:
    """Pairs of blocks, shape [pairs, 2], and in how many visits they share a cluster."""
    count = int(block.max()) + 1
    row, one, other = _crossings(sample.groupings, block)
    ends = np.sort(np.stack([one, other]), axis=0)
    # a pair counts once a visit
    code = np.unique((row * count + ends[0]) * count + ends[1])
    pair, number = np.unique(code % (count * count), return_inverse=True)
    together = np.bincount(number, weights=sample.often[code // (count * count)])
    return np.stack([pair // count, pair % count], axis=1), together.astype(np.int64)


def _crossed(groupings: NDArray[np.int32], block: IntArray) -> NDArray[np.bool_]:
    """Whether a grouping has a cluster across a block's border, shape [groupings, blocks]."""
    out = np.zeros((len(groupings), int(block.max()) + 1), dtype=np.bool_)
    row, one, other = _crossings(groupings, block)
    out[row, one] = out[row, other] = True
    return out


def _crossings(
    groupings: NDArray[np.int32], block: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The grouping, and the blocks of leader and fragment, wherever these differ, shape [m]."""
    across = block[groupings]
    row, column = (across != block).nonzero()
    return row, across[row, column], block[column]


def _members(block: IntArray) -> list[IntArray]:
    order = np.argsort(block, kind="stable")
    return np.split(order, np.cumsum(np.bincount(block))[:-1])


Tally = dict[tuple[Cluster, ...], float]
"""Groupings of a subproblem and how often each was visited; the best first."""


def _tally(
    sample: VisitSample, whole: NDArray[np.bool_], best: IntArray, members: IntArray
) -> Tally:
    """The visited groupings of a subproblem, and one more visit to the best.

    Only the groupings in `whole`, shape [groupings], count; `members` are its fragments, ascending.
    """
    tally = {_grouping(best[members], members): 1.0}
    rows, number = np.unique(sample.groupings[np.ix_(whole, members)], axis=0, return_inverse=True)
    for row, often in zip(rows, np.bincount(number, sample.often[whole]), strict=True):
        grouping = _grouping(row, members)
        tally[grouping] = tally.get(grouping, 0.0) + float(often)
    return tally


def _kept(tally: Tally, particles: int) -> Tally:
    """At most P groupings: the best, and those that a resampler chooses."""
    if len(tally) <= particles:
        return tally
    best, *others = tally
    if particles == 1:
        return {best: tally[best]}
    others.sort(key=lambda grouping: -tally[grouping])
    often = np.array([tally[grouping] for grouping in others])
    # not the chain's random numbers: looking at a run does not change it
    chosen, log_often = optimal(np.log(often), particles - 1, np.random.default_rng(_SEED))
    kept = {best: tally[best]}
    for index, value in zip(chosen.tolist(), np.exp(log_often).tolist(), strict=True):
        kept[others[index]] = value
    return kept


def _grouping(leader: IntArray | NDArray[np.int32], members: IntArray) -> tuple[Cluster, ...]:
    clusters: dict[int, list[int]] = {}
    for first, member in zip(leader.tolist(), members.tolist(), strict=True):
        clusters.setdefault(first, []).append(member)
    return tuple(tuple(cluster) for cluster in clusters.values())


def _subproblem(tally: Tally, terms: dict[Cluster, float]) -> tuple[Subproblem, float]:
    """A subproblem, and its part of the point estimate's log posterior."""
    value = {grouping: sum(terms[c] for c in grouping) for grouping in tally}
    ranked = sorted(tally, key=lambda grouping: (-value[grouping], -tally[grouping], grouping))
    often = np.array([tally[grouping] for grouping in ranked], dtype=np.float64)
    weight = isotonic_regression(often, increasing=False).x
    log_weight = np.log(weight / weight.sum())
    particles = tuple(map(Particle, log_weight.tolist(), ranked))
    fragments = sorted(fragment for cluster in ranked[0] for fragment in cluster)
    return Subproblem(tuple(fragments), particles), value[ranked[0]]
