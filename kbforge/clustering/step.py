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

A step has two halves. `consider` reads, may fail, and leaves everything as it was: state, model
and random numbers. `commit` writes the plan and cannot fail, since `extend` and `release` of a live
table cannot raise by their contract. So a state holds all of a fragment or nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kbforge.clustering.constraints import Bounds
from kbforge.clustering.grow import discard_weak_merges, grow, merge, split
from kbforge.clustering.propose import Pool, distinct, propose_joins, resample, with_singletons
from kbforge.clustering.rules import Rules
from kbforge.clustering.state import Block, NewClusters, State
from kbforge.clustering.table import Reading, Scorer
from kbforge.contracts import Fate, Fragment, Info, IntArray
from kbforge.errors import LikelihoodError


class Plan(NamedTuple):
    """What to write for one fragment; it holds for the state that it was made of, and no other.

    Attributes:
        fragment: x's index.
        reading: what the model made of x.
        new: the clusters that hold x.
        replaced: names of the subproblems that go.
        blocks: by name, what takes their place.
        masks: by slot, the membership masks that change.
        dropped: slots of clusters that no particle holds any more.

    """

    fragment: int
    reading: Reading
    new: NewClusters
    replaced: tuple[int, ...]
    blocks: Mapping[int, Block]
    masks: Mapping[int, int]
    dropped: IntArray


class InfeasibleFragment(Exception):
    """Constraints leave the fragment no place among the particles that there are."""


def consider(
    state: State,
    model: Scorer,
    x: Fragment,
    rules: Rules,
    rng: np.random.Generator,
    bounds: Bounds | None = None,
) -> Plan:
    """Decide what the next fragment does. Whatever is raised, nothing has changed.

    The model has answered all its questions before the first random number is drawn; what a
    resampler draws before it fails is given back.

    Args:
        state: before x.
        model: likewise.
        x: the new fragment.
        rules: how to cluster.
        rng: for resamplers that draw.
        bounds: where constraints let x go; None is anywhere.

    Raises:
        InfeasibleFragment: `bounds` leaves x nowhere to go.
        LikelihoodError: the likelihood is NaN, or no assignment of the fragment is finite.
        Exception: whatever the model, the index or the resampler raises.

    """
    before = rng.bit_generator.state if rules.draws else None
    try:
        return _considered(state, model, x, rules, rng, bounds)
    except BaseException:
        if before is not None:
            rng.bit_generator.state = before
        raise


def opening(state: State, model: Scorer, x: Fragment) -> Plan:
    """The plan that gives x a subproblem of its own, whatever else it could join.

    Raises:
        LikelihoodError: as `consider`.

    """
    reading = model.read(state, x, Bounds.of(np.zeros(0, dtype=np.int64)))
    return _opening(state, reading, log_marginal_alone(model, reading))


def _considered(
    state: State,
    model: Scorer,
    x: Fragment,
    rules: Rules,
    rng: np.random.Generator,
    bounds: Bounds | None,
) -> Plan:
    """The step."""
    reading = model.read(state, x, bounds)
    joins = propose_joins(state, reading.scores, model.limit)
    joins = reweigh(state, model, reading, joins)
    alone = log_marginal_alone(model, reading)
    if bounds is not None and bounds.only is not None:
        if not len(joins):
            raise InfeasibleFragment
        alone = -np.inf
    if not len(joins) and (rules.splits or not state.blocks):
        return _opening(state, reading, alone)
    pool = with_singletons(state, joins, alone)
    pool = resample(pool, rules, rng)
    pool = discard_weak_merges(pool, rules.particles)
    if rules.splits and (pool.cell < 0).all():
        return _opening(state, reading, alone)
    names = distinct(pool.subproblem)
    joint = merge(state, names, pool, rules, rng)
    grown = grow(state, model, reading, alone, names, pool, joint)
    blocks = split(state, grown, rules.weights) if rules.splits else [grown.whole()]
    return Plan(
        state.n_fragments,
        reading,
        grown.new,
        tuple(names.tolist()),
        dict(blocks),
        grown.changed_masks(),
        grown.dropped(),
    )


def _opening(state: State, reading: Reading, alone: float) -> Plan:
    """The plan that gives x a subproblem of its own."""
    if alone == -np.inf:
        raise LikelihoodError("the fragment has no finite assignment")
    fragment = state.n_fragments
    new = state.new_clusters(fragment, np.array([-1]), np.array([alone]))
    block = Block(new.slots, np.array([0, 1]), np.zeros(1), new.slots, 1)
    nothing = np.zeros(0, dtype=np.int64)
    return Plan(
        fragment, reading, new, (), {fragment: block}, {int(new.slots[0]): 1}, dropped=nothing
    )


def reweigh(state: State, model: Scorer, reading: Reading, joins: Pool) -> Pool:
    """The joins with the likelihood's weights, those that it forbids left out."""
    joins = model.reweigh(state, reading, joins)
    finite = joins.value > -np.inf
    return joins if finite.all() else joins.take(finite)


def log_marginal_alone(model: Scorer, reading: Reading) -> float:
    """L({x}), nats, checked.

    Raises:
        LikelihoodError: it is NaN or +inf.

    """
    score = model.log_marginal_new(reading)
    if np.isnan(score) or score == np.inf:
        raise LikelihoodError(f"the likelihood of the fragment alone is {score}")
    return score


def commit(state: State, model: Scorer, plan: Plan) -> Info:
    """Write what `consider` decided of this state; it and the model are updated in place."""
    assert plan.fragment == state.n_fragments, "a plan holds for the state it was made of"
    state.count_fragments(1)
    for name in plan.replaced:
        state.remove(name)
    state.place_clusters(plan.fragment, plan.new)
    for slot, mask in plan.masks.items():
        state.mask[slot] = mask
    model.extend(plan.fragment, plan.reading, plan.new)
    if len(plan.dropped):
        state.release(plan.dropped)
        model.release(plan.dropped)
    for name, block in plan.blocks.items():
        state.install(name, block)
    return Info(
        fragment=plan.fragment,
        fate=_FATES[min(len(plan.replaced), 2)],
        before=plan.replaced,
        after=tuple(plan.blocks),
        subproblems=state.n_subproblems,
        log10_effective_particles=state.log10_effective_particles,
        model_evaluations=model.evaluations,
    )


_FATES = (Fate.OPENED, Fate.JOINED, Fate.MERGED)
"""By how many subproblems took part."""
