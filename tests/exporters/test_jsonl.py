"""Entity JSON lines beyond their contract: the reader takes them back."""

from __future__ import annotations

import io

from kbforge.kb.read import read_entities
from kbforge.testing import examples
from kbforge_plugins.exporters.jsonl import JsonlExporter


def test_what_is_exported_reads_back(tmp_path):
    out = io.BytesIO()
    JsonlExporter().export(examples.entities(), out)
    path = tmp_path / "kb.jsonl"
    path.write_bytes(out.getvalue())
    assert list(read_entities(str(path))) == examples.entities()
