"""The order of attributes: that of the file, as far as its fragments show it.

A fragment keeps the attributes that it has in the order of its record, and lacks those of empty
cells. Each order of a fragment says what stands before what; the order of all is one that agrees
with them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

_MOST_SEEN = 1 << 16
_MOST_REMEMBERED = 256  # attributes of all orders; those of a table recur


class AttributeOrder:
    """Merges orders of some attributes into one of all.

    Where orders contradict each other, or say nothing, the attribute that was met first comes
    first.
    """

    def __init__(self) -> None:
        self._place: dict[str, int] = {}
        self._after: dict[str, set[str]] = {}
        self._seen: set[tuple[str, ...]] = set()

    def add(self, attributes: Iterable[str]) -> None:
        """Learn the order of a fragment or an entity."""
        order = tuple(attributes)
        if order in self._seen:
            return
        if len(self._seen) < _MOST_SEEN:
            self._seen.add(order)
        for attribute in order:
            if attribute not in self._place:
                self._place[attribute] = len(self._place)
                self._after[attribute] = set()
        for before, after in pairwise(order):
            self._after[before].add(after)

    def merged(self) -> list[str]:
        """All attributes, each after those that stand before it."""
        waits = dict.fromkeys(self._place, 0)
        for following in self._after.values():
            for attribute in following:
                waits[attribute] += 1
        ready = [(self._place[name], name) for name, count in waits.items() if not count]
        left = dict.fromkeys(self._place)
        out = []
        while left:
            if not ready:  # they contradict each other: the one that was met first goes first
                first = next(iter(left))
                ready.append((self._place[first], first))
            _, name = heapq.heappop(ready)
            if name not in left:
                continue
            del left[name]
            out.append(name)
            for attribute in self._after[name]:
                waits[attribute] -= 1
                if not waits[attribute] and attribute in left:
                    heapq.heappush(ready, (self._place[attribute], attribute))
        return out


def merged_order(orders: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """The order of all attributes of these orders."""
    if len(orders) == 1:
        return orders[0]
    if sum(map(len, orders)) > _MOST_REMEMBERED:
        return _merged(orders)
    return _remembered(orders)


def _merged(orders: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    all_of_it = AttributeOrder()
    for order in orders:
        all_of_it.add(order)
    return tuple(all_of_it.merged())


_remembered = lru_cache(maxsize=1 << 12)(_merged)
