"""Revise: search for more probable groupings of earlier fragments.

*Revisit.* A step takes a few neighbouring clusters of the heaviest particles, of one subproblem or
of several, and clusters their fragments again, by themselves and in random order. What comes out
stands beside the old particles: equal ones are one, every one weighs its target density, and the
heaviest P stay. That is done only if the log of the sum of all target densities held, over the
subproblems concerned, is more than before. So it never falls, and the reverse KL divergence to the
posterior never grows. Nor does the density of the heaviest particle ever fall. (Sequential Monte
Carlo cannot move a whole cluster once no particle disagrees about it; moving one fragment at a
time, Gibbs sampling, goes through groupings that are far less probable on the way.)

*Split or merge.* Neither parts a cluster of many in the middle when every part of it holds
together. So its fragments are hashed, and it is offered as those with the hash of one fragment, and
the rest. Where fragments have keys, of the index or as features that the likelihood compares by,
the hash is the first of them in a random order (MinHash); otherwise, for vectors, the side of a
random direction through the cluster's mean. If no split is better, the cluster is offered as one
with the best of those that the fragment could belong to instead. Sampling would accept what is
worse, too (`kbforge.clustering.batch.splitmerge`); revision takes only what is more probable.

*Move.* A fragment goes where the heaviest particle is heaviest with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kbforge.clustering.constraints import Bounds
from kbforge.clustering.core import Core
from kbforge.clustering.regroup import (
    Row,
    components,
    heaviest,
    in_order,
    joined,
    joint,
    log_densities,
    plan_replacement,
    rests_of,
)
from kbforge.clustering.scoring import make_scorer
from kbforge.clustering.state import State
from kbforge.clustering.step import InfeasibleFragment, commit, consider
from kbforge.contracts import Cluster, FloatArray, IntArray, Revision
from kbforge.errors import LikelihoodError, quoted
from kbforge.numerics import log_sum_exp


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
            bindings.follow(plan.fragment, plan.reading.fragment, plan.new, plan.dropped)
    core.model.count(model)
    found = joined(state, state.blocks, core.rules.particles)
    named = {c: tuple(sorted(order[i] for i in c)) for c in found.term}
    return Rerun(
        [in_order(named[cluster] for cluster in row) for row in found.rows],
        found.values,
        {named[cluster]: term for cluster, term in found.term.items()},
    )


MOST_TAKEN = 300
"""Fragments that a step clusters again at most: what a step costs is bounded."""

MOST_NEIGHBOURS = 3
"""Clusters that a step takes beside the one it begins with, at most."""

LEAST_GAIN = 1e-9
"""Nats: less is rounding."""


def revisit(core: Core, anchor: int, neighbours: int) -> tuple[list[int], float]:
    """Cluster a fragment's cluster and its neighbours again.

    Args:
        core: may be changed.
        anchor: the fragment's number.
        neighbours: how many neighbours to take.

    Returns:
        The fragments taken, none if they are too many, and the gain in log mass, 0 for none.

    Raises:
        LikelihoodError: as a session's `add`; nothing has changed then.

    """
    own = slot_of(core, anchor)
    taken = list(core.state.members(own))
    if len(taken) > MOST_TAKEN:
        return [], 0.0
    slots, weights = rivals(core, anchor, own)
    for slot in slots[np.argsort(-weights, kind="stable")[:neighbours]].tolist():
        if len(taken) + core.state.size[slot] <= MOST_TAKEN:
            taken += core.state.members(slot)
    if len(taken) < 2:
        return taken, 0.0
    order = core.rng.permutation(sorted(taken)).tolist()
    return taken, offer(core, taken, clustered_again(core, order))


def offer(core: Core, taken: Sequence[int], again: Rerun) -> float:
    """Take up other groupings of some fragments if that is worth it; the gain in log mass.

    Args:
        core: may be changed.
        taken: fragments that the heaviest particles group by themselves.
        again: other groupings of these.

    """
    names = sorted({core.homes.of(number) for number in taken})
    size = core.rules.particles
    both = joined(core.state, names, size)
    rests = rests_of(both.rows, taken, both.term)
    if not rests[0]:
        return 0.0
    rows, values = joint([rests, (again.rows, again.values)], size)
    known = set(both.rows)
    least = both.values[-1] if len(both.rows) == size else -np.inf
    if all(value <= least or row in known for row, value in zip(rows, values, strict=True)):
        return 0.0
    term = {**again.term, **both.term}
    beside, weights = heaviest([*both.rows, *rows], np.concatenate([both.values, values]), size)
    # where subproblems had more combinations than P, the new rows by themselves may hold more
    apart = rows if values[0] >= weights[0] else beside
    mass, chosen = max(
        ((_mass(core, each, term), each) for each in (beside, apart)), key=lambda found: found[0]
    )
    if mass - both.mass <= LEAST_GAIN:
        return 0.0
    core.replace(plan_replacement(core.state, core.model, core.rules, names, [chosen]))
    return mass - both.mass


def slot_of(core: Core, fragment: int) -> int:
    """The slot of a fragment's cluster in the heaviest particle."""
    block = core.state.blocks[core.homes.of(fragment)]
    slots: list[int] = block.cells[: block.row_start[1]].tolist()
    return next(slot for slot in slots if fragment in core.state.members(slot))


