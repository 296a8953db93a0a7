"""MinSM with the ratio that it was published with (Luo and Shrivastava 2018), offline."""

from __future__ import annotations

from kbforge_lab.splitmerge.published import PublishedAlike
from kbforge_plugins.clusterers.offline import SINGLETONS, KernelInput, MinSm


class MinSmPublished(MinSm):
    """The clusterer minsm, whose moves are accepted by the published ratio.

    The ratio is not exact, so what comes out is no sample of the posterior. It is of one MinHash.

    Args:
        hashes: how many hash functions are kept to choose from; a new one comes, and the oldest
            goes, after as many moves as there are fragments.
        standardised: whether vectors are taken from their median, and each dimension is divided by
            the spread of its values, before they are hashed.

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
        hashes: int = 10,
        standardised: bool = True,
    ) -> None:
        super().__init__(
            particles, start, patience, sweeps, budget, moves, gibbs, 1, hashes, standardised
        )

    def splitting(self, ground: KernelInput) -> PublishedAlike:
        features = self.features(ground)
        return PublishedAlike(ground.clusters, self.tables(features), features, self._moves)
