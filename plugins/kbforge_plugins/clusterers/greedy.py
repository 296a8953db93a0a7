"""Greedy clustering: each fragment goes where it weighs most; sequential Monte Carlo with P = 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge import registry
from kbforge.clustering.run import run
from kbforge.clustering.step import Rules
from kbforge.contracts import Clusterer, Fragment, OnStep, Posterior, Problem


class Greedy(Clusterer):
    """The fastest clusterer, and the one that cannot change its mind."""

    def __init__(self) -> None:
        # with one particle the grouping is the same split or not, and split each cluster is a
        # subproblem of its own, so that a step costs the same however many there are
        self._rules = Rules(
            particles=1, resampler=registry.create("resamplers", "greedy"), splits=True
        )

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """See `kbforge.contracts.clusterer`."""
        return run(fragments, problem, self._rules, rng, on_step)
