"""Revise: searches for more probable groupings of earlier fragments.

*Revisit.* A step takes a few neighbouring clusters of the heaviest particles and clusters their
fragments again, separately and in random order. The results join the old particles: equal ones
count once, each weighs its target density, and the heaviest P stay. The step is kept only if the
log of the summed target densities grows, over the subproblems concerned. So neither this sum nor
the density of the heaviest particle ever falls, and the reverse KL divergence to the posterior
never grows. (Sequential Monte Carlo cannot move a whole cluster once all particles agree on it;
Gibbs sampling would pass through far less probable groupings.)

*Split or merge.* A cluster's fragments are hashed; the proposal is a split into those with the hash
of one fragment, and the rest. The hash is the first, in a random order, of a fragment's keys in the
index or of the features that the likelihood compares (MinHash); for vectors, the side of a random
direction through the cluster's mean. If no split is better, the proposal is a merge with the best
other cluster that the fragment fits. Unlike sampling, this never accepts a worse grouping.

*Move.* A fragment moves to the cluster that makes the heaviest particle heaviest.

*Exchange.* With a linking attribute fragments swap places
(`kbforge.clustering.exchange`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kbforge.clustering.exchange import can_exchange, exchanged
from kbforge.clustering.pages import clusters_of
from kbforge.clustering.regroup import (
    Row,
    components,
    heaviest,
    in_order,
    joined,
    joint,
    log_densities,
    rests_of,
)
from kbforge.clustering.rules import InfeasibleFragment
from kbforge.clustering.state import SessionState
from kbforge.contracts import Cluster, FloatArray, Revision
from kbforge.errors import LikelihoodError, quoted
from kbforge.numerics import log_sum_exp


class Rerun(NamedTuple):
    """Groupings of a few fragments found by a run, in the form of `JointParticles`."""

    rows: list[Row]
    values: FloatArray
    term: Mapping[Cluster, float]


def clustered_again(state: SessionState, order: Sequence[int]) -> Rerun:
    """The final groupings of a run over these fragments alone, at most P, heaviest first.

    The run has the session's likelihood, rules and constraints, and no index.

    Raises:
        LikelihoodError: as a session's `add`, or no grouping found satisfies the constraints.
    """
    again = SessionState(replace(state.spec, index=None), state.rules, state.rng)
    items = [state.fragment(number) for number in order]
    state.bindings.bind_some(again.run, items)
    for number, x in enumerate(items):
        try:
            again.table.add((x,), again.table.read((x,)), 0)
        except InfeasibleFragment:
            raise LikelihoodError(
                f'fragment "{quoted(x.id)}": the likelihood forbids what the decisions require'
            ) from None
        again.took_in((x,), (number,))
    state.table.count_run(again.table)
    found = joined(again.pages(again.run.names()), state.prior, state.rules.particles)
    named = {c: tuple(sorted(order[i] for i in c)) for c in found.term}
    return Rerun(
        [in_order(named[cluster] for cluster in row) for row in found.rows],
        found.values,
        {named[cluster]: term for cluster, term in found.term.items()},
    )


MOST_TAKEN = 300
"""Maximum fragments that a step clusters again, to bound its cost."""

MOST_NEIGHBOURS = 3
"""Maximum neighbouring clusters per step."""

LEAST_GAIN = 1e-9
"""Nats: smaller differences are rounding."""


def revisit(state: SessionState, anchor: int, neighbours: int) -> tuple[list[int], float]:
    """Cluster a fragment's cluster and some of its neighbours again.

    Returns the fragments concerned (none if they are too many) and the gain in log mass, 0 for
    none. If the likelihood fails, nothing has changed.
    """
    taken = list(state.cluster_of(anchor)[0])
    if len(taken) > MOST_TAKEN:
        return [], 0.0
    for near in nearest_clusters(state, anchor, neighbours):
        if len(taken) + len(near) <= MOST_TAKEN:
            taken += near
    if len(taken) < 2:
        return taken, 0.0
    order = state.rng.permutation(sorted(taken)).tolist()
    return taken, offer(state, taken, clustered_again(state, order))


def nearest_clusters(state: SessionState, fragment: int, most: int) -> list[Cluster]:
    """The other clusters that a fragment would join first, up to a maximum."""
    slots, weights, _ = state.rivals(fragment)
    return state.run.clusters(slots[np.argsort(-weights, kind="stable")[:most]])[0]


def offer(state: SessionState, taken: Sequence[int], again: Rerun) -> float:
    """Adopt other groupings of some fragments if that helps; the gain in log mass."""
    names = sorted(set(state.run.homes(taken)))
    size = state.rules.particles
    both = joined(state.pages(names), state.prior, size)
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
        ((_mass(state, each, term), each) for each in (beside, apart)), key=lambda found: found[0]
    )
    if mass - both.mass <= LEAST_GAIN:
        return 0.0
    state.replace(state.plan(names, [chosen]))
    return mass - both.mass


def _mass(state: SessionState, rows: Sequence[Row], term: dict[Cluster, float]) -> float:
    """Log of the summed target densities of rows."""
    parts = components(rows) if state.rules.splits else [list(rows)]
    return float(sum(log_sum_exp(log_densities(part, term)) for part in parts))


def revised(
    state: SessionState, times: int, anchors: Sequence[int] | None, after_step: Callable[[], None]
) -> Revision:
    """Revisit around some fragments, or around one of every cluster, in random order.

    Then split or merge the clusters of those, and move each fragment revisited. At the end exchange
    fragments between all clusters, if a link separates some. `after_step` is called after every
    step, and may raise to end the revision.

    Raises:
        LikelihoodError: as a session's `add`; the steps before it stay.
    """
    steps, changed, gain, seen = 0, 0, 0.0, dict[int, None]()
    for _ in range(times):
        chosen = _one_each(state) if anchors is None else anchors
        for anchor in state.rng.permutation(np.array(chosen, dtype=np.int64)).tolist():
            neighbours = int(state.rng.integers(1, MOST_NEIGHBOURS + 1))
            taken, gained = revisit(state, anchor, neighbours)
            seen |= dict.fromkeys(taken)
            steps, changed, gain = steps + 1, changed + (gained > 0), gain + gained
            after_step()
        for anchor in chosen:
            gained = split_or_merge(state, anchor)
            steps, changed, gain = steps + 1, changed + (gained > 0), gain + gained
            after_step()
    for fragment in sorted(seen):
        gained = move(state, fragment)
        steps, changed, gain = steps + 1, changed + (gained > 0), gain + gained
        after_step()
    if anchors is None and can_exchange(state):
        more, renewed, gained = exchanged(state, after_step)
        steps, changed, gain = steps + more, changed + renewed, gain + gained
    return Revision(steps, changed, gain)


def move(state: SessionState, fragment: int) -> float:
    """Move a fragment to the cluster that makes the heaviest particle heaviest; the gain in log
    mass."""
    here, own = state.cluster_of(fragment)
    left = tuple(other for other in here if other != fragment)
    slots, weights, _ = state.rivals(fragment)
    # each as clusters before and after: into the best rival, or into a cluster of its own
    moves: list[tuple[Row, Row]] = []
    term = {here: own}
    if len(slots):
        best_slot = slots[[weights.argmax()]]
        (there,), scores = state.run.clusters(best_slot)
        term[there] = float(state.prior.log_terms([there], scores)[0])
        moves.append(((here, there), _held(left, tuple(sorted((*there, fragment))))))
    if left:
        moves.append(((here,), _held(left, (fragment,))))
    unknown = list(dict.fromkeys(cluster for _, after in moves for cluster in after))
    scores = state.table.score(unknown)
    term |= dict(zip(unknown, state.prior.log_terms(unknown, scores).tolist(), strict=True))
    best: Row = ()
    gain = LEAST_GAIN
    for before, after in moves:
        gained = sum(term[c] for c in after) - sum(term[c] for c in before)
        if gained > gain and state.bindings.allow(after):
            best, gain = after, gained
    if not best:
        return 0.0
    value = math.fsum(term[cluster] for cluster in best)
    taken = [i for cluster in best for i in cluster]
    return offer(state, taken, Rerun([best], np.array([value]), term))


def _held(*clusters: Cluster) -> Row:
    """The clusters that are not empty, as a row."""
    return in_order(cluster for cluster in clusters if cluster)


def _one_each(state: SessionState) -> list[int]:
    """One fragment of every cluster of the heaviest particles."""
    clusters: dict[int, Cluster] = {}
    for page in state.pages(state.run.names()):
        heaviest = set(page.slots[page.cells[: page.rows[0]]].tolist())
        clusters |= {slot: c for slot, c in clusters_of(page).items() if slot in heaviest}
    by_slot = [clusters[slot] for slot in sorted(clusters)]
    at = state.rng.integers(np.array([len(cluster) for cluster in by_slot], dtype=np.int64))
    return [cluster[place] for cluster, place in zip(by_slot, at.tolist(), strict=True)]


_HASHES = 4


def split_or_merge(state: SessionState, fragment: int) -> float:
    """Split a fragment's cluster by hashes, or merge it with another; the gain in log mass."""
    here = state.cluster_of(fragment)[0]
    return _best_offered(state, [here], _parted(state, fragment, here)) or _merged(state, fragment)


