"""What an entity's fragments say of it, counted: values with provenance, a name, a mean vector."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from kbforge.contracts import Fragment, Value
from kbforge.kb.order import merged_order

_WORD = re.compile(r"\w+")
_TITLES = ("name", "fullname", "title", "label")


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
