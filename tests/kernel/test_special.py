"""Special functions and root finding have SciPy's bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy import special as scipy_special

from kbforge.fit.confidence import isotonic
from kbforge.kernel import special
from kbforge.numerics import root_between

RNG = np.random.default_rng(0)
POSITIVE = np.concatenate(
    [
        np.arange(3000.0),
        RNG.random(3000) * 4,
        RNG.random(3000) * 2000,
        np.exp(RNG.random(3000) * 90 - 45),
        [1e8, 1e17, 1e305, np.inf, 5e-324],
    ]
)


@pytest.mark.parametrize("name", ["expit", "gammaln", "digamma"])
def test_the_values_are_scipys(name: str) -> None:
    x = np.concatenate([POSITIVE, -POSITIVE]) if name == "expit" else POSITIVE
    expected = getattr(scipy_special, name)(x)
    found = getattr(special, name)(x)
    # SciPy of another release, or another C library, may round the last bit in another way
    np.testing.assert_allclose(found, expected, rtol=4e-15, atol=1e-15)


def test_a_number_gives_a_number_of_shape_nothing() -> None:
    assert special.digamma(1.0).shape == ()
    assert special.gammaln(np.ones((2, 3), np.int64)).shape == (2, 3)


@given(st.lists(st.floats(-3, 3), min_size=4, max_size=4))
def test_the_root_is_scipys(coefficients: list[float]) -> None:
    def function(x: float) -> float:
        return float(np.polyval([1.0, *coefficients], x))

    if function(-2.0) < 0 < function(3.5):
        assert root_between(function, -2.0, 3.5) == optimize.brentq(function, -2.0, 3.5)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=40))
def test_isotonic_regression_is_scipys(drawn: list[tuple[int, int]]) -> None:
    values, weights = np.array(drawn, np.float64).T
    expected = optimize.isotonic_regression(values, weights=weights).x
    np.testing.assert_allclose(isotonic(values, weights), expected, rtol=1e-14)
