"""The estimates of an audit against exact posteriors, enumerated samples, and bounds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import beta

from kbforge.evaluation import audit
from kbforge.evaluation.audit import PairAnswers, Strata

GRID = np.linspace(-12, 12, 2401)


def one_stratum(mean: float, spread: float, size: float = 1000.0, joined: bool = True) -> Strata:
    """All pairs in one stratum."""
    yes = np.array([True])
    return Strata(
        yes if joined else ~yes, np.array([size]), yes, np.array([mean]), np.array([[spread]])
    )


def exact_weights(mean: float, spread: float, same: float, asked: float) -> np.ndarray:
    """The posterior of f on `GRID`."""
    log = -((GRID - mean) ** 2) / (2 * spread**2) + same * GRID - asked * np.logaddexp(0, GRID)
    weights = np.exp(log - log.max())
    return weights / weights.sum()


@pytest.mark.parametrize(("same", "asked"), [(0, 0), (0, 9), (9, 9), (3, 5), (18, 20)])
def test_rates_have_the_exact_posterior(same: int, asked: int) -> None:
    strata = one_stratum(0.8, 2.0)
    known = PairAnswers(np.array([float(same)]), np.array([float(asked)]))
    rng = np.random.default_rng(0)
    drawn = np.concatenate([audit.posterior(strata, known, rng) for _ in range(20)])[:, 0]
    weights = exact_weights(0.8, 2.0, same, asked)
    exact = weights @ expit(GRID)
    assert drawn.mean() == pytest.approx(exact, abs=0.01)
    below = np.interp([0.1, 0.5, 0.9], np.cumsum(weights), expit(GRID))
    assert np.quantile(drawn, [0.1, 0.5, 0.9]) == pytest.approx(below, abs=0.02)


def test_over_all_truths_and_samples_the_estimate_is_the_truth() -> None:
    """Three pairs of which two are drawn: every truth by its prior, every sample of each."""
    size, asked, mean, spread = 3, 2, 0.5, 1.5
    strata = one_stratum(mean, spread, size)
    prior = exact_weights(mean, spread, 0, 0)
    rates = expit(GRID)
    estimated, true = 0.0, 0.0
    found: dict[int, float] = {}
    for bits in range(1 << size):
        pairs = [bits >> k & 1 for k in range(size)]
        probability = prior @ (rates ** sum(pairs) * (1 - rates) ** (size - sum(pairs)))
        samples = list(combinations(pairs, asked))
        for sample in samples:
            same = sum(sample)
            if same not in found:
                known = PairAnswers(np.array([float(same)]), np.array([float(asked)]))
                rng = np.random.default_rng(same)
                values = [
                    audit.of_pairs(strata, known, audit.posterior(strata, known, rng), rng)[0].value
                    for _ in range(20)
                ]
                found[same] = float(np.mean(values))
            estimated += probability * found[same] / len(samples)
        true += probability * sum(pairs) / size
    assert estimated == pytest.approx(true, abs=0.01)


def test_with_all_pairs_asked_nothing_is_left_to_estimate() -> None:
    strata = Strata.of(np.array([0, 2, 5, 0, 3, 0]), np.array([4, 0, 0, 7, 0, 0]), np.zeros(6), 7)
    assert strata.sizes.sum() == 21
    rng = np.random.default_rng(3)
    same = np.floor(strata.sizes * 0.6)
    known = PairAnswers(same, strata.sizes)
    precision, recall, f1 = audit.of_pairs(strata, known, audit.posterior(strata, known, rng), rng)
    true, missing = same[strata.joined].sum(), same[~strata.joined].sum()
    for found, exact in (
        (precision, true / 10),
        (recall, true / (true + missing)),
        (f1, 2 * true / (10 + true + missing)),
    ):
        assert (found.low, found.value, found.high) == pytest.approx((exact, exact, exact))
    assert audit.next_stratum(strata, known, np.full((2, 13), 0.5), rng) == -1


def test_a_stratum_without_a_known_error_may_have_none() -> None:
    strata = one_stratum(0.0, 2.0)
    rng = np.random.default_rng(0)
    for same, high in ((20.0, 1.0), (19.0, 0.999)):
        known = PairAnswers(np.array([same]), np.array([20.0]))
        rates = audit.posterior(strata, known, rng)
        found = audit.of_pairs(strata, known, rates, rng)[0]
        assert (found.high == 1.0) == (high == 1.0)
        assert found.low < 0.95


def test_precision_of_entities_has_the_interval_of_jeffreys_less_what_may_be_elsewhere() -> None:
    right = np.array([True] * 6 + [False] * 2)
    share = np.array([1.0] * 6 + [2.0, 0.5])
    precision, recall, f1 = audit.of_entities(right, share, np.random.default_rng(0))
    assert precision.high == pytest.approx(beta(6.5, 2.5).ppf(0.975), abs=0.03)
    assert 0.5 * beta(6.5, 2.5).ppf(0.025) < precision.low < beta(6.5, 2.5).ppf(0.025) + 0.03
    assert abs(recall.value - 6 / 8.5) < 0.1
    assert abs(f1.value - 12 / 16.5) < 0.1


@pytest.mark.parametrize("right", [0.02, 0.1, 0.5, 0.9, 1.0])
def test_wrong_entities_that_seem_right_are_allowed_for(right: float) -> None:
    """A twentieth to a third of the wrong entities lack what shares nothing with them."""
    rng = np.random.default_rng(0)
    held = []
    for overlooked in (0.05, 0.1, 0.2, 0.33):
        for _ in range(25):
            true = rng.random(100) < right
            seems = true | (rng.random(100) < overlooked)
            found = audit.of_entities(seems, np.where(seems, 1.0, 0.5), rng)
            truth = right, right / (right + (1 - right) / 2)
            held += [s.low <= t <= s.high for s, t in zip(found, truth, strict=False)]
    assert np.mean(held) >= 0.93


def test_without_an_answer_anything_is_possible() -> None:
    found = audit.of_entities(np.zeros(0, np.bool_), np.zeros(0), np.random.default_rng(0))
    assert found[0].low < 0.05
    assert found[0].high > 0.95


@given(right=st.lists(st.booleans(), max_size=12), seed=st.integers(0, 9))
def test_entities_have_estimates_in_their_intervals(right: list[bool], seed: int) -> None:
    rng = np.random.default_rng(seed)
    share = np.where(right, 1.0, rng.uniform(0.1, 5, len(right)))
    for found in audit.of_entities(np.array(right, np.bool_), share, rng):
        assert 0 <= found.low <= found.value <= found.high + 1e-9 <= 1 + 2e-9


@given(
    sizes=st.lists(st.integers(0, 10_000), min_size=12, max_size=12),
    odds=st.lists(st.floats(-6, 6), min_size=6, max_size=6),
    seed=st.integers(0, 9),
)
def test_pairs_have_estimates_in_their_intervals(
    sizes: list[int], odds: list[float], seed: int
) -> None:
    strata = Strata.of(np.array(sizes[:6]), np.array(sizes[6:]), np.array(odds), 500)
    rng = np.random.default_rng(seed)
    asked = np.minimum(rng.integers(0, 9, 13), strata.sizes) * strata.compared
    known = PairAnswers(rng.binomial(asked.astype(np.int64), 0.5).astype(np.float64), asked)
    rates = audit.posterior(strata, known, rng)
    for found in audit.of_pairs(strata, known, rates, rng):
        assert 0 <= found.low <= found.high <= 1
        assert found.low <= found.value
    stratum = audit.next_stratum(strata, known, rates, rng)
    assert stratum == -1 or strata.compared[stratum]
    assert stratum == -1 or asked[stratum] < strata.sizes[stratum]


def test_answers_count_by_the_pairs_that_they_stand_for() -> None:
    strata = one_stratum(0.0, 1.0, 1000)
    at, same = np.zeros(4, np.int64), np.array([True, True, False, False])
    equal = PairAnswers.weighted(strata, at, same, np.full(4, 25.0))
    assert (equal.same[0], equal.asked[0]) == pytest.approx((2, 4))
    uneven = PairAnswers.weighted(strata, at, same, np.array([100.0, 100.0, 1.0, 1.0]))
    assert uneven.asked[0] == pytest.approx(202**2 / 20002)  # Kish's effective number
    assert uneven.same[0] / uneven.asked[0] == pytest.approx(200 / 202)