def heaviest_slots(core: Core, names: IntArray | None = None) -> IntArray:
    """The clusters of the heaviest particles, ascending by slot.

    Args:
        core: is read.
        names: of some subproblems; None is of all.

    """
    state = core.state
    if names is None:
        names = np.fromiter(state.blocks, dtype=np.int64, count=len(state.blocks))
    rows = state.row_start[names]
    begin = state.row_begin[rows]
    return np.sort(state.cells[state.ranges(begin, state.row_end[rows] - begin)])


def rivals(core: Core, fragment: int, own: int) -> tuple[IntArray, FloatArray]:
    """Clusters of the heaviest particles that a fragment could belong to instead of its own.

    Returns:
        Their slots, and log|C| + L(C + x) - L(C) of each, nats.

    """
    state, x = core.state, core.model.fragments[fragment]
    core.lead(x)
    if core.model.candidates is None:
        slots = heaviest_slots(core)
    else:
        reached = core.model.candidates.look_up(x, state.in_heaviest).slots
        near = heaviest_slots(core, np.unique(state.owner[reached]))
        slots = np.intersect1d(reached, near)
    slots = slots[slots != own]
    if not len(slots):
        return slots, np.zeros(0)
    reading = core.model.read(state, x, Bounds.of(slots))
    core.model.count(reading)
    return slots, state.log_size[slots] + reading.scores.log_predictive[slots]


def _mass(core: Core, rows: Sequence[Row], term: dict[Cluster, float]) -> float:
    """Log of the sum of the target densities that rows stand for."""
    parts = components(rows) if core.rules.splits else [list(rows)]
    return float(sum(log_sum_exp(log_densities(part, term)) for part in parts))


def revised(
    core: Core, times: int, anchors: Sequence[int] | None, after_step: Callable[[], None]
) -> Revision:
    """Revisit around some fragments, or around one of every cluster, in random order.

    Then split or merge the clusters of those, and in the end move each of the fragments that were
    revisited.

    Args:
        core: may be changed.
        times: how often.
        anchors: the fragments; None is one of every cluster of the heaviest particles, drawn anew
            each time.
        after_step: is called after every step, and may raise to end it there.

    Raises:
        LikelihoodError: as a session's `add`; the steps before it stay.

    """
    steps, changed, gain, seen = 0, 0, 0.0, dict[int, None]()
    for _ in range(times):
        chosen = _one_each(core) if anchors is None else anchors
        for anchor in core.rng.permutation(np.array(chosen, dtype=np.int64)).tolist():
            neighbours = int(core.rng.integers(1, MOST_NEIGHBOURS + 1))
            taken, gained = revisit(core, anchor, neighbours)
            seen |= dict.fromkeys(taken)
            steps, changed, gain = steps + 1, changed + (gained > 0), gain + gained
            after_step()
        for anchor in chosen:
            gained = split_or_merge(core, anchor)
            steps, changed, gain = steps + 1, changed + (gained > 0), gain + gained
            after_step()
    for fragment in sorted(seen):
        gained = move(core, fragment)
        steps, changed, gain = steps + 1, changed + (gained > 0), gain + gained
        after_step()
    return Revision(steps, changed, gain)


def move(core: Core, fragment: int) -> float:
    """Put a fragment where the heaviest particle is heaviest with it; the gain in log mass.

    Raises:
        LikelihoodError: as a session's `add`; nothing has changed then.

    """
    state, own = core.state, slot_of(core, fragment)
    here = state.members(own)
    left = tuple(other for other in here if other != fragment)
    slots, weights = rivals(core, fragment, own)
    # each as clusters before and after: into the best rival, or into a cluster of its own
    moves: list[tuple[Row, Row]] = []
    term = {here: float(state.term[own])}
    if len(slots):
        best_slot = int(slots[weights.argmax()])
        there = state.members(best_slot)
        term[there] = float(state.term[best_slot])
        moves.append(((here, there), _held(left, tuple(sorted((*there, fragment))))))
    if left:
        moves.append(((here,), _held(left, (fragment,))))
    unknown = list(dict.fromkeys(cluster for _, after in moves for cluster in after))
    scores = core.model.score(unknown)
    term |= dict(zip(unknown, state.prior.log_terms(unknown, scores).tolist(), strict=True))
    best: Row = ()
    gain = LEAST_GAIN
    for before, after in moves:
        gained = sum(term[c] for c in after) - sum(term[c] for c in before)
        if gained > gain and (core.bindings is None or core.bindings.allow(after)):
            best, gain = after, gained
    if not best:
        return 0.0
    value = math.fsum(term[cluster] for cluster in best)
    taken = [i for cluster in best for i in cluster]
    return offer(core, taken, Rerun([best], np.array([value]), term))


