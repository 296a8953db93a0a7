"""Propose: put the new fragment into every cluster of every particle, keep the best.

The pool is cut to its `limit` heaviest members, and only what can be among them is expanded: the
`limit`-th largest of the clusters' best putative weights (one a cluster, by its heaviest
particle) is a lower bound of the `limit`-th largest putative weight, so clusters below it are
left out without looking at their particles.
"""

from __future__ import annotations

import numpy as np

from kbforge.cluster.pool import Pool, joined
from kbforge.cluster.state import State
from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import LikelihoodError


def propose_joins(state: State, log_predictive: FloatArray, limit: int | None) -> Pool:
    """The heaviest non-singleton putative particles, in canonical order.

    Args:
        state: before the new fragment.
        log_predictive: L(C + x) - L(C) by slot (or a surrogate's), nats, shape [n_slots].
        limit: how many to keep; None keeps all.

    Raises:
        LikelihoodError: a predictive is NaN or +inf.

    """
    # the best putative weight of each cluster, over the particles that hold it
    best = state.reach[: state.n_slots] + log_predictive
    top = best.max()
    if np.isnan(top) or top == np.inf:
        raise LikelihoodError(f"the likelihood returned {top}")
    if limit is not None and len(best) > limit:
        threshold = _kth_largest(best, limit)
    else:
        threshold = -np.inf
    threshold = max(threshold, np.finfo(np.float64).min)  # -inf is no candidate
    candidates = np.flatnonzero(best >= threshold)
    pool = _expand(state, candidates, log_predictive, threshold)
    pool = pool.heaviest_first()
    return pool if limit is None or len(pool) <= limit else pool.take(np.arange(limit))


def singletons(state: State, subproblem: int, log_new: float) -> Pool:
    """Putative particles that make x a new cluster, one a particle of the subproblem.

    Args:
        state: before the new fragment.
        subproblem: the one that stands for all, since a new cluster is the same event in each.
        log_new: log alpha + L({x}), nats.

    """
    weights = state.blocks[subproblem].weights
    nowhere = np.full(len(weights), -1)
    return Pool(
        weights + log_new,
        nowhere,
        nowhere,
        state.arange(len(weights)),
        np.full(len(weights), subproblem),
    )


def add_singletons(state: State, joins: Pool, log_new: float) -> Pool:
    """The joins and the singletons of the subproblem with the heaviest join, canonical order."""
    host = int(joins.subproblem[np.argmax(joins.value)])
    return joined(joins, singletons(state, host, log_new)).heaviest_first()


def _expand(state: State, candidates: IntArray, log_predictive: FloatArray, floor: float) -> Pool:
    """The putative particles of some clusters with a weight of at least `floor`."""
    if not len(candidates):
        none = np.zeros(0, dtype=np.int64)
        return Pool(np.zeros(0), none, none, none, none)
    names = np.unique(state.owner[candidates])
    cells = state.cells_of(names)
    slots = state.cell_slot[cells]
    state.mark[candidates] = True
    wanted = state.mark[slots]
    state.mark[candidates] = False
    cells, slots = cells[wanted], slots[wanted]
    value = state.cell_weight[cells] + state.log_size[slots]
    value += log_predictive[slots]
    heavy = value >= floor
    cells, slots, value = cells[heavy], slots[heavy], value[heavy]
    return Pool(value, cells, slots, state.cell_row[cells], state.owner[slots])


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
