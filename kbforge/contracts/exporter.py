"""Exporters: from entities to a file format.

One signature for the family:

    export(entities, out) -> None

Laws, tested for every member by `kbforge.testing.exporter`:

1. Every entity is written once, in the order given.
2. Same entities, same bytes.
3. Values are data: whatever they contain is escaped for the format.
4. Memory is bounded by one entity, whatever their number.

Most formats are streaming: they write while they read. One whose first byte needs the last entity
(a header of all attributes) is not, and keeps law 4 by letting the entities wait in a temporary
file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Protocol

from kbforge.contracts.entity import Entity


class Exporter(Protocol):
    """A writer of one format. Its options are its constructor's parameters."""

    def export(self, entities: Iterable[Entity], out: BinaryIO) -> None:
        """Write the entities, read once, to a binary stream, which stays open."""
        ...
