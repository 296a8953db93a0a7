"""Revisit: search for more probable groupings of earlier fragments.

A step takes a few neighbouring clusters of the heaviest particles, of one subproblem or of several,
and clusters their fragments again, by themselves and in random order. What comes out stands beside
the old particles: equal ones are one, every one weighs its target density, and the heaviest P stay.
That is done only if the log of the sum of all target densities held, over the subproblems
concerned, is more than before. So it never falls, and the reverse KL divergence to the posterior
never grows. Nor does the density of the heaviest particle ever fall.

Sequential Monte Carlo cannot move a whole cluster once no particle disagrees about it; moving one
fragment at a time (Gibbs sampling) goes through groupings that are far less probable on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.clustering.core import Core
from kbforge.clustering.online.bounds import Bounds
from kbforge.clustering.revise.groupings import Row, components, heaviest, joint, log_densities
from kbforge.clustering.revise.joined import joined, rests_of
from kbforge.clustering.revise.replace import plan_replacement
from kbforge.clustering.revise.rerun import Rerun, clustered_again
from kbforge.contracts import Cluster, FloatArray, IntArray
from kbforge.numerics import log_sum_exp

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
