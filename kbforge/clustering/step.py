"""One step of (split) sequential Monte Carlo clustering: the algorithm, phase by phase.

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kbforge.clustering.online.merge import Joint, join_by_sampling, join_exactly
from kbforge.clustering.online.pool import Pool, distinct
from kbforge.clustering.online.propose import add_singletons, propose_joins, singletons
from kbforge.clustering.online.scoring import Scorer
from kbforge.clustering.online.split import Weights, split
from kbforge.clustering.state import Block, State
from kbforge.contracts import IntArray, Resampler
from kbforge.errors import LikelihoodError, UsageError
from kbforge.numerics.logs import log_sum_exp

_FLOOR_OF_INDEXED = 1e-3


@dataclass(frozen=True, slots=True)
class Rules:
    """What distinguishes the members of the family.

    Attributes:
        particles: P.
        resampler: how a pool is cut to P.
        splits: whether the problem falls apart into subproblems; False is plain SMC.
        weights: how partial groupings are weighed after a split.
        sampled_merges: join by sampling when more than two subproblems with several particles
            meet, as the published code does, instead of exactly.
        floor: putative particles below this fraction of the heaviest are dropped; 0 drops none.
            None leaves it to the problem (`settled`).

    """

    particles: int
    resampler: Resampler
    splits: bool
    weights: Weights = "target"
    sampled_merges: bool = False
    floor: float | None = None

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise UsageError(f"particles: expected at least 1, got {self.particles}")
        if self.floor is not None and not 0 <= self.floor < 1:
            raise UsageError(f"floor: expected a number from 0 to below 1, got {self.floor}")

    def settled(self, indexed: bool) -> Rules:
        """The same with a floor: a low one if an index leaves out clusters anyway, else 0.

        A stochastic resampler is unbiased only without.
        """
        if self.floor is not None:
            return self
        low = indexed and self.resampler.keeps_heaviest
        return replace(self, floor=_FLOOR_OF_INDEXED if low else 0.0)


def step(state: State, scorer: Scorer, rules: Rules, rng: np.random.Generator) -> None:
    """Take in the next fragment; `state` and `scorer` are updated in place.

    Raises:
        LikelihoodError: the likelihood is NaN, or no assignment of the fragment is finite.

    """
    fragment = state.count_fragment()
    scores = scorer.observe(fragment, state)
    if not state.blocks:
        _open_subproblem(state, scorer, fragment)
        return
    joins = propose_joins(state, scores, scorer.limit)
    joins = _finite(scorer.reweigh(state, joins))
    pool = _with_singletons(state, scorer, rules, joins)
    if pool is None:
        _open_subproblem(state, scorer, fragment)
        return
    kept = _resample(pool, rules, rng)
    kept = _discard_weak_merges(kept, rules.particles)
    if rules.splits and (kept.cell < 0).all():
        _open_subproblem(state, scorer, fragment)
        return
    names = distinct(kept.subproblem)
    joint = _merge(state, names, kept, rules, rng)
    block = _grow(state, scorer, fragment, names, kept, joint)
    for part in split(state, block, rules.weights) if rules.splits else [block]:
        state.install(int(state.first[part.cells[0]]), part)


def _finite(pool: Pool) -> Pool:
    finite = pool.value > -np.inf
    return pool if finite.all() else pool.take(finite)


def _with_singletons(state: State, scorer: Scorer, rules: Rules, joins: Pool) -> Pool | None:
    """The pool with x's new cluster in it; None if a new cluster is all there is.

    A new cluster is the same event in every subproblem, so the singletons of one stand for all:
    of the one that holds the heaviest join.
    """
    log_new = state.prior.log_alpha + _log_marginal_new(scorer)
    if not len(joins):
        if log_new == -np.inf:
            raise LikelihoodError("the fragment has no finite assignment")
        # plain SMC has nowhere else to put it than its one subproblem
        return None if rules.splits else singletons(state, 0, log_new)
    if log_new == -np.inf:
        return joins.heaviest_first()
    return add_singletons(state, joins, log_new)


def _log_marginal_new(scorer: Scorer) -> float:
    """L({x}), checked."""
    score = scorer.log_marginal_new()
    if np.isnan(score) or score == np.inf:
        raise LikelihoodError(f"the likelihood of the fragment alone is {score}")
    return score


def _resample(pool: Pool, rules: Rules, rng: np.random.Generator) -> Pool:
    """At most P of the pool, canonical order."""
    if rules.floor:
        pool = pool.take(pool.value >= pool.value[0] + np.log(rules.floor))
    kept, value = rules.resampler.resample(pool.value, rules.particles, rng)
    pool = pool.take(kept).with_value(value)
    # a stochastic scheme changes weights; the greedy one keeps the order it was given
    return pool if rules.resampler.keeps_heaviest else pool.heaviest_first()


def _discard_weak_merges(pool: Pool, particles: int) -> Pool:
    """Drop subproblems whose pooled weight is below 1/P; the heaviest always stays.

    Such a merge would be undone by the next resampling more often than not (paper, section 3.4).
    """
    names, member = np.unique(pool.subproblem, return_inverse=True)
    if len(names) == 1:
        return pool
    mass = np.bincount(member, weights=np.exp(pool.value - log_sum_exp(pool.value)))
    strong = mass >= 1.0 / particles
    strong[np.argmax(mass)] = True
    return pool if strong.all() else pool.take(strong[member])


def _merge(
    state: State, names: IntArray, pool: Pool, rules: Rules, rng: np.random.Generator
) -> Joint:
    """The joint of the subproblems that x may belong to, at most P particles."""
    if len(names) == 1:
        return Joint(pool.value, state.arange(len(pool)), pool.row[:, None])
    if rules.sampled_merges:
        several = sum(len(state.blocks[name].weights) > 1 for name in names.tolist())
        if several > 2:
            return join_by_sampling(state, names, pool, rules.particles, rng)
    return join_exactly(state, names, pool, rules.particles, rules.resampler, rng)


def _grow(
    state: State, scorer: Scorer, fragment: int, names: IntArray, pool: Pool, joint: Joint
) -> Block:
    """The block of the joint's particles with x in its place, instead of the old subproblems."""
    old = [state.remove(name) for name in names.tolist()]
    bits = _stack_masks(state, old)
    chosen = pool.take(joint.putative)
    slots, child = _new_clusters(state, scorer, fragment, chosen.slot, 1 << bits)
    cells, row_start = _copy_rows(state, names, chosen, joint, child)
    block_slots = _drop_unused(state, scorer, np.concatenate([b.slots for b in old]), slots, cells)
    weights = joint.value - log_sum_exp(joint.value)
    return Block(cells, row_start, weights, block_slots, bits + 1)


