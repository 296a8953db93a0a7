"""Reliability: how often the claims of a posterior are true.

A *claim* is a probability that the posterior reports and gold labels can check:

| claim about | reported probability: weight of the particles | true if |
|---|---|---|
| a pair of fragments | in which they share a cluster | they have one label |
| an entity of the point estimate | that hold exactly this cluster | it is exactly a gold entity |

Claims are put into bins of equal width by what they report. The expected calibration error (ECE,
Naeini et al. 2015) is the mean over claims of the distance between a bin's mean report and its
share of true claims. It does not measure how well the reports distinguish claims: always reporting
the overall share has ECE 0. So the Brier score, the mean squared distance between report and truth,
is given as well.

With posteriors of several orders of the same fragments, the reported probability is the mean over
them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import (
    Cluster,
    Estimate,
    FloatArray,
    IntArray,
    Particle,
    Posterior,
    Subproblem,
    Subproblems,
)
from kbforge.errors import KBForgeError
from kbforge.numerics import members_of

if TYPE_CHECKING:
    from scipy import sparse

LEAST = 0.01
BINS = 15

BoolArray: TypeAlias = NDArray[np.bool_]

_MOST_PAIRS = 100_000_000  # counted before any is made: 2.4 GB of them
_CERTAIN = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class ReportedPairs:
    """Pairs of fragments, i < j, ascending, with reported probabilities; shape [pairs].

    The size is that of their subproblem: the mean over orders, and the larger one of two.
    """

    first: IntArray  # i
    second: IntArray  # j
    probability: FloatArray  # that they share a cluster, in (0, 1]
    size: FloatArray
    subproblem: IntArray  # number of i's in the first posterior

    def __len__(self) -> int:
        return len(self.probability)

    def part(self, chosen: slice) -> ReportedPairs:
        """Some of the pairs."""
        return ReportedPairs(*(getattr(self, name)[chosen] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class ReportedEntities:
    """The clusters of a point estimate, by subproblem, with reported probabilities."""

    lengths: IntArray  # [clusters] fragments of each
    members: IntArray  # of the clusters, end to end, each ascending; together all fragments
    probability: FloatArray  # [clusters] that there is exactly this cluster, in [0, 1]
    size: FloatArray  # [clusters] fragments of the cluster's subproblem, the mean over orders
    subproblem: IntArray  # [clusters] its number

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def firsts(self) -> IntArray:
        """The smallest fragment of each cluster, shape [clusters]."""
        firsts: IntArray = self.members[np.cumsum(self.lengths) - self.lengths]
        return firsts

    @property
    def of_members(self) -> IntArray:
        """The number of each member's cluster."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


