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

*Exchange.* With a linking attribute fragments swap places.

Under a link a cluster has at most one fragment of each table. The first fragment takes the place, a
later and better partner finds it taken, and no single move corrects that. So a fragment moves to
the place that it fits, the fragment there moves on in the same way, and so on, until one finds a
free place or stays alone: an *ejection chain* (Glover 1996), the augmenting path of an assignment
where clusters are pairs. Starting from the heaviest particles, chains with a gain are applied until
there are none.

Then new particles are built around the resulting grouping. Its uncertainty consists of
*alternatives*: sets of its clusters that others may replace, at a loss that is not too large. They
come from the chains and from differences to the old particles. Alternatives that share no cluster
are independent, and the subproblems follow from them. If a part has more groupings than P, it drops
its least probable alternatives when it then holds more of the target density. If the result holds
less than the old particles, the old ones stay.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from kbforge.clustering.regroup import (
    JointParticles,
    Row,
    components,
    heaviest,
    in_order,
    joined,
    joint,
    log_densities,
    rests_of,
    rows_of,
    terms_of,
)
from kbforge.clustering.rules import InfeasibleFragment
from kbforge.clustering.state import SessionState
from kbforge.contracts import Cluster, FloatArray, Revision
from kbforge.errors import LikelihoodError, quoted
from kbforge.numerics import log_sum_exp


def clustered_again(state: SessionState, order: Sequence[int]) -> JointParticles:
    """The final groupings of a run over these fragments alone, at most P, heaviest first.

    The run has the session's likelihood, rules and constraints, and no index.

    Raises:
        LikelihoodError: as a session's `add`, or no grouping found satisfies the constraints.
    """
    again = SessionState(replace(state.spec, index=None), state.rules, state.rng)
    items = [state.fragment(number) for number in order]
    state.bindings.bind_some(again.run, order)
    for number, x in enumerate(items):
        try:
            again.table.add((x,), again.table.read((x,)), 0)
        except InfeasibleFragment:
            raise LikelihoodError(
                f'fragment "{quoted(x.id)}": the likelihood forbids what the decisions require'
            ) from None
        again.took_in((x,), (number,))
    state.table.count_run(again.table)
    found, _ = joined(again.pages(again.run.names()), state.prior, state.rules.particles)
    named = {c: tuple(sorted(order[i] for i in c)) for c in found.term}
    return JointParticles(
        [in_order(named[cluster] for cluster in row) for row in found.rows],
        found.values,
        {named[cluster]: term for cluster, term in found.term.items()},
    )


MOST_TAKEN = 300
"""Maximum number of fragments that a step clusters again, to bound its cost."""

MOST_NEIGHBOURS = 3
"""Maximum number of neighbouring clusters per step."""

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


def offer(state: SessionState, taken: Sequence[int], again: JointParticles) -> float:
    """Adopt other groupings of some fragments if that helps; the gain in log mass."""
    names = sorted(set(state.run.homes(taken)))
    size = state.rules.particles
    both, before = joined(state.pages(names), state.prior, size)
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
    if mass - before <= LEAST_GAIN:
        return 0.0
    state.replace(state.plan(names, [chosen]))
    return mass - before


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
    return offer(state, taken, JointParticles([best], np.array([value]), term))


def _held(*clusters: Cluster) -> Row:
    """The clusters that are not empty, as a row."""
    return in_order(cluster for cluster in clusters if cluster)


def _one_each(state: SessionState) -> list[int]:
    """One fragment of every cluster of the heaviest particles."""
    clusters: dict[int, Cluster] = {}
    for page in state.pages(state.run.names()):
        heaviest = set(page.slots[page.cells[: page.rows[0]]].tolist())
        clusters |= {slot: c for slot, c in page.clusters().items() if slot in heaviest}
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
    return offer(state, taken, JointParticles([rows[best]], np.array([values[best]]), term))


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


_DEEPEST = 8  # fragments that a chain moves, at most
_DEEPEST_DOUBT = 4  # of a chain that loses
_BEAM = 2  # chains that are followed at a time
_MOST_LOOKED_AT = 32  # clusters that a fragment could be in, without an index
_MOST_SHARING = 64  # fragments with one key; more say little
_MOST_PARTNERS = 8  # fragments of them that it tries to be with
_MOST_LOST = 7.0
"""Maximum loss of an alternative, in nats: its weight is about 1e-3 of the grouping's."""


class _Change(NamedTuple):
    """Clusters of the grouping, and their replacements; the gain is in log target density."""

    gain: float
    before: Row
    after: Row


