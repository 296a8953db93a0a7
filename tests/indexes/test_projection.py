"""Random projections: how often two vectors share a cell is what the formulas say."""

import math
import random

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.indexes.projection import Projection, together_at
from kbforge.indexes.recall import recall_of


def point(*numbers: float, identity: str = "x", label: str | None = None) -> Fragment:
    return Fragment(identity, {}, tuple(map(float, numbers)), label=label)


def shared(index: Projection, one: Fragment, other: Fragment) -> int:
    return len(set(index.keys(one)) & set(index.keys(other)))


def clouds(n: int, dimensions: int, seed: int = 1) -> list[Fragment]:
    """Points of clusters of three, ten times as far from each other as wide."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 10, (n, dimensions))
    out = [
        point(*(centre + rng.normal(size=dimensions)), identity=f"{i}-{k}", label=str(i))
        for i, centre in enumerate(centres)
        for k in range(3)
    ]
    random.Random(seed).shuffle(out)
    return out


@pytest.mark.parametrize("degrees", [0, 10, 45, 90, 135, 180])
@pytest.mark.parametrize("rows", [1, 2])
def test_signs_agree_as_often_as_the_angle_says(degrees, rows):
    """Within four standard errors, over 512 tables; the lengths do not matter."""
    index = Projection(angles=True, tables=512, rows=rows)
    angle = math.radians(degrees)
    one, other = point(1, 0, 0), point(7 * math.cos(angle), 7 * math.sin(angle), 0)
    p = (1 - angle / math.pi) ** rows
    assert abs(shared(index, one, other) - 512 * p) <= 4 * math.sqrt(512 * p * (1 - p)) + 1e-9


@pytest.mark.parametrize("distance", [0.0, 0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("rows", [1, 3])
def test_cells_are_shared_as_often_as_the_distance_says(distance, rows):
    index = Projection(tables=512, rows=rows)  # not fitted: all cells are 1 wide
    one = point(0.3, -2.0, 5.0, 1.0)
    other = point(0.3, -2.0 + distance * 0.6, 5.0 - distance * 0.8, 1.0)
    p = float(together_at(np.array([distance]), 1.0)[0]) ** rows
    assert abs(shared(index, one, other) - 512 * p) <= 4 * math.sqrt(512 * p * (1 - p)) + 1e-9


@pytest.mark.parametrize("dimensions", [2, 8, 40])
def test_recall_on_clusters(dimensions):
    fragments = clouds(300, dimensions)
    index = Projection()
    index.fit(fragments)
    found = recall_of(index, fragments)
    assert found.recall > 0.98
    assert found.candidates < 70


def test_the_units_of_a_dimension_do_not_matter():
    plain = clouds(100, 3)
    scaled = [point(f.vector[0], f.vector[1] * 1024, f.vector[2], identity=f.id) for f in plain]  # type: ignore[index]
    one, other = Projection(), Projection()
    one.fit(plain)
    other.fit(scaled)
    assert [one.keys(f) for f in plain] == [other.keys(f) for f in scaled]
    apart = Projection(standardised=False)
    apart.fit(scaled)
    assert [apart.keys(f) for f in scaled] != [one.keys(f) for f in plain]


def test_other_lengths_and_none_share_nothing():
    index = Projection()
    index.fit(clouds(20, 2))
    some = (point(1, 2), Fragment("y", {"name": ("a",)}), point(1, 2, 3))
    starts, keys = index.keys_of(some)
    assert np.diff(starts).tolist() == [32, 0, 32]
    assert len({*keys.tolist()}) == 64


@pytest.mark.parametrize(
    "vectors",
    [
        [(1.0, 2.0)] * 5,
        [(0.0,), (1e308,), (-1e308,), (1e-308,), (5.0,)],
        [(0.0, 0.0), (0.0, 1e300), (1e300, 0.0), (1e-300, 1.0), (1.0, 1.0)],
        [(1.0, 2.0)],
    ],
)
def test_vectors_that_are_equal_or_huge(vectors):
    index = Projection()
    fragments = [point(*vector, identity=str(i)) for i, vector in enumerate(vectors)]
    index.fit(fragments)
    for fragment in fragments:
        assert len(index.keys(fragment)) == 32
        assert shared(index, fragment, point(*(fragment.vector or ()))) == 32


def test_very_many_dimensions():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 20_000))
    fragments = [
        point(*(centres[i % 4] + 0.1 * rng.normal(size=20_000)), identity=str(i), label=str(i % 4))
        for i in range(16)
    ]
    index = Projection(tables=8)
    index.fit(fragments)
    found = recall_of(index, fragments)
    assert (found.recall, found.entities) == (1.0, 4)
    assert shared(index, fragments[0], fragments[1]) < shared(index, fragments[0], fragments[4])


def test_it_suits_gaussian_clusters():
    assert isinstance(registry.create("likelihoods", "gaussian").index_of_many(), Projection)
