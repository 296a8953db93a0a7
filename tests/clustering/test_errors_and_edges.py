"""Likelihoods that misbehave, fragments that fit nowhere, runs that are interrupted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kbforge.contracts import FloatArray, Fragment, Problem
from kbforge.errors import LikelihoodError, UsageError
from kbforge_plugins.clusterers.greedy import Greedy
from kbforge_plugins.clusterers.smc import Smc
from kbforge_plugins.clusterers.split_smc import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.toys import BlackBox, Chain, fragments_of, normal

CLUSTERERS = [Greedy, Smc, SplitSmc]
POINTS = [(0.0,), (0.1,), (5.0,), (5.1,), (9.0,)]


class Rule:
    """A black box from a rule on the ids of a set."""

    def __init__(self, rule) -> None:  # type: ignore[no-untyped-def]
        self._rule = rule

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return np.array([self._rule({f.id for f in cluster}) for cluster in clusters])


def run(clusterer, likelihood, alpha: float = 1.0):  # type: ignore[no-untyped-def]
    return clusterer().cluster(
        fragments_of(POINTS), Problem(likelihood, alpha), np.random.default_rng(0)
    )


@pytest.mark.parametrize("clusterer", CLUSTERERS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_are_errors_that_name_the_fragment(clusterer, bad: float) -> None:  # type: ignore[no-untyped-def]
    likelihood = Rule(lambda ids: bad if {"f1", "f3"} <= ids or ids == {"f4"} else 0.0)
    with pytest.raises(LikelihoodError, match=r'fragment "f[1-4]"'):
        run(clusterer, likelihood)


@pytest.mark.parametrize("clusterer", CLUSTERERS)
def test_a_fragment_that_fits_nowhere_is_named(clusterer) -> None:  # type: ignore[no-untyped-def]
    likelihood = Rule(lambda ids: -np.inf if "f3" in ids else 0.0)
    with pytest.raises(LikelihoodError, match=r'fragment "f3".*no finite assignment'):
        run(clusterer, likelihood)


@pytest.mark.parametrize("clusterer", CLUSTERERS)
def test_impossible_joins_make_singletons(clusterer) -> None:  # type: ignore[no-untyped-def]
    likelihood = Rule(lambda ids: -np.inf if len(ids) > 1 else 0.0)
    assert sorted(run(clusterer, likelihood).clusters()) == [(0,), (1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("clusterer", CLUSTERERS)
def test_impossible_singletons_make_one_cluster(clusterer) -> None:  # type: ignore[no-untyped-def]
    likelihood = Rule(lambda ids: -np.inf if len(ids) == 1 and ids != {"f0"} else 0.0)
    assert run(clusterer, likelihood).clusters() == [(0, 1, 2, 3, 4)]


def test_each_distinct_content_is_scored_once() -> None:
    likelihood = BlackBox(normal())
    fragments = fragments_of([(1.0,)] * 30)
    posterior = SplitSmc(particles=5).cluster(
        fragments, Problem(likelihood, 0.1), np.random.default_rng(0)
    )
    # sets of equal fragments differ only in size: 1..30
    assert posterior.model_evaluations == sum(likelihood.asked) == 30


def test_max_evals_zero_clusters_by_the_surrogate_alone() -> None:
    never = Rule(lambda ids: float("nan"))
    fragments = fragments_of(POINTS)
    by_surrogate = SplitSmc(particles=5).cluster(
        fragments, Problem(never, 1.0, Chain(normal()), 0), np.random.default_rng(0)
    )
    alone = SplitSmc(particles=5).cluster(
        fragments, Problem(Chain(normal()), 1.0), np.random.default_rng(0)
    )
    assert by_surrogate == alone


def test_max_evals_zero_without_a_surrogate_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="surrogate"):
        SplitSmc().cluster(
            fragments_of(POINTS), Problem(Gaussian(), 1.0, None, 0), np.random.default_rng(0)
        )