class _Chain(NamedTuple):
    """An unfinished chain: `homeless` is in no cluster, and `moved` may not move again.

    `held` has the new clusters, by each of their fragments.
    """

    gain: float
    homeless: int
    moved: frozenset[int]
    held: Mapping[int, Cluster]


class _Grouping:
    """A grouping on which chains are tried."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self.cluster: dict[int, Cluster] = {}
        self.term: dict[Cluster, float] = {(): 0.0}
        for page in state.pages(state.run.names()):
            self.term |= terms_of(page, state.prior)
            held = page.clusters()
            for slot in page.slots[page.cells[: page.rows[0]]].tolist():
                self.cluster |= dict.fromkeys(held[slot], held[slot])
        self._begin = dict(self.cluster)
        self._stated = {n: frozenset(state.bindings.values(n)) for n in self.cluster}
        self._near: dict[int, tuple[int, ...]] = {}
        self._keys = state.keys(sorted(self.cluster))
        self._with: dict[int, list[int]] = {}
        for number, keys in self._keys.items():
            for key in keys:
                self._with.setdefault(key, []).append(number)

    def learn(self, clusters: Iterable[Cluster]) -> None:
        """Compute the terms of these clusters."""
        unknown = [c for c in dict.fromkeys(clusters) if c not in self.term]
        if unknown:
            scores = self._state.table.score(unknown)
            terms = self._state.prior.log_terms(unknown, scores).tolist()
            self.term |= dict(zip(unknown, terms, strict=True))

    def near(self, number: int) -> tuple[int, ...]:
        """The best partners of a fragment, whether or not their places are taken."""
        if number not in self._near:
            mine, found = self._stated[number], self._looked_at(number)
            # its own cluster in the particles may be another one by now
            inside = dict.fromkeys(chain(found, self._begin[number]))
            others = [o for o in inside if o != number and mine.isdisjoint(self._stated[o])]
            pairs = [(min(number, other), max(number, other)) for other in others]
            self.learn([(number,), *((other,) for other in others), *pairs])
            term = self.term
            gain = {
                other: term[pair] - term[(other,)] - term[(number,)]
                for other, pair in zip(others, pairs, strict=True)
            }
            likely = [other for other in others if gain[other] > -_MOST_LOST]
            likely.sort(key=lambda other: (-gain[other], other))
            self._near[number] = tuple(likely[:_MOST_PARTNERS])
        return self._near[number]

    def _looked_at(self, number: int) -> Iterator[int]:
        """The fragments that share a key with it or, without an index, its best rivals."""
        if self._keys:
            for key in self._keys[number]:
                if len(self._with[key]) <= _MOST_SHARING:
                    yield from self._with[key]
            return
        with self._state.bindings.unlinked(number):
            slots, weights, _ = self._state.rivals(number)
        chosen = slots[np.argsort(-weights, kind="stable")[:_MOST_LOOKED_AT]]
        if len(chosen):
            yield from chain.from_iterable(self._state.run.clusters(np.sort(chosen))[0])

    def changes(self, number: int, deepest: int, enough: float = math.inf) -> list[_Change]:
        """The results of chains that begin with a fragment, until one gains enough."""
        home = self.cluster[number]
        rest = tuple(other for other in home if other != number)
        if not rest and not self.near(number):
            return []
        self.learn([rest])
        gain = self.term[rest] - self.term[home]
        open_ = [_Chain(gain, number, frozenset([number]), dict.fromkeys(rest, rest))]
        found: list[_Change] = []
        for depth in range(deepest):
            if depth or rest:
                found += (self._closed(each) for each in open_)
            going = [step for each in open_ for step in self._steps(each)]
            found += (self._closed(each) for each in going if each.homeless < 0)
            left = [each for each in going if each.homeless >= 0]
            if not left or any(change.gain > enough for change in found):
                break
            self.learn((each.homeless,) for each in left)
            left.sort(key=lambda each: -each.gain - self.term[(each.homeless,)])
            open_ = left[:_BEAM]
        return found

    def _steps(self, of: _Chain) -> list[_Chain]:
        """The chains extended by one place; -1 as homeless marks a finished one."""
        x, mine = of.homeless, self._stated[of.homeless]
        near = [*self.near(x), *of.held]
        places = dict.fromkeys(of.held.get(other) or self.cluster[other] for other in near)
        tried: list[tuple[Cluster, Cluster, int]] = []
        for place in places:
            if x in place:
                continue
            blocking = [other for other in place if not mine.isdisjoint(self._stated[other])]
            if len(blocking) > 1 or (blocking and blocking[0] in of.moved):
                continue
            out = blocking[0] if blocking else -1
            new = sorted(other for other in place if other != out)
            bisect.insort(new, x)
            tried.append((place, tuple(new), out))
        self.learn(each for place, new, _ in tried for each in (place, new))
        return [
            _Chain(
                of.gain + self.term[new] - self.term[place],
                out,
                of.moved | {out},
                {**of.held, **dict.fromkeys(new, new)},
            )
            for place, new, out in tried
        ]

    def _closed(self, of: _Chain) -> _Change:
        """The result of a chain if its homeless fragment stays alone."""
        held, gain = dict(of.held), of.gain
        if of.homeless >= 0:
            alone = (of.homeless,)
            self.learn([alone])
            held[of.homeless] = alone
            gain += self.term[alone]
        before = in_order({self.cluster[number] for number in held})
        return _Change(gain, before, in_order(set(held.values())))

    def take(self, change: _Change) -> None:
        """Change the grouping."""
        for cluster in change.after:
            self.cluster |= dict.fromkeys(cluster, cluster)

    def allows(self, change: _Change) -> bool:
        """Whether the decisions and the model allow a change."""
        return change.gain > -np.inf and self._state.bindings.allow(change.after)


def can_exchange(state: SessionState) -> bool:
    """Whether a link separates fragments, particles weigh their density, and sets are cheap."""
    linked = state.bindings.constraints.link is not None
    return linked and state.rules.keeps_heaviest and state.sets is None


def exchanged(state: SessionState, after_step: Callable[[], None]) -> tuple[int, int, float]:
    """Exchange fragments between clusters until nothing is gained; returns steps, changes, gain.

    The gain is in the log of the summed target densities. `after_step` is called after every step,
    and may raise to end the exchange; nothing has changed in that case.
    """
    grouping = _Grouping(state)
    steps = _climb(grouping, after_step)
    alternatives: dict[tuple[Row, Row], _Change] = {}
    for number in sorted(grouping.cluster):
        for change in grouping.changes(number, _DEEPEST_DOUBT):
            if change.gain >= -_MOST_LOST and change.before != change.after:
                alternatives[change.before, change.after] = change
        after_step()
    changed, gain = _renew(state, grouping, alternatives)
    return steps + len(grouping.cluster), changed, gain


def _climb(grouping: _Grouping, after_step: Callable[[], None]) -> int:
    """Apply chains with a gain until there are none, or until further gains must be rounding."""
    waiting = dict.fromkeys(sorted(grouping.cluster))
    most, steps = 20 * len(waiting), 0
    while waiting and steps < most:
        number = next(iter(waiting))
        del waiting[number]
        gains = [c for c in grouping.changes(number, _DEEPEST, LEAST_GAIN) if c.gain > LEAST_GAIN]
        for change in sorted(gains, key=lambda each: -each.gain):
            if grouping.allows(change):
                grouping.take(change)
                for moved in chain.from_iterable(change.after):
                    waiting |= dict.fromkeys((moved, *grouping.near(moved)))
                break
        steps += 1
        after_step()
    return steps


def _renew(
    state: SessionState, grouping: _Grouping, alternatives: dict[tuple[Row, Row], _Change]
) -> tuple[int, float]:
    """Build particles of a grouping and its alternatives; returns the number of changed subproblems
    and the gain."""
    pages = state.pages(state.run.names())
    for page in pages:
        for row in rows_of(page):
            grouping.learn(row)
            for change in _differences(grouping, row):
                if change.gain >= -_MOST_LOST:
                    alternatives[change.before, change.after] = change
    allowed = [change for change in alternatives.values() if grouping.allows(change)]
    allowed.sort(key=lambda change: (-change.gain, change.before, change.after))
    # subproblems that a change or a cluster reaches across are replaced together
    home = {number: state.home(number) for number in grouping.cluster}
    clusters = in_order(set(grouping.cluster.values()))
    reach = [[clusters_[0] for clusters_ in change.before] for change in allowed]
    together = connected(
        [page.name for page in pages],
        chain(
            ({home[n] for n in cluster} for cluster in clusters),
            ({home[n] for n in numbers} for numbers in reach),
        ),
    )
    names: dict[int, list[int]] = {}
    for name, first in together.items():
        names.setdefault(first, []).append(name)
    held: dict[int, list[Cluster]] = {first: [] for first in names}
    for cluster in clusters:
        held[together[home[cluster[0]]]].append(cluster)
    doubts: dict[int, list[_Change]] = {first: [] for first in names}
    for change in allowed:
        doubts[together[home[change.before[0][0]]]].append(change)
    changed, gain, size = 0, 0.0, state.rules.particles
    for first, gone in names.items():
        parts = _parts(held[first], doubts[first], grouping.term, size)
        if not state.rules.splits:
            parts = [joint(parts, size)]
        _, mass = joined(state.pages(gone), state.prior, size)
        gained = _mass_of(parts) - mass
        if gained > LEAST_GAIN:
            state.replace(state.plan(gone, [rows for rows, _ in parts]))
            changed, gain = changed + 1, gain + gained
    return changed, gain


def _differences(grouping: _Grouping, row: Row) -> Iterator[_Change]:
    """The differences between a particle and the grouping, in independent parts."""
    other = [cluster for cluster in row if grouping.cluster[cluster[0]] != cluster]
    inside = {number for cluster in other for number in cluster}
    mine = in_order({grouping.cluster[number] for number in inside})
    of = connected(mine, ([grouping.cluster[n] for n in cluster] for cluster in other))
    parts: dict[Cluster, tuple[list[Cluster], list[Cluster]]] = {}
    for cluster in mine:
        parts.setdefault(of[cluster], ([], []))[0].append(cluster)
    for cluster in other:
        parts[of[grouping.cluster[cluster[0]]]][1].append(cluster)
    term = grouping.term
    for before, after in parts.values():
        if inside.issuperset(chain.from_iterable(before)):
            gain = math.fsum([*(term[c] for c in after), *(-term[c] for c in before)])
            yield _Change(gain, in_order(before), in_order(after))


_Thing = TypeVar("_Thing", int, Cluster)


def connected(things: Iterable[_Thing], sets: Iterable[Iterable[_Thing]]) -> dict[_Thing, _Thing]:
    """For each item, the first of the items that the sets connect with it."""
    first = {thing: thing for thing in things}

    def found(thing: _Thing) -> _Thing:
        while first[thing] != thing:
            first[thing] = first[first[thing]]
            thing = first[thing]
        return thing

    for each in sets:
        roots = sorted({found(thing) for thing in each})
        for root in roots[1:]:
            first[root] = roots[0]
    return {thing: found(thing) for thing in first}


_Part: TypeAlias = tuple[list[Row], FloatArray]
"""Groupings of the same fragments, heaviest first, and their log target densities."""


def _mass_of(parts: Iterable[_Part]) -> float:
    """Log of the summed densities of all combinations of the parts' groupings."""
    return math.fsum(log_sum_exp(values) for _, values in parts)


