"""Average linkage on the scale that labelled fragments teach, offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from kbforge.clustering.batch.grouping import clusters_of
from kbforge.clustering.batch.run import Watch, concluded
from kbforge.contracts import (
    Cluster,
    Clusterer,
    Ending,
    FloatArray,
    Fragment,
    OnStep,
    Particle,
    Posterior,
    Problem,
    Progress,
    Subproblem,
)
from kbforge_lab.clusterers.examples import log_terms_of, model_of
from kbforge_lab.likelihoods.supervised import Supervised
from kbforge_lab.models.supervised import linked


class Linkage(Clusterer):
    """One grouping, by average linkage, cut where it does best on labelled fragments.

    It takes a model that kbforge lab train-supervised makes, --likelihood MODEL. What an entity's
    fragments seldom differ in counts most. It is where the chains of scdp mostly start.
    """

    unindexed = True

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        likelihood = model_of(problem, "linkage")
        terms = log_terms_of(likelihood, fragments, problem.alpha)
        begun = partial(_LinkageRun, likelihood, fragments, terms)
        return concluded(begun, fragments, problem, None, on_step)


class _LinkageRun:
    """Every fragment by itself, until they are linked."""

    def __init__(
        self,
        likelihood: Supervised,
        fragments: Sequence[Fragment],
        terms: Callable[[Sequence[Cluster]], FloatArray],
    ) -> None:
        self._likelihood, self._fragments, self._terms = likelihood, fragments, terms
        self._clusters: list[Cluster] = [(i,) for i in range(len(fragments))]

    def until_done(self, watch: Watch) -> Ending:
        """Link them."""
        watch.step(self._progress)
        self._clusters = clusters_of(linked(self._likelihood.vectors(self._fragments)))
        watch.round(self._progress)
        return Ending.DONE

    def _progress(self) -> Progress:
        n = len(self._fragments)
        posterior = partial(self.posterior, Ending.INTERRUPTED)
        return Progress(n, n, len(self._clusters), 0.0, 0, posterior)

    def posterior(self, ended: Ending) -> Posterior:
        """One grouping, each cluster a subproblem of its own."""
        return Posterior(
            tuple(Subproblem(cluster, (Particle(0.0, (cluster,)),)) for cluster in self._clusters),
            float(self._terms(self._clusters).sum()),
            len(self._fragments),
            0,
            ended,
        )

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What clusters contribute to the log posterior, nats, shape [len(clusters)]."""
        return self._terms(clusters)
