"""What an entity's fragments say of it, counted: values with provenance, a name, a mean vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kbforge.contracts import Fragment, Value


def collect(fragments: Sequence[Fragment]) -> dict[str, tuple[Value, ...]]:
    """Attribute -> distinct values, each with the fragments that state it in order of arrival.

    Attributes go by code point, values by count (most first), then code point.
    """
    stated: dict[str, dict[str, list[str]]] = {}
    for fragment in fragments:
        for attribute, values in fragment.properties.items():
            by_value = stated.setdefault(attribute, {})
            for value in dict.fromkeys(values):
                by_value.setdefault(value, []).append(fragment.id)
    return {attribute: _ranked(stated[attribute]) for attribute in sorted(stated)}


def _ranked(stated: Mapping[str, list[str]]) -> tuple[Value, ...]:
    values = [Value(value, tuple(ids)) for value, ids in stated.items()]
    return tuple(sorted(values, key=lambda value: (-value.count, value.value)))


def name_of(properties: Mapping[str, tuple[Value, ...]]) -> str | None:
    """The most frequent value of `name`, or else of the first attribute; None without properties.

    Of equally frequent values the longest is taken, then the first by code point.
    """
    if not properties:
        return None
    values = properties["name"] if "name" in properties else properties[min(properties)]
    return min(values, key=lambda value: (-value.count, -len(value.value), value.value)).value


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