@dataclass(frozen=True, slots=True)
class Claims:
    """Reported probabilities and truth values; arrays of shape [claims]."""

    probability: FloatArray  # reported, in [0, 1]
    size: FloatArray  # fragments of the claim's subproblem
    subproblem: IntArray  # its number in the first posterior; claims of one are not independent
    true: BoolArray  # by gold

    def __len__(self) -> int:
        return len(self.probability)

    def where(self, chosen: BoolArray) -> Claims:
        """Some of the claims, by a mask of shape [claims]."""
        return Claims(*(getattr(self, name)[chosen] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Bin:
    """The claims with a reported probability in [low, high), including the end of the last bin."""

    low: float
    high: float
    count: int
    reported: float  # mean report
    share: float  # of true claims, in [0, 1]


@dataclass(frozen=True, slots=True)
class Reliability:
    """A reliability table; both errors are in [0, 1], and 0 without claims."""

    count: int  # claims
    bins: int  # of equal width from 0 to 1
    table: tuple[Bin, ...]  # those that are not empty, ascending
    ece: float  # expected calibration error
    brier: float  # mean squared distance between report and truth


def pair_probabilities(posteriors: Sequence[Posterior], least: float = 0.0) -> ReportedPairs:
    """The pairs that share a cluster with more than `least` probability.

    The posteriors have the same fragments and numbers. More pairs than fit in memory are an error.
    """
    from scipy import sparse  # .3 s to import

    n = posteriors[0].n_fragments
    together = sparse.csr_array((n, n))
    for posterior in posteriors:
        together = together + _together(posterior)
    found = sparse.triu(together, k=1).tocoo()
    probability = _rounded(found.data / len(posteriors))
    kept = probability > least
    first, second = found.row[kept].astype(np.int64), found.col[kept].astype(np.int64)
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    sizes = _subproblem_sizes(n, [*map(_estimate, posteriors)])
    size = np.maximum(sizes[first], sizes[second])
    subproblem = np.zeros(n, np.int64)
    for number, held in enumerate(posteriors[0].subproblems):
        subproblem[list(held.fragments)] = number
    return ReportedPairs(first, second, probability[kept][order], size, subproblem[first])


def entity_probabilities(posteriors: Sequence[Posterior]) -> ReportedEntities:
    """The clusters of the first posterior's point estimate; arguments as `pair_probabilities`."""
    estimate = _estimate(posteriors[0])
    probability = estimate.probability
    if len(posteriors) > 1:
        held = [cluster_probabilities(posterior) for posterior in posteriors]
        clusters = _cut(estimate.members, estimate.lengths)
        masses = ([of[cluster] for of in held if cluster in of] for cluster in clusters)
        probability = np.array([math.fsum(mass) / len(posteriors) for mass in masses])
    estimates = [estimate, *map(_estimate, posteriors[1:])]
    sizes = _subproblem_sizes(posteriors[0].n_fragments, estimates)[estimate.members]
    starts = np.cumsum(estimate.lengths) - estimate.lengths
    return ReportedEntities(
        estimate.lengths,
        estimate.members,
        _rounded(probability),
        np.maximum.reduceat(sizes, starts) if len(starts) else np.zeros(0),
        estimate.subproblem,
    )


def _estimate(posterior: Posterior) -> Estimate:
    """The point estimate of a posterior, with reported probabilities."""
    if isinstance(posterior.subproblems, Subproblems):
        return posterior.subproblems.estimate()
    subproblem, probability = list[int](), list[float]()
    for number, block in enumerate(posterior.subproblems):
        masses = masses_of(block)
        subproblem += [number] * len(block.clusters)
        probability += [masses.get(cluster, 0.0) for cluster in block.clusters]
    lengths, members = members_of(posterior.clusters())
    return Estimate(lengths, members, np.array(subproblem, np.int64), np.array(probability))


def _cut(members: IntArray, lengths: IntArray) -> Iterator[Cluster]:
    """Clusters that lie end to end."""
    held = iter(members.tolist())
    return (tuple(islice(held, length)) for length in lengths.tolist())


def pair_claims(pairs: ReportedPairs, labels: Sequence[str | None]) -> Claims:
    """The claims about pairs, checked by labels; pairs without a label are left out."""
    gold = _numbered(labels)
    one, other = gold[pairs.first], gold[pairs.second]
    claims = Claims(pairs.probability, pairs.size, pairs.subproblem, one == other)
    return claims.where((one >= 0) & (other >= 0))


def entity_claims(entities: ReportedEntities, labels: Sequence[str | None]) -> Claims:
    """The claims of a point estimate that each cluster is an entity, checked by labels.

    A cluster with an unlabelled fragment is left out. Labels beyond the clustered fragments do not
    count.
    """
    gold = labels[: len(entities.members)]
    gold_sizes = Counter(gold)
    known, true = [], []
    for cluster in _cut(entities.members, entities.lengths):
        found = {gold[fragment] for fragment in cluster}
        known.append(None not in found)
        # all of one label, and all of that label
        true.append(len(found) == 1 and gold_sizes[gold[cluster[0]]] == len(cluster))
    reported = entities.probability, entities.size, entities.subproblem
    return Claims(*reported, np.array(true, np.bool_)).where(np.array(known, np.bool_))


def reliability(claims: Claims, bins: int = BINS) -> Reliability:
    """The reliability table of claims, over `bins` bins of equal width."""
    count = len(claims)
    if not count:
        return Reliability(0, bins, (), 0.0, 0.0)
    reported, true = claims.probability, claims.true.astype(np.float64)
    number = np.minimum((reported * bins).astype(np.int64), bins - 1)
    counts = np.bincount(number, minlength=bins)
    reports = np.bincount(number, weights=reported, minlength=bins)
    trues = np.bincount(number, weights=true, minlength=bins)
    table = tuple(
        Bin(k / bins, (k + 1) / bins, int(n), float(reports[k] / n), float(trues[k] / n))
        for k, n in enumerate(counts)
        if n
    )
    ece = calibration_error(reported, true, bins)
    return Reliability(count, bins, table, ece, float(np.mean((reported - true) ** 2)))


def calibration_error(reported: FloatArray, true: FloatArray, bins: int = BINS) -> float:
    """The expected calibration error of at least one probability, over bins of equal width.

    Args:
        reported: probabilities, shape [n].
        true: 1 for what is true and 0 for what is not, shape [n].
        bins: how many.

    """
    number = np.minimum((reported * bins).astype(np.int64), bins - 1)
    reports, trues = (np.bincount(number, column, bins) for column in (reported, true))
    # the counts cancel: a bin's share of the claims times the distance of its two means
    return float(np.abs(reports - trues).sum() / len(reported))


def cluster_probabilities(posterior: Posterior) -> dict[Cluster, float]:
    """The probability of every cluster in any particle."""
    out: dict[Cluster, float] = {}
    for subproblem in posterior.subproblems:
        out |= masses_of(subproblem)
    return out


def renumbered(posterior: Posterior, order: Sequence[int]) -> Posterior:
    """The posterior, renumbered so that fragment k becomes order[k]."""

    def told(fragments: Cluster) -> Cluster:
        return tuple(sorted(order[fragment] for fragment in fragments))

    subproblems = [
        Subproblem(
            told(s.fragments),
            tuple(Particle(p.log_weight, tuple(map(told, p.clusters))) for p in s.particles),
            None if s.estimate is None else tuple(map(told, s.estimate)),
        )
        for s in posterior.subproblems
    ]
    return replace(posterior, subproblems=tuple(sorted(subproblems, key=lambda s: s.fragments)))


def masses_of(subproblem: Subproblem) -> dict[Cluster, float]:
    """The probability of each distinct cluster of a subproblem."""
    masses: dict[Cluster, float] = {}
    for particle in subproblem.particles:
        weight = math.exp(particle.log_weight)
        for cluster in particle.clusters:
            masses[cluster] = masses.get(cluster, 0.0) + weight
    return masses


def _together(posterior: Posterior) -> sparse.csr_array:
    """The probability that i and j share a cluster, [n, n]: X^T diag(m) X, X [clusters, n]."""
    from scipy import sparse

    masses = cluster_probabilities(posterior)
    _require_few(posterior, masses)
    lengths, column = members_of(list(masses))
    row = np.repeat(np.arange(len(masses)), lengths)
    weight = np.repeat(np.fromiter(masses.values(), np.float64, len(masses)), lengths)
    shape = (len(masses), posterior.n_fragments)
    indicators = sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)
    weighted = sparse.csr_array((weight, (row, column)), shape=shape)
    return sparse.csr_array(indicators.T @ weighted)


def _require_few(posterior: Posterior, masses: Mapping[Cluster, float]) -> None:
    """Refuse a posterior with too many pairs, by a cheap bound."""
    by_cluster = sum(len(cluster) ** 2 for cluster in masses)
    by_subproblem = sum(len(s.fragments) ** 2 for s in posterior.subproblems)
    bound = min(by_cluster, by_subproblem) // 2
    if bound > _MOST_PAIRS:
        raise KBForgeError(
            f"the clusters hold up to {bound:,} pairs of fragments; reliability can be measured "
            f"over {_MOST_PAIRS:,} at most, so use fewer fragments or a larger alpha"
        )


def _subproblem_sizes(n: int, estimates: Sequence[Estimate]) -> FloatArray:
    """The size of each fragment's subproblem, the mean over posteriors, shape [n]."""
    total = np.zeros(n)
    for estimate in estimates:
        sizes = np.bincount(estimate.subproblem, weights=estimate.lengths)[estimate.subproblem]
        total[estimate.members] += np.repeat(sizes, estimate.lengths)
    return total / len(estimates)


def _rounded(probability: FloatArray) -> FloatArray:
    # sums of weights are off by their last bits, which is neither doubt nor more than certainty
    return np.where(probability > _CERTAIN, 1.0, probability)


def _numbered(labels: Sequence[str | None]) -> IntArray:
    """Labels as numbers, -1 for none."""
    numbers: dict[str | None, int] = {None: -1}
    found = (numbers.setdefault(label, len(numbers) - 1) for label in labels)
    return np.fromiter(found, np.int64, len(labels))