def _stack_masks(state: State, blocks: list[Block]) -> int:
    """Give the members of several blocks bits of their own; returns how many bits there are."""
    bits = blocks[0].bits
    for block in blocks[1:]:
        for slot in block.slots.tolist():
            state.mask[slot] <<= bits
        bits += block.bits
    return bits


def _new_clusters(
    state: State, scorer: Scorer, fragment: int, parent_slots: IntArray, bit: int
) -> tuple[IntArray, IntArray]:
    """Make the clusters that hold x.

    Args:
        state: holds the parents.
        scorer: is told of the new clusters.
        fragment: x.
        parent_slots: of each particle, the cluster that takes x, or -1, shape [n].
        bit: x's bit in the membership masks.

    Returns:
        The new slots, and of each particle the one that is its, shape [n].

    """
    parents, member = np.unique(parent_slots, return_inverse=True)
    scores = np.empty(len(parents))
    joins = int(parents[0] < 0)  # a -1 sorts first
    scores[:joins] = scorer.log_marginal_new() if joins else 0.0
    scores[joins:] = scorer.log_marginal_joined(state, parents[joins:])
    masks = [bit | (state.mask[slot] if slot >= 0 else 0) for slot in parents.tolist()]
    children = state.new_clusters(fragment, parents, scores, masks)
    scorer.extend(state, parents, children)
    return children, children[member]


def _copy_rows(
    state: State,
    names: IntArray,
    chosen: Pool,
    joint: Joint,
    child: IntArray,
) -> tuple[IntArray, IntArray]:
    """The cells of the joint's particles and where each row starts.

    A particle's row is the concatenation of its subproblems' rows, with the cell that takes x
    replaced, or x's own cluster appended.
    """
    rows = state.row_start[names] + joint.rows
    begin = state.row_begin[rows]
    lengths = state.row_end[rows] - begin
    alone = chosen.cell < 0
    row_lengths = lengths.sum(axis=1) + alone
    row_start = np.concatenate([[0], np.cumsum(row_lengths)])
    # where each segment lands: its row's start plus the segments before it
    landing = row_start[:-1, None] + np.cumsum(lengths, axis=1) - lengths
    flat = lengths.ravel()
    source = state.ranges(begin.ravel(), flat)
    cells = np.empty(row_start[-1], dtype=np.int64)
    cells[state.ranges(landing.ravel(), flat)] = state.cells[source]
    column = np.searchsorted(names, chosen.subproblem)
    each = state.arange(len(chosen))
    offset = landing[each, column] + chosen.cell - begin[each, column]
    cells[np.where(alone, row_start[1:] - 1, offset)] = child
    if len(names) > 1:
        row = np.repeat(each, row_lengths)
        cells = cells[np.lexsort((state.first[cells], row))]
    return cells, row_start


def _drop_unused(
    state: State, scorer: Scorer, old: IntArray, new: IntArray, cells: IntArray
) -> IntArray:
    """Release the old clusters that no new row holds; returns the distinct slots in use."""
    state.mark[cells] = True
    used = state.mark[old]
    state.mark[cells] = False
    dropped = old[~used]
    if len(dropped):
        state.release(dropped)
        scorer.release(dropped)
    return np.concatenate([old[used], new])


def _open_subproblem(state: State, scorer: Scorer, fragment: int) -> None:
    """Give x a subproblem of its own."""
    score = _log_marginal_new(scorer)
    if score == -np.inf:
        raise LikelihoodError("the fragment has no finite assignment")
    slots = state.install_singleton(fragment, score)
    scorer.extend(state, np.array([-1]), slots)
