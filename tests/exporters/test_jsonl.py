"""Entity JSON lines beyond their contract: the reader takes them back."""

from __future__ import annotations

from kbforge.kb.read import read_entities
from kbforge.testing import examples
from kbforge_plugins.exporters.jsonl import JsonlExporter
from tests.exporters.exporting import exported


def test_what_is_exported_reads_back(tmp_path):
    path = tmp_path / "kb.jsonl"
    path.write_bytes(exported(JsonlExporter(), examples.entities()))
    assert list(read_entities(str(path))) == examples.entities()
