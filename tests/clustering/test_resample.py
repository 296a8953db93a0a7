"""Resample: stochastic schemes are seeded, greed is optimal, a floor drops what is light."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.clustering.propose import Pool, PutativeScores, Rules, resample
from kbforge.clustering.sample import neighbourhoods
from kbforge.clustering.step import reweigh
from kbforge.contracts import CandidateIndex, Fragment, Problem
from kbforge.errors import LikelihoodError, UsageError
from kbforge_plugins.clusterers.sequential import Smc, SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.resamplers import Greedy
from tests.clustering.both_engines import (
    ALPHA,
    SEEDS,
    add,
    after,
    bridging_stream,
    reference,
    run_both,
    state_of,
)
from tests.clustering.oracle import SlowSmc, Target, log_sum_exp
from tests.clustering.toys import POINTS, BlackBox, Chain, Rule, fragments_of, normal
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


# Samples have whole neighbourhoods, and do not depend on order or ids.


class ByName(CandidateIndex):
    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [int(fragment.names[0])]


PEOPLE = [
    Fragment(f"{name}-{k}", {"name": (str(name),), "note": (str(k),)})
    for name in range(300)
    for k in range(5)
]


def test_small_files_are_taken_whole() -> None:
    sample = neighbourhoods(PEOPLE, ByName(), 5000)
    assert sample.seeds == len(PEOPLE)
    assert sorted(sample.places) == list(range(len(PEOPLE)))
    assert [PEOPLE[i] for i in sample.places] == list(sample.fragments)


def test_whoever_shares_a_key_with_a_seed_comes_along() -> None:
    sample = neighbourhoods(PEOPLE, ByName(), 200)
    assert 200 <= len(sample.fragments) < 205
    assert 0 < sample.seeds < len(sample.fragments)
    seeded = {f.names[0] for f in sample.fragments[: sample.seeds]}
    assert {f.names[0] for f in sample.fragments} == seeded
    assert len(sample.fragments) == 5 * len(seeded)


def test_order_and_ids_do_not_matter() -> None:
    turned = [replace(f, id=f"x{i}") for i, f in enumerate(reversed(PEOPLE))]
    samples = (neighbourhoods(some, ByName(), 200) for some in (PEOPLE, turned))
    one, other = ([f.properties for f in sample.fragments] for sample in samples)
    assert one == other


def test_a_key_of_very_many_brings_nobody() -> None:
    equal = [replace(f, properties={**f.properties, "name": ("1",)}) for f in PEOPLE]
    assert neighbourhoods(equal, ByName(), 200).seeds == 200


# Merge: a sampled join is seeded, an exact one is the whole joint.


def test_sampled_merges_are_seeded() -> None:
    rng = np.random.default_rng(4)
    fragments = fragments_of([tuple(p.tolist()) for p in rng.normal(scale=6, size=(120, 2))])
    problem = Problem(Gaussian(), 5.0)
    runs = [
        SplitSmc(particles=20, merge="multinomial").cluster(
            fragments, problem, np.random.default_rng(seed)
        )
        for seed in (0, 0, 1, 2, 3)
    ]
    assert runs[0] == runs[1]
    assert len({run.log_posterior for run in runs}) > 1, "no merge was sampled"


# Reweigh: the model's own word counts, and what it has said it is not asked again.


@pytest.mark.parametrize("max_evals", [1, 3, 8, None])
def test_surrogate_stage_equals_the_slow_engine(max_evals: int | None) -> None:
    """The surrogate (a blunter model) proposes, a black box weighs."""
    model, blunt = normal(1.0, 6.0), normal(1.5, 8.0)
    for particles in (1, 3, 10):
        for seed in SEEDS:
            values = bridging_stream(seed)
            slow = SlowSmc(
                Target(values, model, ALPHA),
                particles,
                surrogate=Target(values, blunt, ALPHA),
                max_evals=max_evals,
            )
            problem = Problem(BlackBox(model), ALPHA, Chain(blunt), max_evals)
            run_both(values, slow, problem, Rules(particles, Greedy(), splits=True))


def test_the_surrogate_ranks_and_the_model_weighs() -> None:
    """Weights are w + log|C| + L(C + x) - L(C) by the model; what it forbids is left out."""
    forbidden = {"f1", "f4"}

    def rule(ids: set[str]) -> float:
        return -np.inf if forbidden <= ids else -0.5 * len(ids) ** 2

    *items, x = fragments_of(POINTS)
    problem = Problem(Rule(rule), 1.0, Chain(normal()))
    core = after(items, problem, Rules(10, Greedy(), splits=False))
    state = state_of(core)
    live = [{f"f{i}" for i in state.members(slot)} for slot in range(state.n_slots)]
    gains = np.array([rule({*held, x.id}) - rule(held) if held else 0.0 for held in live])
    start, rows = int(state.row_start[0]), int(state.row_count[0])
    ranks, at = [], []
    for rank in range(rows):
        cells = range(state.row_begin[start + rank], state.row_end[start + rank])
        at += cells
        ranks += [rank] * len(cells)
    cells = np.array(at)
    proposed = Pool(
        np.zeros(len(cells)), cells, state.cells[cells], np.array(ranks), np.zeros_like(cells)
    )
    weighed = reweigh(state, PutativeScores(gains), proposed)
    members = [{f"f{i}" for i in state.members(int(slot))} for slot in weighed.slot]
    assert not any("f1" in held for held in members)
    allowed = sum("f1" not in {f"f{i}" for i in state.members(int(slot))} for slot in proposed.slot)
    assert 0 < len(weighed) == allowed < len(proposed)
    for value, held, rank in zip(weighed.value, members, weighed.row, strict=True):
        gain = rule({*held, x.id}) - rule(held)
        weight = state.row_weight[start + rank]
        assert value == pytest.approx(weight + np.log(len(held)) + gain, abs=1e-9)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_the_fragment_alone_must_have_a_probability(bad: float) -> None:
    core = reference(Problem(Chain(lambda members, x: bad), 1.0), Rules(5, Greedy(), splits=True))
    with pytest.raises(LikelihoodError, match="the fragment alone is"):
        add(core, Fragment("x", {}, (0.0,)))


def test_a_probability_of_nought_is_one() -> None:
    problem = Problem(Chain(lambda members, x: -np.inf), 1.0)
    core = reference(problem, Rules(5, Greedy(), splits=True))
    with pytest.raises(LikelihoodError, match="no finite assignment"):
        add(core, Fragment("x", {}, (0.0,)))


def test_each_distinct_content_is_scored_once() -> None:
    likelihood = BlackBox(normal())
    fragments = fragments_of([(1.0,)] * 30)
    posterior = SplitSmc(particles=5).cluster(
        fragments, Problem(likelihood, 0.1), np.random.default_rng(0)
    )
    # sets of equal fragments differ only in size: 1..30
    assert posterior.model_evaluations == sum(likelihood.asked) == 30


def test_max_evals_zero_clusters_by_the_surrogate_alone() -> None:
    never = Rule(lambda _: float("nan"))
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


# Stochastic resamplers keep every particle's weight in expectation: 10^5 draws each.


DRAWS = 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multinomial", "stratified", "optimal"])
def test_unbiased(name: str) -> None:
    resampler = registry.create("resamplers", name)
    rng = np.random.default_rng(11)
    log_weights = np.array([0.0, -0.3, -1.0, -1.0, -2.5, -4.0, -7.0]) + 3.0
    weights = np.exp(log_weights)
    total = np.zeros(len(weights))
    squares = np.zeros(len(weights))
    for _ in range(DRAWS):
        kept, new = resampler.resample(log_weights, 3, rng)
        assert len(kept) <= 3
        value = np.exp(new)
        total[kept] += value
        squares[kept] += value**2
    mean = total / DRAWS
    error = np.sqrt(np.maximum(squares / DRAWS - mean**2, 0) / DRAWS)
    # 7 particles at 5 standard errors: a false alarm once in 250,000 runs; the seed is fixed
    assert (np.abs(mean - weights) <= 5 * error + 1e-9).all()


def test_optimal_has_the_least_squared_error() -> None:
    log_weights = np.log(np.array([0.5, 0.2, 0.1, 0.08, 0.06, 0.04, 0.02]))
    errors = {}
    for name in ("multinomial", "stratified", "optimal"):
        rng = np.random.default_rng(5)
        resampler = registry.create("resamplers", name)
        loss = 0.0
        for _ in range(5_000):
            kept, new = resampler.resample(log_weights, 3, rng)
            value = np.zeros(len(log_weights))
            value[kept] = np.exp(new)
            loss += float(((value - np.exp(log_weights)) ** 2).sum())
        errors[name] = loss
    assert errors["optimal"] < errors["stratified"] < errors["multinomial"]
