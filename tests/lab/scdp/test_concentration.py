"""A concentration is drawn from its posterior, whatever the number of groups."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import gamma

from kbforge_lab.scdp.concentration import (
    GammaPrior,
    log_symmetric,
    mixture_log_weights,
)

GROUPS = {
    "one": ([30], [7]),
    "three": ([12, 5, 40], [3, 5, 4]),
    "single references": ([1, 1, 1, 1], [1, 1, 1, 1]),
    "thirty": ([3 + i % 7 for i in range(30)], [1 + i % 3 for i in range(30)]),
}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=7))
def test_symmetric_polynomials_are_sums_over_subsets(sizes: list[int]) -> None:
    brute = [
        sum(float(np.prod(chosen)) for chosen in combinations(sizes, k))
        for k in range(len(sizes) + 1)
    ]
    np.testing.assert_allclose(np.exp(log_symmetric(np.log(sizes))), brute, rtol=1e-9)


@pytest.mark.parametrize("name", GROUPS)
def test_the_mixture_is_the_density_given_the_auxiliary_variables(name: str) -> None:
    sizes, clusters = map(np.array, GROUPS[name])
    a, rate = 1.7, 2.9
    shapes = a - len(sizes) + clusters.sum() + np.arange(len(sizes) + 1)
    weights = np.exp(mixture_log_weights(shapes, rate, sizes) - 50)
    alpha = np.linspace(0.05, 30, 40)
    mixture = (weights * gamma.pdf(alpha[:, None], shapes, scale=1 / rate)).sum(axis=1)
    exact = (a - len(sizes) - 1 + clusters.sum()) * np.log(alpha) - rate * alpha
    exact += np.log(alpha[:, None] + sizes).sum(axis=1)
    difference = np.log(mixture) - exact
    np.testing.assert_allclose(difference, difference[0], atol=1e-8)


@pytest.mark.parametrize("name", GROUPS)
def test_a_chain_has_the_moments_of_the_posterior(name: str) -> None:
    sizes, clusters = map(np.array, GROUPS[name])
    prior, rng = GammaPrior(1.5, 0.8), np.random.default_rng(4)

    def density(alpha: float) -> float:
        ewens = clusters * np.log(alpha) + gammaln(alpha) - gammaln(alpha + sizes)
        return float(np.exp(0.5 * np.log(alpha) - 0.8 * alpha + ewens.sum() - shift))

    shift = 0.0
    grid = np.linspace(0.01, 60, 4000)
    shift = float(np.log(max(map(density, grid))))
    moments = [quad(lambda x, k=k: x**k * density(x), 0, 200, limit=400)[0] for k in range(3)]
    mean, square = moments[1] / moments[0], moments[2] / moments[0]
    draws = np.empty(12_000)
    alpha = 1.0
    for i in range(len(draws)):
        draws[i] = alpha = prior.resample(alpha, sizes, clusters, rng)
    for found, expected in ((draws, mean), (draws**2, square)):
        batches = found.reshape(60, -1).mean(axis=1)
        error = batches.std(ddof=1) / np.sqrt(len(batches))
        assert abs(found.mean() - expected) < 4.5 * error
