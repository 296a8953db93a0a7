"""Remove, enforce decisions and bridge: changes of a session that affect a few fragments.

*Remove.* A particle without fragment x has the cluster C - x for C, or none for {x}. Its weight
becomes its target density again:

    log w -= e log(|C| - 1) + L(C) - L(C - x),  for a singleton  log alpha + L({x})

Particles that become equal count once; their weights are not summed. A subproblem that only x
connected splits. If the particles were all possible groupings, the result is the exact posterior of
the other fragments. Clusters are rebuilt in order of arrival, because a table edited in place would
differ by rounding from one filled from a snapshot. If the likelihood forbids the rest of every
particle, the other fragments are clustered again.

*Enforce.* Particles that violate new constraints are dropped. If a subproblem has none left, or
fragments to be merged are in several, those subproblems are merged, and the fragments of the
heaviest particle's clusters that hold a fragment of the decision are clustered again under the
constraints.

*Bridge.* Sequential Monte Carlo never merges two clusters. So if a new fragment has joined a
cluster, and would also rather join another one than be alone, the two are merged if that increases
the log of the summed target densities.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from kbforge.clustering.constraints import DecisionGraph
from kbforge.clustering.regroup import (
    ImpossibleError,
    JointParticles,
    Replacement,
    Row,
    fragments_of,
    joined,
    joint,
    rests_of,
    rows_of,
    without,
)
from kbforge.clustering.revise import (
    LEAST_GAIN,
    MOST_NEIGHBOURS,
    MOST_TAKEN,
    clustered_again,
    connected,
    offer,
    revisit,
)
from kbforge.clustering.state import SessionState, numbers_in
from kbforge.contracts import Cluster, Constraints, Decision, Fate, Fragment, StepResult

_MOST_VISITS = 3
"""How often a fragment is clustered again when decisions no longer tie it to others."""
_MARGIN = 1e-6
"""Maximum difference, in nats, between two computations of a single fragment's L."""


def plan_removal(state: SessionState, removed: Collection[int]) -> Replacement:
    """Plan the removal of some fragments. If an error is raised, nothing has changed.

    Raises:
        LikelihoodError: the other fragments have no possible grouping.
    """
    gone = sorted(set(state.run.homes(list(removed))))
    pages = state.pages(gone)
    parts = [[without(row, removed) for row in rows_of(page)] for page in pages]
    try:
        return state.plan(gone, parts, removed)
    except ImpossibleError:
        left = [[i for i in numbers_in([page]) if i not in removed] for page in pages]
        parts = [clustered_again(state, fragments).rows for fragments in left]
        return state.plan(gone, parts, removed)


def enforce(state: SessionState, constraints: Constraints, new: Sequence[Decision]) -> None:
    """Apply constraints, with `new` decisions; if an error is raised, the old ones stay in force.

    Raises:
        ContradictionError: they cannot all hold.
        LikelihoodError: no grouping that satisfies them is possible.
    """
    graph = DecisionGraph(constraints.decisions)
    # before they are in force: what comes in later would not be known to the old ones
    _have(state, _ids(graph, new))
    expelled = _named(state, [each for each in new if not each.same])
    for number in expelled:
        state.read(state.fragment(number))
    old = state.bindings.constraints, state.bindings.graph
    changed = state.bind(constraints, graph)
    try:
        concerned = sorted({*_bound(state, new), *changed})
        replacement = plan_enforcement(state, concerned, expelled)
    except BaseException:
        state.bind(*old)
        raise
    if replacement is not None:
        state.replace(replacement)


def lift(state: SessionState, constraints: Constraints, old: Sequence[Decision]) -> None:
    """Drop constraints, and cluster again what they affected.

    If the likelihood fails, the dropped constraints are no longer in force, but some particles
    still satisfy them.
    """
    _have(state, _ids(state.bindings.graph, old))
    freed = _bound(state, old)
    satisfy(state, state.bind(constraints, DecisionGraph(constraints.decisions)))
    _revisit_each(state, freed)


def govern(state: SessionState, constraints: Constraints) -> None:
    """Apply other rules, and cluster again what the former ones alone parted or merged.

    Raises:
        LikelihoodError: no grouping that satisfies them is possible; the old ones stay in force.
    """
    state.have_all()
    old, bindings = state.bindings.constraints, state.bindings
    merged = [n for n, x in state.here() if not {*old.always} <= {*constraints.always}]
    of = Counter(map(bindings.component_of, merged))
    merged = [n for n in merged if of[bindings.component_of(n)] > 1]
    enforce(state, constraints, ())
    state.put_shared()
    _revisit_each(state, merged)
    freed = {*old.never} - {*constraints.never}
    for number, x in list(state.here()) if freed else ():
        if not freed.isdisjoint(name for name, _ in old.differing(x)):
            bridged(state, number)


