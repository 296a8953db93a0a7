"""Merge: a sampled join is seeded, an exact one is the whole joint."""

from __future__ import annotations

import numpy as np

from kbforge.contracts import Problem
from kbforge_plugins.clusterers.split_smc import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.toys import fragments_of


def test_sampled_merges_are_seeded() -> None:
    rng = np.random.default_rng(4)
    fragments = fragments_of([tuple(p.tolist()) for p in rng.normal(scale=6, size=(120, 2))])
    problem = Problem(Gaussian(), 5.0)
    runs = [
        SplitSmc(particles=20, merge="multinomial").cluster(
            fragments, problem, np.random.default_rng(seed)
        )
        for seed in (0, 0, 1, 2, 3)
    ]
    assert runs[0] == runs[1]
    assert len({run.log_posterior for run in runs}) > 1, "no merge was sampled"
