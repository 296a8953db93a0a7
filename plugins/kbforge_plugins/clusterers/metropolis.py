"""Metropolis-within-Gibbs with a surrogate's proposals (split-SMC paper, appendix D.1), offline."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.grouping_model import SetModel, model_of, table_model
from kbforge.clustering.batch.kernels import GibbsKernel, Kernel, MetropolisKernel
from kbforge.clustering.online.scoring import without_model
from kbforge.contracts import Fragment, Problem
from kbforge_plugins.clusterers.sampling import Sampler


class Metropolis(Sampler):
    """Sampling for likelihoods that are expensive: one or two sets are scored for each move.

    The surrogate proposes another cluster for a fragment, and the likelihood accepts or rejects it.
    Without a surrogate the prior proposes, which is correct and, with many clusters, slow to get
    anywhere: name a surrogate, or use `gibbs`. Every proposal is a single one, so that --max-evals
    limits nothing, except that 0 clusters by the surrogate alone.

    Args:
        start: `singletons` starts with every fragment by itself; `sequential` puts each one where
            the surrogate draws it given those before it; `one` starts with one cluster; a file that
            `kbforge cluster` wrote, be it of an interrupted run, starts with its groups.

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
