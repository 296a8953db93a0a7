"""Propose and resample: two phases of a step, and the rules that all steps share.

A putative particle is a live particle with the new fragment x put into one of its clusters (a
*cell* of the arena), or into a new one (a singleton, cell -1). Canonical order is heaviest first,
then by subproblem (its smallest fragment), particle rank, cluster (its smallest fragment),
singletons last. All choices among equals follow from it.

Only what can be among the `limit` heaviest is expanded: the `limit`-th largest of the clusters'
best putative weights is a lower bound of the `limit`-th largest putative weight, so clusters below
it are left out without looking at their particles.

Greedy resampling (keep the P heaviest) is optimal in reverse KL divergence (split-SMC paper, B.2);
other schemes are unbiased.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.state import State
from kbforge.contracts import FloatArray, IntArray, Resampler
from kbforge.errors import LikelihoodError, UsageError
from kbforge.numerics import on_grid, rounded

Weights: TypeAlias = Literal["target", "marginal"]
"""How a partial grouping is weighed: by the posterior's own value for it, which is the best
choice for the stored support, or by the sum over the particles that showed it, as published."""

WAVE = 32
"""Enough for batches that fill a processor; with more, more of them is in vain."""

_FLOOR_OF_INDEXED = 1e-3


@dataclass(frozen=True, slots=True)
class Rules:
    """What distinguishes the members of the family of sequential Monte Carlo clusterers.

    Attributes:
        particles: P.
        resampler: how a pool is cut to P.
        splits: whether the problem falls apart into subproblems; False is plain SMC.
        weights: how partial groupings are weighed after a split.
        sampled_merges: join by sampling when more than two subproblems with several particles
            meet, as the published code does, instead of exactly.
        floor: putative particles below this fraction of the heaviest are dropped; 0 drops none.
            None leaves it to the problem (`settled`).
        wave: fragments for which a black box is asked ahead, in one batch, at most; 1 is none. The
            result is the same (`kbforge.clustering.ahead`).

    """

    particles: int
    resampler: Resampler
    splits: bool
    weights: Weights = "target"
    sampled_merges: bool = False
    floor: float | None = None
    wave: int = WAVE

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise UsageError(f"particles: expected at least 1, got {self.particles}")
        if self.floor is not None and not 0 <= self.floor < 1:
            raise UsageError(f"floor: expected a number from 0 to below 1, got {self.floor}")
        if self.wave < 1:
            raise UsageError(f"wave: expected at least 1, got {self.wave}")

    @property
    def draws(self) -> bool:
        """Whether a step may draw random numbers."""
        return self.sampled_merges or not self.resampler.keeps_heaviest

    @property
    def limit(self) -> int | None:
        """How many joins the resampler can use, None for all: it may look at more than P."""
        return self.particles if self.resampler.keeps_heaviest else None

    def settled(self, indexed: bool) -> Rules:
        """The same with a floor: a low one if an index leaves out clusters anyway, else 0.

        A stochastic resampler is unbiased only without a floor.
        """
        if self.floor is not None:
            return self
        low = indexed and self.resampler.keeps_heaviest
        return replace(self, floor=_FLOOR_OF_INDEXED if low else 0.0)


@dataclass(slots=True)  # a step makes ten of them, and to freeze one takes longer than to make it
class Pool:
    """Putative particles, all columns of shape [n]; `take` and `with_value` make others.

    `value` are unnormalised log weights, `cell` and `slot` those of the cluster that takes x (-1
    for a singleton), `row` the live particle's rank in its subproblem, `subproblem` the latter's
    name.
    """

    value: FloatArray
    cell: IntArray
    slot: IntArray
    row: IntArray
    subproblem: IntArray

    def __len__(self) -> int:
        return len(self.value)

    def take(self, index: IntArray | NDArray[np.bool_]) -> Pool:
        """The entries of an index array or mask, in its order."""
        return Pool(
            self.value[index],
            self.cell[index],
            self.slot[index],
            self.row[index],
            self.subproblem[index],
        )

    def with_value(self, value: FloatArray) -> Pool:
        """The same particles with other weights."""
        return Pool(value, self.cell, self.slot, self.row, self.subproblem)

    def heaviest_first(self) -> Pool:
        """Sorted by weight; equals keep their order."""
        return self.take((-self.value).argsort(kind="stable"))


@dataclass(frozen=True, slots=True)
class PutativeScores:
    """What the likelihood says of the new fragment x, nats.

    L(C + x) - L(C) by slot, where `slots` points (ascending; None is everywhere); L({x}); and L(C +
    x) by slot, None for what follows from L(C).
    """

    log_predictive: FloatArray
    slots: IntArray | None = None
    alone: float = -np.inf
    log_marginal: FloatArray | None = None

    def without_singleton(self) -> PutativeScores:
        """The same, but that x has no cluster of its own."""
        return replace(self, alone=-np.inf)

    def log_marginal_of(self, state: State, parents: IntArray) -> FloatArray:
        """L(C + x) of some clusters."""
        if self.log_marginal is not None:
            return self.log_marginal[parents]
        return np.asarray(state.score[parents] + self.log_predictive[parents])


def joined(first: Pool, second: Pool) -> Pool:
    """Two pools, one after the other."""
    return Pool(
        np.concatenate([first.value, second.value]),
        np.concatenate([first.cell, second.cell]),
        np.concatenate([first.slot, second.slot]),
        np.concatenate([first.row, second.row]),
        np.concatenate([first.subproblem, second.subproblem]),
    )


def distinct(values: IntArray) -> IntArray:
    """The distinct values, ascending: np.unique at half the cost on short arrays."""
    ordered = np.sort(values)
    first = np.empty(len(ordered), dtype=np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


_MANY_ROWS = 512  # above this, finding out which rows to leave out costs less than taking all

_LEADERS = 8

_SLACK = 1e-9


def propose_joins(state: State, scores: PutativeScores, limit: int | None) -> Pool:
    """The `limit` heaviest putative particles that join a cluster, canonical order; None keeps all.

    Raises:
        LikelihoodError: a predictive is NaN or +inf.
    """
    slots = state.arange(state.n_slots) if scores.slots is None else scores.slots
    gain = state.gain
    gain[slots] = on_grid(scores.log_predictive[slots])
    # the best putative weight of each cluster, over the particles that hold it
    best = state.reach[slots] + gain[slots]
    top = best.max(initial=-np.inf)
    if np.isnan(top) or top == np.inf:
        raise LikelihoodError(f"the likelihood (or surrogate) returned {top}")
    if limit is not None and len(best) > limit:
        floor = _kth_largest(best, limit)
    else:
        floor = -np.inf
    # -inf is no candidate: the slot is free, or the likelihood forbids the cluster
    kept = (best >= floor) & (best > -np.inf)
    candidates, best = slots[kept], best[kept]
    rows = _rows_of(state, candidates)
    if limit is not None and len(rows) > _MANY_ROWS:
        floor = _raised(state, candidates, limit, floor)
        candidates = candidates[best >= floor]
        rows = _rows_in_reach(state, candidates, floor)
    pool = _expand(state, candidates, rows, floor).heaviest_first()
    return pool if limit is None or len(pool) <= limit else pool.take(np.arange(limit))


def with_singletons(state: State, joins: Pool, alone: float) -> Pool:
    """The pool with x's new cluster in it, canonical order.

    A new cluster is the same event in every subproblem, so the singletons of the one with the
    heaviest join stand for all. Without joins, as in plain SMC, it is the one subproblem there is.

    Raises:
        LikelihoodError: there is no finite assignment.
    """
    log_new = rounded(state.prior.log_alpha + alone)
    if not len(joins):
        if log_new == -np.inf:
            raise LikelihoodError("the fragment has no finite assignment")
        return _singletons(state, next(iter(state.blocks)), log_new)
    if log_new == -np.inf:
        return joins.heaviest_first()
    host = int(joins.subproblem[joins.value.argmax()])
    return joined(joins, _singletons(state, host, log_new)).heaviest_first()


def _singletons(state: State, subproblem: int, log_new: float) -> Pool:
    """Putative particles that make x a new cluster, of log alpha + L({x}), in one subproblem."""
    weights = state.blocks[subproblem].weights
    nowhere = np.full(len(weights), -1)
    return Pool(
        weights + log_new,
        nowhere,
        nowhere,
        state.arange(len(weights)),
        np.full(len(weights), subproblem),
    )


def _expand(state: State, candidates: IntArray, rows: IntArray, floor: float) -> Pool:
    """Putative particles of some clusters above a floor, by subproblem, particle rank, cluster."""
    lengths = state.row_end[rows] - state.row_begin[rows]
    cells = state.ranges(state.row_begin[rows], lengths)
    slots = state.cells[cells]
    state.mark[candidates] = True
    wanted = state.mark[slots]
    state.mark[candidates] = False
    cells, slots = cells[wanted], slots[wanted]
    row = rows.repeat(lengths)[wanted]
    value = state.row_weight[row] + state.log_size[slots]
    value += state.gain[slots]
    heavy = value >= floor
    cells, slots, row, value = cells[heavy], slots[heavy], row[heavy], value[heavy]
    name = state.owner[slots]
    return Pool(value, cells, slots, row - state.row_start[name], name)


def _raised(state: State, candidates: IntArray, limit: int, floor: float) -> float:
    """A higher floor, if the particles of the few best clusters fill the pool by themselves."""
    if len(candidates) <= _LEADERS:
        return floor
    best = state.reach[candidates] + state.gain[candidates]
    leaders = candidates[np.argpartition(best, -_LEADERS)[-_LEADERS:]]
    rows = _rows_in_reach(state, leaders, floor)
    value = _expand(state, leaders, rows, floor).value
    return _kth_largest(value, limit) if len(value) > limit else floor


def _rows_of(state: State, candidates: IntArray) -> IntArray:
    """All rows of the candidates' subproblems."""
    names = distinct(state.owner[candidates])
    return state.ranges(state.row_start[names], state.row_count[names])