def satisfy(state: SessionState, changed: Sequence[int]) -> None:
    """Regroup fragments that rules bind in another way now."""
    replacement = plan_enforcement(state, changed)
    if replacement is not None:
        state.replace(replacement)


def _have(state: SessionState, ids: Sequence[str]) -> None:
    """Load fragments, and those that rules may merge with them."""
    state.have_ids(ids)
    if state.ruled:
        state.have_sharing(map(state.fragment, state.with_ids({*ids})))


def _revisit_each(state: SessionState, freed: Iterable[int]) -> None:
    visits = Counter[int]()
    for number in freed:
        if visits[number] < _MOST_VISITS:
            visits.update(revisit(state, number, MOST_NEIGHBOURS)[0])


def add_cornered(state: SessionState, x: Fragment) -> StepResult:
    """Add a fragment that constraints leave no place in any particle.

    Decisions merge it with fragments whose clusters already have one of its linking values.

    Raises:
        LikelihoodError: the likelihood is not finite; the fragment has not been added.
    """
    number = len(state.held)
    state.rebind()
    state.bindings.expect(number, (x,))
    try:
        step = state.table.add((x,), state.read(x), 0, apart=True)
    except BaseException:
        state.bindings.forget({number: x})
        state.rebind()
        raise
    assert step is not None, "what its keys lead to is here"
    state.took_in((x,), (number,))
    state.note(step.before, step.after)
    changed = state.rebind()
    component = state.bindings.component_of(number)
    assert component is not None
    try:
        concerned = sorted({*state.bindings.bound([component]), *changed})
        replacement = plan_enforcement(state, concerned)
    except BaseException:
        state.replace(plan_removal(state, [number]))
        state.unnumber()
        satisfy(state, state.rebind())
        raise
    assert replacement is not None
    state.replace(replacement)
    known = state.run.totals()
    return replace(
        step,
        fate=Fate.JOINED if len(replacement.gone) == 2 else Fate.MERGED,
        before=tuple(name for name in replacement.gone if name != number),
        after=tuple(page.name for page in replacement.pages),
        subproblems=known.subproblems,
        log10_effective_particles=known.log10_effective,
        model_evaluations=state.table.evaluations,
    )


def _named(state: SessionState, decisions: Iterable[Decision]) -> list[int]:
    """The fragments that some decisions name, ascending."""
    ids = {id for each in decisions for id in (each.first, each.second)}
    return state.with_ids(ids)


def _components(graph: DecisionGraph, decisions: Iterable[Decision]) -> set[str]:
    """The ids that some decisions name."""
    return {graph.component[id] for each in decisions for id in (each.first, each.second)}


def _ids(graph: DecisionGraph, decisions: Iterable[Decision]) -> list[str]:
    """The ids in the components that some decisions affect."""
    return [id for name in sorted(_components(graph, decisions)) for id in graph.members[name]]


def _bound(state: SessionState, decisions: Sequence[Decision]) -> list[int]:
    """The fragments in the components that some decisions affect."""
    return state.bindings.bound(_components(state.bindings.graph, decisions))


def plan_enforcement(
    state: SessionState, concerned: Collection[int], expelled: Sequence[int] = ()
) -> Replacement | None:
    """The plan that satisfies the constraints, None if they hold already; nothing is written yet.

    Only particles of the concerned fragments may violate one. `expelled` are those that may have to
    leave a cluster, and need alternatives.

    Raises:
        LikelihoodError: no grouping that satisfies the constraints is possible.
    """
    groups = _tied(state, concerned)
    busy = {name for names in groups for name in names}
    gone: list[int] = []
    parts: list[list[Row]] = []
    for names in groups:
        rows = _kept(state, names)
        if rows is None:
            names, clusters = _with_rivals(state, names, expelled, busy)
            busy.update(names)
            rows = _reinserted(state, names, concerned, clusters)
        elif not rows:
            continue
        gone += names
        parts.append(rows)
    if not gone:
        return None
    return state.plan(gone, parts)


def _tied(state: SessionState, concerned: Collection[int]) -> list[list[int]]:
    """The concerned subproblems, merged where a component spans several."""
    home = {number: state.home(number) for number in sorted(concerned)}
    spanned: dict[str, list[int]] = {}
    for number, name in home.items():
        if (component := state.bindings.component_of(number)) is not None:
            spanned.setdefault(component, []).append(name)
    groups: dict[int, list[int]] = {}
    for name, first in connected(sorted(set(home.values())), spanned.values()).items():
        groups.setdefault(first, []).append(name)
    return list(groups.values())


