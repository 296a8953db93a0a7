"""Collapsed Gibbs sampling (Neal 2000, algorithm 3), offline."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.grouping_model import model_of
from kbforge.clustering.batch.kernels import GibbsKernel
from kbforge.clustering.online.scoring import without_model
from kbforge.contracts import Fragment, Problem
from kbforge_plugins.clusterers.sampling import Sampler


class Gibbs(Sampler):
    """Clustering again and again, one fragment at a time, in random order.

    Each fragment is taken out and put where the posterior, given all others, draws it. What comes
    out is the sample that the second half of the sweeps is; its most probable grouping is the
    point estimate. A black box scores every cluster with every fragment; a surrogate is of no use
    here (`metropolis` uses it), except that --max-evals 0 clusters by it alone.

    Args:
        start: `singletons` starts with every fragment by itself; `sequential` draws each one's
            place given those before it; `one` starts with one cluster; a file that `kbforge
            cluster` wrote, be it of an interrupted run, starts with its groups.

    """

    @staticmethod
    def make_kernel(
        fragments: Sequence[Fragment], problem: Problem, grouping: Grouping, log_alpha: float
    ) -> GibbsKernel:
        """By the live table of a conjugate likelihood, by sets of a black box."""
        model = model_of(without_model(problem).likelihood, fragments, grouping)
        return GibbsKernel(model, log_alpha)
