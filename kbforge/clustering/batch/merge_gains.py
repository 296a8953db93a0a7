"""The Bayesian merge statistic: how much more probable two clusters are as one.

    gain(C, D) = [log p(C + D) + L(C + D)] - [log p(C) + L(C)] - [log p(D) + L(D)]

with log p(C) = log alpha + lgamma(|C|) of the Dirichlet process: what a merge adds to the log
posterior (Heller and Ghahramani 2005; split-SMC paper, section 4). The model beside the grouping
has the likelihood's part; here is the prior's, and the sum.
"""

from __future__ import annotations

import numpy as np

from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.grouping_model import MergingModel, SetModel
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import LikelihoodError


class MergeGains:
    """What merges of a grouping's clusters gain. Values in nats.

    Args:
        grouping: of fragments that all have a cluster; it may only merge them from now on.
        prior: of the groupings.

    """

    def __init__(self, grouping: Grouping, prior: DirichletProcess) -> None:
        self._grouping = grouping
        self._size: IntArray = np.array([len(members) for members in grouping.members], np.int64)
        # by size less one; twice as long as the largest cluster, which a row pairs with itself
        self._log_cluster = prior.log_cluster(np.arange(1, 2 * grouping.n_fragments + 1))
        self._log_prior = self._log_cluster[self._size - 1]

    def merged(self, a: int, b: int) -> None:
        """C_b has gone into C_a."""
        self._size[a] += self._size[b]
        self._log_prior[a] = self._log_cluster[self._size[a] - 1]

    def row(self, model: MergingModel, slot: int) -> FloatArray:
        """What merging a cluster with each other gains, -inf where there is none, shape [n].

        Raises:
            LikelihoodError: NaN or +inf.

        """
        others = self._grouping.in_use()
        others[slot] = False
        ratio = np.where(others, model.merges(slot), -np.inf)
        if np.isnan(ratio).any() or (ratio == np.inf).any():
            raise LikelihoodError("the likelihood (or surrogate) returned NaN or +inf")
        return np.asarray(ratio + self._prior_gain(slot, np.arange(len(others))))

    def pairs(self, model: SetModel, a: IntArray, b: IntArray) -> FloatArray:
        """What merging pairs of clusters gains, shape [len(a)]."""
        return model.pairs(a, b) + self._prior_gain(a, b)

    def _prior_gain(self, a: IntArray | int, b: IntArray | int) -> FloatArray:
        """The prior's part."""
        both = self._log_cluster[self._size[a] + self._size[b] - 1]
        return np.asarray(both - self._log_prior[a] - self._log_prior[b])
