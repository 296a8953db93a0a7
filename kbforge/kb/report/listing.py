"""What a report lists of all entities: where values disagree, and the entities in three orders.

Both are counted while entities come one at a time, and hold as much of a large knowledge base as of
a small one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Any

from kbforge.contracts import Entity
from kbforge.errors import quoted
from kbforge.kb.order import AttributeOrder
from kbforge.kb.properties import naming
from kbforge.kb.report.facts import Conflict, Listed, Lists

MOST_LISTED = 200
"""Entities that a list has."""

MOST_ATTRIBUTES = 60
"""Attributes whose conflicts are told."""

_MOST_COUNTED = 4_096
_MOST_VALUES = 3
_CHARACTERS = 60


class Conflicts:
    """Counts the entities whose fragments disagree, by attribute."""

    def __init__(self) -> None:
        self._order = AttributeOrder()
        self._stated, self._disagree = Counter[str](), Counter[str]()
        self._most: dict[str, tuple[int, str, tuple[str, ...]]] = {}

    def add(self, entity: Entity) -> None:
        """Count an entity."""
        known = [
            attribute
            for attribute in entity.properties
            if attribute in self._stated or len(self._stated) < _MOST_COUNTED
        ]
        self._order.add(known)
        for attribute in known:
            values = entity.properties[attribute]
            self._stated[attribute] += 1
            if len(values) < 2:
                continue
            stating = {fragment for value in values for fragment in value.fragments}
            if max(value.count for value in values) == len(stating):
                continue  # all fragments share a value
            self._disagree[attribute] += 1
            if attribute not in self._most or len(values) > self._most[attribute][0]:
                shown = tuple(quoted(value.value, _CHARACTERS) for value in values[:_MOST_VALUES])
                self._most[attribute] = (len(values), quoted(entity.name, _CHARACTERS), shown)

    def order(self) -> list[str]:
        """The attributes, in the order of the file."""
        return self._order.merged()

    def found(self) -> tuple[Conflict, ...]:
        """What was counted, in the order of the file; of many attributes those with most."""
        told = {name for name, _ in self._disagree.most_common(MOST_ATTRIBUTES)}
        return tuple(
            Conflict(
                quoted(attribute, _CHARACTERS),
                self._stated[attribute],
                self._disagree[attribute],
                *self._most[attribute][1:],
            )
            for attribute in self.order()
            if attribute in told
        )


class EntityLists:
    """Keeps the first entities of three orders."""

    def __init__(self) -> None:
        # of each order a heap of what is greater the earlier it comes, the number and the entity
        self._held: tuple[list[tuple[Any, int, Listed]], ...] = ([], [], [])
        self._number = 0

    def add(self, entity: Entity, stated: float) -> None:
        """List an entity, where it is among the first.

        Args:
            entity: to list.
            stated: its confidence.

        """
        self._number += 1
        listed: Listed | None = None
        name = _Reversed((entity.name.casefold(), entity.name))
        keys = (name, len(entity.fragments), 1 - stated)
        for held, key in zip(self._held, keys, strict=True):
            full = len(held) >= MOST_LISTED
            if full and not held[0][:2] < (key, -self._number):
                continue
            listed = listed or _listed(entity, stated)
            push = heapq.heappushpop if full else heapq.heappush
            push(held, (key, -self._number, listed))

    def found(self) -> Lists:
        """The lists, in order."""
        return Lists(*(tuple(one for *_, one in sorted(held, reverse=True)) for held in self._held))


class _Reversed:
    """Text of which the first is the largest."""

    __slots__ = ("text",)

    def __init__(self, text: tuple[str, str]) -> None:
        self.text = text

    def __lt__(self, other: _Reversed) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def _listed(entity: Entity, stated: float) -> Listed:
    names = naming(tuple(entity.properties))
    others = [values[0] for name, values in entity.properties.items() if name not in names]
    return Listed(
        quoted(entity.name, _CHARACTERS),
        tuple(quoted(value.value, _CHARACTERS) for value in others[:_MOST_VALUES]),
        len(entity.fragments),
        stated,
    )
