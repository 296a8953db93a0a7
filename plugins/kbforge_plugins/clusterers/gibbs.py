"""Collapsed Gibbs sampling (Neal 2000, algorithm 3), offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from kbforge.cluster.conditionals import conditionals_of
from kbforge.cluster.grouping import Grouping
from kbforge.cluster.kernels import Gibbs as GibbsKernel
from kbforge.cluster.mcmc import Schedule, run_chain
from kbforge.cluster.scoring import without_model
from kbforge.contracts import Fragment, OnStep, Posterior, Problem
from kbforge_plugins.clusterers.starting import SEQUENTIAL, SINGLETONS, chain_start, require_start
from kbforge_plugins.resamplers.optimal import Optimal


class Gibbs:
    """Clustering again and again, one fragment at a time, in random order.

    Each fragment is taken out and put where the posterior, given all others, draws it. What comes
    out is the sample that the second half of the sweeps is; its most probable grouping is the
    point estimate. A black box scores every cluster with every fragment; a surrogate is of no use
    here (`metropolis` uses it), except that --max-evals 0 clusters by it alone.

    Args:
        particles: P, the most groupings of a subproblem that are kept of the sample; subproblems
            are what fewer than one visit in P connects.
        start: `singletons` starts with every fragment by itself; `sequential` draws each one's
            place given those before it; a file that `kbforge cluster` wrote, be it of an
            interrupted run, starts with its groups.
        patience: stop after so many sweeps without a more probable grouping; `none` never does.
        sweeps: stop after so many sweeps; `none` never does.
        budget: stop after so many seconds, which makes the result depend on the machine; `none`
            never does.

    """

    unindexed: Literal[True] = True

    def __init__(
        self,
        particles: int = 100,
        start: str = SINGLETONS,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
    ) -> None:
        self._start = require_start(start, SINGLETONS, SEQUENTIAL)
        self._schedule = Schedule(patience, sweeps, budget, particles, Optimal())

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """See `kbforge.contracts.clusterer`."""
        problem, start = without_model(problem), chain_start(self._start, fragments)
        return run_chain(fragments, problem, make_kernel, self._schedule, start, rng, on_step)


def make_kernel(
    fragments: Sequence[Fragment], problem: Problem, grouping: Grouping, log_alpha: float
) -> GibbsKernel:
    """By the live table of a conjugate likelihood, by sets of a black box."""
    model = conditionals_of(problem.likelihood, fragments, grouping)
    return GibbsKernel(model, grouping, log_alpha)
