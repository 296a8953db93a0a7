"""Choosing entities to show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kbforge.contracts import Entity, Fragment
from kbforge.errors import UsageError
from kbforge.kb.select import largest, least_sure, sources_of, with_fragment, with_ids


def entity(name, fragments, confidence=1.0):
    return Entity(name, name, {}, tuple(fragments), confidence, 0)


KB = [entity("p", "ab", 0.5), entity("q", "cde"), entity("r", "fg", 0.2), entity("s", "h", 0.5)]


def test_the_largest_come_first_and_ties_keep_their_order():
    assert [e.id for e in largest(iter(KB), 3)] == ["q", "p", "r"]
    assert [e.id for e in largest(iter(KB), 99)] == ["q", "p", "r", "s"]


def test_the_least_sure_come_first_and_ties_go_to_the_larger():
    assert [e.id for e in least_sure(iter(reversed(KB)), 3)] == ["r", "p", "s"]


def test_the_confidence_decides_whatever_is_reported():
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


def test_sources_are_those_of_the_entities_fragments():
    fragments = [
        Fragment(i, {"name": ("x",)}, source=s)
        for i, s in [("a", "A"), ("z", "Z"), ("b", None), ("c", "C")]
    ]
    assert sources_of(KB[:1], iter(fragments)) == {"a": "A"}


def test_the_wrong_fragments_are_refused():
    with pytest.raises(UsageError, match=r'lacks the fragment "b"'):
        sources_of(KB[:1], [Fragment("a", {"name": ("x",)})])
