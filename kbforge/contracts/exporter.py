"""Exporters: from entities to a file format.

One signature for the family:

    export(entities, out) -> None

Laws, tested for every member by `kbforge.testing.exporter`:

1. Every entity is written once, in the order given.
2. Same entities, same bytes.
3. Values are data: whatever they contain is escaped for the format.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Protocol

from kbforge.contracts.entity import Entity


class Exporter(Protocol):
    """A writer of one format. Its options are its constructor's parameters."""

    def export(self, entities: Iterable[Entity], out: BinaryIO) -> None:
        """Write the entities to a binary stream, one pass, in bounded memory."""
        ...
