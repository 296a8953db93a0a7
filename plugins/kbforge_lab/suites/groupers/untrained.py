"""Groupers without training: all together, all apart, and k-means with the true number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import Fragment
from kbforge_lab.contracts.suite import Grouped
from kbforge_lab.suites.groupers.vectors import k_means, labels_of, rows_of


@dataclass(frozen=True)
class Coarse:
    """One cluster."""

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> Grouped:
        """See `kbforge_lab.contracts.suite`."""
        return Grouped([[0] * len(fragments)])


@dataclass(frozen=True)
class Fine:
    """Every fragment by itself."""

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> Grouped:
        """See `kbforge_lab.contracts.suite`."""
        return Grouped([range(len(fragments))])


@dataclass(frozen=True)
class KMeans:
    """K-means from one start, with as many clusters as the labels have."""

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> Grouped:
        """See `kbforge_lab.contracts.suite`."""
        clusters = int(labels_of(fragments).max()) + 1
        return Grouped([k_means(rows_of(fragments), clusters, np.random.default_rng(seed))])
