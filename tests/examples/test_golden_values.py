"""Golden values of generated records against the truth, nearly as docs/results.md says."""

import pytest

from tests.scripts import script

SHARES = {
    # right of all, right of names: a step below what is measured
    "people": (0.83, 0.74),
    "companies": (0.72, 0.60),
    "customers": (0.77, 0.63),
}


@pytest.mark.parametrize("name", SHARES)
def test_so_many_are_right(name):
    measured = script("golden_values")
    counts = measured.counts_of(measured.SETS[name]())
    names = counts["company" if name == "companies" else "name"]
    shares = [count.right / count.values for count in (counts["all"], names)]
    assert all(share >= least for share, least in zip(shares, SHARES[name], strict=True)), shares
