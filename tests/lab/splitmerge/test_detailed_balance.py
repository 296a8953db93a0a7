"""The kernels of the laboratory leave the posterior as it is, to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from tests.clustering.splitmerge.kernels import Make
from tests.clustering.splitmerge.test_detailed_balance import check_all_followed, check_balance
from tests.clustering.test_exactness import FAMILIES
from tests.lab.splitmerge.kernels import likelihood_guided, opposite, restricted_gibbs

_BITS = np.random.default_rng(3)
# signs of five fragments in two tables of two rows, so that buckets and their opposites are met
SIGNS = [_BITS.integers(2, size=(5, 2, 2)) for _ in range(3)]
KERNELS: dict[str, tuple[int, list[Make]]] = {
    "LSHSM": (5, [opposite(signs) for signs in SIGNS]),
    "RGSM": (4, [restricted_gibbs(1), restricted_gibbs(0)]),
    "SDDS": (4, [likelihood_guided()]),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_move_and_its_way_back_are_as_frequent(name: str, family: str) -> None:
    n, made = KERNELS[name]
    # 52 groupings of five have 180 splits, 15 of four 31
    check_balance(made, family, n, least=150 if n == 5 else 50)


def test_dumb_and_smart_moves_each_are_followed_now_and_then() -> None:
    check_all_followed(opposite(SIGNS[0]), 5)
