"""Sets of points that were read once score as the likelihood scores their fragments."""

from __future__ import annotations

import numpy as np

from kbforge.contracts import Fragment
from kbforge_lab.batch.sets import PointSets
from kbforge_plugins.likelihoods.gaussian import Gaussian


def test_sets_of_points_score_as_they_are_beside_any_others() -> None:
    rng = np.random.default_rng(8)
    items = [Fragment(f"f{i}", {}, tuple(rng.normal(40.0, 3.0, 2))) for i in range(12)]
    likelihood = Gaussian(a=(2.0, 3.0), lam=0.1)
    read = PointSets(likelihood, items)
    sets = [rng.permutation(12)[:size] for size in [*range(1, 13), 1, 2]]
    expected = likelihood.log_marginal([[items[i] for i in one] for one in sets])
    np.testing.assert_allclose(read.log_marginal(sets), expected, rtol=1e-8, atol=1e-8)
    alone = [float(read.log_marginal([one])[0]) for one in sets[::-1]]
    np.testing.assert_allclose(alone[::-1], expected, rtol=1e-8, atol=1e-8)
    assert read.log_marginal([]).shape == (0,)
