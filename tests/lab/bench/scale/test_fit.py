"""Lines and powers are found again, and intervals hold what they should."""

from __future__ import annotations

import math
import random

import pytest

from kbforge.errors import KBForgeError
from kbforge_lab.bench.scale.fit import growth, line

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def test_a_line_without_errors_has_no_interval() -> None:
    found = line([1.0, 2.0, 4.0], [5.0, 7.0, 11.0])
    assert (found.slope, found.residual) == (pytest.approx(2.0), pytest.approx(0.0, abs=1e-12))
    assert found.at(10.0) == pytest.approx((23.0, 23.0, 23.0))


def test_the_interval_of_a_line_by_hand() -> None:
    """y = 0, 3, 0 at x = -1, 0, 1: slope 0, mean 1, s^2 = (1 + 4 + 1) / 1, t of one degree."""
    found = line([-1.0, 0.0, 1.0], [0.0, 3.0, 0.0])
    assert found.residual == pytest.approx(math.sqrt(6))
    half = 6.314 * math.sqrt(6) * math.sqrt(1 + 1 / 3 + 9 / 2)
    assert found.at(3.0) == pytest.approx((1.0, 1.0 - half, 1.0 + half))


def test_nine_in_ten_new_values_are_in_their_intervals() -> None:
    rng = random.Random(7)
    within = 0
    for _ in range(1_000):
        xs = [math.log(n) for n in SIZES]
        found = line(xs, [0.2 * x + rng.gauss(0, 0.1) for x in xs])
        ahead = math.log(1e7)
        _, low, high = found.at(ahead)
        within += low <= 0.2 * ahead + rng.gauss(0, 0.1) <= high
    assert 860 <= within <= 940


@pytest.mark.parametrize("exponent", [1.0, 1.2, 1.5])
def test_a_power_is_found_again(exponent: float) -> None:
    found = growth(SIZES, [2e-6 * n**exponent for n in SIZES])
    assert found.exponent == pytest.approx(exponent)
    assert found.total(10**9).value == pytest.approx(2e-6 * 1e9**exponent)


def test_a_fixed_cost_does_not_make_large_files_free() -> None:
    found = growth(SIZES, [5 + 1e-4 * n for n in SIZES])
    assert found.exponent < 1
    assert found.total(10**9).value == pytest.approx(5 + 1e5)
    fixed = growth(SIZES, [5 - 1e-9 * n for n in SIZES])
    assert fixed.total(10**12).low == pytest.approx(5, rel=1e-3)


def test_sizes_of_less_than_a_hundredth_do_not_count() -> None:
    costs = [1e-3 * n**1.1 for n in (1_000, 3_000, 10_000, 100_000, 1_000_000)]
    told = growth((1_000, 3_000, 10_000, 100_000, 1_000_000), [99.0, 99.0, *costs[2:]])
    assert told.exponent == pytest.approx(1.1)
    assert told.power.points == 3


def test_no_total_is_more_than_a_number() -> None:
    wild = growth((10, 100, 1_000), [1e-9, 1e3, 1e-4])
    assert all(map(math.isfinite, wild.total(10**9)))


def test_two_sizes_are_too_few() -> None:
    with pytest.raises(KBForgeError, match="3 sizes or more, got 2"):
        growth((10, 20), (1.0, 2.0))
    with pytest.raises(KBForgeError, match="got 1"):
        line((10.0, 10.0, 10.0), (1.0, 2.0, 3.0))
