"""What clusterers with a model of labelled fragments share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.scoring import without_model
from kbforge.contracts import Cluster, FloatArray, Fragment, Problem
from kbforge.errors import UsageError
from kbforge_lab.likelihoods.supervised import Supervised


def model_of(problem: Problem, clusterer: str) -> Supervised:
    """The trained model."""
    likelihood = without_model(problem).likelihood
    if not isinstance(likelihood, Supervised):
        called = type(likelihood).__name__.lstrip("_").lower()
        raise UsageError(
            f"clusterer {clusterer} learns from labelled fragments: expected --likelihood MODEL "
            f"from kbforge lab train-supervised, at temperature 1, got {called}"
        )
    return likelihood


def log_terms_of(
    likelihood: Supervised, fragments: Sequence[Fragment], alpha: float
) -> Callable[[Sequence[Cluster]], FloatArray]:
    """What clusters contribute to the log posterior by the model's one scatter, nats."""
    prior = DirichletProcess(alpha)

    def log_terms(clusters: Sequence[Cluster]) -> FloatArray:
        sets = [[fragments[i] for i in cluster] for cluster in clusters]
        return prior.log_terms(clusters, likelihood.log_marginal(sets))

    return log_terms
