"""What pictures show: the heaviest groupings, what moved between them, and stable colours."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Entity, Fragment, Particle, Posterior, Subproblem
from kbforge.errors import UsageError
from kbforge_lab.pictures import (
    heaviest,
    matched,
    moved_fragments,
    points_of,
    scene_of_kb,
    scene_of_posterior,
)

POINTS = [
    Fragment(f"p{i}", {}, vector=(float(x), float(y)))
    for i, (x, y) in enumerate([(0, 0), (1, 0), (10, 0), (11, 0), (50, 50)])
]


def subproblem(
    fragments: tuple[int, ...], *groupings: tuple[float, list[tuple[int, ...]]]
) -> Subproblem:
    return Subproblem(
        fragments, tuple(Particle(math.log(p), tuple(clusters)) for p, clusters in groupings)
    )


POSTERIOR = Posterior(
    subproblems=(
        subproblem((0, 1), (0.9, [(0, 1)]), (0.1, [(0,), (1,)])),
        subproblem((2, 3), (0.6, [(2, 3)]), (0.4, [(2,), (3,)])),
        subproblem((4,), (1.0, [(4,)])),
    ),
    log_posterior=-1.0,
    n_fragments=5,
    model_evaluations=1,
)


@given(
    st.lists(st.lists(st.floats(-5, 0), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 12),
)
def test_the_heaviest_combinations_are_those_of_all(weights, count):
    subproblems = [
        Subproblem(
            (s,), tuple(Particle(w, ((s, r),)) for r, w in enumerate(sorted(ws, reverse=True)))
        )
        for s, ws in enumerate(weights)
    ]
    found = heaviest(subproblems, count)
    every = sorted(
        (
            sum(p.log_weight for p in chosen)
            for chosen in itertools.product(*(s.particles for s in subproblems))
        ),
        reverse=True,
    )
    assert [weight for weight, _ in found] == pytest.approx(every[:count])
    assert len({clusters for _, clusters in found}) == len(found)
    for weight, clusters in found:
        parts = [subproblems[s].particles[r].log_weight for s, r in clusters]
        assert weight == pytest.approx(sum(parts))


def test_views_are_the_groupings_by_probability():
    scene = scene_of_posterior(POINTS, POSTERIOR, 3)
    assert [view.title for view in scene.views] == [
        "1. 3 entities, probability 54 %",
        "2. 4 entities, probability 36 %",
        "3. 4 entities, probability 6 %",
    ]
    assert [view.moved for view in scene.views] == [(), (3,), (1,)]
    assert scene.views[0].blocks == ((0, 1), (2, 3), (4,))
    assert len(scene_of_posterior(POINTS, POSTERIOR, 9).views) == 4


@pytest.mark.parametrize(
    ("probability", "said"),
    [
        (1.0, "probability 100 %"),
        (math.nextafter(1, 0), "probability over 99 %"),
        (0.996, "probability over 99 %"),
        (0.994, "probability 99 %"),
        (0.5, "probability 50 %"),
        (0.0996, "probability 10 %"),
        (0.006, "probability 0.6 %"),
        (0.0001, "probability 0.01 %"),
        (0.00002, "probability 2e-05"),
    ],
)
def test_probabilities_stay_honest_at_both_ends(probability, said):
    rest = subproblem((4,), (1.0, [(4,)]))
    pair = subproblem((2, 3), (probability, [(2, 3)]), (1e-9, [(2,), (3,)]))
    first = scene_of_posterior(POINTS, Posterior((pair, rest), -1.0, 5, 1)).views[0]
    assert first.title == f"1. 2 entities, {said}"


def test_a_grouping_that_is_alone_has_no_probability():
    only = subproblem((0, 1), (1.0, [(0, 1)])), subproblem((2,), (1.0, [(2,)]))
    (view,) = scene_of_posterior(POINTS, Posterior(only, -1.0, 3, 1), 3).views
    assert view.title == "2 entities"


def entity(name: str, fragments: tuple[str, ...], block: int) -> Entity:
    return Entity(name, name, {}, fragments, 1.0, block)


def test_a_knowledge_base_shows_its_entities_and_subproblems():
    kb = [entity("a", ("p1", "p0"), 0), entity("b", ("p2",), 1), entity("c", ("p3", "p4"), 1)]
    (view,) = scene_of_kb(kb, POINTS).views
    assert view.clusters == ((0, 1), (2,), (3, 4))
    assert view.blocks == ((0, 1), (2, 3, 4))
    assert view.title == "3 entities"


def test_a_knowledge_base_of_other_fragments_is_refused():
    with pytest.raises(UsageError, match=r'^entity "a\\x1b" has the fragment "p9"'):
        scene_of_kb([entity("a\x1b", ("p9",), 0)], POINTS)
    with pytest.raises(UsageError, match="lacks 4"):
        scene_of_kb([entity("a", ("p0",), 0)], POINTS)


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        (Fragment("n", {"name": ("x",)}), "none"),
        (Fragment("v", {}, vector=(1.0, 2.0, 3.0)), "one of 3"),
    ],
)
def test_only_points_of_two_numbers_are_drawn(fragment, said):
    with pytest.raises(UsageError, match=f'"{fragment.id}".*got {said}'):
        points_of([*POINTS, fragment])
    with pytest.raises(UsageError, match="no fragments"):
        points_of([])


@pytest.mark.parametrize(
    ("before", "after", "same", "left"),
    [
        ([(0, 1, 2), (3, 4)], [(0, 1, 2), (3, 4)], {0: 0, 1: 1}, ()),
        ([(0, 1, 2), (3, 4)], [(0, 1), (2, 3, 4)], {0: 0, 1: 1}, (2,)),
        ([(0, 1, 2, 3)], [(0, 1, 2), (3,)], {0: 0}, (3,)),
        ([(0, 1, 2), (3,)], [(0, 1, 2, 3)], {0: 0}, (3,)),
        ([(0,)], [(0, 1)], {0: 0}, (1,)),
        ([], [(0,)], {}, (0,)),
    ],
)
def test_clusters_are_recognised_by_their_bulk(before, after, same, left):
    assert matched(before, after) == same
    assert moved_fragments(before, after) == left
