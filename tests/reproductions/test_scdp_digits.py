"""The digits experiment draws what the paper says, and its scores are the tables'."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reproductions.scripts import script

digits = script("scdp_digits")


def images() -> tuple[np.ndarray, np.ndarray]:
    """Four hundred of each digit, told apart by one pixel, and a pixel that is always 0."""
    target = np.repeat(np.arange(10), 400)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(len(target), 2))
    return np.column_stack([10.0 * target, noise, np.zeros(len(target))]), target


def test_thirty_to_three_hundred_of_each_digit_are_drawn() -> None:
    found = digits.drawn(*images(), np.random.default_rng(1))
    assert set(found.labels) == {1, 3, 5, 8, 9}
    assert set(found.gold) == {0, 2, 4, 6, 7}
    counts = np.bincount(np.concatenate([found.labels, found.gold]))
    assert counts.min() >= 30
    assert counts.max() <= 300
    assert len(set(counts)) > 5
    values = np.concatenate([found.train, found.test])
    assert values.shape[1] == 3  # the constant pixel is gone
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(values.std(axis=0), 1)


@pytest.mark.parametrize("how", digits.STARTS)
def test_a_chain_finds_digits_that_one_pixel_tells_apart(how: str) -> None:
    found = digits.drawn(*images(), np.random.default_rng(1))
    few = np.random.default_rng(2).permutation(len(found.gold))[:80]
    data = digits.references(found.train, found.labels, found.test[few])
    chain = digits.chain(digits.SCDP1, data, found.gold[few], how, 60, 0)
    assert chain.scores[2] > 0.9
    assert digits.row("SCDP-1", how, [chain, chain])[2] == "0.666"


def test_the_coarse_row_has_the_harmonic_mean_that_the_paper_prints() -> None:
    gold = np.repeat([0, 1], [30, 70])
    precision, recall, f = digits.pairwise(np.zeros(100, dtype=np.int64), gold)
    assert recall == 1
    assert precision == pytest.approx((30 * 29 + 70 * 69) / (100 * 99))
    assert f == pytest.approx(2 / (1 / precision + 1))
    printed = 2 / (1 / 0.229 + 1)  # of its row's precision and recall
    assert printed == pytest.approx(digits.PUBLISHED["coarse"], abs=0.001)
