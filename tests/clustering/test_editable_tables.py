"""Fragments that leave: tables that can only grow do as well as those that can edit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kbforge.clustering.batch import grouping_model
from kbforge.clustering.batch.editable_tables import RebuiltClusters, editable
from kbforge.contracts import ConjugateLikelihood, Fragment, LiveClusters, Problem
from kbforge.testing import Categorical, LikelihoodContract
from kbforge_plugins.clusterers.gibbs import Gibbs
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.likelihoods.ngram import Bigram
from tests.clustering.toys import Chain, normal


class Rebuilding(Categorical):
    """A likelihood of which every table can be edited, by rebuilding."""

    def live_clusters(self) -> Any:
        table = super().live_clusters()
        assert not table.editable
        return editable(table)


class TestRebuiltClusters(LikelihoodContract):
    def make(self) -> Any:
        return Rebuilding()


def points(seed: int, n: int) -> list[Fragment]:
    rows = np.random.default_rng(seed).normal(scale=3, size=(n, 2))
    return [Fragment(f"f{i}", {}, tuple(row)) for i, row in enumerate(rows.tolist())]


class OnlyGrows(ConjugateLikelihood):
    """Another likelihood, of which fragments cannot leave the tables."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def log_marginal(self, clusters: Any) -> Any:
        return self._inner.log_marginal(clusters)

    def live_clusters(self) -> Any:
        table = self._inner.live_clusters()

        class Table(LiveClusters):
            encode, extend, release = table.encode, table.extend, table.release
            log_predictive = table.log_predictive
            log_predictive_new = table.log_predictive_new

        return Table()


@pytest.mark.parametrize("inner", [Gaussian(lam=0.1), Bigram()])
def test_a_sampler_does_the_same_with_either(inner: Any) -> None:
    fragments = points(1, 25)
    if isinstance(inner, Bigram):
        names = ["ann lee", "anne lee", "bo ek", "bob ek", "cy"] * 5
        fragments = [Fragment(f"f{i}", {"name": (name,)}) for i, name in enumerate(names)]
    runs = [
        Gibbs(sweeps=15).cluster(fragments, Problem(model, 1.0), np.random.default_rng(3))
        for model in (inner, OnlyGrows(inner))
    ]
    assert runs[0].subproblems == runs[1].subproblems


def test_clusters_are_made_anew_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """What bounds the drift of any table's moves is the same as no drift."""
    fragments, problem = points(2, 20), Problem(Chain(normal(1.0, 4.0)), 1.0)

    def run() -> Any:
        return Gibbs(sweeps=30).cluster(fragments, problem, np.random.default_rng(5))

    never = run()
    monkeypatch.setattr(grouping_model, "_MOVES", 2)
    often = run()
    assert often.model_evaluations > never.model_evaluations
    assert often.subproblems == never.subproblems


def test_an_observation_is_found_by_identity() -> None:
    """Arrays have no equality to speak of."""
    table = RebuiltClusters(Gaussian().live_clusters())
    x = [table.encode(fragment) for fragment in points(3, 3)]
    table.extend(x[0], np.array([-1]), np.array([0]))
    table.add(x[1], 0)
    table.add(x[2], 0)
    before = table.log_predictive(x[0], 1).tolist()
    table.remove(x[1], 0)
    table.add(x[1], 0)
    assert table.log_predictive(x[0], 1).tolist() == pytest.approx(before, rel=1e-12)
