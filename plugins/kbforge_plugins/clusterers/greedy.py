"""Greedy clustering: each fragment goes where it weighs most; sequential Monte Carlo with P = 1."""

from __future__ import annotations

from kbforge import registry
from kbforge.clustering.rules import Rules
from kbforge.clustering.sequential import SequentialMonteCarlo


class Greedy(SequentialMonteCarlo):
    """The fastest clusterer, and the one that cannot change its mind."""

    def __init__(self) -> None:
        # with one particle the grouping is the same split or not, and split each cluster is a
        # subproblem of its own, so that a step costs the same however many there are
        super().__init__(
            Rules(particles=1, resampler=registry.create("resamplers", "greedy"), splits=True)
        )
