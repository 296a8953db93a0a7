"""Split-merge sampling with restricted Gibbs proposals (Jain and Neal 2004), offline."""

from __future__ import annotations

from kbforge.errors import UsageError
from kbforge_lab.splitmerge.restricted_gibbs import RestrictedGibbsKernel
from kbforge_lab.splitmerge.two_clusters import two_clusters
from kbforge_plugins.clusterers.offline import SINGLETONS, KernelInput, SplitMerge


class Rgsm(SplitMerge):
    """Splits and merges of the clusters of two fragments drawn at random.

    A split is proposed by Gibbs sampling among the fragments concerned, so that a proposal takes
    several times as long as those are many; it is good, if the two fragments were.

    Args:
        scans: t, scans of that Gibbs sampling before the one that proposes.

    """

    def __init__(
        self,
        particles: int = 100,
        start: str = SINGLETONS,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
        moves: int | None = None,
        gibbs: int = 0,
        scans: int = 5,
    ) -> None:
        super().__init__(particles, start, patience, sweeps, budget, moves, gibbs)
        if scans < 0:
            raise UsageError(f"scans: must not be negative, got {scans}")
        self._scans = scans

    def splitting(self, ground: KernelInput) -> RestrictedGibbsKernel:
        two = two_clusters(ground.likelihood, ground.fragments, ground.clusters)
        return RestrictedGibbsKernel(ground.clusters, two, self._scans, self._moves)
