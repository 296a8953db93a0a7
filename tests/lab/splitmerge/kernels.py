"""The kernels of the laboratory over small problems, with tables that are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from kbforge.clustering.batch.grouping_model import model_of
from kbforge_lab.splitmerge.opposite import OppositeKernel, SignTables
from kbforge_lab.splitmerge.two_clusters import (
    LikelihoodGuidedKernel,
    RestrictedGibbsKernel,
    two_clusters,
)
from tests.clustering.test_minsm import Make, fixed


def opposite(signs: Any) -> Make:
    tables = SignTables(np.array(signs, dtype=bool))
    return lambda items, problem, grouping, clusters: OppositeKernel(clusters, fixed(tables))


def restricted_gibbs(scans: int) -> Make:
    return lambda items, problem, grouping, clusters: RestrictedGibbsKernel(
        clusters, two_clusters(problem.likelihood, items, clusters), scans
    )


def likelihood_guided() -> Make:
    return lambda items, problem, grouping, clusters: LikelihoodGuidedKernel(
        clusters,
        model_of(problem.likelihood, items, grouping),
        two_clusters(problem.likelihood, items, clusters),
    )