def _rows_in_reach(state: State, candidates: IntArray, floor: float) -> IntArray:
    """The rows of the candidates' subproblems that are heavy enough to come to `floor`."""
    candidates = candidates[np.argsort(state.owner[candidates], kind="stable")]
    owner = state.owner[candidates]
    starts = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]]))
    gain = state.log_size[candidates] + state.gain[candidates]
    # the slack covers the rounding of weights too large for the grid
    needed = floor - np.maximum.reduceat(gain, starts)
    needed -= _SLACK * (1 + np.abs(needed))
    counts = state.row_count[owner[starts]]
    rows = state.ranges(state.row_start[owner[starts]], counts)
    return rows[state.row_weight[rows] >= np.repeat(needed, counts)]


def _kth_largest(values: FloatArray, k: int) -> float:
    """The k-th largest value; a first pass over maxima of strided groups thins long arrays."""
    groups = 4 * k
    if len(values) > 8 * groups:
        depth = len(values) // groups
        maxima = values[: depth * groups].reshape(depth, groups).max(axis=0)
        # k groups reach this, each with a value of its own
        bound = np.partition(maxima, groups - k)[groups - k]
        values = values[values >= bound]
    return float(np.partition(values, len(values) - k)[len(values) - k])


def resample(pool: Pool, rules: Rules, rng: np.random.Generator) -> Pool:
    """At most P of the pool, canonical order."""
    if rules.floor:
        pool = pool.take(pool.value >= pool.value[0] + math.log(rules.floor))
    kept, value = rules.resampler.resample(pool.value, rules.particles, rng)
    pool = pool.take(kept)
    if rules.resampler.keeps_heaviest:
        return pool  # in the order that it was given
    return pool.with_value(on_grid(value)).heaviest_first()
