"""Entities as JSON lines: KBForge's own format, which every verb reads back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import orjson

from kbforge.contracts import Entity


class JsonlExporter:
    """The exporter `jsonl`: one entity a line, keys in the order of `Entity.to_json`."""

    def export(self, entities: Iterable[Entity], out: BinaryIO) -> None:
        """Write the entities to a binary stream."""
        for entity in entities:
            out.write(orjson.dumps(entity.to_json(), option=orjson.OPT_APPEND_NEWLINE))
