"""Consensus: the grouping of a subproblem that is nearest to its posterior.

The heaviest particle is one estimate. It is the best one if every wrong grouping is equally wrong.
Two others use the grouping c with the smallest expected loss under the posterior (Wade and
Ghahramani 2018, "Bayesian cluster analysis"):

| symbol | meaning |
|---|---|
| p_ij | posterior probability that i and j share a cluster: the posterior similarity |
| c(i) | the fragments of i's cluster in c, including i |
| Binder | the sum over pairs i < j in one cluster of c of 1 - 2 p_ij |
| VI | the sum over i of log |c(i)| - 2 log(the sum over j in c(i) of p_ij) |

Binder is the expected number of pairs that are wrong, up to a constant. VI is n times a lower bound
of the expected variation of information (by Jensen's inequality, their section 3.2), in nats and up
to a constant. Both need only the similarity.

Up to `_EXACT` fragments all groupings are compared. Beyond, the search starts at the best particle,
at singletons, and at one cluster of all. From each start it moves individual fragments, in order,
to their best cluster until none moves; then it merges the two clusters whose union has the smallest
loss, and repeats, until nothing improves. It returns the best result, which is never worse than the
best particle.

A subproblem of more than `MOST` fragments keeps its heaviest particle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from kbforge.contracts import Cluster, FloatArray, IntArray, Posterior, Subproblem
from kbforge.evaluation.reliability import masses_of
from kbforge.kb.similarity import DIGITS

MOST = 2_000
"""Maximum number of fragments of a subproblem to search; the similarity takes 32 MB."""

_EXACT = 8  # 4,140 groupings
_ROUNDS = 100


def similarity(subproblem: Subproblem) -> FloatArray:
    """The posterior similarity of a subproblem's fragments, in their order, shape [n, n]."""
    position = {fragment: at for at, fragment in enumerate(subproblem.fragments)}
    together = np.zeros((len(position), len(position)))
    for cluster, mass in masses_of(subproblem).items():
        held = np.array([position[fragment] for fragment in cluster])
        together[np.ix_(held, held)] += mass
    np.fill_diagonal(together, 1.0)
    return np.minimum(together, 1.0)


def binder(together: FloatArray, labels: IntArray) -> float:
    """Binder's loss of a grouping (labels, shape [n]), up to a constant."""
    same = labels[:, None] == labels[None, :]
    # the diagonal adds -n, whatever the grouping
    return float(((1 - 2 * together) * same).sum() + len(labels)) / 2


def variation(together: FloatArray, labels: IntArray) -> float:
    """The loss of a grouping by the lower bound of the variation of information, in nats."""
    same = labels[:, None] == labels[None, :]
    return float(np.log(same.sum(axis=1)).sum() - 2 * np.log((together * same).sum(axis=1)).sum())


LOSSES: Mapping[str, Callable[[FloatArray, IntArray], float]] = {"binder": binder, "vi": variation}


Allow: TypeAlias = Callable[[Sequence[Cluster]], bool]
"""Whether a grouping of a subproblem satisfies all constraints, as every particle does."""


def consensus(
    posterior: Posterior,
    estimate: str,
    allow: Allow = lambda clusters: True,
) -> Posterior:
    """The posterior with another point estimate and the same particles.

    `estimate` is one of `LOSSES`. Only groupings that `allow` accepts are used; otherwise the
    heaviest particle.
    """
    made = tuple(_estimated(s, estimate, allow) for s in posterior.subproblems)
    return replace(posterior, subproblems=made)


def _estimated(subproblem: Subproblem, estimate: str, allow: Allow) -> Subproblem:
    if len(subproblem.particles) == 1 or len(subproblem.fragments) > MOST:
        return subproblem
    found = (_grouped(subproblem, labels) for labels in _by_loss(subproblem, estimate))
    return next((one for one in found if allow(one.clusters)), subproblem)


def _by_loss(subproblem: Subproblem, estimate: str) -> Iterator[IntArray]:
    """Groupings by ascending loss."""
    together = similarity(subproblem)
    loss = LOSSES[estimate]
    started = sorted(_labels(subproblem), key=lambda labels: round(loss(together, labels), DIGITS))
    best = started[0]
    if len(best) <= _EXACT:
        every = _groupings(len(best))
        losses = [loss(together, labels) for labels in every]
        at = int(np.argmin(np.round(losses, DIGITS)))
        if losses[at] < loss(together, best) - 10**-DIGITS:
            best = every[at]
    else:
        alone, one = np.arange(len(best)), np.zeros(len(best), np.int64)
        ends = [search(together, start, estimate) for start in (best, alone, one)]
        best = min(ends, key=lambda labels: round(loss(together, labels), DIGITS))
    yield best
    yield from started


def _grouped(subproblem: Subproblem, labels: IntArray) -> Subproblem:
    """The posterior with this grouping as point estimate."""
    held: dict[int, list[int]] = {}
    for fragment, label in zip(subproblem.fragments, labels.tolist(), strict=True):
        held.setdefault(label, []).append(fragment)
    return replace(subproblem, estimate=tuple(map(tuple, held.values())))


def _labels(subproblem: Subproblem) -> Iterator[IntArray]:
    """The groupings of the particles, heaviest first, each shape [n]."""
    position = {fragment: at for at, fragment in enumerate(subproblem.fragments)}
    for particle in subproblem.particles:
        labels = np.zeros(len(position), np.int64)
        for number, cluster in enumerate(particle.clusters):
            labels[[position[fragment] for fragment in cluster]] = number
        yield labels