def _merged(state: SessionState, fragment: int) -> float:
    """Merge its cluster with the best of some others; the gain in log mass."""
    here = state.cluster_of(fragment)[0]
    gain = 0.0
    for there in nearest_clusters(state, fragment, MOST_NEIGHBOURS):
        if not gain and len(here) + len(there) <= MOST_TAKEN:
            gain = _best_offered(state, [here, there], [(tuple(sorted((*here, *there))),)])
    return gain


def _best_offered(state: SessionState, before: Sequence[Cluster], rows: Sequence[Row]) -> float:
    """Try the best of some groupings of the fragments of clusters; the gain in log mass."""
    rows = [row for row in rows if state.bindings.allow(row)]
    if not rows:
        return 0.0
    sets = list(dict.fromkeys([*before, *(cluster for row in rows for cluster in row)]))
    scores = state.prior.log_terms(sets, state.table.score(sets))
    term = dict(zip(sets, scores.tolist(), strict=True))
    values = [math.fsum(term[cluster] for cluster in row) for row in rows]
    best = int(np.argmax(values))
    if not values[best] - math.fsum(term[cluster] for cluster in before) > LEAST_GAIN:
        return 0.0
    taken = [number for cluster in before for number in cluster]
    return offer(state, taken, Rerun([rows[best]], np.array([values[best]]), term))


