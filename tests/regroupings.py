"""What changed between two groupings, found by the definition: the oracle of `jobs.history`."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from kbforge.jobs.history import StoreHistory

States: TypeAlias = Mapping[str, set[str]]
"""Entities with their fragments' ids."""
Parts: TypeAlias = frozenset[tuple[str, frozenset[str]]]


def compared(before: States, after: States) -> tuple[int, Counter[tuple[str, Parts, Parts]]]:
    """How many groups are the same, and the regroupings of the others with their kinds."""
    nodes = [("before", *one) for one in before.items()] + [
        ("after", *one) for one in after.items()
    ]
    component = list(range(len(nodes)))
    for k, (side, _, ids) in enumerate(nodes):
        for m, (other_side, _, other_ids) in enumerate(nodes):
            if side != other_side and ids & other_ids:
                old, new = component[m], component[k]
                component = [new if c == old else c for c in component]
    same, found = 0, Counter[tuple[str, Parts, Parts]]()
    for c in set(component):
        sides = {"before": dict[str, set[str]](), "after": dict[str, set[str]]()}
        for at, (side, entity, ids) in zip(component, nodes, strict=True):
            if at == c:
                sides[side][entity] = ids
        was, now = sides["before"], sides["after"]
        if list(was.values()) == list(now.values()):
            same += 1
            continue
        kind = {
            (0, 1): "created",
            (1, 0): "removed",
            (1, 1): "changed",
            (2, 1): "merged",
            (1, 2): "parted",
            (2, 2): "moved",
        }[min(len(was), 2), min(len(now), 2)]
        found[kind, _parts(was), _parts(now)] += 1
    return same, found


def told(history: StoreHistory) -> tuple[int, Counter[tuple[str, Parts, Parts]]]:
    """The same of what a store says."""
    return history.unchanged, Counter(
        (
            str(one.kind),
            _parts({id: set(ids) for id, ids in one.before.items()}),
            _parts({id: set(ids) for id, ids in one.after.items()}),
        )
        for one in history.regroupings
    )


def _parts(states: States) -> Parts:
    return frozenset((entity, frozenset(ids)) for entity, ids in states.items())
