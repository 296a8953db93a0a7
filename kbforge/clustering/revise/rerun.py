"""Cluster some fragments of a session again, by themselves and in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kbforge.clustering.commit import commit
from kbforge.clustering.core import Core
from kbforge.clustering.online.scoring import make_scorer
from kbforge.clustering.plan import InfeasibleFragment, consider
from kbforge.clustering.revise.groupings import Row, in_order
from kbforge.clustering.revise.joined import joined
from kbforge.clustering.state import State
from kbforge.contracts import Cluster, FloatArray
from kbforge.errors import LikelihoodError, quoted


class Rerun(NamedTuple):
    """What a run over a few fragments found.

    Attributes:
        rows: its groupings, at most P, heaviest first.
        values: their log target densities, shape [rows].
        term: log alpha + lgamma(|C|) + L(C) of every cluster in them.

    """

    rows: list[Row]
    values: FloatArray
    term: Mapping[Cluster, float]


def clustered_again(core: Core, order: Sequence[int]) -> Rerun:
    """The groupings that a run over these fragments alone ends with, at most P, heaviest first.

    The run has the session's likelihood, rules and constraints, and no index: there are few.

    Args:
        core: is read, but for its random numbers and its count of evaluations.
        order: numbers of fragments.

    Raises:
        LikelihoodError: as a session's `add`, or no grouping that is found satisfies the
            constraints.

    """
    state = State(core.state.prior)
    model = make_scorer(replace(core.problem, index=None), core.rules.limit)
    items = [core.model.fragments[number] for number in order]
    bindings = None if core.bindings is None else core.bindings.of_some(items)
    for x in items:
        bounds = None if bindings is None else bindings.bounds(x)
        try:
            plan = consider(state, model, x, core.rules, core.rng, bounds)
        except InfeasibleFragment:
            raise LikelihoodError(
                f'fragment "{quoted(x.id)}": the likelihood forbids what the decisions require'
            ) from None
        commit(state, model, plan)
        if bindings is not None:
            bindings.follow(plan)
    core.model.count(model)
    found = joined(state, state.blocks, core.rules.particles)
    named = {c: tuple(sorted(order[i] for i in c)) for c in found.term}
    return Rerun(
        [in_order(named[cluster] for cluster in row) for row in found.rows],
        found.values,
        {named[cluster]: term for cluster, term in found.term.items()},
    )
