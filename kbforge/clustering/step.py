"""One step of (split) sequential Monte Carlo clustering, phase by phase.

Sources: Fearnhead (2004) for the sampler on partitions; the split-SMC paper (Trojan et al.) for
subproblems (section 3) and surrogates (appendix C.1).

| symbol | meaning |
|---|---|
| x | the new fragment |
| w_si | log weight of particle i of subproblem s, normalised within s |
| C | a cluster of that particle; |C| its size |
| L | log marginal likelihood of a cluster, nats |
| alpha | concentration of the Dirichlet process |
| P | most particles a subproblem keeps |

A putative particle puts x into C, with weight w_si + log|C| + L(C + x) - L(C), or into a cluster
of its own, with weight w_si + log alpha + L({x}).

A step has two halves. `consider` reads, may fail, and leaves everything as it was: state and random
numbers. `commit` writes the plan and cannot fail. So a state holds all of a fragment or nothing of
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kbforge.clustering.grow import discard_weak_merges, grow, merge, split
from kbforge.clustering.propose import (
    Pool,
    PutativeScores,
    Rules,
    distinct,
    propose_joins,
    resample,
    with_singletons,
)
from kbforge.clustering.state import Block, NewClusters, State
from kbforge.contracts import IntArray
from kbforge.errors import LikelihoodError
from kbforge.numerics import on_grid


class Plan(NamedTuple):
    """What to write for one fragment; it holds for the state that it was made of.

    `replaced` are the subproblems that go, `blocks` what takes their place, by name; `masks` are
    those that change, by slot; `dropped` are the slots of clusters that no particle holds any more.
    """

    fragment: int
    new: NewClusters
    replaced: tuple[int, ...]
    blocks: Mapping[int, Block]
    masks: Mapping[int, int]
    dropped: IntArray


class InfeasibleFragment(Exception):
    """Constraints leave the fragment no place among the particles that there are."""


def consider(
    state: State,
    scores: PutativeScores,
    rules: Rules,
    rng: np.random.Generator,
    proposed: Pool | None = None,
    must_join: bool = False,
) -> Plan:
    """Decide what the next fragment does. Whatever is raised, nothing has changed.

    What a resampler draws before it fails is given back. `proposed` are a surrogate's joins, None
    if the likelihood proposes; `must_join` forbids x a cluster of its own.

    Raises:
        InfeasibleFragment: constraints leave x nowhere to go.
        LikelihoodError: the likelihood is NaN, or no assignment of the fragment is finite.
        Exception: whatever the resampler raises.
    """
    before = rng.bit_generator.state if rules.draws else None
    try:
        return _considered(state, scores, rules, rng, proposed, must_join)
    except BaseException:
        if before is not None:
            rng.bit_generator.state = before
        raise


def _considered(
    state: State,
    scores: PutativeScores,
    rules: Rules,
    rng: np.random.Generator,
    proposed: Pool | None,
    must_join: bool,
) -> Plan:
    """The step."""
    if proposed is None:
        joins = propose_joins(state, scores, rules.limit)
    else:
        joins = reweigh(state, scores, proposed)
    if np.isnan(scores.alone) or scores.alone == np.inf:
        raise LikelihoodError(f"the likelihood of the fragment alone is {scores.alone}")
    if must_join:
        if not len(joins):
            raise InfeasibleFragment
        scores = scores.without_singleton()
    if not len(joins) and (rules.splits or not state.n_subproblems):
        return opening(state, scores.alone)
    pool = with_singletons(state, joins, scores.alone)
    pool = resample(pool, rules, rng)
    pool = discard_weak_merges(pool, rules.particles)
    if rules.splits and (pool.cell < 0).all():
        return opening(state, scores.alone)
    names = distinct(pool.subproblem)
    joint = merge(state, names, pool, rules, rng)
    grown = grow(state, scores, names, pool, joint)
    blocks = split(state, grown, rules.weights) if rules.splits else [grown.whole()]
    return Plan(
        state.n_fragments,
        grown.new,
        tuple(names.tolist()),
        dict(blocks),
        grown.changed_masks(),
        grown.dropped(),
    )


def reweigh(state: State, scores: PutativeScores, joins: Pool) -> Pool:
    """A surrogate's joins, weighed by the likelihood alone (split-SMC paper, appendix C.1).

    Joins that the likelihood forbids are left out.
    """
    # what the surrogate ranked must not decide between equals of the model
    joins = joins.take(np.lexsort((state.first[joins.slot], joins.row, joins.subproblem)))
    row = state.row_start[joins.subproblem] + joins.row
    prior = state.row_weight[row] + state.log_size[joins.slot]
    joins = joins.with_value(prior + on_grid(scores.log_predictive[joins.slot]))
    finite = joins.value > -np.inf
    return joins if finite.all() else joins.take(finite)


def opening(state: State, alone: float) -> Plan:
    """The plan that gives x a subproblem of its own.

    Raises:
        LikelihoodError: L({x}) is no finite number.

    """
    if alone == -np.inf:
        raise LikelihoodError("the fragment has no finite assignment")
    fragment = state.n_fragments
    new = state.new_clusters(fragment, np.array([-1]), np.array([alone]))
    block = Block(new.slots, np.array([0, 1]), np.zeros(1), new.slots, 1)
    nothing = np.zeros(0, dtype=np.int64)
    return Plan(fragment, new, (), {fragment: block}, {int(new.slots[0]): 1}, dropped=nothing)


def commit(state: State, plan: Plan) -> None:
    """Write what `consider` decided of this state."""
    assert plan.fragment == state.n_fragments, "a plan holds for the state it was made of"
    state.count_fragments(1)
    for name in plan.replaced:
        state.remove(name)
    state.place_clusters(plan.fragment, plan.new)
    for slot, mask in plan.masks.items():
        state.mask[slot] = mask
    if len(plan.dropped):
        state.release(plan.dropped)
    for name, block in plan.blocks.items():
        state.install(name, block)
