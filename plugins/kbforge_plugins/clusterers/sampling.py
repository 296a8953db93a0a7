"""What samplers share: their options, and the run of a chain. They differ in its kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from kbforge.clustering.batch.chain_run import ChainRules, run_chain
from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.kernels import Kernel
from kbforge.contracts import Clusterer, Fragment, OnStep, Posterior, Problem
from kbforge_plugins.clusterers.starting import (
    ONE,
    SEQUENTIAL,
    SINGLETONS,
    chain_start,
    require_start,
)
from kbforge_plugins.resamplers.optimal import Optimal


class Sampler(Clusterer):
    """A Markov chain over groupings; `start` is each sampler's own to document."""

    takes_budget = unindexed = True

    def __init__(
        self,
        particles: int = 100,
        start: str = SINGLETONS,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
    ) -> None:
        """Take what every sampler takes.

        Args:
            particles: P, the most groupings of a subproblem that are kept of the sample;
                subproblems are what fewer than one visit in P connects.
            patience: stop after so many sweeps without a more probable grouping; `none` never does.
            sweeps: stop after so many sweeps; `none` never does.
            budget: stop after so many seconds, which makes the result depend on the machine; `none`
                never does.

        """
        self.particles = particles
        self._start = require_start(start, SINGLETONS, SEQUENTIAL, ONE)
        self._rules = ChainRules(patience, sweeps, budget, particles, Optimal())

    @abstractmethod
    def make_kernel(
        self, fragments: Sequence[Fragment], problem: Problem, grouping: Grouping, log_alpha: float
    ) -> Kernel:
        """See `kbforge.clustering.batch.chain_run.MakeKernel`."""

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """See `kbforge.contracts.clusterer`."""
        start = chain_start(self._start, fragments)
        return run_chain(fragments, problem, self.make_kernel, self._rules, start, rng, on_step)
