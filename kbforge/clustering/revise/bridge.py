"""Bridges: a new fragment that fits two clusters merges them.

Sequential Monte Carlo adds a fragment to one cluster at a time, and never makes one cluster of two.
A fragment that shows that two clusters are one entity would be in one of them, and the other would
stay apart. So where a new fragment has joined a cluster, and would rather join another one than be
alone, too, the two are offered as one. They become one if the log of the sum of the target
densities held grows by that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from kbforge.clustering.core import Core
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.revise.rerun import Rerun
from kbforge.clustering.revise.revisit import (
    LEAST_GAIN,
    MOST_NEIGHBOURS,
    MOST_TAKEN,
    offer,
    rivals,
    slot_of,
)
from kbforge.contracts import Cluster, FloatArray, IntArray


def bridged(core: Core, fragment: int) -> float:
    """Make one of the clusters that a fragment belongs to; the gain in log mass.

    Raises:
        LikelihoodError: as a session's `add`; what was made one before stays so.

    """
    state, own = core.state, slot_of(core, fragment)
    if state.size[own] == 1:
        return 0.0
    slots, weights = rivals(core, fragment, own)
    if not len(slots):
        return 0.0
    alone = state.prior.log_terms([(fragment,)], core.model.score([(fragment,)]))[0]
    # a subproblem that is replaced gives its clusters other slots, so they go by a member
    others = [state.members(slot)[0] for slot in nearest(slots, weights, alone)]
    return made_one(core, fragment, others)


def nearest(slots: IntArray, weights: FloatArray, alone: float) -> list[int]:
    """The clusters that a fragment would rather join than be alone, the best first, a few at most.

    Args:
        slots: of clusters.
        weights: log|C| + L(C + x) - L(C) of each, nats.
        alone: log alpha + L({x}), nats.

    """
    better = np.flatnonzero(weights > alone)
    best = better[np.argsort(-weights[better], kind="stable")][:MOST_NEIGHBOURS]
    found: list[int] = slots[best].tolist()
    return found


def made_one(core: Core, fragment: int, others: Sequence[int]) -> float:
    """Make one of a fragment's cluster and others', one after another; the gain in log mass.

    Raises:
        LikelihoodError: as `bridged`.

    """
    return sum((_as_one(core, fragment, other) for other in others), 0.0)


def terms_of_one(
    prior: DirichletProcess,
    apart: Mapping[Cluster, float],
    score: Callable[[Sequence[Cluster]], FloatArray],
) -> dict[Cluster, float] | None:
    """The terms of clusters and of one cluster of them all, the last; None: it is not worth more.

    Args:
        prior: over partitions.
        apart: clusters with their terms, log alpha + lgamma(|C|) + L(C).
        score: L of clusters, nats.

    """
    one = union_of(apart)
    if len(one) > MOST_TAKEN:
        return None
    together: float = prior.log_terms([one], score([one]))[0]
    if together - math.fsum(apart.values()) <= LEAST_GAIN:
        return None
    return {**apart, one: together}


def union_of(clusters: Iterable[Cluster]) -> Cluster:
    """One cluster of all."""
    return tuple(sorted(number for cluster in clusters for number in cluster))


def _as_one(core: Core, fragment: int, other: int) -> float:
    """Make the clusters of two fragments one, if that is worth it; the gain in log mass."""
    state = core.state
    slots = slot_of(core, fragment), slot_of(core, other)
    if slots[0] == slots[1]:
        return 0.0
    members = [state.members(slot) for slot in slots]
    one = union_of(members)
    if not (core.bindings is None or core.bindings.allow([one])):
        return 0.0
    apart = dict(zip(members, state.term[list(slots)].tolist(), strict=True))
    term = terms_of_one(state.prior, apart, core.model.score)
    if term is None:
        return 0.0
    return offer(core, one, Rerun([(one,)], np.array([term[one]]), term))
