"""MinSM as users get it, against enumeration."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kbforge import registry
from kbforge.clustering.batch.chain import MarkovChain
from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Fragment, Problem
from tests.clustering.oracle import Grouping as Partition
from tests.clustering.test_chains_are_exact import SEEDS, problem_of
from tests.clustering.test_exactness import exact_posterior

# hundreds of moves a sweep are as good as several sweeps, and hash functions change as often
N = 5


def chain_of(clusterer: Any, fragments: list[Fragment], problem: Problem) -> MarkovChain:
    prior = DirichletProcess(problem.alpha)
    grouping = Grouping(len(fragments))
    kernel = clusterer.make_kernel(fragments, problem, grouping, prior.log_alpha)
    chain = MarkovChain(kernel, grouping, prior, np.random.default_rng(17))
    for _ in chain.start([(i,) for i in range(len(fragments))]):
        pass
    return chain


def partition(slots: tuple[int, ...]) -> Partition:
    return frozenset(tuple(i for i, slot in enumerate(slots) if slot == own) for own in set(slots))


def distance(name: str, family: str, length: int, **options: Any) -> float:
    """Total variation between the states after every move and the posterior."""
    fragments, problem = problem_of(family, SEEDS[family], N)
    exact = exact_posterior(fragments, problem.likelihood, problem.alpha)
    clusterer = registry.create("clusterers", name, {"moves": 500, **options})
    chain = chain_of(clusterer, fragments, problem)
    visits: Counter[tuple[int, ...]] = Counter()
    while visits.total() < length:
        for _ in chain.sweep():
            visits[tuple(chain.grouping.slot_of)] += 1
    states: Counter[Partition] = Counter()
    for slots, times in visits.items():  # which slot a cluster is in says nothing
        states[partition(slots)] += times
    return 0.5 * sum(abs(states[z] / states.total() - math.exp(w)) for z, w in exact.items())


@pytest.mark.parametrize(
    "family", ["gaussian", "dirichlet-multinomial", "beta-bernoulli", "bigram"]
)
def test_long_runs_have_the_exact_distribution(family: str) -> None:
    assert distance("minsm", family, 120_000) < 0.02


def test_gibbs_sampling_by_turns_leaves_it_so() -> None:
    assert distance("minsm", "gaussian", 40_000, moves=10, gibbs=2) < 0.02
