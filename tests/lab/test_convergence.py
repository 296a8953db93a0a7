"""R-hat and the effective sample size, against chains of which they are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge_lab.convergence import bulk_effective_size, effective_size, scale_reduction


def autoregressive(rho: float, chains: int, length: int, seed: int) -> np.ndarray:
    """x_t = rho x_{t - 1} + noise, begun where it stays."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, length)) * np.sqrt(1 - rho * rho)
    noise[:, 0] = rng.normal(size=chains)
    for t in range(1, length):
        noise[:, t] += rho * noise[:, t - 1]
    return noise


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_draws_that_remember_are_worth_what_is_known(rho):
    draws = autoregressive(rho, 8, 8000, 1)
    known = draws.size * (1 - rho) / (1 + rho)
    assert effective_size(draws) == pytest.approx(known, rel=0.1)
    assert bulk_effective_size(list(draws)) == pytest.approx(known, rel=0.1)
    # the scores are those of ranks: no monotone change matters, however heavy its tails
    assert bulk_effective_size(list(np.exp(4 * draws))) == bulk_effective_size(list(draws))


def test_chains_that_have_not_met_are_worth_little():
    draws = autoregressive(0.5, 4, 500, 2)
    apart = [*draws, draws[0] + 20]
    assert scale_reduction(list(draws)) == pytest.approx(1, abs=0.02)
    assert scale_reduction(apart) > 1.3
    assert bulk_effective_size(apart) < 20 < 300 < bulk_effective_size(list(draws))
    drifting = np.linspace(0, 10, 500)
    assert scale_reduction([row + drifting for row in draws]) > 1.3


@given(st.integers(1, 5), st.integers(4, 40), st.integers(0, 10**6))
def test_the_effective_size_equals_its_definition(chains, length, seed):
    draws = np.random.default_rng(seed).normal(size=(chains, length)).cumsum(axis=1)
    centred = draws - draws.mean(axis=1, keepdims=True)
    within = np.mean([row @ row / (length - 1) for row in centred])
    between = np.var(draws.mean(axis=1), ddof=1) if chains > 1 else 0.0
    overall = within * (length - 1) / length + between
    tau, before = -1.0, np.inf
    for t in range(0, length - 1, 2):
        pair = 0.0
        for lag in (t, t + 1):
            lagged = [row[: length - lag] @ row[lag:] / (length - 1) for row in centred]
            pair += 1 if lag == 0 else 1 - (within - np.mean(lagged)) / overall
        if pair < 0:
            break
        before = min(before, pair)
        tau += 2 * before
    expected = draws.size / max(tau, 1 / np.log10(draws.size))
    assert effective_size(draws) == pytest.approx(max(expected, 1), rel=1e-6)


def test_chains_that_do_not_move():
    still = [np.ones(10)] * 3
    assert scale_reduction(still) == 1
    assert bulk_effective_size(still) == 30
    assert scale_reduction([np.ones(10), np.zeros(10)]) == float("inf")