def _held(*clusters: Cluster) -> Row:
    """Those of the clusters that are not empty, as a row."""
    return in_order(cluster for cluster in clusters if cluster)


def _one_each(core: Core) -> list[int]:
    """A fragment of every cluster of the heaviest particles."""
    slots = heaviest_slots(core)
    at = core.rng.integers(core.state.size[slots])
    places = zip(slots.tolist(), at.tolist(), strict=True)
    return [core.state.members(slot)[place] for slot, place in places]


_HASHES = 4


def split_or_merge(core: Core, fragment: int) -> float:
    """Part a fragment's cluster by hashes, or make it one with another; the gain in log mass.

    Raises:
        LikelihoodError: as a session's `add`; nothing has changed then.

    """
    here = core.state.members(slot_of(core, fragment))
    return _best_offered(core, [here], _parted(core, fragment, here)) or _merged(core, fragment)


def _merged(core: Core, fragment: int) -> float:
    """Make its cluster one with the best of some others; the gain in log mass."""
    own = slot_of(core, fragment)
    slots, weights = rivals(core, fragment, own)
    near = slots[np.argsort(-weights, kind="stable")[:MOST_NEIGHBOURS]].tolist()
    here = core.state.members(own)
    gain = 0.0
    for there in [core.state.members(slot) for slot in near]:
        if not gain and len(here) + len(there) <= MOST_TAKEN:
            gain = _best_offered(core, [here, there], [(tuple(sorted((*here, *there))),)])
    return gain


def _best_offered(core: Core, before: Sequence[Cluster], rows: Sequence[Row]) -> float:
    """Offer the best of some groupings of the fragments of clusters; the gain in log mass."""
    if core.bindings is not None:
        rows = [row for row in rows if core.bindings.allow(row)]
    if not rows:
        return 0.0
    sets = list(dict.fromkeys([*before, *(cluster for row in rows for cluster in row)]))
    scores = core.state.prior.log_terms(sets, core.model.score(sets))
    term = dict(zip(sets, scores.tolist(), strict=True))
    values = [math.fsum(term[cluster] for cluster in row) for row in rows]
    best = int(np.argmax(values))
    if not values[best] - math.fsum(term[cluster] for cluster in before) > LEAST_GAIN:
        return 0.0
    taken = [number for cluster in before for number in cluster]
    return offer(core, taken, Rerun([rows[best]], np.array([values[best]]), term))


def _parted(core: Core, fragment: int, cluster: Cluster) -> list[Row]:
    """The cluster in two, by each of some hash functions that do not hold it together."""
    if not 1 < len(cluster) <= MOST_TAKEN:
        return []
    rows = []
    for bucket in _buckets(core, fragment, cluster):
        inside = tuple(number for number in cluster if number in bucket)
        outside = tuple(number for number in cluster if number not in bucket)
        if outside:
            rows.append(in_order((inside, outside)))
    return list(dict.fromkeys(rows))


def _buckets(core: Core, fragment: int, cluster: Cluster) -> list[set[int]]:
    """The fragments of a cluster with the hash of one of them, by each hash function."""
    keys = _keys(core, cluster)
    if keys.get(fragment):
        place = {
            key: i for i, key in enumerate(dict.fromkeys(k for ks in keys.values() for k in ks))
        }
        at = {number: np.array([place[key] for key in keys[number]]) for number in cluster}
        orders = (core.rng.permutation(len(place)) for _ in range(_HASHES))
        firsts = [{i: order[of].min() for i, of in at.items() if len(of)} for order in orders]
        return [{i for i, key in first.items() if key == first[fragment]} for first in firsts]
    vectors = [core.model.fragments[number].vector for number in cluster]
    if any(vector is None for vector in vectors):
        return []
    x = np.array(vectors)
    sides = (x - x.mean(axis=0)) @ core.rng.normal(size=(x.shape[1], _HASHES)) > 0
    own = sides[cluster.index(fragment)]
    numbers = np.array(cluster)
    return [set(numbers[sides[:, j] == own[j]].tolist()) for j in range(_HASHES)]


def _keys(core: Core, cluster: Cluster) -> Mapping[int, Sequence[int]]:
    """By fragment, what it shares with those that are like it; none if nothing says."""
    if core.model.candidates is not None:
        return core.model.keys(list(cluster))
    fragments = [core.model.fragments[number] for number in cluster]
    features = core.problem.likelihood.features(fragments)
    if features is None:
        return {}
    names = np.split(features.names, features.starts[1:-1])
    return {number: own.tolist() for number, own in zip(cluster, names, strict=True)}
