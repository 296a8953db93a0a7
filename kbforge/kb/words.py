"""Groupings in plain words."""

from __future__ import annotations

from kbforge.contracts import Alternative, Entity
from kbforge.words import listed


def grouping(alternative: Alternative, entity: Entity, most: int = 4) -> str:
    """What an alternative makes of the entity: joined with other fragments, or several entities.

    The largest part comes last and, if it is long, is told by its size: what matters is what
    leaves it.
    """
    mine = frozenset(entity.fragments)
    parts: list[str] = []
    for group in sorted(alternative.groups, key=lambda group: len(mine.intersection(group))):
        inside = [fragment for fragment in group if fragment in mine]
        outside = [fragment for fragment in group if fragment not in mine]
        if len(inside) == len(mine):
            return f"joined with {listed(outside, most)}"
        last = len(parts) == len(alternative.groups) - 1
        own = f"the other {len(inside):,}" if last and len(inside) > most else listed(inside, most)
        parts.append(f"{own} joined with {listed(outside, most)}" if outside else own)
    return f"{len(parts)} entities: {' | '.join(parts)}"