def _kept(state: SessionState, names: list[int]) -> list[Row] | None:
    """The particles that satisfy the constraints; [] if all do, None if none does."""
    if len(names) > 1:
        return None
    rows = rows_of(state.pages(names)[0])
    kept = [row for row in rows if state.bindings.allow(row)]
    if len(kept) == len(rows):
        return []
    return kept or None


def _with_rivals(
    state: SessionState, names: list[int], expelled: Sequence[int], busy: Collection[int]
) -> tuple[list[int], set[Cluster]]:
    """Subproblems, with those that expelled fragments may move to; the clusters that they may
    join."""
    wider, clusters = set(names), set[Cluster]()
    size = 0
    for fragment in expelled:
        if state.home(fragment) not in names:
            continue
        slots, weights, _ = state.rivals(fragment)
        if not len(slots):
            continue
        slot = slots[[weights.argmax()]]
        (owner,), ((members,), _) = state.run.owners(slot), state.run.clusters(slot)
        size += len(members)
        if size <= MOST_TAKEN and (owner not in busy or owner in wider):
            wider.add(owner)
            clusters.add(members)
    return sorted(wider), clusters


def _reinserted(
    state: SessionState, names: list[int], concerned: Collection[int], clusters: Collection[Cluster]
) -> list[Row]:
    """Rows for several subproblems together; the fragments of the clusters concerned are clustered
    again.

    These are `clusters` and all clusters that hold a fragment concerned.
    """
    both, _ = joined(state.pages(names), state.prior, state.rules.particles)
    wanted = set(concerned)
    taken = fragments_of(c for c in both.rows[0] if c in clusters or not wanted.isdisjoint(c))
    again = clustered_again(state, _bound_first(state, taken))
    rests = rests_of(both.rows, taken, both.term)
    return joint([rests, (again.rows, again.values)], state.rules.particles)[0]


def _bound_first(state: SessionState, fragments: list[int]) -> list[int]:
    """Order of arrival, but fragments with must-links first, component by component.

    Then no other fragment takes a place that one of them needs.
    """
    of = {number: state.bindings.component_of(number) for number in fragments}
    return sorted(fragments, key=lambda i: (of[i] is None, of[i] or "", i))


def bridged(state: SessionState, fragment: int) -> float:
    """Merge the clusters that a fragment fits; the gain in log mass, nats."""
    slots, weights, alone = state.rivals(fragment, lone=False)
    if not len(slots):
        return 0.0
    bound = math.nan if alone is None else state.prior.log_alpha + alone
    if weights.max() <= bound - _MARGIN:
        state.table.count(1)
        return 0.0
    if np.abs(weights - bound).min() > _MARGIN:
        state.table.count(1)
    else:
        bound = state.prior.log_terms([(fragment,)], state.table.score([(fragment,)]))[0]
    better = np.flatnonzero(weights > bound)
    best = better[np.argsort(-weights[better], kind="stable")][:MOST_NEIGHBOURS]
    # a subproblem that is replaced gives its clusters other slots, so they go by a member
    others, own = state.run.clusters(slots[best])[0], state.run.slot_of(fragment)
    ratios = state.table.merge_ratios(own, slots[best])
    (cluster,) = state.run.clusters(np.array([own]))[0]
    gain = 0.0
    for k, other in enumerate(others):
        if gain or ratios is None or not _in_vain(state, cluster, other, float(ratios[k])):
            gain += _as_one(state, fragment, other[0])
    return gain


def _in_vain(state: SessionState, cluster: Cluster, other: Cluster, ratio: float) -> bool:
    """Whether merging two clusters does not help, by the ratio of their likelihoods; it counts."""
    one = (*cluster, *other)
    if len(one) > MOST_TAKEN or not state.bindings.allow([one]):
        return True
    both, *apart = state.prior.log_cluster(np.array([len(one), len(cluster), len(other)]))
    if not ratio + both - sum(apart) <= LEAST_GAIN - _MARGIN:
        return False
    state.table.count(1)
    return True


def _as_one(state: SessionState, fragment: int, other: int) -> float:
    """Merge the clusters of two fragments if that helps; the gain in log mass."""
    apart = dict([state.cluster_of(fragment), state.cluster_of(other)])
    one = tuple(fragments_of(apart))
    if len(apart) < 2 or not state.bindings.allow([one]) or len(one) > MOST_TAKEN:
        return 0.0
    together = float(state.prior.log_terms([one], state.table.score([one]))[0])
    if together - math.fsum(apart.values()) <= LEAST_GAIN:
        return 0.0
    term = {**apart, one: together}
    return offer(state, one, JointParticles([(one,)], np.array([together]), term))
