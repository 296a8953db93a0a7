"""Tests of the laws of clusterers and calibrators (`kbforge.contracts`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import (
    CalibrationResult,
    FloatArray,
    Fragment,
    Interrupted,
    Likelihood,
    ModelSpec,
    OnlineClusterer,
    Posterior,
    Progress,
    Search,
)
from kbforge.errors import KBForgeError, LikelihoodError, UsageError
from kbforge.testing import examples
from kbforge.testing.contract import Contract
from kbforge.testing.examples import BlackBox, Categorical, UniformLikelihood


class ClustererContract(Contract):
    """A posterior over groupings: complete, factorised, normalised, reproducible, independent of
    labels."""

    kind: ClassVar[str] = "clusterers"

    def fragments(self) -> list[Fragment]:
        """The fragments to cluster: three colours in random order."""
        return examples.fragments(24)

    def specs(self) -> dict[str, ModelSpec]:
        """Conjugate, uniform, a black box alone, and a black box with a surrogate."""
        model = Categorical()
        return {
            "conjugate": ModelSpec(model, alpha=0.5),
            "prior only": ModelSpec(UniformLikelihood(), alpha=1.0),
            "black box": ModelSpec(BlackBox(model), alpha=0.5),
            "surrogate": ModelSpec(
                BlackBox(model), alpha=0.5, surrogate=Categorical(beta=0.5), max_evals=10
            ),
        }

    def posterior(self, spec: ModelSpec, items: Sequence[Fragment] | None = None) -> Posterior:
        """One run with a fixed seed."""
        chosen = self.fragments() if items is None else items
        found: Posterior = self.make().cluster(chosen, spec, np.random.default_rng(10))
        return found

    def test_every_fragment_is_in_one_cluster_of_every_particle(self) -> None:
        for spec in self.specs().values():
            check_partition(self.posterior(spec), len(self.fragments()))

    def test_particles_of_a_subproblem_are_distinct(self) -> None:
        for spec in self.specs().values():
            for subproblem in self.posterior(spec).subproblems:
                groupings = [frozenset(p.clusters) for p in subproblem.particles]
                assert len(set(groupings)) == len(groupings)

    def test_weights_are_normalised_and_sorted(self) -> None:
        for spec in self.specs().values():
            for subproblem in self.posterior(spec).subproblems:
                weights = [particle.log_weight for particle in subproblem.particles]
                assert weights == sorted(weights, reverse=True)
                assert np.logaddexp.reduce(weights) == pytest.approx(0.0, abs=1e-9)

    def test_same_seed_same_posterior(self) -> None:
        for spec in self.specs().values():
            assert self.posterior(spec) == self.posterior(spec)

    def test_labels_are_not_read(self) -> None:
        blind = examples.without_gold(self.fragments())
        for spec in self.specs().values():
            assert self.posterior(spec, blind) == self.posterior(spec)

    def test_log_posterior_is_that_of_the_point_estimate(self) -> None:
        items = self.fragments()
        for spec in self.specs().values():
            found = self.posterior(spec)
            clusters = found.clusters()
            marginals = spec.likelihood.log_marginal([[items[i] for i in c] for c in clusters])
            expected = sum(
                math.log(spec.alpha) + math.lgamma(len(c)) + m
                for c, m in zip(clusters, marginals, strict=True)
            )
            assert found.log_posterior == pytest.approx(expected, abs=1e-6)

    def test_one_fragment_is_one_entity(self) -> None:
        found = self.posterior(self.specs()["conjugate"], self.fragments()[:1])
        assert found.clusters() == [(0,)]
        assert found.complete

    def test_an_interrupt_keeps_the_prefix(self) -> None:
        items, spec = self.fragments(), self.specs()["conjugate"]
        seen: list[int] = []

        def stop(progress: Progress) -> None:
            assert progress.total == len(items)
            seen.append(progress.fragments)
            if progress.fragments >= len(items) // 2:
                raise Interrupted

        found = self.make().cluster(items, spec, np.random.default_rng(10), stop)
        assert not found.complete
        assert found.n_fragments == seen[-1]
        assert seen == sorted(seen)
        check_partition(found, seen[-1])

    def test_a_likelihood_of_nan_is_an_error(self) -> None:
        with pytest.raises(LikelihoodError):
            self.posterior(ModelSpec(_ByCluster(lambda _: math.nan), alpha=1.0))

    def test_a_fragment_without_an_assignment_is_named(self) -> None:
        items = self.fragments()
        items[7] = replace(items[7], id="the-odd-one", properties={"colour": ("no such",)})
        with pytest.raises(LikelihoodError, match="the-odd-one"):
            self.posterior(ModelSpec(forbidding("no such"), alpha=1.0), items)

    def test_it_has_a_session_or_says_that_it_has_none(self) -> None:
        clusterer, spec = self.make(), self.specs()["conjugate"]
        if isinstance(clusterer, OnlineClusterer):
            assert clusterer.open(spec, np.random.default_rng(10)).n_fragments == 0
        else:
            with pytest.raises(UsageError, match="is an offline method and has no session"):
                clusterer.open(spec, np.random.default_rng(10))


class _ByCluster(Likelihood):
    """L(C) is a function of the cluster; 0 without fragments."""

    def __init__(self, value: Callable[[Sequence[Fragment]], float]) -> None:
        self._value = value

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return np.array([self._value(cluster) if cluster else 0.0 for cluster in clusters])


def forbidding(colour: str) -> Likelihood:
    """L(C) is -inf for a cluster that has a fragment of this colour, else 0."""
    return _ByCluster(
        lambda cluster: -math.inf if any(colour in f.properties["colour"] for f in cluster) else 0.0
    )


def check_partition(found: Posterior, n: int) -> None:
    """Assert that n fragments are in one subproblem, and in one cluster of each particle."""
    assert found.n_fragments == n
    blocks = [subproblem.fragments for subproblem in found.subproblems]
    assert sorted(i for block in blocks for i in block) == list(range(n))
    assert [block[0] for block in blocks] == sorted(block[0] for block in blocks)
    for subproblem in found.subproblems:
        for particle in subproblem.particles:
            members = [i for cluster in particle.clusters for i in cluster]
            assert sorted(members) == list(subproblem.fragments)
            assert all(list(cluster) == sorted(cluster) for cluster in particle.clusters)


class CalibratorContract(Contract):
    """An alpha within the searched range, reproducible, with its curve."""

    kind: ClassVar[str] = "calibrators"
    search: ClassVar[Search] = Search(-6.0, 6.0)

    def fragments(self) -> list[Fragment]:
        """Labelled fragments."""
        return examples.fragments(24)

    def result(
        self,
        fragments: Sequence[Fragment] | None = None,
        search: Search | None = None,
        alpha: float = 1.0,
        on_evaluation: Any = None,
    ) -> CalibrationResult:
        """One calibration of a small exact model, clustering greedily, with a fixed seed."""
        found: CalibrationResult = self.make().calibrate(
            self.fragments() if fragments is None else fragments,
            ModelSpec(Categorical(), alpha),
            registry.create("clusterers", "greedy"),
            search or self.search,
            np.random.default_rng(12),
            on_evaluation,
        )
        return found

    def test_alpha_lies_in_the_range(self) -> None:
        for search in (self.search, Search(1.0, 2.0), Search(-8.0, -7.0)):
            found = self.result(search=search)
            assert search.low - 1e-9 <= math.log(found.alpha) <= search.high + 1e-9
            assert math.isfinite(found.objective)

    def test_the_edge_is_reported(self) -> None:
        assert self.result().at_edge in ("", "low", "high")
        # far above any sensible alpha the objective cannot prefer still more
        assert self.result(search=Search(15.0, 20.0)).at_edge in ("low", "high")

    def test_the_curve_holds_the_answer(self) -> None:
        found = self.result()
        alphas = [alpha for alpha, _ in found.curve]
        assert alphas == sorted(alphas)
        assert max(value for _, value in found.curve) <= found.objective + 1e-9

    def test_every_evaluation_is_reported(self) -> None:
        reported: list[tuple[float, float]] = []
        found = self.result(on_evaluation=lambda *point: reported.append(point))
        assert reported
        assert {alpha for alpha, _ in reported} >= {alpha for alpha, _ in found.curve}

    def test_the_problems_alpha_is_ignored(self) -> None:
        assert self.result(alpha=50.0) == self.result(alpha=0.1)

    def test_same_seed_same_result(self) -> None:
        assert self.result() == self.result()

    def test_labels_are_needed_or_not_read(self) -> None:
        blind = examples.without_gold(self.fragments())
        if self.make().needs_labels:
            with pytest.raises(KBForgeError):
                self.result(blind)
        else:
            assert self.result(blind) == self.result()
