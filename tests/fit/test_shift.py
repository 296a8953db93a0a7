"""A shift goes where the answers point, and no further than they reach."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.fit.maps import Shift, shift_of


def share(contradicted: int, count: int, probability: float) -> float:
    """What a claim of this probability becomes when so many of the tested ones failed."""
    failed = np.arange(count) < contradicted
    found = shift_of(np.full(count, probability), failed)
    return float(found.apply(np.array([probability]))[0])


def test_claims_that_fail_lower_the_others_and_those_that_hold_raise_them() -> None:
    assert share(8, 10, 0.9) < share(4, 10, 0.9) < 0.85
    assert share(0, 10, 0.5) > 0.6
    # as many as were expected change little
    assert share(4, 20, 0.7) == pytest.approx(0.7, abs=0.08)


def test_few_answers_change_little() -> None:
    assert 0.8 < share(1, 1, 0.9) < 0.9
    assert share(1, 1, 0.9) > share(5, 5, 0.9) > share(20, 20, 0.9)


def test_claims_that_hold_never_make_certain() -> None:
    """A wrong entity may have no wrong pair that was asked about."""
    assert share(0, 1_000, 0.1) < 0.9


def test_nothing_tested_changes_nothing() -> None:
    assert shift_of(np.zeros(0), np.zeros(0, np.bool_)) == Shift(0.0)


def test_certainties_stay() -> None:
    moved = Shift(-1.0).apply(np.array([0.0, 0.5, 1.0]))
    assert moved.tolist() == pytest.approx([0.0, 1 / (1 + np.e), 1.0])
