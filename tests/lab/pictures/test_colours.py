"""Colours of clusters: kept from grouping to grouping, far from the same colour."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbforge.pictures import PALETTE
from kbforge_lab.pictures import Colours, moved_fragments


def test_a_cluster_keeps_its_colour_and_neighbours_differ():
    points = np.array([[float(i), 0.0] for i in range(40)])
    colours = Colours(points)
    before = [tuple(range(i, i + 2)) for i in range(0, 40, 2)]
    first = colours.paint(before)
    assert all(a != b for a, b in itertools.pairwise(first))
    # the first two merge, a fragment of the fifth leaves; everyone else is as before
    after = [(0, 1, 2, 3), *before[2:4], (8,), *before[5:], (9,)]
    second = colours.paint(after)
    assert second[0] == first[0]
    assert second[1:4] == first[2:5]
    assert second[4:-1] == first[5:]


def test_a_new_cluster_does_not_take_the_colour_of_one_that_is_gone():
    points = np.array([[float(i), 0.0] for i in range(12)])
    colours = Colours(points)
    before = colours.paint([(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)])
    # the second joins the first; what leaves the third is not the second
    after = colours.paint([(0, 1, 2, 3, 4, 5, 6, 7), (8, 9, 10), (11,)])
    assert after[:2] == [before[0], before[2]]
    assert after[2] not in before


def test_compared_with_the_first_a_cluster_has_its_colour_again():
    points = np.array([[float(i), 0.0] for i in range(6)])
    colours = Colours(points, of_the_first=True)
    first = colours.paint([(0, 1), (2, 3), (4, 5)])
    assert colours.paint([(0, 1, 2, 3), (4,), (5,)])[0] == first[0]
    assert colours.paint([(4, 5), (2, 3), (0, 1)]) == first[::-1]


@given(st.lists(st.lists(st.integers(0, 2), min_size=8, max_size=8), min_size=2, max_size=4))
def test_where_colours_suffice_one_changes_where_the_rings_are(labels):
    """At most three clusters in each grouping, so that no new one needs a colour of the first."""
    points = np.random.default_rng(3).normal(size=(8, 2))
    groupings = [
        [tuple(np.flatnonzero(np.array(own) == k).tolist()) for k in sorted(set(own))]
        for own in labels
    ]
    colours = Colours(points, of_the_first=True)
    painted = [dict(zip(clusters, colours.paint(clusters), strict=True)) for clusters in groupings]
    of = [{i: colour for cluster, colour in own.items() for i in cluster} for own in painted]
    for clusters, colour in zip(groupings[1:], of[1:], strict=True):
        left = tuple(i for i in range(8) if colour[i] != of[0][i])
        assert moved_fragments(groupings[0], clusters) == left


def test_a_new_cluster_takes_the_colour_that_is_farthest():
    points = np.random.default_rng(2).normal(size=(60, 2))
    painted = Colours(points).paint([(i,) for i in range(60)])
    assert painted[: len(PALETTE)] == list(PALETTE)
    for i in range(len(PALETTE), 60):
        away = np.linalg.norm(points[:i] - points[i], axis=1)
        nearest = [away[[c == colour for c in painted[:i]]].min() for colour in PALETTE]
        assert painted[i] == PALETTE[int(np.argmax(nearest))]


def test_thousands_of_clusters_take_turns():
    points = np.random.default_rng(2).normal(size=(5000, 2))
    colours = Colours(points)
    first = colours.paint([(i,) for i in range(5000)])
    assert first == [PALETTE[i % len(PALETTE)] for i in range(5000)]
    # the first three merge; all others keep theirs
    assert colours.paint([(0, 1, 2), *((i,) for i in range(3, 5000))])[1:] == first[3:]
