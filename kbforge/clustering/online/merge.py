"""Merge: the joint of subproblems that the new fragment connects.

Each kept putative particle fixes x and the grouping of its own subproblem; the groupings of the
other subproblems are independent of it, so every combination with their old particles is a joint
particle, and log weights add (split-SMC paper, section 3.4). The exact join keeps the heaviest P
of them. It takes the subproblems one at a time and keeps P after each, which loses nothing: the
best P sums only use the best P partial sums. Two lists make the pass linear in the number of
subproblems: combinations in which x has been placed, and those in which it has not.

Subproblems to which x hardly belongs are left alone: their part of the pool is discarded first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kbforge.clustering.online.pool import Pool, distinct
from kbforge.clustering.rules import Rules
from kbforge.clustering.state import State
from kbforge.contracts import FloatArray, IntArray, Resampler
from kbforge.numerics import log_sum_exp, on_grid


@dataclass(frozen=True, slots=True)
class Joint:
    """Combinations of particles, one row a combination, heaviest first.

    Attributes:
        value: unnormalised log weights, shape [n].
        putative: index into the pool of the putative particle, shape [n].
        rows: the old particle's rank in each subproblem, shape [n, subproblems]; in the putative
            particle's own subproblem, the rank of its parent.

    """

    value: FloatArray
    putative: IntArray
    rows: IntArray

    def take(self, index: IntArray) -> Joint:
        """The entries of an index array, in its order."""
        return Joint(self.value[index], self.putative[index], self.rows[index])


def discard_weak_merges(pool: Pool, particles: int) -> Pool:
    """Drop subproblems whose pooled weight is below 1/P; the heaviest always stays.

    Such a merge would be undone by the next resampling more often than not (paper, section 3.4).
    """
    names = distinct(pool.subproblem)
    if len(names) == 1:
        return pool
    member = np.searchsorted(names, pool.subproblem)
    weights = list(map(math.exp, (pool.value - pool.value[0]).tolist()))
    masses: list[list[float]] = [[] for _ in names]
    for place, weight in zip(member.tolist(), weights, strict=True):
        masses[place].append(weight)
    mass = np.array(list(map(math.fsum, masses)))
    strong = mass >= math.fsum(weights) / particles
    strong[np.argmax(mass)] = True
    return pool if strong.all() else pool.take(strong[member])


def merge(
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


def join_exactly(
    state: State,
    names: IntArray,
    pool: Pool,
    size: int,
    resampler: Resampler,
    rng: np.random.Generator,
) -> Joint:
    """The joint of several subproblems, at most `size` particles, resampled after each.

    Args:
        state: before the new fragment.
        names: the subproblems, ascending.
        pool: the kept putative particles, canonical order.
        size: P.
        resampler: the greedy one makes the result the exact top P of the joint.
        rng: for the others.

    """

    def cut(joint: Joint) -> Joint:
        joint = joint.take(np.argsort(-joint.value, kind="stable"))
        kept, value = resampler.resample(joint.value, size, rng)
        value = joint.value[kept] if resampler.keeps_heaviest else on_grid(value)
        return Joint(value, joint.putative[kept], joint.rows[kept])

    placed = Joint(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64))
    waiting = Joint(np.zeros(1), np.array([-1]), np.zeros((1, 0), dtype=np.int64))
    reach = size if resampler.keeps_heaviest else None
    for name in names.tolist():
        old = state.blocks[name].weights
        ranks = state.arange(len(old))
        mine = np.flatnonzero(pool.subproblem == name)
        here = _outer(waiting, pool.value[mine], pool.row[mine], reach, putative=mine)
        placed = cut(_stacked(_outer(placed, old, ranks, reach), here))
        if name != names[-1]:
            # a lone particle changes neither the number of combinations nor their order
            waiting = _outer(waiting, old, ranks, reach)
            waiting = cut(waiting) if len(old) > 1 else waiting
    if resampler.keeps_heaviest:
        return placed
    return placed.take(np.argsort(-placed.value, kind="stable"))


def join_by_sampling(
    state: State, names: IntArray, pool: Pool, size: int, rng: np.random.Generator
) -> Joint:
    """Multinomial merging: `size` draws with replacement, equal draws pooled (paper, 3.4).

    A draw is an assignment of x by the putative weights, then one old particle of each other
    subproblem. Draws are equal if assignment *and* all particles are.
    """
    draws = draw(pool.value, size, rng)
    rows = np.empty((size, len(names)), dtype=np.int64)
    for column, name in enumerate(names.tolist()):
        old = draw(state.blocks[name].weights, size, rng)
        own = pool.subproblem[draws] == name
        rows[:, column] = np.where(own, pool.row[draws], old)
    drawn, counts = np.unique(np.column_stack([draws, rows]), axis=0, return_counts=True)
    shares = [math.log(count / size) for count in counts.tolist()]
    joint = Joint(on_grid(np.array(shares)), drawn[:, 0], drawn[:, 1:])
    return joint.take(np.argsort(-joint.value, kind="stable"))


def draw(log_weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Indices drawn with replacement in proportion to exp(log_weights), shape [size]."""
    cumulative = np.cumsum(np.exp(log_weights - log_sum_exp(log_weights)))
    found = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.asarray(np.minimum(found, len(cumulative) - 1))


def _outer(
    joint: Joint,
    values: FloatArray,
    rows: IntArray,
    reach: int | None,
    putative: IntArray | None = None,
) -> Joint:
    """Every combination of a joint with one more subproblem's (sorted) particles.

    With a `reach`, only those that can be among its `reach` heaviest: both lists are sorted, so
    the combination of ranks (i, j) has at least (i + 1)(j + 1) - 1 others before it.
    """
    if len(values) == 1 and putative is None:  # the commonest subproblem: one particle, weight 0
        return Joint(
            joint.value + values[0],
            joint.putative,
            np.concatenate([joint.rows, np.zeros((len(joint.rows), 1), dtype=np.int64)], axis=1),
        )
    left, right = rank_pairs(len(joint.value), len(values), reach)
    return Joint(
        joint.value[left] + values[right],
        joint.putative[left] if putative is None else putative[right],
        np.concatenate([joint.rows[left], rows[right, None]], axis=1),
    )


@lru_cache(maxsize=128)  # the same few lengths recur; a pair of arrays is a few KiB
def rank_pairs(n: int, m: int, reach: int | None) -> tuple[IntArray, IntArray]:
    """Pairs (i, j) of ranks below n and m, i-major, with (i + 1)(j + 1) <= reach."""
    widths = np.full(n, m) if reach is None else np.minimum(reach // np.arange(1, n + 1), m)
    ends = np.cumsum(widths)
    left = np.repeat(np.arange(n), widths)
    return left, np.arange(len(left)) - (ends - widths)[left]


def _stacked(first: Joint, second: Joint) -> Joint:
    if not len(first.value):
        return second
    return Joint(
        np.concatenate([first.value, second.value]),
        np.concatenate([first.putative, second.putative]),
        np.concatenate([first.rows, second.rows]),
    )
