"""Exports of entities in memory, read back as bytes, as rows or by a reader of files."""

import csv
import io
import tempfile
from pathlib import Path

from kbforge.kb.view import EntitiesView


def exported(exporter, entities, fragments=None, read=Path.read_bytes):
    """What `read` finds in the file (or folder) that an exporter writes."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kb"
        exporter.export(EntitiesView(lambda: iter(entities), fragments), str(target))
        return read(target)


def rows(exporter, entities, fragments=None):
    """The rows of a CSV file, the header first."""
    return list(csv.reader(io.StringIO(exported(exporter, entities, fragments).decode())))


def records(exporter, entities, fragments=None):
    """The rows of a CSV file, by column."""
    header, *others = rows(exporter, entities, fragments)
    return [dict(zip(header, row, strict=True)) for row in others]