def _parted(state: SessionState, fragment: int, cluster: Cluster) -> list[Row]:
    """The cluster split in two, by each of the hash functions that can split it."""
    if not 1 < len(cluster) <= MOST_TAKEN:
        return []
    rows = []
    for bucket in _buckets(state, fragment, cluster):
        inside = tuple(number for number in cluster if number in bucket)
        outside = tuple(number for number in cluster if number not in bucket)
        if outside:
            rows.append(in_order((inside, outside)))
    return list(dict.fromkeys(rows))


def _buckets(state: SessionState, fragment: int, cluster: Cluster) -> list[set[int]]:
    """The fragments of a cluster that share one fragment's hash, by each hash function."""
    keys = _keys(state, cluster)
    if keys.get(fragment):
        place = {
            key: i for i, key in enumerate(dict.fromkeys(k for ks in keys.values() for k in ks))
        }
        at = {number: np.array([place[key] for key in keys[number]]) for number in cluster}
        orders = (state.rng.permutation(len(place)) for _ in range(_HASHES))
        firsts = [{i: order[of].min() for i, of in at.items() if len(of)} for order in orders]
        return [{i for i, key in first.items() if key == first[fragment]} for first in firsts]
    vectors = [state.fragment(number).vector for number in cluster]
    if any(vector is None for vector in vectors):
        return []
    x = np.array(vectors)
    sides = (x - x.mean(axis=0)) @ state.rng.normal(size=(x.shape[1], _HASHES)) > 0
    own = sides[cluster.index(fragment)]
    numbers = np.array(cluster)
    return [set(numbers[sides[:, j] == own[j]].tolist()) for j in range(_HASHES)]


def _keys(state: SessionState, cluster: Cluster) -> Mapping[int, Sequence[int]]:
    """For each fragment, the features that it shares with similar ones; empty if there are none."""
    if state.spec.index is not None:
        return state.keys(cluster)
    fragments = [state.fragment(number) for number in cluster]
    features = state.spec.likelihood.features(fragments)
    if features is None:
        return {}
    names = np.split(features.names, features.starts[1:-1])
    return {number: own.tolist() for number, own in zip(cluster, names, strict=True)}
