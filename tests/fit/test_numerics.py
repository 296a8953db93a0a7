"""Roots and isotonic values have the bits of SciPy's, whose optimizers no run loads."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, isotonic_regression

from kbforge.fit.confidence import isotonic
from kbforge.numerics import root_of
from tests.profile import examples

numbers = st.floats(-30, 30)


@examples(200, deadline=None)
@given(
    st.lists(numbers, min_size=1, max_size=30),
    st.floats(0.01, 0.99),
    st.sampled_from([2e-12, 1e-3, 1.0]),
)
def test_a_root_of_a_rising_function_has_the_bits_of_scipy(odds, share, tolerance):
    def excess(x):
        return float((1 / (1 + np.exp(-(x + np.array(odds))))).sum()) - share * len(odds)

    low, high = -70.0, 70.0
    assert root_of(excess, low, high, tolerance) == brentq(excess, low, high, xtol=tolerance)


@examples(200, deadline=None)
@given(numbers, numbers, st.integers(1, 9), st.booleans())
def test_a_root_of_a_bent_or_stepped_function_has_the_bits_of_scipy(low, high, power, steps):
    middle = low + 0.37 * (high - low)

    def function(x):
        bent = math.copysign(abs(x - middle) ** power, x - middle)
        return float(np.sign(bent)) if steps else bent

    if low != high and function(low) * function(high) < 0:
        wanted, _ = brentq(function, low, high, full_output=True, disp=False)
        assert root_of(function, low, high) == wanted


def test_an_end_that_is_a_root_is_returned():
    for ends in ((1.0, 3.0), (0.0, 1.0)):
        assert root_of(lambda x: x - 1.0, *ends) == brentq(lambda x: x - 1.0, *ends) == 1.0


weights = st.sampled_from([0.25, 1.0, 3.0, 1e-3, 0.1])
values = st.lists(st.floats(-5, 5) | st.sampled_from([0.0, 0.1, 0.2, 0.3]), min_size=1)


@examples(300, deadline=None)
@given(values, st.data())
def test_isotonic_values_have_the_bits_of_scipy(some, data):
    y = np.array(some)
    w = np.array(data.draw(st.lists(weights, min_size=len(y), max_size=len(y))))
    np.testing.assert_array_equal(isotonic(y, w), isotonic_regression(y, weights=w).x)
    assert (np.diff(isotonic(y, w)) >= 0).all()


def test_a_run_does_not_load_the_optimizers_of_scipy(tmp_path):
    people = Path(__file__).with_name("many_people.jsonl")
    run = (
        "import sys; from kbforge.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code\n"
        "assert 'scipy.optimize' not in sys.modules"
    )
    arguments = ("cluster", people, "-o", tmp_path / "kb.jsonl")
    subprocess.run([sys.executable, "-c", run, *arguments], check=True, capture_output=True)