@cache
def _groupings(n: int) -> tuple[IntArray, ...]:
    """All groupings of n fragments as restricted growth strings."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*labels, k] for labels in found for k in range(max(labels) + 2)]
    return tuple(np.array(labels) for labels in found)


def search(together: FloatArray, labels: IntArray, estimate: str) -> IntArray:
    """A local optimum near `labels`: no move of a fragment and no union improves it, shape [n]."""
    costs = _costs_binder if estimate == "binder" else _costs_vi
    unions = _unions_binder if estimate == "binder" else _unions_vi
    for _ in range(_ROUNDS):
        labels, settled = _moved(together, labels, costs)
        gains = np.round(unions(together, labels), DIGITS)
        np.fill_diagonal(gains, 0.0)
        one, other = np.unravel_index(int(np.argmin(gains)), gains.shape)
        if gains[one, other] < 0:
            labels[labels == other] = one
        elif settled:
            break
    return labels


def _moved(together: FloatArray, labels: IntArray, costs: _Costs) -> tuple[IntArray, bool]:
    """Labels 0, 1, ... after each fragment moves to the least loss; and whether none moved."""
    n, settled = len(labels), False
    labels = labels.copy()
    for _ in range(_ROUNDS):
        settled = True
        sums = _sums_within(together, labels)
        sizes = np.bincount(labels, minlength=n + 1)
        for i in range(n):
            own = int(labels[i])
            sums[labels == own] -= together[i][labels == own]
            sizes[own] -= 1
            labels[i] = n  # in no cluster, for the time being
            alone = int(np.argmin(sizes[:n]))  # n clusters at most, so one is empty
            found = np.round(costs(together[i], labels, sums, sizes), DIGITS)
            found[:n][sizes[:n] == 0] = np.inf
            found[alone] = 0.0
            free = sizes[own] == 0
            best = alone if free else own
            if found.min() < found[best]:
                best = int(np.argmin(found))
                settled = settled and free and best == alone
            joined = labels == best
            sums[i] = 1 + together[i][joined].sum()
            sums[joined] += together[i][joined]
            sizes[best] += 1
            labels[i] = best
        if settled:
            break
    _, compact = np.unique(labels, return_inverse=True)
    return compact.reshape(-1), settled


_Costs: TypeAlias = Callable[[FloatArray, IntArray, FloatArray, IntArray], FloatArray]
"""The loss of each fragment in each cluster minus that alone, shape [n]; from p_i, labels, sums,
sizes."""


def _costs_binder(
    of_i: FloatArray, labels: IntArray, sums: FloatArray, sizes: IntArray
) -> FloatArray:
    costs: FloatArray = np.bincount(labels, 1 - 2 * of_i, len(sizes))[:-1].astype(np.float64)
    return costs


def _costs_vi(of_i: FloatArray, labels: IntArray, sums: FloatArray, sizes: IntArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.where(labels < len(of_i), np.log1p(of_i / sums), 0.0)
    with_i = np.bincount(labels, grown, len(sizes))[:-1]
    sum_i = np.bincount(labels, of_i, len(sizes))[:-1]
    size = sizes[:-1].astype(np.float64)
    entropy = (size + 1) * np.log(size + 1) - size * np.log(np.maximum(size, 1))
    return entropy - 2 * (with_i + np.log1p(sum_i))


def _sums_within(together: FloatArray, labels: IntArray) -> FloatArray:
    """The sum over j in c(i) of p_ij, shape [n]."""
    sums = np.empty(len(labels))
    order = np.argsort(labels, kind="stable")
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    for begin, end in pairwise([0, *ends.tolist(), len(labels)]):
        held = order[begin:end]
        sums[held] = together[np.ix_(held, held)].sum(axis=1)
    return sums


def _sums_with(together: FloatArray, labels: IntArray) -> FloatArray:
    """The sum of p_ij over the j of each cluster, shape [n, clusters]."""
    sums = np.empty((len(labels), int(labels.max()) + 1))
    for k in range(sums.shape[1]):
        sums[:, k] = together[:, labels == k].sum(axis=1)
    return sums


def _sums_by(values: FloatArray, labels: IntArray) -> FloatArray:
    """The sums of rows by cluster, shape [clusters, columns]."""
    return np.array([values[labels == k].sum(axis=0) for k in range(int(labels.max()) + 1)])


def _unions_binder(together: FloatArray, labels: IntArray) -> FloatArray:
    """The change of the loss by merging two clusters, shape [clusters, clusters]."""
    sizes = np.bincount(labels).astype(np.float64)
    sums = _sums_with(together, labels)
    between: FloatArray = _sums_by(sums, labels)
    return sizes[:, None] * sizes[None, :] - 2 * between


def _unions_vi(together: FloatArray, labels: IntArray) -> FloatArray:
    """Like `_unions_binder`, for the variation of information."""
    sizes = np.bincount(labels).astype(np.float64)
    sums = _sums_with(together, labels)
    own = sums[np.arange(len(labels)), labels]
    grown = np.log((own[:, None] + sums) / own[:, None])
    gained = _sums_by(grown, labels)
    union = sizes[:, None] + sizes[None, :]
    entropy = sizes * np.log(sizes)
    found: FloatArray = union * np.log(union) - entropy[:, None] - entropy - 2 * (gained + gained.T)
    return found
