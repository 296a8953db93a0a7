"""Decide: condition particles on constraints that arrive after their fragments.

Particles that violate a constraint go. If a subproblem has none left, or fragments that are to be
one are in several, then those subproblems are merged, the fragments of the clusters concerned are
taken out and are clustered again under the constraints. The clusters concerned are those of the
heaviest particle that hold a fragment of which something was decided; what else there is stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from kbforge.clustering.constraints.closure import Closure
from kbforge.clustering.core import Core
from kbforge.clustering.plan import opening
from kbforge.clustering.revise.groupings import Row, fragments_of, joint, rows_of
from kbforge.clustering.revise.joined import joined, rests_of
from kbforge.clustering.revise.remove import plan_removal
from kbforge.clustering.revise.replace import Replacement, plan_replacement
from kbforge.clustering.revise.rerun import clustered_again
from kbforge.clustering.revise.revisit import (
    MOST_NEIGHBOURS,
    MOST_TAKEN,
    revisit,
    rivals,
    slot_of,
)
from kbforge.contracts import Cluster, Constraints, Decision, Fate, Fragment, Info


def decide(core: Core, constraints: Constraints, new: Sequence[Decision]) -> None:
    """Put constraints in force; whatever is raised, the old ones are.

    Args:
        core: satisfies the constraints that are in force.
        constraints: those, and:
        new: some decisions.

    Raises:
        ContradictionError: they cannot all hold.
        LikelihoodError: no grouping that satisfies them is possible.

    """
    closure = Closure(constraints.decisions)
    # before they are in force: what comes in later would not be known to the old ones
    core.have_ids(_ids(closure, new))
    expelled = _named(core, [each for each in new if not each.same])
    for number in expelled:
        core.lead(core.model.fragments[number])
    old = core.bindings
    try:
        core.bind(constraints, closure)
        replacement = plan_enforcement(core, _bound(core, new), expelled)
    except BaseException:
        core.bindings = old
        raise
    if replacement is not None:
        core.replace(replacement)


def lift(core: Core, constraints: Constraints, old: Sequence[Decision]) -> None:
    """Put fewer constraints in force, and cluster again what the others had decided.

    Raises:
        LikelihoodError: as a session's `add`; the others are no longer in force, and the particles
            satisfy them as before, at least in part.

    """
    assert core.bindings is not None
    core.have_ids(_ids(core.bindings.closure, old))
    freed = _bound(core, old)
    core.bind(constraints, Closure(constraints.decisions))
    for number in freed:
        revisit(core, number, MOST_NEIGHBOURS)


def add_cornered(core: Core, x: Fragment) -> Info:
    """Take in a fragment that constraints leave no place on any particle.

    That can be where it is one with others by decision, and has a linking value in common with what
    these are with: nobody could know before it came.

    Raises:
        LikelihoodError: as `decide`; the fragment has not been taken in then.

    """
    info = core.commit(opening(core.state, core.model, x))
    assert core.bindings is not None
    component = core.bindings.component_of(info.fragment)
    assert component is not None
    try:
        replacement = plan_enforcement(core, core.bindings.bound([component]))
    except BaseException:
        core.replace(plan_removal(core, [info.fragment]))
        core.state.n_fragments -= 1
        raise
    assert replacement is not None
    core.replace(replacement)
    return replace(
        info,
        fate=Fate.JOINED if len(replacement.gone) == 2 else Fate.MERGED,
        before=tuple(name for name in replacement.gone if name != info.fragment),
        after=tuple(replacement.blocks),
        subproblems=core.state.n_subproblems,
        log10_effective_particles=core.state.log10_effective_particles,
        model_evaluations=core.model.evaluations,
    )


def _named(core: Core, decisions: Iterable[Decision]) -> list[int]:
    """The fragments that some decisions name, ascending."""
    ids = {id for each in decisions for id in (each.first, each.second)}
    return sorted(i for i, x in core.model.fragments.items() if x.id in ids)


def _components(closure: Closure, decisions: Iterable[Decision]) -> set[str]:
    """Those that some decisions speak of."""
    return {closure.component[id] for each in decisions for id in (each.first, each.second)}


def _ids(closure: Closure, decisions: Iterable[Decision]) -> list[str]:
    """Those of the components that some decisions speak of."""
    return [id for name in sorted(_components(closure, decisions)) for id in closure.members[name]]


def _bound(core: Core, decisions: Sequence[Decision]) -> list[int]:
    """The fragments of the components that some decisions speak of."""
    assert core.bindings is not None
    return core.bindings.bound(_components(core.bindings.closure, decisions))


def plan_enforcement(
    core: Core, concerned: Collection[int], expelled: Sequence[int] = ()
) -> Replacement | None:
    """Decide what satisfies the constraints. Whatever is raised, nothing has changed.

    Args:
        core: all its particles satisfy the constraints, but perhaps for those that speak of:
        concerned: the numbers of some fragments.
        expelled: those of them that may have to leave a cluster, and should see the next best.

    Returns:
        What to write, None if nothing violates anything.

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
    return plan_replacement(core.state, core.model, core.rules, gone, parts)


def _tied(core: Core, concerned: Collection[int]) -> list[list[int]]:
    """The concerned subproblems, together where a component reaches across several."""
    assert core.bindings is not None
    group: dict[int, set[int]] = {}
    first: dict[str, int] = {}
    for number in sorted(concerned):
        name = core.homes.of(number)
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
    assert core.bindings is not None
    if len(names) > 1:
        return None
    rows = rows_of(core.state, names[0])
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
        if core.homes.of(fragment) not in names:
            continue
        slots, weights = rivals(core, fragment, slot_of(core, fragment))
        if not len(slots):
            continue
        slot = int(slots[weights.argmax()])
        owner, members = int(core.state.owner[slot]), core.state.members(slot)
        size += len(members)
        if size <= MOST_TAKEN and (owner not in busy or owner in wider):
            wider.add(owner)
            clusters.add(members)
    return sorted(wider), clusters


def _reinserted(
    core: Core, names: list[int], concerned: Collection[int], clusters: Collection[Cluster]
) -> list[Row]:
    """Rows for some subproblems together, with the fragments of the clusters concerned put anew.

    Args:
        core: is read.
        names: the subproblems.
        concerned: fragments of which the clusters are taken.
        clusters: others to take.

    """
    both = joined(core.state, names, core.rules.particles)
    wanted = set(concerned)
    taken = fragments_of(c for c in both.rows[0] if c in clusters or not wanted.isdisjoint(c))
    again = clustered_again(core, _bound_first(core, taken))
    rests = rests_of(both.rows, taken, both.term)
    return joint([rests, (again.rows, again.values)], core.rules.particles)[0]


def _bound_first(core: Core, fragments: list[int]) -> list[int]:
    """In order of arrival, but those that are bound come first, component by component.

    Then none of them can find that others took the place that it must have.
    """
    assert core.bindings is not None
    of = {number: core.bindings.component_of(number) for number in fragments}
    return sorted(fragments, key=lambda i: (of[i] is None, of[i] or "", i))
