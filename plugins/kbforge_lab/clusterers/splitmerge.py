"""Split-merge samplers to compare with `minsm`: LSHSM, RGSM, SDDS, and MinSM as published."""

from __future__ import annotations

from typing import Any

from kbforge.errors import UsageError
from kbforge_lab.batch.run import require_positive
from kbforge_lab.batch.splitmerge import Rotation
from kbforge_lab.clusterers.offline import (
    KernelInput,
    SplitMerge,
    hash_tables,
)
from kbforge_lab.hashing import features_of, sides_of
from kbforge_lab.splitmerge.opposite import (
    OppositeKernel,
    PublishedAlike,
    PublishedOpposite,
    SignTables,
)
from kbforge_lab.splitmerge.two_clusters import (
    LikelihoodGuidedKernel,
    RestrictedGibbsKernel,
    two_clusters,
)

_MOST_ROWS = 16


class LshSm(SplitMerge):
    """Split fragments on opposite sides of random directions; merge those on the same side.

    In a split all other fragments go by a coin, so that clusters of more than some tens hardly ever
    fall apart as they should: `minsm` is the better one, and this is here to compare.

    Args:
        rows: K, the directions of a table.
        tables: L, the number of tables; if the first table has no answer, others are asked.
        hashes: number of sets of tables to choose from; a new one replaces the oldest after as many
            moves as there are fragments.
        standardised: whether, before vectors are projected, their median is subtracted and each
            dimension is divided by the spread of its values.
        as_published: whether the published ratio accepts moves. It is not exact, so the result is
            not a sample of the posterior.

    """

    def __init__(
        self,
        rows: int = 10,
        tables: int = 10,
        hashes: int = 2,
        standardised: bool = True,
        as_published: bool = False,
        **chain: Any,
    ) -> None:
        super().__init__(**chain)
        require_positive(rows=rows, tables=tables, hashes=hashes)
        if rows > _MOST_ROWS:
            raise UsageError(f"rows: expected 1 to {_MOST_ROWS}, got {rows}")
        self._rows, self._tables, self._hashes = rows, tables, hashes
        self._standardised, self._as_published = standardised, as_published

    def splitting(self, ground: KernelInput) -> OppositeKernel:
        features = features_of(ground.fragments, ground.likelihood, self._standardised)
        rotation = Rotation(
            lambda seed: SignTables(sides_of(features, seed, self._tables, self._rows)),
            len(ground.fragments),
            self._hashes,
        )
        if self._as_published:
            return PublishedOpposite(ground.clusters, rotation, features, self._rows, self._moves)
        return OppositeKernel(ground.clusters, rotation, self._moves)


class MinSmPublished(SplitMerge):
    """The clusterer minsm with the published acceptance ratio.

    The ratio is not exact, so what comes out is no sample of the posterior. It is of one MinHash.

    Args:
        hashes: number of hash functions to choose from; a new one replaces the oldest after as many
            moves as there are fragments.
        standardised: whether, before vectors are hashed, their median is subtracted and each
            dimension is divided by the spread of its values.

    """

    def __init__(
        self,
        hashes: int = 10,
        standardised: bool = True,
        **chain: Any,
    ) -> None:
        super().__init__(**chain)
        require_positive(hashes=hashes)
        self._hashes, self._standardised = hashes, standardised

    def splitting(self, ground: KernelInput) -> PublishedAlike:
        features = features_of(ground.fragments, ground.likelihood, self._standardised)
        tables = hash_tables(features, 1, self._hashes)
        return PublishedAlike(ground.clusters, tables, features, self._moves)


class Rgsm(SplitMerge):
    """Split or merge the clusters of two random fragments.

    A split is proposed by Gibbs sampling among the fragments concerned, so that a proposal takes
    several times as long as those are many; it is good, if the two fragments were.

    Args:
        scans: t, the scans of restricted Gibbs sampling before the scan that proposes.

    """

    def __init__(
        self,
        scans: int = 5,
        **chain: Any,
    ) -> None:
        super().__init__(**chain)
        if scans < 0:
            raise UsageError(f"scans: must not be negative, got {scans}")
        self._scans = scans

    def splitting(self, ground: KernelInput) -> RestrictedGibbsKernel:
        two = two_clusters(ground.likelihood, ground.fragments, ground.clusters)
        return RestrictedGibbsKernel(ground.clusters, two, self._scans, self._moves)


class Sdds(SplitMerge):
    """Pair each split or merge that the likelihood proposes with a random one as its reverse.

    A merge looks at all clusters and takes one by how much it gains; a split deals out the
    fragments of a cluster one after another. So a proposal is good, and its cost grows with the
    number of clusters.
    """

    def splitting(self, ground: KernelInput) -> LikelihoodGuidedKernel:
        two = two_clusters(ground.likelihood, ground.fragments, ground.clusters)
        return LikelihoodGuidedKernel(ground.clusters, ground.model, two, self._moves)
