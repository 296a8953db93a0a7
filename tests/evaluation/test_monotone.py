"""The map: isotonic by brute force, monotone in the report, and it repairs overconfidence."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.evaluation.reliability import (
    LEAST,
    Claims,
    pair_claims,
    pair_probabilities,
    reliability,
)
from kbforge.fit.confidence import Band, MonotoneMap, fit, isotonic
from tests.kb.posteriors import posterior, subproblem


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 9)), min_size=1, max_size=6))
def test_isotonic_against_all_ways_to_pool(rows):
    values, weights = (np.array(column, float) for column in zip(*rows, strict=True))
    best, least = None, math.inf
    for cuts in itertools.product([False, True], repeat=len(rows) - 1):
        block = np.cumsum([0, *cuts])
        means = np.bincount(block, weights * values) / np.bincount(block, weights)
        if (np.diff(means) >= 0).all():
            fitted = means[block]
            loss = float((weights * (values - fitted) ** 2).sum())
            if loss < least - 1e-15:
                best, least = fitted, loss
    assert isotonic(values, weights) == pytest.approx(best, abs=1e-9)


def claims_of(rows):
    """Of (probability, size, subproblem, true)."""
    columns = zip(*rows, strict=True)
    return Claims(*map(np.array, columns, (float, float, int, bool)))


one_claim = st.tuples(st.floats(0, 1), st.integers(1, 300), st.integers(0, 9), st.booleans())
claims = st.lists(one_claim, min_size=1, max_size=60).map(claims_of)


@given(claims, st.lists(st.floats(0, 1), min_size=2, max_size=20), st.integers(1, 1000))
def test_the_map_is_monotone_in_the_report(known, reports, size):
    found = fit(known)
    assert [band.largest for band in found.bands] == sorted({b.largest for b in found.bands})
    assert found.bands[-1].largest == math.inf
    assert sum(band.claims for band in found.bands) == len(known)
    for band in found.bands:
        assert list(band.reported) == sorted(band.reported)
        assert list(band.calibrated) == sorted(band.calibrated)
    mapped = found.apply(np.sort(reports), np.full(len(reports), float(size)))
    assert (np.diff(mapped) >= -1e-12).all()
    # nothing is certain for ever
    assert (mapped > 0).all()
    assert (mapped < 1).all()


def test_between_knots_the_map_is_linear_in_the_logit():
    found = MonotoneMap((Band(4, 9, (0.5, 0.9), (0.2, 0.6)), Band(math.inf, 9, (0.5,), (0.3,))))
    halfway = 3 / 4  # odds 3, between odds 1 and 9
    assert found.one(halfway, 4) == pytest.approx(0.4)
    assert found.one(0.0, 1) == found.one(0.5, 2) == pytest.approx(0.2)
    assert found.one(1.0, 3) == pytest.approx(0.6)
    assert found.one(1.0, 5) == found.one(0.1, 5000) == pytest.approx(0.3)


def test_bands_are_doublings_and_follow_the_evidence():
    """In small subproblems what is reported is true, in large ones every second time."""
    size = np.repeat([4.0, 40.0], 2000)
    true = np.concatenate([np.ones(2000), np.arange(2000) % 2]).astype(bool)
    found = fit(Claims(np.full(4000, 0.9), size, np.arange(4000), true))
    assert [band.largest for band in found.bands] == [4.0, math.inf]
    assert found.one(0.9, 3) == pytest.approx(1, abs=0.01)
    assert found.one(0.9, 64) == pytest.approx(0.5, abs=0.01)
    # the same claims, but all of one size from one subproblem: they count as one
    one = fit(Claims(np.full(4000, 0.9), size, np.repeat([0, 1], 2000), true))
    assert one.one(0.9, 64) > found.one(0.9, 64) + 0.1


def test_no_claims():
    none = Claims(np.zeros(0), np.zeros(0), np.zeros(0, int), np.zeros(0, bool))
    with pytest.raises(ValueError, match="no claims"):
        fit(none)
    some = Claims(np.ones(3), np.ones(3), np.arange(3), np.ones(3, bool))
    assert len(fit(some).apply(np.zeros(0), np.zeros(0))) == 0


def synthetic(seed, sharpen):
    """A posterior of two-fragment subproblems and gold drawn from it, before it was sharpened."""
    rng = np.random.default_rng(seed)
    blocks, labels = [], []
    for k in range(4000):
        p = rng.uniform(0.02, 0.98)
        logit = sharpen * math.log(p / (1 - p))
        said = 1 / (1 + math.exp(-logit))
        i = 2 * k
        blocks.append(
            subproblem([i, i + 1], (said, [(i, i + 1)]), (1 - said, [(i,), (i + 1,)]))
        )  # fmt: skip
        labels += [f"{k}", f"{k}" if rng.random() < p else f"{k} other"]
    return pair_claims(pair_probabilities([posterior(*blocks)], LEAST), labels)


def test_a_calibrated_posterior_has_no_error():
    assert reliability(synthetic(1, 1.0)).ece < 0.03


@pytest.mark.parametrize("sharpen", [3.0, 8.0, 0.3])
def test_the_map_repairs_a_posterior_on_disjoint_data(sharpen):
    """Over- and underconfident ones; Brier shows that the reports still tell pairs apart."""
    known, new = synthetic(1, sharpen), synthetic(2, sharpen)
    raw = reliability(new)
    mapped = fit(known).apply(new.probability, new.size)
    after = reliability(Claims(mapped, new.size, new.subproblem, new.true))
    assert raw.ece > 0.1
    assert after.ece < 0.045
    share = float(new.true.mean())
    assert after.brier < min(raw.brier, share * (1 - share) - 0.03)
