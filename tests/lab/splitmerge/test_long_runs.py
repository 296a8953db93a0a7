"""Split-merge samplers of the laboratory against enumeration; the published ones are far off."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clustering.splitmerge.test_long_runs import distance

MOVES: dict[str, int] = {"lshsm": 30_000, "rgsm": 4_000, "sdds": 12_000}
# five points hardly ever share ten signs
FEW: dict[str, Any] = {"rows": 2, "tables": 3}
CASES = [
    ("lshsm", "gaussian"),
    ("lshsm", "beta-bernoulli"),
    ("rgsm", "beta-bernoulli"),
    ("rgsm", "black box"),
    *(("sdds", f) for f in ("gaussian", "dirichlet-multinomial", "black box")),
]


@pytest.mark.parametrize(("name", "family"), CASES)
def test_long_runs_have_the_exact_distribution(name: str, family: str) -> None:
    assert distance(name, family, MOVES[name], **(FEW if name == "lshsm" else {})) < 0.02


@pytest.mark.parametrize(
    ("name", "options"), [("minsm-published", {}), ("lshsm", {**FEW, "as_published": True})]
)
@pytest.mark.parametrize("family", ["gaussian", "dirichlet-multinomial"])
def test_the_published_ratios_have_another_distribution(
    name: str, options: dict[str, Any], family: str
) -> None:
    """Not by chance: the exact ones are within .02 of the posterior in runs of this length."""
    assert distance(name, family, 20_000, **options) > 0.1
