"""Remove, enforce decisions and bridge: changes of a session that affect a few fragments.

*Remove.* A particle without fragment x has the cluster C - x for C, or none for {x}. Its weight
becomes its target density again:

    log w -= log(|C| - 1) + L(C) - L(C - x),  for a singleton  log alpha + L({x})

Particles that become equal are one, and are not summed. A subproblem of which x was the bridge
falls apart. If the particles were all groupings there are, the result is the exact posterior of
what is left. Clusters are made anew in order of arrival: a table edited in place would differ by a
rounding from one filled from a snapshot. If the likelihood forbids what is left of every particle,
the fragments left are clustered again.

*Enforce.* Particles that violate new constraints go. If a subproblem has none left, or fragments
that are to be one are in several, those subproblems are merged, and the fragments of the heaviest
particle's clusters that hold a fragment of the decision are clustered again under the constraints.

*Bridge.* Sequential Monte Carlo never makes one cluster of two. So where a new fragment has joined
a cluster and would rather join another one than be alone, too, the two become one if the log of the
sum of the target densities held grows by that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from kbforge.clustering.constraints import Closure
from kbforge.clustering.core import Core
from kbforge.clustering.pages import numbers_in
from kbforge.clustering.regroup import (
    ImpossibleError,
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
    Rerun,
    clustered_again,
    offer,
    revisit,
)
from kbforge.contracts import Cluster, Constraints, Decision, Fate, Fragment, Info

_MARGIN = 1e-6
"""Nats that L of a single fragment differs by at most, however it is worked out."""


def plan_removal(core: Core, removed: Collection[int]) -> Replacement:
    """Decide what is left without some fragments. Whatever is raised, nothing has changed.

    Raises:
        LikelihoodError: what is left has no possible grouping.
    """
    gone = sorted(set(core.run.homes(list(removed))))
    pages = core.pages(gone)
    parts = [[without(row, removed) for row in rows_of(page)] for page in pages]
    try:
        return core.plan(gone, parts, removed)
    except ImpossibleError:
        left = [[i for i in numbers_in([page]) if i not in removed] for page in pages]
        parts = [clustered_again(core, fragments).rows for fragments in left]
        return core.plan(gone, parts, removed)


def enforce(core: Core, constraints: Constraints, new: Sequence[Decision]) -> None:
    """Put constraints in force, with `new` decisions; whatever is raised, the old ones are.

    Raises:
        ContradictionError: they cannot all hold.
        LikelihoodError: no grouping that satisfies them is possible.
    """
    closure = Closure(constraints.decisions)
    # before they are in force: what comes in later would not be known to the old ones
    core.have_ids(_ids(closure, new))
    expelled = _named(core, [each for each in new if not each.same])
    for number in expelled:
        core.read(core.fragment(number))
    old = core.bindings.constraints, core.bindings.closure
    core.bind(constraints, closure)
    try:
        replacement = plan_enforcement(core, _bound(core, new), expelled)
    except BaseException:
        core.bind(*old)
        raise
    if replacement is not None:
        core.replace(replacement)


def lift(core: Core, constraints: Constraints, old: Sequence[Decision]) -> None:
    """Put fewer constraints in force, and cluster again what the others had decided.

    If the likelihood fails, the others are no longer in force, but some particles satisfy them
    still.
    """
    core.have_ids(_ids(core.bindings.closure, old))
    freed = _bound(core, old)
    core.bind(constraints, Closure(constraints.decisions))
    for number in freed:
        revisit(core, number, MOST_NEIGHBOURS)


def add_cornered(core: Core, x: Fragment) -> Info:
    """Take in a fragment that constraints leave no place on any particle.

    Decisions make it one with fragments whose clusters already have one of its linking values.

    Raises:
        LikelihoodError: as `decide`; the fragment has not been taken in then.
    """
    number = len(core.held)
    core.bindings.expect(number, (x,))
    try:
        info = core.table.add((x,), core.read(x), 0, apart=True)
    except BaseException:
        core.bindings.forget({number: x})
        raise
    assert info is not None, "what its keys lead to is here"
    core.took_in((x,), (number,))
    core.note(info.before, info.after)
    component = core.bindings.component_of(number)
    assert component is not None
    try:
        replacement = plan_enforcement(core, core.bindings.bound([component]))
    except BaseException:
        core.replace(plan_removal(core, [number]))
        core.unnumber()
        raise
    assert replacement is not None
    core.replace(replacement)
    known = core.run.totals()
    return replace(
        info,
        fate=Fate.JOINED if len(replacement.gone) == 2 else Fate.MERGED,
        before=tuple(name for name in replacement.gone if name != number),
        after=tuple(page.name for page in replacement.pages),
        subproblems=known.subproblems,
        log10_effective_particles=known.log10_effective,
        model_evaluations=core.table.evaluations,
    )


def _named(core: Core, decisions: Iterable[Decision]) -> list[int]:
    """The fragments that some decisions name, ascending."""
    ids = {id for each in decisions for id in (each.first, each.second)}
    return [number for number, x in core.here() if x.id in ids]


def _components(closure: Closure, decisions: Iterable[Decision]) -> set[str]:
    """Those that some decisions speak of."""
    return {closure.component[id] for each in decisions for id in (each.first, each.second)}


def _ids(closure: Closure, decisions: Iterable[Decision]) -> list[str]:
    """Those of the components that some decisions speak of."""
    return [id for name in sorted(_components(closure, decisions)) for id in closure.members[name]]


def _bound(core: Core, decisions: Sequence[Decision]) -> list[int]:
    """The fragments of the components that some decisions speak of."""
    return core.bindings.bound(_components(core.bindings.closure, decisions))


def plan_enforcement(
    core: Core, concerned: Collection[int], expelled: Sequence[int] = ()
) -> Replacement | None:
    """What to write so that the constraints hold, None if they do; nothing is written yet.

    Only particles of the concerned fragments may violate one. `expelled` are those that may have to
    leave a cluster, and should see the next best.

    Raises:
        LikelihoodError: no grouping that satisfies the constraints is possible.
    """
    groups = _tied(core, concerned)
    busy = {name for names in groups for name in names}
    gone: list[int] = []
    parts: list[list[Row]] = []
    for names in groups:
        rows = _kept(core, names)
        if rows is None:
            names, clusters = _with_rivals(core, names, expelled, busy)
            busy.update(names)
            rows = _reinserted(core, names, concerned, clusters)
        elif not rows:
            continue
        gone += names
        parts.append(rows)
    if not gone:
        return None
    return core.plan(gone, parts)


def _tied(core: Core, concerned: Collection[int]) -> list[list[int]]:
    """The concerned subproblems, together where a component reaches across several."""
    group: dict[int, set[int]] = {}
    first: dict[str, int] = {}
    for number in sorted(concerned):
        name = core.home(number)
        joined = group.setdefault(name, {name})
        component = core.bindings.component_of(number)
        if component is None:
            continue
        other = group[first.setdefault(component, name)]
        if other is not joined:
            joined |= other
            for each in joined:
                group[each] = joined
    distinct = {min(names): sorted(names) for names in group.values()}
    return [distinct[name] for name in sorted(distinct)]


def _kept(core: Core, names: list[int]) -> list[Row] | None:
    """The particles that satisfy the constraints; [] if all do, None if none does."""
    if len(names) > 1:
        return None
    rows = rows_of(core.pages(names)[0])
    kept = [row for row in rows if core.bindings.allow(row)]
    if len(kept) == len(rows):
        return []
    return kept or None


def _with_rivals(
    core: Core, names: list[int], expelled: Sequence[int], busy: Collection[int]
) -> tuple[list[int], set[Cluster]]:
    """Subproblems with those that expelled fragments may go to; the clusters that they may join."""
    wider, clusters = set(names), set[Cluster]()
    size = 0
    for fragment in expelled:
        if core.home(fragment) not in names:
            continue
        slots, weights, _ = core.rivals(fragment)
        if not len(slots):
            continue
        slot = slots[[weights.argmax()]]
        (owner,), ((members,), _) = core.run.owners(slot), core.run.clusters(slot)
        size += len(members)
        if size <= MOST_TAKEN and (owner not in busy or owner in wider):
            wider.add(owner)
            clusters.add(members)
    return sorted(wider), clusters


def _reinserted(
    core: Core, names: list[int], concerned: Collection[int], clusters: Collection[Cluster]
) -> list[Row]:
    """Rows for some subproblems together, the fragments of the clusters concerned clustered again.

    Those are `clusters` and all that hold a fragment concerned.
    """
    both = joined(core.pages(names), core.prior, core.rules.particles)
    wanted = set(concerned)
    taken = fragments_of(c for c in both.rows[0] if c in clusters or not wanted.isdisjoint(c))
    again = clustered_again(core, _bound_first(core, taken))
    rests = rests_of(both.rows, taken, both.term)
    return joint([rests, (again.rows, again.values)], core.rules.particles)[0]


def _bound_first(core: Core, fragments: list[int]) -> list[int]:
    """Order of arrival, but those that are bound first, component by component.

    Then no other fragment takes the place that one of them must have.
    """
    of = {number: core.bindings.component_of(number) for number in fragments}
    return sorted(fragments, key=lambda i: (of[i] is None, of[i] or "", i))


def bridged(core: Core, fragment: int) -> float:
    """Make one of the clusters that a fragment belongs to; the gain in log mass, nats."""
    slots, weights, alone = core.rivals(fragment, lone=False)
    if not len(slots):
        return 0.0
    if alone is not None and weights.max() <= core.prior.log_alpha + alone - _MARGIN:
        core.table.count(1)
        return 0.0
    alone = core.prior.log_terms([(fragment,)], core.table.score([(fragment,)]))[0]
    better = np.flatnonzero(weights > alone)
    best = better[np.argsort(-weights[better], kind="stable")][:MOST_NEIGHBOURS]
    # a subproblem that is replaced gives its clusters other slots, so they go by a member
    others = [cluster[0] for cluster in core.run.clusters(slots[best])[0]]
    return sum((_as_one(core, fragment, other) for other in others), 0.0)


def _as_one(core: Core, fragment: int, other: int) -> float:
    """Make the clusters of two fragments one, if that is worth it; the gain in log mass."""
    apart = dict([core.cluster_of(fragment), core.cluster_of(other)])
    one = tuple(fragments_of(apart))
    if len(apart) < 2 or not core.bindings.allow([one]) or len(one) > MOST_TAKEN:
        return 0.0
    together = float(core.prior.log_terms([one], core.table.score([one]))[0])
    if together - math.fsum(apart.values()) <= LEAST_GAIN:
        return 0.0
    return offer(core, one, Rerun([(one,)], np.array([together]), {**apart, one: together}))
