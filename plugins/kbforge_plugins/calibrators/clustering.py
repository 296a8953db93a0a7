"""Clustering the same fragments under one alpha after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kbforge.contracts.clusterer import Clusterer, Problem
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.posterior import Posterior


class Runs:
    """A problem, ready to be clustered at any alpha with common random numbers.

    Differences between two alphas are then differences of alpha, not of luck.
    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        clusterer: Clusterer,
        rng: np.random.Generator,
    ) -> None:
        self._fragments, self._problem, self._clusterer = fragments, problem, clusterer
        self._seed = int(rng.integers(2**63))

    def cluster(self, log_alpha: float) -> Posterior:
        """The posterior at this log alpha."""
        problem = replace(self._problem, alpha=float(np.exp(log_alpha)))
        return self._clusterer.cluster(self._fragments, problem, np.random.default_rng(self._seed))
