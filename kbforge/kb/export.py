"""A knowledge base handed to an exporter, written atomically."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kbforge.contracts import Entity, Exporter
from kbforge.files.io import open_output


def export(entities: Iterable[Entity], exporter: Exporter, output: str) -> int:
    """Write the entities to `output` ("-" is standard output) and say how many there were.

    Raises:
        KBForgeError: the output cannot be written, or an entity cannot be read; in either case
            no file appears under the name.

    """
    counted = _Counted(entities)
    with open_output(output) as out:
        exporter.export(counted, out)
    return counted.count


class _Counted:
    """An iterable that knows how much of it was consumed."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self._entities = entities
        self.count = 0

    def __iter__(self) -> Iterator[Entity]:
        for entity in self._entities:
            self.count += 1
            yield entity
