"""Colours of clusters: kept from grouping to grouping, far from the same colour."""

from __future__ import annotations

import itertools

import numpy as np

from kbforge.pictures.canvas import PALETTE
from kbforge.pictures.colours import Colours


def test_a_cluster_keeps_its_colour_and_neighbours_differ() -> None:
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


def test_a_new_cluster_takes_the_colour_that_is_farthest() -> None:
    points = np.random.default_rng(2).normal(size=(60, 2))
    painted = Colours(points).paint([(i,) for i in range(60)])
    assert painted[: len(PALETTE)] == list(PALETTE)
    for i in range(len(PALETTE), 60):
        away = np.linalg.norm(points[:i] - points[i], axis=1)
        nearest = [away[[c == colour for c in painted[:i]]].min() for colour in PALETTE]
        assert painted[i] == PALETTE[int(np.argmax(nearest))]


def test_thousands_of_clusters_take_turns() -> None:
    points = np.random.default_rng(2).normal(size=(5000, 2))
    colours = Colours(points)
    first = colours.paint([(i,) for i in range(5000)])
    assert first == [PALETTE[i % len(PALETTE)] for i in range(5000)]
    # the first three merge; all others keep theirs
    assert colours.paint([(0, 1, 2), *((i,) for i in range(3, 5000))])[1:] == first[3:]
