"""The prior of a match between tables without duplicates."""

import numpy as np
import pytest

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from kbforge_plugins.likelihoods.pairs.odds import MOST_BIAS, UNITS, match_bias, one_to_one


def _drawn(n: int, partners: float, right: float) -> tuple[IntArray, FloatArray, IntArray]:
    """Each of n records of a table with ten of the other; log odds of wrong pairs are about -4."""
    rng = np.random.default_rng(0)
    first = np.repeat(np.arange(n), 10)
    second = n + rng.integers(4 * n, size=10 * n)
    log_odds = rng.normal(-4.0, 1.0, 10 * n)
    has = rng.random(n) < partners
    second[::10][has] = n + np.arange(n)[has]
    log_odds[::10][has] = rng.normal(right, 1.0, n)[has]
    linked = np.where(np.arange(5 * n) < n, 7, 9)
    return np.stack([first, second], axis=1), log_odds, linked


def test_as_many_partners_are_expected_as_there_are():
    """However low the log odds of right pairs are, if they are above those of wrong ones."""
    pairs, log_odds, linked = _drawn(2000, 1.0, right=0.5)
    bias, expected = match_bias(pairs, log_odds - 3.0, linked)
    assert expected == pytest.approx(2000, rel=0.05)
    sums = np.bincount(pairs[:, 0], np.exp(log_odds - 3.0 + bias))
    assert (sums / (1 + sums)).mean() == pytest.approx(1.0, abs=0.05)


def test_a_shift_of_all_log_odds_is_undone():
    pairs, log_odds, linked = _drawn(1000, 0.98, right=0.5)
    bias, shifted = (match_bias(pairs, log_odds - shift, linked)[0] for shift in (0.0, 2.0))
    assert shifted - bias == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize("partners", [0.0, 0.2, 0.5])
def test_odds_are_raised_little_where_many_may_have_no_partner(partners):
    pairs, log_odds, linked = _drawn(2000, partners, right=2.0)
    bias, expected = match_bias(pairs, log_odds - 1.0, linked)
    assert bias <= 1.0
    sums = np.bincount(pairs[:, 0], np.exp(log_odds - 1.0 + bias))
    assert expected == pytest.approx((sums / (1 + sums)).sum(), rel=0.01)


@pytest.mark.parametrize(
    ("partners", "seconds", "single"),
    [(1.0, 0.0, True), (0.6, 0.0, False), (1.0, 0.3, False)],
    ids=["each has one", "many have none", "many have two"],
)
def test_tables_are_one_to_one(partners, seconds, single):
    pairs, log_odds, linked = _drawn(1000, partners, right=2.0)
    twice = np.random.default_rng(1).random(1000) < seconds
    log_odds[1::10][twice] = 1.0
    expected = match_bias(pairs, log_odds, linked)[1]
    assert one_to_one(pairs, log_odds, linked, expected) is single
    assert one_to_one(pairs[:, ::-1], log_odds, -linked, expected) is single


def test_the_order_of_tables_and_pairs_does_not_matter():
    pairs, log_odds, linked = _drawn(500, 0.98, right=0.5)
    order = np.random.default_rng(1).permutation(len(pairs))
    turned = pairs[order][:, ::-1]
    assert match_bias(turned, log_odds[order], -linked) == match_bias(pairs, log_odds, linked)


def test_without_partners_nothing_is_expected():
    pairs, log_odds, linked = _drawn(1000, 0.0, right=0.5)
    assert match_bias(pairs, log_odds, linked)[0] < 2.0


def test_the_bias_is_bounded_and_zero_where_little_tells():
    pairs, log_odds, linked = _drawn(1000, 1.0, right=-3.9)
    assert abs(match_bias(pairs, log_odds - 50, linked)[0]) <= MOST_BIAS
    few, odds, tables = _drawn(20, 1.0, right=0.5)
    assert match_bias(few, odds, tables) == (0.0, 0.0)
    none = np.zeros((0, 2), np.int64)
    assert match_bias(none, np.zeros(0), np.zeros(0, np.int64)) == (0.0, 0.0)
    assert not one_to_one(none, np.zeros(0), np.zeros(0, np.int64), 0.0)


def test_a_model_that_links_is_kept_with_its_prior():
    rng = np.random.default_rng(0)
    words = ["alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine"]
    names = [" ".join(rng.choice(words, 3)) + f" {k}" for k in range(60)]
    fragments = [
        Fragment(f"{table}{k}", {"name": (name,)}, source=table)
        for k, name in enumerate(names)
        for table in "ab"
    ]
    one, other = Pairs(link="source"), Pairs(link="source")
    one.fit(fragments)
    assert one._odds.bias != 0.0
    other.load(one.dump())
    assert other._odds.bias == one._odds.bias
    pair = [fragments[:2], [fragments[0], Fragment("new", fragments[0].properties, source="b")]]
    assert one.log_marginal(pair).tolist() == other.log_marginal(pair).tolist()


def test_a_later_record_has_no_prior_of_a_match_with_its_like():
    fragments = [
        Fragment(f"{table}{k}", {"name": (f"word{k} name{k}",)}, source=table)
        for k in range(60)
        for table in "ab"
    ]
    model = Pairs(link="source")
    model.fit(fragments)
    odds = model._odds
    assert odds.bias != 0.0
    row = odds.encode(Fragment("new", {"name": ("word3 other",)}, source="a"))
    own = odds.near(row)[row]
    odds.bias = 0.0
    again = odds.encode(Fragment("again", {"name": ("word3 others",)}, source="a"))
    assert odds.near(again)[again] == pytest.approx(own, abs=UNITS)
