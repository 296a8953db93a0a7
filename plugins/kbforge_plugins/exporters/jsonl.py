"""Entities as JSON lines: KBForge's own format, which every verb reads back."""

from __future__ import annotations

from typing import ClassVar

import orjson

from kbforge.contracts import Exporter, View
from kbforge.files.io import open_output


class JsonlExporter(Exporter):
    """One entity a line, with all that is known of it."""

    endings: ClassVar = (".jsonl", ".ndjson", ".json")

    def export(self, view: View, target: str) -> None:
        """Write a line an entity, keys in the order of `Entity.to_json`."""
        with open_output(target) as out:
            for entity in view.entities():
                out.write(orjson.dumps(entity.to_json(), option=orjson.OPT_APPEND_NEWLINE))
