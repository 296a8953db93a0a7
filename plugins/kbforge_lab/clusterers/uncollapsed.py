"""Uncollapsed Gibbs sampling of a finite mixture (see `kbforge_lab.fastex.uncollapsed`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.clustering.batch.chain import ChainRules
from kbforge.contracts import Clusterer, Fragment, OnStep, Posterior, Problem
from kbforge.errors import UsageError
from kbforge_lab.fastex.mixture_run import RANDOM, mixture_start
from kbforge_lab.fastex.uncollapsed import run_uncollapsed
from kbforge_plugins.clusterers.offline import require_start
from kbforge_plugins.resamplers import Optimal


class Uncollapsed(Clusterer):
    """Memberships and parameters in turn, for a mixture of K components: what `fastex` is compared
    with.

    For `dirichlet-multinomial` (of one attribute) and `gaussian`. Every sweep scores every fragment
    by every component.
    """

    takes_budget = unindexed = True

    def __init__(
        self,
        components: int = 10,
        particles: int = 100,
        start: str = RANDOM,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
    ) -> None:
        """Take the options.

        Args:
            components: K, of a mixture whose weights have a symmetric Dirichlet prior that sums to
                alpha.
            particles: P, the most groupings of a subproblem that are kept of the sample.
            start: `random` draws a component for every fragment; a file that `kbforge cluster`
                wrote starts with its groups.
            patience: stop after so many sweeps without a more probable grouping; `none` never does.
            sweeps: stop after so many sweeps; `none` never does.
            budget: stop after so many seconds, which makes the result depend on the machine; `none`
                never does.

        """
        if components < 1:
            raise UsageError(
                f"clusterer uncollapsed: components must be at least 1, got {components}"
            )
        self.particles, self._components = particles, components
        self._start = require_start(start, RANDOM)
        self._ends = ChainRules(patience, sweeps, budget, particles, Optimal())

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        start = mixture_start(self._start, fragments, self._components, rng)
        assert start is not None
        return run_uncollapsed(
            fragments, problem, self._components, self._ends, start, rng, on_step
        )
