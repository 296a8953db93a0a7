"""Hashes: angles by Hamming distances, and how often the bound holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbforge_lab.fastex.draws import mixed, stream, uniform
from kbforge_lab.fastex.hashes import (
    Directions,
    cosines,
    distances,
    error_term,
    packed,
)
from kbforge_lab.fastex.proposals import MOST, STEPS, WEIGHTS, Hashed, drawn


@pytest.mark.parametrize("degrees", [0, 20, 60, 90, 150, 180])
def test_bits_differ_as_often_as_the_angle_says(degrees: int) -> None:
    """Theorem 1, within four standard errors over 8,192 directions."""
    bits, angle = 8192, math.radians(degrees)
    vectors = np.array([[1.0, 0.0, 0.0], [5 * math.cos(angle), 5 * math.sin(angle), 0.0]])
    d = Directions.drawn(3, bits, np.random.default_rng(0))
    hashes = packed(vectors @ d.of(np.arange(3)))
    share = distances(hashes[0], hashes[1:])[0] / bits
    p = degrees / 180
    # rounded coordinates are 0 now and then, on either side of which a sign may be
    assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / bits) + 0.03 * (degrees == 180)


@pytest.mark.parametrize(("bits", "delta"), [(32, 0.05), (32, 0.3), (128, 0.05), (128, 0.3)])
def test_the_bound_holds_as_often_as_it_says(bits: int, delta: float) -> None:
    """Theorem 2: for all of 20 clusters at once with probability at least 1 - delta."""
    rng = np.random.default_rng(2)
    clusters, trials, dimensions = 20, 400, 300
    held = 0
    for _ in range(trials):
        x = rng.poisson(0.3, dimensions).astype(float)
        theta = np.abs(rng.normal(size=(clusters, dimensions))) * (rng.random(dimensions) < 0.5)
        theta[0] = x + 0.1 * rng.normal(size=dimensions)  # and one at a small angle
        d = Directions.drawn(dimensions, bits, rng).of(np.arange(dimensions))
        hashes = packed(np.vstack([x, theta]) @ d)
        norms = np.linalg.norm(theta, axis=1)
        by_distance = cosines(bits, error_term(clusters, bits, delta))
        bound = np.linalg.norm(x) * norms * by_distance[distances(hashes[0], hashes[1:])]
        held += bool((bound >= theta @ x - 1e-9).all())
    assert held / trials >= 1 - delta


def test_without_an_error_term_the_bound_is_an_estimate() -> None:
    assert error_term(20, 64, None) == 0.0
    assert cosines(4, 0.0) == pytest.approx([1, math.sqrt(0.5), 0, -math.sqrt(0.5), -1], abs=1e-12)
    assert cosines(4, 0.5) == pytest.approx([1, 1, 1, math.sqrt(0.5), 0], abs=1e-12)


@settings(max_examples=60)
@given(st.integers(1, 200), st.integers(0, 2**32))
def test_packed_distances_are_those_of_the_signs(bits: int, seed: int) -> None:
    projections = np.random.default_rng(seed).normal(size=(5, bits))
    hashes = packed(projections)
    expected = ((projections[0] > 0) != (projections[1:] > 0)).sum(axis=1)
    assert distances(hashes[0], hashes[1:]).tolist() == expected.tolist()


def test_a_permutation_gives_every_row_coordinates_of_its_own() -> None:
    rng = np.random.default_rng(0)
    first = Directions.drawn(90, 8, rng)
    second = first.permuted(rng)
    assert len(first.table) == 97
    one, other = first.of(np.arange(97)), second.of(np.arange(97))
    assert sorted(map(tuple, one)) == sorted(map(tuple, other))
    assert (one != other).any()


@settings(max_examples=60)
@given(
    st.lists(st.floats(-500, 500), min_size=1, max_size=12),
    st.floats(0.001, 1.0),
    st.floats(0, 1, exclude_max=True),
)
def test_proposals_are_drawn_by_their_weights(
    bound: list[float], temperature: float, u: float
) -> None:
    k = len(bound)
    q = Hashed(
        np.arange(k),
        np.zeros((k, 1), dtype=np.uint64),
        np.ones(k),
        np.zeros((k, 1)),
        np.log(np.arange(1.0, k + 1)),
    )
    weights = q.weights(np.array(bound), temperature)
    log_q = temperature * np.array(bound) + q.log_join
    exact = np.maximum(log_q - log_q.max(), -MOST / STEPS)
    rounding = 1 / STEPS + 1 / weights  # and to whole numbers
    assert (np.abs(np.log(weights / weights.max()) - exact) <= rounding + 1e-6).all()
    at = drawn(weights, u)
    before, after = weights[:at].sum(), weights[: at + 1].sum()
    assert before <= u * weights.sum() * (1 + 1e-12) + 1
    assert u * weights.sum() * (1 - 1e-12) <= after


def test_random_numbers_are_uniform_and_by_fragment() -> None:
    numbers = np.array([uniform(stream(3, s), f, 5) for s in range(20) for f in range(500)])
    assert len(set(numbers.tolist())) == len(numbers)
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 50  # chi-square of 19 degrees: below .0002
    assert WEIGHTS[0] == 2**36
    assert WEIGHTS[-1] >= 1
    assert mixed(0) != mixed(1)
