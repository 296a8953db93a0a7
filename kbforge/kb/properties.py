"""The properties of an entity: values with provenance, a name, a mean vector.

Attributes are in the order of the file, as far as its fragments show it. A fragment keeps its
attributes in the order of its record, and lacks those of empty cells, so each fragment orders some
of the attributes; the order of all agrees with them.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from kbforge.contracts import Entity, Fragment, Value

_WORD = re.compile(r"\w+")
_TITLES = ("name", "fullname", "title", "label")
_MOST_SEEN = 1 << 16
_MOST_REMEMBERED = 256  # attributes of all orders; those of a table recur


def collect(fragments: Sequence[Fragment]) -> dict[str, tuple[Value, ...]]:
    """Attribute -> distinct values, each with the fragments that state it in order of arrival.

    Attributes are in the order of the fragments, values by count (most first), then code point.
    """
    stated: dict[str, dict[str, list[str]]] = {}
    orders: dict[tuple[str, ...], None] = {}
    for fragment in fragments:
        orders[tuple(fragment.properties)] = None
        name = fragment.id
        for attribute, values in fragment.properties.items():
            by_value = stated.get(attribute)
            if by_value is None:
                by_value = stated[attribute] = {}
            for value in values if len(values) == 1 else dict.fromkeys(values):
                ids = by_value.get(value)
                if ids is None:
                    by_value[value] = [name]
                else:
                    ids.append(name)
    order = merged_order(tuple(orders))
    return {attribute: _ranked(stated[attribute]) for attribute in order}


def _ranked(stated: Mapping[str, list[str]]) -> tuple[Value, ...]:
    values = [Value(value, tuple(ids)) for value, ids in stated.items()]
    if len(values) > 1:
        values.sort(key=lambda value: (-len(value.fragments), value.value))
    return tuple(values)


def name_of(fragments: Sequence[Fragment]) -> str | None:
    """The best spelling of what most of the fragments call the entity; None without properties.

    The attribute `name` says it, or else `full_name`, `title` or `label`. Without those it is the
    attributes that end in "name", such as first_name and surname, joined in the order of the
    fragment. Without any it is the attribute that stands first. Case and punctuation of attributes
    do not matter.

    It is the commonest name, whatever its case. Where names are joined, one of a single part, such
    as a surname alone, comes last. Of equally frequent names the one of more parts is taken, then
    the one with the fewest words that no other fragment states, which may be typos, then the
    longest, if possible without a comma, which turns names around. Of spellings that differ in case
    the commonest is taken, then one of both cases, then the first by code point.
    """
    attributes = dict.fromkeys(a for fragment in fragments for a in fragment.properties)
    parts = _naming(tuple(attributes))
    counts = Counter(stated for fragment in fragments for stated in _stated(fragment, parts))
    if not counts:
        return None
    if len(counts) == 1:
        return next(iter(counts))[1]
    frequent = Counter[str]()
    for (_, name), count in counts.items():
        frequent[name.casefold()] += count

    def commonest(stated: tuple[int, str]) -> tuple[bool, int, int]:
        number, name = stated
        return (number == 1 and len(parts) > 1, -frequent[name.casefold()], -number)

    first = min(map(commonest, counts))
    best = {stated: count for stated, count in counts.items() if commonest(stated) == first}
    if len(best) == 1:
        return next(iter(best))[1]
    said = Counter(
        word for f in fragments for word in {w for s in _stated(f, parts) for w in _words(s[1])}
    )

    def rank(stated: tuple[int, str]) -> tuple[int, int, bool, int, int, bool, str]:
        name, words = stated[1], _words(stated[1])
        alone, letters = sum(said[word] < 2 for word in words), sum(map(len, words))
        one_case = name.isupper() or name.islower()
        return (alone, -letters, "," in name, -len(name), -best[stated], one_case, name)

    return min(best, key=rank)[1]


def _words(name: str) -> list[str]:
    return _WORD.findall(name.casefold())


@lru_cache(maxsize=1 << 10)
def _naming(attributes: tuple[str, ...]) -> set[str]:
    return naming(attributes)


def naming(attributes: Sequence[str]) -> set[str]:
    """Those of the attributes that together name an entity."""
    letters = {a: "".join(filter(str.isalnum, a.casefold())) for a in attributes}
    for title in _TITLES:
        if title in letters.values():
            return {next(a for a in attributes if letters[a] == title)}
    return {a for a in attributes if letters[a].endswith("name")} or set(attributes[:1])


def _stated(fragment: Fragment, naming: set[str]) -> set[tuple[int, str]]:
    """The names that a fragment states, each with the number of attributes that it is joined of."""
    if len(naming) == 1:
        return {(1, value) for a in naming for value in fragment.properties.get(a, ())}
    parts = [values for attribute, values in fragment.properties.items() if attribute in naming]
    return {(len(parts), " ".join(values[0] for values in parts))} if parts else set()


def mean_vector(fragments: Sequence[Fragment]) -> tuple[float, ...] | None:
    """The mean of the fragments' vectors, shape [D]; None without vectors of one length."""
    vectors = [fragment.vector for fragment in fragments if fragment.vector is not None]
    if not vectors or len({len(vector) for vector in vectors}) > 1:
        return None
    stacked = np.array(vectors)
    with np.errstate(over="ignore"):
        mean = stacked.mean(axis=0)
    if not np.isfinite(mean).all():
        # the sum of huge numbers overflows where their mean does not
        mean = (stacked / len(vectors)).sum(axis=0)
    return tuple(mean.tolist())


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


def fragments_of(entity: Entity) -> list[Fragment]:
    """What each fragment of the entity states, in the entity's order; values by code point.

    A fragment's repeated values are one here, and its label, source and vector are not known.
    """
    stated: dict[str, dict[str, list[str]]] = {fragment: {} for fragment in entity.fragments}
    for attribute, values in entity.properties.items():
        for value in values:
            for fragment in value.fragments:
                stated[fragment].setdefault(attribute, []).append(value.value)
    return [
        Fragment(id, {attribute: tuple(sorted(values)) for attribute, values in properties.items()})
        for id, properties in stated.items()
    ]
