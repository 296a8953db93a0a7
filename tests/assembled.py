"""Entities of a posterior, as objects."""

from collections.abc import Iterator
from typing import Any

from kbforge.contracts import Entity
from kbforge.kb.entities import entities_of, entity_lines


def assemble(*given: Any, **named: Any) -> Iterator[Entity]:
    """The entities of `entity_lines`, which takes the same."""
    return entities_of(entity_lines(*given, **named))
