"""The posterior that a Markov chain's visits show.

The groupings visited, after a burn-in, are a sample of the posterior. This makes them a `Posterior`
of the common form: subproblems, each with at most P distinct weighted groupings.

*Burn-in.* The first half of the sweeps is left out.

*Subproblems.* They start as the clusters of the most probable grouping visited; two that share a
cluster in at least 1/P of the sample are one, until none do. A grouping with a cluster across a
subproblem's border says nothing of that subproblem and is left out there. Given that there is no
such cluster, the posterior factorises, because prior and likelihood do.

*Weights.* How often each grouping of a subproblem was visited, thinned evenly where there are more
than P different ones. Chance may make a less probable grouping the more visited one, although
which is the more probable is known; so the frequencies are replaced by their maximum-likelihood
estimate under that known order, which is their isotonic regression (Robertson, Wright and Dykstra,
"Order restricted statistical inference", 1988, chapter 1): it pools the neighbours that are out of
order and is never further from the truth. So the heaviest is the most probable.

*Point estimate.* Each subproblem's most probable grouping: together at least as probable as the
most probable grouping that was visited as a whole, which counts as one more visit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kbforge.contracts import Cluster, FloatArray, IntArray, Particle, Subproblem

_MOST_BYTES = 2**26
_MOST_GROUPINGS = 4096
_FEWEST_GROUPINGS = 16


class Visits:
    """The groupings visited, one a sweep; with many different ones, every second, fourth, ...

    Args:
        n_fragments: how many a grouping groups.

    """

    def __init__(self, n_fragments: int) -> None:
        size = 4 * max(n_fragments, 1)
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

    def after_burn_in(self) -> NDArray[np.int32]:
        """The recorded groupings of the second half, in order, shape [visits, n]."""
        keys = list(self._numbers)
        chosen = [keys[number] for number in self._order[len(self._order) // 2 :]]
        return np.array([np.frombuffer(key, dtype=np.int32) for key in chosen])


LogTerms = Callable[[Sequence[Cluster]], FloatArray]
"""log alpha + lgamma(|C|) + L(C) of clusters: their terms of the log posterior, nats."""


def subproblems_of(
    visits: NDArray[np.int32], best: IntArray, particles: int, log_terms: LogTerms
) -> tuple[tuple[Subproblem, ...], float]:
    """The subproblems, and the log posterior of the point estimate, in nats.

    Args:
        visits: groupings as `leaders`, in order, shape [visits, n]; perhaps none.
        best: the most probable grouping visited, shape [n].
        particles: P.
        log_terms: scores clusters.

    """
    visits = visits if len(visits) else best[None].astype(np.int32)
    block = _blocks(visits, best, particles)
    crossed = _crossed(visits, block)
    tallies = [
        _tally(visits[:, members], ~crossed[:, number], best[members], members, particles)
        for number, members in enumerate(_members(block))
    ]
    clusters = list({c: None for t in tallies for grouping in t for c in grouping})
    terms = dict(zip(clusters, log_terms(clusters).tolist(), strict=True))
    parts = [_subproblem(tally, terms) for tally in tallies]
    parts.sort(key=lambda part: part[0].fragments[0])
    return tuple(part for part, _ in parts), float(sum(value for _, value in parts))


def _blocks(visits: NDArray[np.int32], best: IntArray, particles: int) -> IntArray:
    """The subproblem of each fragment, shape [n]."""
    block = np.unique(best, return_inverse=True)[1]
    while True:
        count = int(block.max()) + 1
        across = block[visits]
        row, column = (across != block).nonzero()
        pairs = np.sort(np.stack([across[row, column], block[column]]), axis=0)
        # a pair of blocks counts once a visit
        code = np.unique((row * count + pairs[0]) * count + pairs[1]) % (count * count)
        pair, often = np.unique(code, return_counts=True)
        pair = pair[often * particles >= len(visits)]
        if not len(pair):
            return block
        edges = coo_array((np.ones(len(pair)), (pair // count, pair % count)), (count, count))
        block = connected_components(edges, directed=False)[1][block]


def _crossed(visits: NDArray[np.int32], block: IntArray) -> NDArray[np.bool_]:
    """Whether a visit has a cluster across a block's border, shape [visits, blocks]."""
    out = np.zeros((len(visits), int(block.max()) + 1), dtype=np.bool_)
    across = block[visits]
    row, column = (across != block).nonzero()
    out[row, across[row, column]] = True
    out[row, block[column]] = True
    return out


def _members(block: IntArray) -> list[IntArray]:
    order = np.argsort(block, kind="stable")
    return np.split(order, np.cumsum(np.bincount(block))[:-1])


Tally = dict[tuple[Cluster, ...], int]
"""Groupings of a subproblem and how often each was visited."""


def _tally(
    visits: NDArray[np.int32],
    whole: NDArray[np.bool_],
    best: IntArray,
    members: IntArray,
    particles: int,
) -> Tally:
    """At most P groupings of a subproblem, with the best among them.

    Args:
        visits: of the subproblem's fragments, shape [visits, members].
        whole: the visits to count, shape [visits].
        best: of the same fragments, shape [members].
        members: their indices, ascending.
        particles: P.

    """
    rows, number = np.unique(visits[whole], axis=0, return_inverse=True)
    kept = number
    while len(np.unique(kept)) > particles - 1 and len(kept):
        kept = kept[::2] if len(kept) > 1 else kept[:0]
    tally = {_grouping(best, members): 1}
    for index, often in zip(*np.unique(kept, return_counts=True), strict=True):
        grouping = _grouping(rows[index], members)
        tally[grouping] = tally.get(grouping, 0) + int(often)
    return tally


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
