"""Greedy, plain and split sequential Monte Carlo as clusterers, without their rules."""

from __future__ import annotations

import numpy as np

from kbforge.clustering.compiled.session import CompiledSession
from kbforge.clustering.rules import Rules
from kbforge.clustering.session import OnlineSession
from kbforge.contracts import OnlineClusterer, Pages, Problem, Session, Snapshot
from kbforge.kernel.library import kernel_library


class SequentialMonteCarlo(OnlineClusterer):
    """What greedy, plain and split clustering share: all but their rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    @property
    def rules(self) -> Rules:
        """What it does."""
        return self._rules

    def open(
        self,
        problem: Problem,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
        pages: Pages | None = None,
    ) -> Session:
        """See `kbforge.contracts.clusterer`."""
        kernel = kernel_library()
        if kernel is not None:
            return CompiledSession(kernel, problem, self._rules, rng, snapshot, pages)
        return OnlineSession(problem, self._rules, rng, snapshot, pages)
