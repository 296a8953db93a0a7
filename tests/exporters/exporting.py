"""Exports of entities in memory, read back as bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kbforge.kb.view import EntitiesView


def exported(exporter, entities, fragments=None):
    """The bytes of the file that an exporter writes."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kb"
        exporter.export(EntitiesView(lambda: iter(entities), fragments), str(target))
        return target.read_bytes()
