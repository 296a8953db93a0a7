"""Remove: take fragments out of every particle, as if they had never come.

A particle without fragment x has the cluster C - x for C, or none for {x}. Its weight is to be its
target density again, so that

    log w -= log(|C| - 1) + L(C) - L(C - x),  for a singleton  log alpha + L({x})

Particles that were different and are equal now are one, and are not summed: each weighs what the
target says of it. A subproblem of which x was the bridge falls apart. If the particles were all
groupings there are, the result is the posterior of what is left, exactly.

Clusters are made anew from their fragments, in order of arrival, which every live table can do. A
table that was edited in place would be off by a rounding from one that is filled from a snapshot.

Where the likelihood forbids what is left of every particle, the fragments that are left of the
subproblems are clustered again.
"""

from __future__ import annotations

from collections.abc import Collection

from kbforge.clustering.core import Core
from kbforge.clustering.revise.groupings import rows_of, without
from kbforge.clustering.revise.replace import (
    ImpossibleError,
    Replacement,
    fragments_held,
    plan_replacement,
)
from kbforge.clustering.revise.rerun import clustered_again


def plan_removal(core: Core, removed: Collection[int]) -> Replacement:
    """Decide what is left without some fragments. Whatever is raised, nothing has changed.

    Args:
        core: holds them.
        removed: their numbers.

    Raises:
        LikelihoodError: what is left has no possible grouping.

    """
    state, model, rules = core.state, core.model, core.rules
    gone = sorted({core.homes.of(fragment) for fragment in removed})
    parts = [[without(row, removed) for row in rows_of(state, name)] for name in gone]
    try:
        return plan_replacement(state, model, rules, gone, parts, removed)
    except ImpossibleError:
        held = [fragments_held(state, name) for name in gone]
        left = [[i for i in fragments if i not in removed] for fragments in held]
        parts = [clustered_again(core, fragments).rows for fragments in left]
        return plan_replacement(state, model, rules, gone, parts, removed)
