"""The surrogate fitted to simulated circles is as good as the published one, on other circles."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge_lab.suites.circle_mixture import draw_clusters
from kbforge_lab.suites.circles import SURROGATE
from kbforge_training.gaussian import fit
from tests.scripts import script


def test_the_fitted_surrogate_is_as_good_as_the_published_one() -> None:
    reproduction = script("surrogate_fit")
    fitted = fit(draw_clusters(300, np.random.default_rng(1)))
    others = draw_clusters(300, np.random.default_rng(2))
    found, published = (
        reproduction.evidence_per_cluster(options, others)
        for options in (fitted.options, SURROGATE)
    )
    assert found > published - 0.02
    # on a rim, half of radius^2 is the variance in each dimension
    for a, b in zip(fitted.a, fitted.b, strict=True):
        assert b / a == pytest.approx(0.6**2 / 2, rel=0.03)
    ours, theirs = (
        np.mean(reproduction.clustering_f1(options, draws=2, orders=1))
        for options in (fitted.options, SURROGATE)
    )
    assert ours == pytest.approx(theirs, abs=0.03)
