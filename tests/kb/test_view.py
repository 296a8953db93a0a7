"""Views: entities from the first on, and their fragments as they went in."""

from __future__ import annotations

import pytest

from kbforge.contracts import Entity, Fragment, Value
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import write_fragments
from kbforge.kb.export import export
from kbforge.kb.view import EntitiesView, file_view
from kbforge_plugins.exporters.jsonl import JsonlExporter

ADA = Entity(
    "e1",
    "Ada",
    {"name": (Value("Ada", ("a", "b")),), "born": (Value("1815", ("b",)),)},
    ("b", "a"),
    1.0,
    0,
)
FRAGMENTS = [
    Fragment("c", {"name": ("Zoë",)}),
    Fragment("a", {"name": ("Ada", "Ada")}, source="census", metadata={"page": [1, {"x": None}]}),
    Fragment("b", {"name": ("Ada",), "born": ("1815",)}, vector=(0.5,), label="Q1"),
]


def test_without_fragments_they_are_told_from_values():
    view = EntitiesView(lambda: iter([ADA]))
    assert not view.knows_fragments
    assert view.fragments(ADA) == [
        Fragment("b", {"name": ("Ada",), "born": ("1815",)}),
        Fragment("a", {"name": ("Ada",)}),
    ]


def test_fragments_are_as_they_went_in_and_in_the_order_of_the_entity():
    view = EntitiesView(lambda: iter([ADA]), iter(FRAGMENTS))
    assert view.knows_fragments
    assert view.fragments(ADA) == [FRAGMENTS[2], FRAGMENTS[1]]
    assert list(view.entities()) == list(view.entities()) == [ADA]


def test_a_fragment_that_is_not_there_is_named():
    view = EntitiesView(lambda: iter([ADA]), FRAGMENTS[:2])
    with pytest.raises(UsageError, match='--fragments lacks the fragment "b"'):
        view.fragments(ADA)


def test_a_file(tmp_path):
    kb, fragments = str(tmp_path / "kb.jsonl"), str(tmp_path / "fragments.jsonl.gz")
    export(EntitiesView(lambda: iter([ADA])), JsonlExporter(), kb)
    write_fragments(FRAGMENTS, fragments)
    view = file_view(kb, fragments)
    (entity,) = view.entities()
    assert entity == ADA
    assert view.fragments(entity) == [FRAGMENTS[2], FRAGMENTS[1]]
    with pytest.raises(KBForgeError, match="only one of KB and --fragments"):
        file_view("-", "-")
