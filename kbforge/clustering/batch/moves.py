"""Moves: what a sampler or a merger may do to a grouping.

A move takes fragments out of one cluster and puts them all into one place: another cluster, or a
new one. One fragment that moves, a cluster that splits and two that merge are all of this form;
so is a part of one cluster that joins another.

| move | fragments | place |
|---|---|---|
| `put` | one, perhaps in no cluster yet | a slot, or NEW |
| `split` | some of a cluster, the fewer of the two parts | NEW |
| `merge` | all of a cluster, the smaller of the two | the other's slot |
| `STAY` | none | |

Whoever proposes a move only reads; `apply` is the one place where a move is made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kbforge.clustering.batch.grouping import NEW, Grouping
from kbforge.clustering.batch.grouping_model import Scoring


class Move(NamedTuple):
    """Fragments of one cluster, where they go, and what that gains.

    Attributes:
        fragments: all of one cluster, or one that is in none yet; none if nothing moves.
        place: the slot of a cluster, or NEW.
        gain: what the move adds to the log posterior, nats.

    """

    fragments: Sequence[int]
    place: int
    gain: float


STAY = Move((), NEW, 0.0)
"""Nothing moves."""


def put(fragment: int, place: int, gain: float) -> Move:
    """One fragment goes to a slot, or with NEW into a cluster of its own."""
    return Move((fragment,), place, gain)


def split(grouping: Grouping, slot: int, part: Collection[int], gain: float) -> Move:
    """A cluster becomes two: a part of it, and the rest. The fewer of them move."""
    members = grouping.members[slot]
    if 2 * len(part) <= len(members):
        return Move(tuple(part), NEW, gain)
    return Move(tuple(members.difference(part)), NEW, gain)


def merge(grouping: Grouping, a: int, b: int, gain: float) -> Move:
    """The clusters of two slots become one. The smaller moves, of equals the second."""
    if len(grouping.members[a]) < len(grouping.members[b]):
        a, b = b, a
    return Move(tuple(grouping.members[b]), a, gain)


def apply(move: Move, grouping: Grouping, models: Sequence[Scoring]) -> bool:
    """Make a move; whether anything changed.

    No model is asked for a score, so that this cannot fail half way. A fragment that goes where it
    is, and a whole cluster that goes into a new one, stay.

    Raises:
        ValueError: this is no move of this grouping. Nothing has changed then.

    """
    fragments, place = move.fragments, move.place
    if not fragments:
        return False
    old = grouping.slot_of[fragments[0]]
    if len(fragments) > 1:
        _require_part(grouping, fragments, old)
    if old >= 0 and place == old:
        return False
    if old >= 0 and place == NEW and len(fragments) == len(grouping.members[old]):
        return False
    if place != NEW and not grouping.members[place]:
        raise ValueError(f"there is no cluster in slot {place}")
    new = grouping.move(fragments, place)
    for model in models:
        model.moved(fragments, old, new)
    return True


def _require_part(grouping: Grouping, fragments: Sequence[int], slot: int) -> None:
    part = set(fragments)
    if slot < 0 or len(part) < len(fragments) or not part <= grouping.members[slot]:
        raise ValueError("a move takes one fragment, or different ones of one cluster")
