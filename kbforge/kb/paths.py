"""Finds how two entities are connected: the shortest paths along edges, whichever way they lead.

Breadth first from both ends, always the side with the fewer entities at its rim, until the rims
meet. Every shortest path then has exactly one entity where they meet: its first part is a shortest
way from the start, its second one to the goal, and each entity needs only the best few ways to it.

The probability of a path is the product of its steps', each the largest of the edges between its
two entities. Of equally short paths the most probable comes first, then the first by ids. Costs are
whole numbers (billionths of nats), whose sums do not depend on the order, so this order is exact.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Protocol, TypeAlias

from msgspec import Struct

from kbforge.kb.edges import Edge

LONGEST = 10
"""Steps of the longest path that is looked for; a longer one tells nobody anything."""

_LEAST = 1e-300  # probability whose logarithm is taken
_Way: TypeAlias = tuple[int, tuple[str, ...]]
"""The cost of a way, and its entities."""


class Connections(Protocol):
    """Where the edges come from: `EdgeTable`, or a store that reads only what is asked."""

    def others(self, entity: str) -> Iterable[tuple[str, float]]:
        """The other ends of an entity's edges, both ways, and the probability of each edge."""
        ...

    def between(self, one: str, other: str) -> Sequence[Edge]:
        """The edges between two entities, both ways, the most probable one first."""
        ...


class Path(Struct, frozen=True):
    """A connection of the first of its entities with the last."""

    entities: tuple[str, ...]
    probability: float
    steps: tuple[tuple[Edge, ...], ...]  # the edges between each entity and the next


def shortest_paths(
    connections: Connections, start: str, goal: str, most: int = 3, longest: int = LONGEST
) -> list[Path]:
    """The best `most` of the shortest paths between two entities.

    None if they are not connected in at most `longest` steps; one without steps from an entity to
    itself.
    """
    if start == goal:
        return [Path((start,), 1.0, ())]
    sides = (
        _Side(connections, start, most, lambda way, entity: (*way, entity)),
        _Side(connections, goal, most, lambda way, entity: (entity, *way)),
    )
    for _ in range(longest):
        side, other = sorted(sides, key=lambda one: (len(one.rim), one.steps))
        side.widen()
        if met := [entity for entity in side.rim if entity in other]:
            break
    else:
        return []
    to, on = sides
    joined = (
        (cost + more, (*way, *rest[1:]))
        for entity in met
        for cost, way in to.ways(entity)
        for more, rest in on.ways(entity)
    )
    found = []
    for _, way in heapq.nsmallest(most, joined):
        steps = tuple(tuple(connections.between(*step)) for step in pairwise(way))
        found.append(Path(way, math.prod(step[0].probability for step in steps), steps))
    return found


def entities_on(paths: Iterable[Path], *ends: str) -> list[str]:
    """The ends of paths, and the entities on them, each once."""
    return list(dict.fromkeys([*ends, *(entity for path in paths for entity in path.entities)]))


class _Side:
    """The entities reached from one end.

    `extended` adds an entity to a way; ways lead from the start to the goal on both sides, so that
    they are compared in one order.
    """

    def __init__(
        self,
        connections: Connections,
        end: str,
        most: int,
        extended: Callable[[tuple[str, ...], str], tuple[str, ...]],
    ) -> None:
        self._connections, self._most, self._extended = connections, most, extended
        self.rim = [end]  # those reached last
        self.steps = 0  # to the rim
        self._before: dict[str, list[tuple[str, float]]] = {end: []}
        """From where an entity was reached, one step nearer to the end, by which edges."""
        self._ways: dict[str, list[_Way]] = {end: [(0, (end,))]}

    def __contains__(self, entity: str) -> bool:
        return entity in self._before

    def widen(self) -> None:
        """Reach the entities that are one step further."""
        reached: dict[str, list[tuple[str, float]]] = {}
        for entity in self.rim:
            for other, probability in self._connections.others(entity):
                if other not in self._before:
                    reached.setdefault(other, []).append((entity, probability))
        self._before |= reached
        self.rim, self.steps = list(reached), self.steps + 1

    def ways(self, entity: str) -> list[_Way]:
        """The best shortest ways between the end and an entity, in order."""
        if entity not in self._ways:
            cost: dict[str, int] = {}
            for before, probability in self._before[entity]:
                one = round(-math.log(max(probability, _LEAST)) * 1e9)
                cost[before] = min(one, cost.get(before, one))
            ways = (
                (so_far + step, self._extended(way, entity))
                for before, step in cost.items()
                for so_far, way in self.ways(before)
            )
            self._ways[entity] = heapq.nsmallest(self._most, ways)
        return self._ways[entity]
