"""Smart-dumb/dumb-smart split-merge sampling (Wang and Russell 2015), offline."""

from __future__ import annotations

from kbforge_lab.splitmerge.likelihood_guided import LikelihoodGuidedKernel
from kbforge_lab.splitmerge.two_clusters import two_clusters
from kbforge_plugins.clusterers.offline import KernelInput, SplitMerge


class Sdds(SplitMerge):
    """Splits and merges that the likelihood proposes, each with dumb ones for its way back.

    A merge looks at all clusters and takes one by how much it gains; a split deals out the
    fragments of a cluster one after another. So a proposal is good, and its cost grows with the
    number of clusters.
    """

    def splitting(self, ground: KernelInput) -> LikelihoodGuidedKernel:
        two = two_clusters(ground.likelihood, ground.fragments, ground.clusters)
        return LikelihoodGuidedKernel(ground.clusters, ground.model, two, self._moves)
