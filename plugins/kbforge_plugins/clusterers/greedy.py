"""Greedy clustering: each fragment goes where it weighs most; sequential Monte Carlo with P = 1."""

from __future__ import annotations

from kbforge import registry
from kbforge.clustering.rules import WAVE, Rules
from kbforge.clustering.sequential import SequentialMonteCarlo


class Greedy(SequentialMonteCarlo):
    """The fastest clusterer, and the one that cannot change its mind.

    Args:
        wave: with a network or another black box for its likelihood, score at once what so many
            fragments will ask for, at most; fewer where too much of that would be in vain. The
            result is that of 1, which asks for each by itself.

    """

    def __init__(self, wave: int = WAVE) -> None:
        # with one particle the grouping is the same split or not, and split each cluster is a
        # subproblem of its own, so that a step costs the same however many there are
        super().__init__(
            Rules(
                particles=1,
                resampler=registry.create("resamplers", "greedy"),
                splits=True,
                wave=wave,
            )
        )
