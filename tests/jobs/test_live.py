"""A clustering that stays open: the same as one run, however the fragments are portioned."""

from __future__ import annotations

from typing import Any

import pytest

from kbforge import Fragment, KBForgeError, cluster, open_session

NAMES = ["ada lovelace", "ada lovelac", "a lovelace", "bo ek", "bo ekk", "cyd orr"] * 3
FRAGMENTS = [Fragment(f"p{n}", {"name": (name,)}) for n, name in enumerate(NAMES)]
CHOICES: list[dict[str, Any]] = [
    {"likelihood": "bigram", "alpha": 3},
    {"likelihood": "bigram", "alpha": 3, "clusterer": "smc", "particles": 7},
    {"likelihood": "attributes", "surrogate": "bigram", "alpha": 2, "clusterer": "greedy"},
]


@pytest.mark.parametrize("chosen", CHOICES)
@pytest.mark.parametrize("size", [1, 5, len(FRAGMENTS)])
def test_portions_make_no_difference(chosen: dict[str, Any], size: int) -> None:
    live = open_session(FRAGMENTS, **chosen)
    for start in range(0, len(FRAGMENTS), size):
        portion = FRAGMENTS[start : start + size]
        assert len(live.add(portion)) == len(portion)
    kb, whole = live.knowledge_base(), cluster(FRAGMENTS, **chosen)
    assert kb.entities == whole.entities
    assert kb.complete
    assert (kb.alpha, kb.notes, kb.fragments) == (whole.alpha, whole.notes, whole.fragments)


def test_what_is_known_on_the_way_stays_as_it_was() -> None:
    live = open_session(FRAGMENTS, likelihood="bigram", alpha=3)
    live.add(FRAGMENTS[:7])
    early = live.knowledge_base()
    assert live.session.touched().changed
    assert not live.session.touched().changed
    live.add(FRAGMENTS[7:])
    assert len(early.fragments) == 7
    ids = {id for entity in early.entities for id in entity.fragments}
    assert ids == {f"p{n}" for n in range(7)}
    assert live.session.touched().changed


def test_a_repeated_id_is_refused_whole() -> None:
    live = open_session(FRAGMENTS, likelihood="bigram", alpha=3)
    live.add(FRAGMENTS[:3])
    for again in ([FRAGMENTS[4], FRAGMENTS[1]], [FRAGMENTS[5], FRAGMENTS[5]]):
        with pytest.raises(KBForgeError, match="expected a unique id"):
            live.add(again)
    assert live.fragments == FRAGMENTS[:3]


def test_what_the_likelihood_refuses_is_not_taken_in() -> None:
    points = [Fragment(f"x{n}", {}, vector=(float(n), 0.0)) for n in range(6)]
    live = open_session(points, likelihood="gaussian", alpha=1)
    with pytest.raises(KBForgeError, match="bad"):
        live.add([*points[:3], Fragment("bad", {"name": ("x",)}), points[3]])
    assert live.fragments == points[:3]
    live.add(points[3:])
    whole = cluster(points, likelihood="gaussian", alpha=1)
    assert live.knowledge_base().entities == whole.entities


def test_a_snapshot_goes_on() -> None:
    live = open_session(FRAGMENTS, likelihood="bigram", alpha=3)
    live.add(FRAGMENTS[:8])
    snapshot = live.session.snapshot()
    again = open_session(FRAGMENTS, snapshot, likelihood="bigram", alpha=3)
    assert again.fragments == FRAGMENTS[:8]
    for one in (live, again):
        one.add(FRAGMENTS[8:])
    assert again.knowledge_base().entities == live.knowledge_base().entities


def test_what_is_removed_is_in_no_entity() -> None:
    live = open_session(FRAGMENTS, likelihood="bigram", alpha=3)
    live.add(FRAGMENTS)
    gone = FRAGMENTS[::7]
    live.remove([fragment.id for fragment in gone])
    left = [fragment for fragment in FRAGMENTS if fragment not in gone]
    assert live.fragments == left
    known = live.knowledge_base()
    ids = sorted(id for entity in known.entities for id in entity.fragments)
    assert ids == sorted(fragment.id for fragment in left)
    live.add(gone)
    assert live.fragments == [*left, *gone]
    assert len(live.knowledge_base().fragments) == len(FRAGMENTS)
    with pytest.raises(KBForgeError, match='has the id "nobody"'):
        live.remove(["nobody"])


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(KBForgeError, match='open_session has no option "alhpa"'):
        open_session(FRAGMENTS, alhpa=3)  # type: ignore[call-arg]
