"""Plain sequential Monte Carlo: one subproblem for ever (Fearnhead 2004)."""

from __future__ import annotations

from kbforge import registry
from kbforge.clustering.rules import Rules
from kbforge.clustering.sequential import SequentialMonteCarlo


class Smc(SequentialMonteCarlo):
    """Online clustering with P groupings of all fragments; the baseline of split SMC.

    A step costs P times the number of clusters: prefer split SMC on more than a few thousand
    fragments.

    Args:
        particles: P, the number of particles.
        resampler: how a pool of putative particles is cut to P.
        floor: putative particles below this fraction of the heaviest are dropped, 0 drops none;
            none is 1e-3 if there is a candidate index and the resampler is greedy, else 0.

    """

    def __init__(
        self, particles: int = 100, resampler: str = "greedy", floor: float | None = None
    ) -> None:
        self.particles = particles
        super().__init__(
            Rules(
                particles=particles,
                resampler=registry.create("resamplers", resampler),
                splits=False,
                floor=floor,
            )
        )
