"""Rows as bytes come back as they were, and damage is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kbforge.contracts import Constraints, Decision, LearnedState, SubproblemData, Totals
from kbforge.errors import KBForgeError
from kbforge.store.pages import (
    kept_from_bytes,
    kept_to_bytes,
    page_from_bytes,
    page_to_bytes,
    totals_from_bytes,
    totals_to_bytes,
)

ints = hnp.arrays(np.int64, st.integers(0, 6), elements=st.integers(-(2**63), 2**63 - 1))
floats = hnp.arrays(np.float64, st.integers(0, 6), elements=st.floats(allow_nan=False))
FIELDS = ("slots", "lengths", "members", "scores", "rows", "cells", "weights")


@given(st.tuples(ints, ints, ints, floats, ints, ints, floats))
def test_a_page_comes_back(arrays: tuple[np.ndarray, ...]) -> None:
    page = SubproblemData(7, *arrays)
    again = page_from_bytes(7, page_to_bytes(page))
    assert again.name == 7
    for name in FIELDS:
        before, after = getattr(page, name), getattr(again, name)
        assert before.dtype == after.dtype
        assert before.tobytes() == after.tobytes()
        assert after.flags.writeable


@pytest.mark.parametrize("cut", [0, 10, 60, -1])
def test_a_damaged_page_is_told(cut: int) -> None:
    one = np.array([1])
    content = page_to_bytes(SubproblemData(3, one, one, one, np.ones(1), one, one, np.zeros(1)))
    with pytest.raises(KBForgeError, match="subproblem 3"):
        page_from_bytes(3, content[:cut])


@given(
    hnp.arrays(
        hnp.integer_dtypes() | hnp.floating_dtypes(sizes=(32, 64)),
        hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4),
    )
)
def test_what_a_model_keeps_comes_back(array: np.ndarray) -> None:
    kept = LearnedState({"name": "a", "numbers": [1, 2.5, None]}, {"x": array, "none": np.zeros(0)})
    again = kept_from_bytes(kept_to_bytes(kept))
    assert again.values == kept.values
    assert again.arrays["x"].shape == array.shape
    assert again.arrays["x"].astype(array.dtype).tobytes() == array.tobytes()
    assert again.arrays["none"].shape == (0,)


def test_a_damaged_model_is_told() -> None:
    content = kept_to_bytes(LearnedState({}, {"x": np.arange(5)}))
    for broken in (content[:-1], content + b"\0", b"", b"\xff" * 40):
        with pytest.raises(KBForgeError, match="damaged"):
            kept_from_bytes(broken)


def test_totals_come_back() -> None:
    rng = np.random.default_rng(5)
    rng.integers(9, size=3)
    decisions = (Decision(True, "a", "b", "decision 1"), Decision(False, 'q"\n', "c"))
    totals = Totals(
        settings={"alpha": 2.5, "max_evals": None, "splits": True},
        constraints=Constraints(decisions, "source"),
        n_fragments=4,
        n_numbers=6,
        n_slots=9,
        free=np.array([3, 1]),
        n_subproblems=2,
        log10_effective_particles=0.1 + 0.2,
        evaluations=77,
        rng=rng.bit_generator.state,
    )
    again = totals_from_bytes(totals_to_bytes(totals))
    assert again.free.tolist() == [3, 1]
    for name in Totals.__slots__:
        if name != "free":
            assert getattr(again, name) == getattr(totals, name), name
    with pytest.raises(KBForgeError, match="damaged"):
        totals_from_bytes(b"{}\n")
