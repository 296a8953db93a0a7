"""The half of a step that writes the plan into the state. It scores nothing and decides nothing.

It cannot fail: arrays and lists are written, and a live table's `extend` and `release` cannot raise
by their contract. So a state holds all of a fragment or nothing of it.
"""

from __future__ import annotations

from kbforge.clustering.online.scorer import Scorer
from kbforge.clustering.plan import Plan
from kbforge.clustering.state import State
from kbforge.contracts import Fate, Info


def commit(state: State, model: Scorer, plan: Plan) -> Info:
    """Write what `consider` decided of this state; it and the model are updated in place."""
    assert plan.fragment == state.n_fragments, "a plan holds for the state it was made of"
    state.count_fragments(1)
    for name in plan.replaced:
        state.remove(name)
    state.place_clusters(plan.fragment, plan.new)
    for slot, mask in plan.masks.items():
        state.mask[slot] = mask
    model.extend(plan.fragment, plan.reading, plan.new)
    if len(plan.dropped):
        state.release(plan.dropped)
        model.release(plan.dropped)
    for name, block in plan.blocks.items():
        state.install(name, block)
    return Info(
        fragment=plan.fragment,
        fate=_FATES[min(len(plan.replaced), 2)],
        before=plan.replaced,
        after=tuple(plan.blocks),
        subproblems=state.n_subproblems,
        log10_effective_particles=state.log10_effective_particles,
        model_evaluations=model.evaluations,
    )


_FATES = (Fate.OPENED, Fate.JOINED, Fate.MERGED)
"""By how many subproblems took part."""
