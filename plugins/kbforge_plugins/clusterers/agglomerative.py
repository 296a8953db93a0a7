"""Agglomerative clustering by the Bayesian merge statistic (split-SMC paper, appendix D.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.clustering.batch.agglomerate import MergeRules, agglomerate
from kbforge.contracts import Clusterer, Fragment, OnStep, Posterior, Problem
from kbforge_plugins.clusterers.starting import SINGLETONS, groups_from, require_start


class Agglomerative(Clusterer):
    """Make the merge with the largest gain of probability, until no merge has a gain.

    All pairs of clusters are compared; only those that the last merge changed are scored again.
    This takes 8 bytes for each pair of fragments. With a surrogate, the likelihood scores only the
    --max-evals pairs with the largest gain by the surrogate. The result is one grouping without
    alternatives.

    Args:
        batch: compare this many random pairs at a time, and stop after 100 batches in a row without
            a gain; by default compare all pairs. With batches, a surrogate is not used.
        start: `singletons` starts with every fragment by itself; a file from `kbforge cluster`,
            even of an interrupted run, starts with its groups.
        budget: stop after this many seconds (the result then depends on the machine); by default
            there is no limit.

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
