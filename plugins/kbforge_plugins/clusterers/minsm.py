"""Split-merge sampling by weighted MinHash (Luo and Shrivastava 2018), offline."""

from __future__ import annotations

from kbforge.clustering.batch.splitmerge.alike import AlikeKernel
from kbforge.clustering.batch.splitmerge.buckets import Buckets
from kbforge.clustering.batch.splitmerge.rotation import Rotation
from kbforge.contracts import Features
from kbforge_plugins.clusterers.splitting import Ground, SplitMerge, require_tables
from kbforge_plugins.clusterers.starting import SINGLETONS
from kbforge_plugins.indexes.features import features_of
from kbforge_plugins.indexes.minima import Amounts


class MinSm(SplitMerge):
    """Splits off what has the same hash, and merges clusters that share one.

    Fragments have the same hash as often as their features are alike. A proposal costs as much as
    the clusters that it concerns are large, whatever else there is. What is hashed are vectors, or
    the n-grams that a likelihood of text reads.

    Args:
        rows: K, MinHashes that are one hash together. More tell many clusters apart better.
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
        rows: int = 1,
        hashes: int = 10,
        standardised: bool = True,
    ) -> None:
        super().__init__(particles, start, patience, sweeps, budget, moves, gibbs)
        require_tables(rows=rows, hashes=hashes)
        self._rows, self._hashes = rows, hashes
        self._standardised = standardised

    def splitting(self, ground: Ground) -> AlikeKernel:
        """See `SplitMerge`."""
        tables = self.tables(self.features(ground))
        return AlikeKernel(ground.clusters, tables, self._moves)

    def features(self, ground: Ground) -> Features:
        """What is hashed of the fragments."""
        return features_of(ground.fragments, ground.likelihood, self._standardised)

    def tables(self, features: Features) -> Rotation[Buckets]:
        """The hash tables to take in turn."""
        amounts = Amounts(features)
        return Rotation(
            lambda seed: Buckets(amounts.firsts(seed, self._rows)),
            len(features.starts) - 1,
            self._hashes,
        )
