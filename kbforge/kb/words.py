"""Groupings in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kbforge.contracts import Alternative, Entity
from kbforge.errors import quoted
from kbforge.words import listed

_NAME_CHARACTERS = 40


def grouping(
    alternative: Alternative,
    entity: Entity,
    most: int = 4,
    names: Mapping[str, str] | None = None,
) -> str:
    """What an alternative makes of the entity: joined with other fragments, or several entities.

    The largest part comes last and, if it is long, is told by its size: what matters is what
    leaves it.

    Args:
        alternative: one of the entity's.
        entity: whose fragments are regrouped.
        most: how many fragments of a part are listed.
        names: fragment id -> what to call it, as `Ada Lovelace (f1, f2)`: the name of its entity,
            or its own. Fragments without one are told by their id alone.

    """
    mine = frozenset(entity.fragments)
    parts: list[str] = []
    for group in sorted(alternative.groups, key=lambda group: len(mine.intersection(group))):
        inside = [fragment for fragment in group if fragment in mine]
        outside = [fragment for fragment in group if fragment not in mine]
        if len(inside) == len(mine):
            return f"joined with {_named(outside, most, names or {})}"
        last = len(parts) == len(alternative.groups) - 1
        other = last and len(inside) > most
        own = f"the other {len(inside):,}" if other else _named(inside, most, names or {})
        joined = f"{own} joined with {_named(outside, most, names or {})}"
        parts.append(joined if outside else own)
    return f"{len(parts)} entities: {' | '.join(parts)}"


def outsiders(entities: Iterable[Entity]) -> frozenset[str]:
    """The fragments of other entities that the alternatives of these speak of."""
    return frozenset(
        fragment
        for entity in entities
        for alternative in entity.alternatives
        for fragment in set().union(*alternative.groups).difference(entity.fragments)
    )


def _named(fragments: Sequence[str], most: int, names: Mapping[str, str]) -> str:
    """The fragments, those of one entity together and behind its name."""
    by_name: dict[str | None, list[str]] = {}
    for fragment in fragments:
        by_name.setdefault(names.get(fragment), []).append(fragment)
    shown = [
        listed(held, most)
        if name is None
        else f"{quoted(name, _NAME_CHARACTERS)} ({listed(held, most)})"
        for name, held in by_name.items()
    ]
    return ", ".join(shown)
