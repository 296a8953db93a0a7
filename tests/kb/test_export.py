"""Exports are counted, and are whole or not there."""

from __future__ import annotations

import pytest

from kbforge.contracts import Entity
from kbforge.kb.export import export
from kbforge.kb.view import EntitiesView
from kbforge_plugins.exporters.jsonl import JsonlExporter

ENTITIES = [Entity(f"e{i}", "x", {}, (f"f{i}",), 1.0, i) for i in range(5)]


def test_the_number_of_entities_is_returned(tmp_path):
    path = tmp_path / "kb.jsonl"
    view = EntitiesView(lambda: iter(ENTITIES))
    assert export(view, JsonlExporter(), str(path)) == 5
    assert path.read_bytes().count(b"\n") == 5


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path):
    def broken():
        yield from ENTITIES
        raise ValueError("torn")

    path = tmp_path / "kb.jsonl"
    path.write_text("old")
    with pytest.raises(ValueError, match="torn"):
        export(EntitiesView(broken), JsonlExporter(), str(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
