"""Sequential importance resampling (MacEachern, Clyde and Liu 1999), as clustering uses it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts import Clusterer, Fragment, OnStep, Posterior, Problem
from kbforge_lab.replicas import ReplicaRules, run_replicas
from kbforge_plugins.resamplers import Optimal


class Sir(Clusterer):
    """R groupings, each drawn fragment by fragment given its own past, and weighed.

    The weights say how much more or less probable what a grouping has seen was to it than to the
    others; when they vary too much, groupings are drawn anew by their weights. What comes out says
    of any two fragments how probable it is that they are one entity (`kbforge show
    --similarity`), and `--estimate average` cuts the tree of these similarities. `smc` and
    `split-smc` keep the heaviest groupings instead of drawing them, and need far fewer. A black box
    scores every cluster of every replica with every fragment; a surrogate is of no use here, except
    that --max-evals 0 clusters by it alone.

    Args:
        replicas: R.
        threshold: resample where the effective sample size is below this share of R; 0 never does.
        particles: P, the most groupings of a subproblem that are kept in the end; subproblems are
            what less than 1/P of the weight connects.
        budget: stop after so many seconds, which makes the result depend on the machine; `none`
            never does.

    """

    takes_budget = unindexed = True

    def __init__(
        self,
        replicas: int = 1000,
        threshold: float = 0.5,
        particles: int = 100,
        budget: float | None = None,
    ) -> None:
        self.particles = particles
        self._rules = ReplicaRules(replicas, threshold, budget, particles, Optimal())

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        return run_replicas(fragments, problem, self._rules, rng, on_step)
