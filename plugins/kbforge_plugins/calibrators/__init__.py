"""Calibrators choose the concentration alpha; shared code for gold clusters and runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kbforge.contracts import Cluster, Clusterer, Fragment, ModelSpec, Posterior
from kbforge.errors import KBForgeError


def labelled_only(fragments: Sequence[Fragment], calibrator: str) -> list[Fragment]:
    """The fragments with a gold label, in order; a KBForgeError if there are none."""
    labelled = [fragment for fragment in fragments if fragment.label is not None]
    if not labelled:
        raise KBForgeError(
            f"calibrator {calibrator}: none of the {len(fragments):,} fragments has a label; "
            "label some"
        )
    return labelled


def gold_clusters(fragments: Sequence[Fragment]) -> list[Cluster]:
    """Indices of the fragments of each label, clusters in order of their first fragment."""
    members: dict[str, list[int]] = {}
    for index, fragment in enumerate(fragments):
        if fragment.label is not None:
            members.setdefault(fragment.label, []).append(index)
    return [tuple(cluster) for cluster in members.values()]


@dataclass
class Runs:
    """A spec, ready to be clustered at any alpha with common random numbers."""

    fragments: Sequence[Fragment]
    spec: ModelSpec
    clusterer: Clusterer
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self._seed = int(self.rng.integers(2**63))

    def cluster(self, log_alpha: float) -> Posterior:
        """The posterior at this log alpha."""
        spec = replace(self.spec, alpha=float(np.exp(log_alpha)))
        return self.clusterer.cluster(self.fragments, spec, np.random.default_rng(self._seed))
