"""Bridges in the kernel (`kbforge.clustering.revise.bridge`).

Hardly any fragment is one. So the kernel looks which other clusters a fragment would rather join
than be alone, and what one cluster of both would be worth. Only where it is worth more is the
reference asked to offer both as one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.clustering.compiled.clusters import Rivals
from kbforge.clustering.compiled.copies import Copies
from kbforge.clustering.compiled.holding import SessionPages
from kbforge.clustering.paging.codec import clusters_of
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.revise.bridge import nearest, terms_of_one, union_of
from kbforge.contracts import Cluster, FloatArray

_MARGIN = 1e-6
"""Nats that L of a single fragment differs by at most, however it is worked out."""


class Bridges:
    """What new fragments are bridges to.

    Args:
        holding: what the session holds.
        copies: of the run.
        prior: over partitions.

    """

    def __init__(self, holding: SessionPages, copies: Copies, prior: DirichletProcess) -> None:
        self._holding, self._copies, self._prior = holding, copies, prior

    def of(self, number: int, rivals: Rivals) -> list[int]:
        """The clusters of which each and the fragment's own may be worth more as one.

        What the reference counts as evaluations is counted, up to those of the first of them.

        Args:
            number: of the fragment.
            rivals: where else it could be.

        Returns:
            A fragment of each, the first one of a cluster for which it is so.

        Raises:
            LikelihoodError: as a session's `bridge`.

        """
        if not len(rivals.slots):
            return []
        clusters, most = self._holding.clusters, rivals.weights.max()
        clusters.count(1)
        if rivals.alone is not None and most <= self._prior.log_alpha + rivals.alone - _MARGIN:
            return []
        alone = self._prior.log_terms([(number,)], clusters.score([(number,)]))[0]
        slots = nearest(rivals.slots, rivals.weights, alone)
        others = [self._copies.first(slot) for slot in slots]
        while others and not self._is_worth(number, others[0]):
            del others[0]
        return others

    def _is_worth(self, number: int, other: int) -> bool:
        """Whether one cluster of those of two fragments is; if it is, that was not counted."""
        apart = dict([self._cluster(number), self._cluster(other)])
        if len(apart) < 2 or not self._holding.bindings.allow(union_of(apart)):
            return False
        if terms_of_one(self._prior, apart, self._counted) is None:
            return False
        self._holding.clusters.count(-1)  # whoever makes them one looks again
        return True

    def _cluster(self, number: int) -> tuple[Cluster, float]:
        """The cluster of a fragment in the heaviest particle, and its term."""
        page = self._copies.page(self._copies.homes([number])[0])
        held = list(clusters_of(page).values())
        heaviest = page.cells[: page.rows[0]].tolist()
        at = next(cell for cell in heaviest if number in held[cell])
        return held[at], self._prior.log_terms([held[at]], page.scores[at : at + 1])[0]

    def _counted(self, clusters: Sequence[Cluster]) -> FloatArray:
        self._holding.clusters.count(len(clusters))
        return self._holding.clusters.score(clusters)
