"""The fragments of entities, from the provenance of their values: the inverse of `properties`."""

from __future__ import annotations

from kbforge.contracts import Entity, Fragment


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
