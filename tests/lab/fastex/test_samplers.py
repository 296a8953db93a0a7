"""The compiled sampler makes the moves of the one in NumPy, on any number of threads."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbforge_lab.fastex.compiled import CompiledSampler, sampler_library
from kbforge_lab.fastex.families import Mixture
from kbforge_lab.fastex.proposals import (
    MOST,
    STEPS,
    WEIGHTS,
    Directions,
    HashedClusters,
    cosines,
    distances,
    drawn,
    error_term,
    mixed,
    packed,
    stream,
    uniform,
)
from kbforge_lab.fastex.reference import Sampler
from tests.lab.fastex.problems import FAMILIES, directions, spec

LIBRARY = sampler_library()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("components", [None, 6])
@pytest.mark.parametrize(("tries", "taylor", "bits"), [(1, "secant", 100), (3, "tangent", 32)])
def test_the_same_moves(family, components, tries, taylor, bits):
    _, _, model = spec(family, 50, taylor)
    _, _, of_kernel = spec(family, 50, taylor)
    prior = Mixture(2.0, components)
    one = Sampler(model, prior, 0.05, tries)
    other = CompiledSampler(LIBRARY, of_kernel, prior, 0.05, tries, workers=2)
    rng, first = np.random.default_rng(3), directions(model, bits)
    for sampler in (one, other):
        sampler.redirect(first)
        assert sampler.place(range(50), stream(1, 0)) < 0
    for sweep in range(1, 7):
        order, hashed = rng.permutation(50), first.permuted(rng)
        for sampler in (one, other):
            sampler.redirect(hashed)
            sampler.temperature = 2.0**-sweep
        for block in np.array_split(order, 3):
            for sampler in (one, other):
                sampler.exclude(block)
            assert one.fit(block) == pytest.approx(other.fit(block), abs=1e-9)
            gains = [sampler.block(block, stream(1, sweep)) for sampler in (one, other)]
            assert gains[0] == pytest.approx(gains[1], abs=1e-8)
            assert one.slot_of.tolist() == other.slot_of.tolist()
    assert (one.moved, one.proposed) == (other.moved, other.proposed)
    assert one.moved > 5


def test_the_number_of_threads_changes_nothing():
    found = []
    for workers in (1, 2, 5):
        _, _, model = spec("dirichlet-multinomial", 300)
        sampler = CompiledSampler(LIBRARY, model, Mixture(3.0), 0.05, 2, workers)
        sampler.redirect(directions(model, 64))
        gain = sampler.place(range(300), stream(2, 0))
        for sweep in range(1, 6):
            sampler.temperature = 0.1
            for block in np.array_split(np.random.default_rng(sweep).permutation(300), 2):
                sampler.exclude(block)
                gain += sampler.block(block, stream(2, sweep))
        found.append((gain, sampler.slot_of.tolist(), sampler.moved))
    assert found[0] == found[1] == found[2]
    assert found[0][2] > 50


@pytest.mark.parametrize("family", FAMILIES)
def test_gains_add_up_to_the_log_posterior(family):
    _, likelihood, model = spec(family, 40)
    fragments = spec(family, 40)[0]
    prior = Mixture(2.0, 7)
    sampler = Sampler(model, prior, None, 2)
    sampler.redirect(directions(model))
    sampler.temperature = 0.2
    gained = sampler.place(range(40), stream(5, 0))
    for sweep in range(1, 5):
        order = np.random.default_rng(sweep).permutation(40)
        sampler.exclude(order)
        gained += sampler.block(order, stream(5, sweep))
    slots = sampler.slot_of
    clusters = [tuple(np.flatnonzero(slots == s).tolist()) for s in np.unique(slots)]
    expected = likelihood.log_marginal([[fragments[i] for i in c] for c in clusters])
    assert model.log_marginal(clusters) == pytest.approx(expected, abs=1e-6)
    # in points that are standardised, which changes each by the same
    alone = likelihood.log_marginal([[fragment] for fragment in fragments])
    shift = float((alone - model.alone).sum())
    log_prior = float(prior.log_clusters(np.array([len(c) for c in clusters])).sum())
    log_prior += prior.log_choices(len(clusters))
    assert gained + shift == pytest.approx(float(expected.sum()) + log_prior, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_predictives_are_those_of_the_likelihood(family):
    fragments, likelihood, model = spec(family, 12)
    alone = likelihood.log_marginal([[fragment] for fragment in fragments])
    shift = alone - model.alone
    for fragment in range(6):
        model.add(fragment, 3)
    whole, x, less = likelihood.log_marginal([fragments[:6], fragments[:7], fragments[1:6]])
    assert model.log_predictive(6, 3, held=False) + shift[6] == pytest.approx(x - whole, abs=1e-8)
    assert model.log_predictive(0, 3, held=True) + shift[0] == pytest.approx(whole - less, abs=1e-8)
    model.remove(0, 3)
    model.add(0, 3)
    assert model.log_predictive(6, 3, held=False) + shift[6] == pytest.approx(x - whole, abs=1e-8)


# Hashes: angles by Hamming distances, and how often the bound holds.


@pytest.mark.parametrize("degrees", [0, 20, 60, 90, 150, 180])
def test_bits_differ_as_often_as_the_angle_says(degrees):
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
def test_the_bound_holds_as_often_as_it_says(bits, delta):
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


def test_without_an_error_term_the_bound_is_an_estimate():
    assert error_term(20, 64, None) == 0.0
    assert cosines(4, 0.0) == pytest.approx([1, math.sqrt(0.5), 0, -math.sqrt(0.5), -1], abs=1e-12)
    assert cosines(4, 0.5) == pytest.approx([1, 1, 1, math.sqrt(0.5), 0], abs=1e-12)


@settings(max_examples=60)
@given(st.integers(1, 200), st.integers(0, 2**32))
def test_packed_distances_are_those_of_the_signs(bits, seed):
    projections = np.random.default_rng(seed).normal(size=(5, bits))
    hashes = packed(projections)
    expected = ((projections[0] > 0) != (projections[1:] > 0)).sum(axis=1)
    assert distances(hashes[0], hashes[1:]).tolist() == expected.tolist()


def test_a_permutation_gives_every_row_coordinates_of_its_own():
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
def test_proposals_are_drawn_by_their_weights(bound, temperature, u):
    k = len(bound)
    q = HashedClusters(
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


def test_random_numbers_are_uniform_and_by_fragment():
    numbers = np.array([uniform(stream(3, s), f, 5) for s in range(20) for f in range(500)])
    assert len(set(numbers.tolist())) == len(numbers)
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 50  # chi-square of 19 degrees: below .0002
    assert WEIGHTS[0] == 2**36
    assert WEIGHTS[-1] >= 1
    assert mixed(0) != mixed(1)
