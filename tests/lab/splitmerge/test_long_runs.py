"""Split-merge samplers as users get them, against enumeration; the published ones are far off."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kbforge import registry
from kbforge.clustering.batch.chain import Chain
from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Fragment, Problem
from tests.clustering.oracle import Grouping as Partition
from tests.clustering.test_chains_are_exact import SEEDS, problem_of
from tests.clustering.test_exactness import exact_posterior

# hundreds of moves a sweep are as good as several sweeps, and hash functions change as often
N = 5
MOVES: dict[str, int] = {"minsm": 120_000, "lshsm": 30_000, "rgsm": 4_000, "sdds": 12_000}
# five points hardly ever share ten signs
OPTIONS: dict[str, dict[str, object]] = {
    **{name: {} for name in MOVES},
    "lshsm": {"rows": 2, "tables": 3},
}
CASES = [
    *(("minsm", f) for f in ("gaussian", "dirichlet-multinomial", "beta-bernoulli", "bigram")),
    ("lshsm", "gaussian"),
    ("lshsm", "beta-bernoulli"),
    ("rgsm", "beta-bernoulli"),
    ("rgsm", "black box"),
    *(("sdds", f) for f in ("gaussian", "dirichlet-multinomial", "black box")),
]


def chain_of(clusterer: Any, fragments: list[Fragment], problem: Problem) -> Chain:
    prior = DirichletProcess(problem.alpha)
    grouping = Grouping(len(fragments))
    kernel = clusterer.make_kernel(fragments, problem, grouping, prior.log_alpha)
    chain = Chain(kernel, grouping, prior, np.random.default_rng(17))
    for _ in chain.start([(i,) for i in range(len(fragments))]):
        pass
    return chain


def partition(slots: tuple[int, ...]) -> Partition:
    return frozenset(tuple(i for i, slot in enumerate(slots) if slot == own) for own in set(slots))


def distance(name: str, family: str, length: int, **options: Any) -> float:
    """Total variation between the states after every move and the posterior."""
    fragments, problem = problem_of(family, SEEDS[family], N)
    exact = exact_posterior(fragments, problem.likelihood, problem.alpha)
    clusterer = registry.create("clusterers", name, {"moves": 500, **OPTIONS[name], **options})
    chain = chain_of(clusterer, fragments, problem)
    visits: Counter[tuple[int, ...]] = Counter()
    while visits.total() < length:
        for _ in chain.sweep():
            visits[tuple(chain.grouping.slot_of)] += 1
    states: Counter[Partition] = Counter()
    for slots, times in visits.items():  # which slot a cluster is in says nothing
        states[partition(slots)] += times
    return 0.5 * sum(abs(states[z] / states.total() - math.exp(w)) for z, w in exact.items())


@pytest.mark.parametrize(("name", "family"), CASES)
def test_long_runs_have_the_exact_distribution(name: str, family: str) -> None:
    assert distance(name, family, MOVES[name]) < 0.02


def test_gibbs_sampling_by_turns_leaves_it_so() -> None:
    assert distance("minsm", "gaussian", 40_000, moves=10, gibbs=2) < 0.02


@pytest.mark.parametrize("name", ["minsm", "lshsm"])
@pytest.mark.parametrize("family", ["gaussian", "dirichlet-multinomial"])
def test_the_published_ratios_have_another_distribution(name: str, family: str) -> None:
    """Not by chance: the exact ones are within .02 of the posterior in runs of this length."""
    assert distance(name, family, 20_000, as_published=True) > 0.1
