"""Stable ids: who keeps one, who loses it, and where it leads then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Cluster
from kbforge.store.writing import assign_ids


def fresh(cluster: Cluster) -> str:
    return f"new-{cluster[0]}"


@pytest.mark.parametrize(
    ("before", "after", "ids", "lost"),
    [
        ({"e": (0, 1)}, [(0, 1, 2)], ("e",), {}),
        ({"e": (0, 1)}, [(0, 1), (2,)], ("e", "new-2"), {}),
        ({"e": (0, 1, 2)}, [(0,), (1, 2)], ("new-0", "e"), {}),
        ({"e": (0, 1)}, [(0,), (1,)], ("e", "new-1"), {}),
        ({"e": (0, 1, 2)}, [(0,), (1,), (2,)], ("new-0", "new-1", "new-2"), {"e": 3}),
        ({"e": (0, 1), "f": (2, 3, 4)}, [(0, 1, 2, 3, 4)], ("f",), {"e": 1}),
        ({"e": (0, 1), "f": (2, 3)}, [(0, 1, 2, 3)], ("e",), {"f": 1}),
        ({"e": ()}, [], (), {"e": 0}),
        ({"e": (0, 1, 2), "f": (3, 4, 5)}, [(0, 3), (1, 2, 4, 5)], ("new-0", "e"), {"f": 2}),
    ],
)
def test_who_keeps_an_id(
    before: dict[str, Cluster], after: list[Cluster], ids: tuple[str, ...], lost: dict[str, int]
) -> None:
    given, gone = assign_ids(before, after, fresh)
    assert given == ids
    assert {entity: len(targets) for entity, targets in gone.items()} == lost


@st.composite
def steps(draw: st.DrawFn) -> tuple[dict[str, Cluster], list[Cluster]]:
    """Two partitions of some fragments, the second with more of them."""
    size, more = draw(st.integers(1, 12)), draw(st.integers(0, 3))
    old = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    new = draw(st.lists(st.integers(0, 4), min_size=size + more, max_size=size + more))
    before = {f"e{k}": tuple(i for i, at in enumerate(old) if at == k) for k in set(old)}
    after = [tuple(i for i, at in enumerate(new) if at == k) for k in sorted(set(new))]
    return before, after


@given(steps())
def test_ids_are_distinct_and_majorities_keep_them(
    step: tuple[dict[str, Cluster], list[Cluster]],
) -> None:
    before, after = step
    ids, lost = assign_ids(before, after, fresh)
    assert len(set(ids)) == len(ids) == len(after)
    for entity, cluster in before.items():
        holders = [
            id
            for id, held in zip(ids, after, strict=True)
            if 2 * len({*cluster} & {*held}) > len(cluster)
        ]
        if entity in ids:
            held = after[ids.index(entity)]
            assert 2 * len({*cluster} & {*held}) >= len(cluster)
            assert entity not in lost
        else:
            # whoever has the majority of its fragments took another one's id
            assert all(id in before for id in holders)
            reached = {id for id, held in zip(ids, after, strict=True) if {*cluster} & {*held}}
            assert set(lost[entity]) == reached


@given(steps())
def test_nothing_changes_where_nothing_changed(
    step: tuple[dict[str, Cluster], list[Cluster]],
) -> None:
    before, _ = step
    ids, lost = assign_ids(before, list(before.values()), fresh)
    assert ids == tuple(before)
    assert not lost
