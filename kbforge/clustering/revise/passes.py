"""Passes of revision over a session: steps around many fragments, moves, splits and merges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from kbforge.clustering.core import Core
from kbforge.clustering.revise.groupings import Row, in_order
from kbforge.clustering.revise.rerun import Rerun
from kbforge.clustering.revise.revisit import (
    LEAST_GAIN,
    MOST_NEIGHBOURS,
    heaviest_slots,
    offer,
    revisit,
    rivals,
    slot_of,
)
from kbforge.clustering.revise.split_merge import split_or_merge
from kbforge.contracts import Cluster, Revision


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