def _parts(
    clusters: Sequence[Cluster],
    changes: Sequence[_Change],
    term: Mapping[Cluster, float],
    size: int,
) -> list[_Part]:
    """The groupings that changes make of clusters, by independent parts, up to a maximum each.

    The changes are ordered by gain, largest first.
    """
    of = connected(clusters, (change.before for change in changes))
    held: dict[Cluster, tuple[list[Cluster], list[_Change]]] = {}
    for cluster in clusters:
        held.setdefault(of[cluster], ([], []))[0].append(cluster)
    for change in changes:
        held[of[change.before[0]]][1].append(change)
    out: list[_Part] = []
    for own, doubts in held.values():
        part, whole = _combined(own, doubts, term, size)
        fewer = [] if whole else _parts(own, doubts[: len(doubts) // 2], term, size)
        out += fewer if fewer and _mass_of(fewer) > _mass_of([part]) else [part]
    return out


def _combined(
    clusters: Sequence[Cluster],
    changes: Sequence[_Change],
    term: Mapping[Cluster, float],
    size: int,
) -> tuple[_Part, bool]:
    """The heaviest groupings by one or several changes, and whether these are all."""
    begin = math.fsum(term[cluster] for cluster in clusters)
    found: list[tuple[float, frozenset[Cluster], tuple[int, ...]]] = [(begin, frozenset(), ())]
    whole = True
    for number, change in enumerate(changes):
        more = [
            (value + change.gain, gone.union(change.before), (*made, number))
            for value, gone, made in found
            if gone.isdisjoint(change.before)
        ]
        found = sorted([*found, *more], key=lambda each: -each[0])
        whole = whole and len(found) <= size
        found = found[:size]
    rows = [
        in_order(
            [*(c for c in clusters if c not in gone), *(c for n in made for c in changes[n].after)]
        )
        for _, gone, made in found
    ]
    return heaviest(rows, np.array([value for value, _, _ in found]), size), whole
