"""Offline samplers: collapsed Gibbs, and Metropolis within Gibbs with a surrogate's proposals.

Gibbs is algorithm 3 of Neal (2000), Metropolis appendix D.1 of the split-SMC paper. What samplers
share are their options and the run of a chain; they differ in its kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from kbforge.clustering.batch.chain import (
    ChainRules,
    GibbsKernel,
    Kernel,
    MetropolisKernel,
    run_chain,
)
from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.grouping_model import SetModel, model_of, table_model
from kbforge.clustering.online.scoring import without_model
from kbforge.contracts import Clusterer, Fragment, OnStep, Posterior, Problem
from kbforge_plugins.clusterers.starting import (
    ONE,
    SEQUENTIAL,
    SINGLETONS,
    chain_start,
    require_start,
)
from kbforge_plugins.resamplers import Optimal


class ChainSampler(Clusterer):
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
        """See `kbforge.clustering.batch.chain.MakeKernel`."""

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


class Gibbs(ChainSampler):
    """Gibbs sampling: move one fragment at a time, in random order.

    Each fragment is taken out and placed by a draw from the posterior given all others. The second
    half of the sweeps is the sample; its most probable grouping is the point estimate. A black box
    scores every cluster with every fragment; a surrogate is not used (`metropolis` uses it), except
    that --max-evals 0 clusters by the surrogate alone.

    Args:
        start: `singletons` starts with every fragment by itself; `sequential` draws each fragment's
            place given the ones before; `one` starts with one cluster; a file from `kbforge
            cluster`, even of an interrupted run, starts with its groups.

    """

    @staticmethod
    def make_kernel(
        fragments: Sequence[Fragment], problem: Problem, grouping: Grouping, log_alpha: float
    ) -> GibbsKernel:
        """By the live table of a conjugate likelihood, by sets of a black box."""
        model = model_of(without_model(problem).likelihood, fragments, grouping)
        return GibbsKernel(model, log_alpha)


class Metropolis(ChainSampler):
    """Sampling for expensive likelihoods: each move scores one or two sets.

    The surrogate proposes another cluster for a fragment, and the likelihood accepts or rejects it.
    Without a surrogate the prior proposes, which is correct but slow with many clusters: name a
    surrogate, or use `gibbs`. --max-evals has no effect, except that 0 clusters by the surrogate
    alone.

    Args:
        start: `singletons` starts with every fragment by itself; `sequential` places each fragment
            by a draw from the surrogate given the ones before; `one` starts with one cluster; a
            file from `kbforge cluster`, even of an interrupted run, starts with its groups.

    """

    @staticmethod
    def make_kernel(
        fragments: Sequence[Fragment], problem: Problem, grouping: Grouping, log_alpha: float
    ) -> Kernel:
        """The surrogate proposes by its live table, the likelihood accepts by sets."""
        if problem.max_evals == 0:  # a surrogate that accepts its own proposals is a Gibbs sampler
            surrogate = without_model(problem).likelihood
            return GibbsKernel(model_of(surrogate, fragments, grouping), log_alpha)
        model = SetModel(problem.likelihood, fragments, grouping)
        proposal = None
        if problem.surrogate is not None:
            proposal = table_model(problem.surrogate, fragments, grouping)
        return MetropolisKernel(model, proposal, log_alpha)
