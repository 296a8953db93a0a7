"""Resample: stochastic schemes are seeded, greed is optimal, a floor drops what is light."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.online.pool import Pool
from kbforge.clustering.online.resample import resample
from kbforge.clustering.rules import Rules
from kbforge.contracts import Problem
from kbforge.errors import UsageError
from kbforge_plugins.clusterers.smc import Smc
from kbforge_plugins.clusterers.split_smc import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.resamplers.greedy import Greedy
from tests.clustering.oracle import log_sum_exp
from tests.clustering.toys import Chain, fragments_of, normal
from tests.profile import examples


@pytest.mark.parametrize("resampler", ["multinomial", "stratified", "optimal"])
@pytest.mark.parametrize("clusterer", [Smc, SplitSmc])
def test_stochastic_resamplers_run_and_are_seeded(clusterer, resampler: str) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    fragments = fragments_of([tuple(p.tolist()) for p in rng.normal(scale=4, size=(40, 2))])
    problem = Problem(Gaussian(), 1.0)
    runs = [
        clusterer(particles=8, resampler=resampler).cluster(
            fragments, problem, np.random.default_rng(seed)
        )
        for seed in (0, 0, 1)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_target_weights_need_greedy_resampling() -> None:
    with pytest.raises(UsageError, match="greedy"):
        SplitSmc(resampler="optimal", weights="target")


def test_a_floor_drops_what_is_light_beside_the_heaviest() -> None:
    fragments = fragments_of([(0.0,), (0.1,), (8.0,)])
    problem = Problem(Chain(normal()), 1.0)
    every, heavy = (
        Smc(particles=30, floor=floor).cluster(fragments, problem, np.random.default_rng(0))
        for floor in (0.0, 0.2)
    )
    weights = [particle.log_weight for particle in every.subproblems[0].particles]
    assert len(weights) == 5  # the partitions of three
    expected = sum(weight >= weights[0] + np.log(0.2) for weight in weights)
    assert 1 <= len(heavy.subproblems[0].particles) == expected < 5


@pytest.mark.parametrize(
    "floor", [0.867634413853166, 0.9875951684772913, 0.0033066940479978928, 1e-9, 0.3]
)
def test_the_floor_s_logarithm_is_libm_s(monkeypatch: pytest.MonkeyPatch, floor: float) -> None:
    """As the kernel's, to the last bit: NumPy's differs by one where a processor has AVX-512."""
    monkeypatch.setattr(np, "log", lambda x: math.nextafter(math.log(x), math.inf))
    n = 2
    none = np.full(n, -1)
    value = np.array([0.0, math.log(floor)])
    pool = Pool(value, none, none, np.arange(n), np.zeros(n, np.int64))
    rules = Rules(5, Greedy(), splits=True, floor=floor)
    assert len(resample(pool, rules, np.random.default_rng(0)).value) == n


@examples(60)
@given(n=st.integers(2, 9), size=st.integers(1, 8), seed=st.integers(0, 10_000))
def test_no_support_beats_greedy_resampling(n: int, size: int, seed: int) -> None:
    """The best q on a support S is p restricted to it, with KL(q || p) = -log p(S) (paper, B.2)."""
    rng = np.random.default_rng(seed)
    weights = -np.sort(-rng.normal(scale=2, size=n).round(1))
    kept, _ = Greedy().resample(weights, size, rng)
    share = np.exp(weights - log_sum_exp(weights))
    best = min(
        -math.log(share[list(support)].sum())
        for support in itertools.combinations(range(n), min(n, size))
    )
    assert -math.log(share[kept].sum()) == pytest.approx(best, abs=1e-12)
