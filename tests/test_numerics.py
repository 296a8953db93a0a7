"""Logarithms of weights: whole units of the grid, within 64 bits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import LikelihoodError
from kbforge.numerics import GRID, MOST_NATS, in_units, on_grid


@given(st.lists(st.floats(-MOST_NATS / 2, MOST_NATS / 2), min_size=1, max_size=9))
def test_units_are_those_of_the_grid(values):
    placed = on_grid(np.array(values))
    assert [int(unit) for unit in in_units(placed)] == [int(one * GRID) for one in placed.tolist()]


@pytest.mark.parametrize(
    "value", [MOST_NATS, -MOST_NATS, 1e12, -1e300, math.inf, -math.inf, math.nan]
)
def test_what_64_bits_do_not_hold_is_refused(value):
    with pytest.raises(LikelihoodError, match=r"nats; expected one between -5\.4e\+08 and 5\.4e"):
        in_units(np.array([1.0, value]))
