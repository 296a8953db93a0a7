from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from kbforge.contracts import ModelSpec
from kbforge.errors import UsageError
from kbforge.testing import CalibratorContract, ClustererContract
from kbforge_lab.fastex.families import Mixture
from kbforge_lab.likelihoods.discrete import DirichletMultinomial
from tests.contracts.conftest import Plugins
from tests.lab.models.supervised.models import fitted


class TestEmpiricalBayes(CalibratorContract):
    name = "empirical-bayes"


class TestOfAllProblems(ClustererContract):
    plugins: ClassVar[Plugins] = [
        ("gibbs", {"sweeps": 8}),
        ("gibbs", {"sweeps": 5, "start": "sequential", "particles": 3}),
        ("metropolis", {"sweeps": 8}),
        ("minsm", {"sweeps": 8}),
        ("minsm", {"sweeps": 3, "gibbs": 1, "moves": 10, "rows": 2, "start": "sequential"}),
        ("minsm", {"sweeps": 5, "start": "one", "gibbs": 1}),
        ("minsm-published", {"sweeps": 8}),
        "agglomerative",
        ("agglomerative", {"batch": 15}),
        ("sir", {"replicas": 60}),
        ("sir", {"replicas": 30, "threshold": 1.0, "particles": 3}),
        ("rgsm", {"sweeps": 4, "scans": 2}),
        ("sdds", {"sweeps": 5}),
        ("lshsm", {"sweeps": 8, "rows": 3}),
    ]


class OfSomeProblems(ClustererContract):
    """It refuses all but some problems."""

    refusal: ClassVar[str]

    def test_a_likelihood_of_nan_is_an_error(self) -> None:
        with pytest.raises(UsageError, match=self.refusal):
            super().test_a_likelihood_of_nan_is_an_error()

    def test_a_fragment_without_an_assignment_is_named(self) -> None:
        with pytest.raises(UsageError, match=self.refusal):
            super().test_a_fragment_without_an_assignment_is_named()


class TestFastEx(OfSomeProblems):
    """Of the specs, those of an exponential family."""

    name = "fastex"
    options: ClassVar = {"sweeps": 8}
    refusal = "expected dirichlet-multinomial or gaussian"

    def specs(self) -> dict[str, ModelSpec]:
        sharp = DirichletMultinomial(concentration=0.2)
        return {
            "conjugate": ModelSpec(DirichletMultinomial(), alpha=0.7),
            "sharp": ModelSpec(sharp, alpha=3.0),
        }


class TestFastExFromSingletons(TestFastEx):
    options: ClassVar = {"sweeps": 5, "start": "singletons", "particles": 3, "tries": 4, "bits": 8}


class TestUncollapsed(TestFastEx):
    """It reads one attribute, and has a mixture of components."""

    name = "uncollapsed"
    options: ClassVar = {"sweeps": 8, "components": 4}

    def specs(self) -> dict[str, ModelSpec]:
        return {
            name: ModelSpec(DirichletMultinomial(attributes=("colour",)), spec.alpha)
            for name, spec in super().specs().items()
        }

    def test_log_posterior_is_that_of_the_point_estimate(self):
        items = self.fragments()
        for spec in self.specs().values():
            found, prior = self.posterior(spec), Mixture(spec.alpha, 4)
            clusters = found.clusters()
            sizes = np.array([len(cluster) for cluster in clusters])
            expected = prior.log_clusters(sizes).sum() + prior.log_choices(len(clusters))
            marginals = spec.likelihood.log_marginal([[items[i] for i in c] for c in clusters])
            assert found.log_posterior == pytest.approx(expected + marginals.sum(), abs=1e-6)


class TestFastExOfComponents(TestUncollapsed):
    name = "fastex"
    options: ClassVar = {"sweeps": 8, "components": 4}


class TestScdp(OfSomeProblems):
    """Of the specs, those of a trained model."""

    name = "scdp"
    options: ClassVar = {"sweeps": 8}
    refusal = "MODEL from kbforge lab train-supervised"

    def specs(self) -> dict[str, ModelSpec]:
        likelihood = fitted(self.fragments())
        return {
            "conjugate": ModelSpec(likelihood, alpha=0.7),
            "many": ModelSpec(likelihood, alpha=30.0),
        }


class TestScdpOfModel2(TestScdp):
    options: ClassVar = {"model": 2, "sweeps": 6, "chains": 3, "start": "singletons"}


class TestScdpOfModel3(TestScdp):
    options: ClassVar = {"model": 3, "sweeps": 6, "chains": 1, "start": "one", "particles": 3}


class TestScdpShared(TestScdp):
    options: ClassVar = {"sweeps": 6, "shared": True, "start": "linked"}


class TestLinkage(TestScdp):
    name = "linkage"
    options: ClassVar = {}
