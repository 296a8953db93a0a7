"""Views: entities from the first on, and their fragments as they went in."""

from dataclasses import replace

import pytest

from kbforge.contracts import Entity, Fragment, Value
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import write_fragments
from kbforge.kb.read import largest, least_sure, sources_of, with_fragment, with_ids
from kbforge.kb.view import EntitiesView, export, file_view
from kbforge_plugins.exporters.records import JsonlExporter

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


# Choosing entities to show.


def entity(name, fragments, confidence=1.0):
    return Entity(name, name, {}, tuple(fragments), confidence, 0)


KB = [entity("p", "ab", 0.5), entity("q", "cde"), entity("r", "fg", 0.2), entity("s", "h", 0.5)]


def test_the_largest_come_first_and_ties_keep_their_order():
    assert [e.id for e in largest(iter(KB), 3)] == ["q", "p", "r"]
    assert [e.id for e in largest(iter(KB), 99)] == ["q", "p", "r", "s"]


def test_the_least_sure_come_first_whatever_is_reported_and_ties_go_to_the_larger():
    assert [e.id for e in least_sure(iter(reversed(KB)), 3)] == ["r", "p", "s"]
    one, other = (
        replace(e, confidence=p, reported=e.confidence)
        for e, p in zip(KB, (0.4, 0.1), strict=False)
    )
    assert [e.id for e in least_sure([KB[2], one, other], 3)] == ["q", "r", "p"]


def test_entities_are_found_by_id_and_by_fragment():
    assert with_ids(iter(KB), ["r"]) == [KB[2]]
    assert with_fragment(iter(KB), "d") is KB[1]


@pytest.mark.parametrize("find", [lambda kb, id: with_ids(kb, [id]), with_fragment])
def test_a_wrong_id_is_one_sentence(find):
    with pytest.raises(UsageError, match=r'has no (entity|fragment) "\\x1b\[2Jz"'):
        find(iter(KB), "\x1b[2Jz")


def test_sources_are_those_of_the_entities_fragments_which_must_be_there():
    fragments = [
        Fragment(i, {"name": ("x",)}, source=s)
        for i, s in [("a", "A"), ("z", "Z"), ("b", None), ("c", "C")]
    ]
    assert sources_of(KB[0].fragments, iter(fragments)) == {"a": "A"}
    with pytest.raises(UsageError, match=r'lacks the fragment "b"'):
        sources_of(KB[0].fragments, [Fragment("a", {"name": ("x",)})])


# Exports are counted, and are whole or not there.


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
