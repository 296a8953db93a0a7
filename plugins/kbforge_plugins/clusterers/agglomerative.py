"""Agglomerative clustering by the Bayesian merge statistic (split-SMC paper, appendix D.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.clustering.batch.agglomerate import MergeRules, agglomerate
from kbforge.contracts import Clusterer, Fragment, OnStep, Posterior, Problem
from kbforge_plugins.clusterers.starting import SINGLETONS, groups_from, require_start


class Agglomerative(Clusterer):
    """The merge that makes the grouping most probable, again and again, until none does.

    Looks at all pairs of clusters, of which only those that the last merge touched are scored
    again, and keeps 8 bytes for each pair of fragments. With a surrogate, only the --max-evals
    pairs that gain most by the surrogate are scored by the likelihood each time. Finds one
    grouping and says nothing of its alternatives.

    Args:
        batch: look at so many pairs at a time, drawn at random, and stop when 100 draws in a row
            gain nothing; `none` looks at all pairs. A surrogate is then of no use.
        start: `singletons` starts with every fragment by itself; a file that `kbforge cluster`
            wrote, be it of an interrupted run, starts with its groups.
        budget: stop after so many seconds, which makes the result depend on the machine; `none`
            never does.

    """

    takes_budget = unindexed = True

    def __init__(
        self, batch: int | None = None, start: str = SINGLETONS, budget: float | None = None
    ) -> None:
        self._start = require_start(start, SINGLETONS)
        self._rules = MergeRules(batch, budget)

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """See `kbforge.contracts.clusterer`."""
        start = groups_from(self._start, fragments)
        return agglomerate(fragments, problem, self._rules, start, rng, on_step)
