"""Bridges: a new fragment that belongs to two clusters makes one of them.

Sequential Monte Carlo adds a fragment to one cluster at a time, and never makes one cluster of two.
A fragment that shows that two clusters are one entity would be in one of them, and the other would
stay apart. So where a new fragment has joined a cluster, and would rather join another one than be
alone, too, the two are offered as one. They become one if the log of the sum of the target
densities held grows by that.
"""

from __future__ import annotations

import math

import numpy as np

from kbforge.clustering.core import Core
from kbforge.clustering.revise.rerun import Again
from kbforge.clustering.revise.revisit import (
    LEAST_GAIN,
    MOST_NEIGHBOURS,
    MOST_TAKEN,
    offer,
    rivals,
    slot_of,
)


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
    better = np.flatnonzero(weights > alone)
    better = better[np.argsort(-weights[better], kind="stable")][:MOST_NEIGHBOURS]
    gain = 0.0
    # a subproblem that is replaced gives its clusters other slots, so they go by a member
    for other in [state.members(slot)[0] for slot in slots[better].tolist()]:
        gain += _as_one(core, fragment, other)
    return gain


def _as_one(core: Core, fragment: int, other: int) -> float:
    """Make the clusters of two fragments one, if that is worth it; the gain in log mass."""
    state = core.state
    slots = slot_of(core, fragment), slot_of(core, other)
    if slots[0] == slots[1]:
        return 0.0
    apart = [state.members(slot) for slot in slots]
    one = tuple(sorted(number for cluster in apart for number in cluster))
    if len(one) > MOST_TAKEN or not (core.bindings is None or core.bindings.allow([one])):
        return 0.0
    term = dict(zip(apart, state.term[list(slots)].tolist(), strict=True))
    before = math.fsum(term.values())
    term[one] = state.prior.log_terms([one], core.model.score([one]))[0]
    if term[one] - before <= LEAST_GAIN:
        return 0.0
    return offer(core, one, Again([(one,)], np.array([term[one]]), term))
