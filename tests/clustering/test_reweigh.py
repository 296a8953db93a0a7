"""Reweigh: the model's own word counts, and what it has said it is not asked again."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.clustering.online.pool import Pool
from kbforge.clustering.online.reweigh import log_marginal_alone, reweigh
from kbforge.clustering.online.scoring import make_scorer
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.state import State
from kbforge.contracts import Fragment, Problem
from kbforge.errors import LikelihoodError, UsageError
from kbforge_plugins.clusterers.split_smc import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.resamplers.greedy import Greedy
from tests.clustering.both_engines import ALPHA, SEEDS, after, bridging_stream, run_both
from tests.clustering.oracle import SlowSmc, Target
from tests.clustering.toys import POINTS, BlackBox, Chain, Rule, fragments_of, normal


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
    state, scorer = after(items, problem, Rules(10, Greedy(), splits=False))
    reading = scorer.read(state, x)
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
    weighed = reweigh(state, scorer, reading, proposed)
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
    scorer = make_scorer(Problem(Chain(lambda members, x: bad), 1.0), None)
    reading = scorer.read(State(DirichletProcess(1.0)), Fragment("x", {}, (0.0,)))
    with pytest.raises(LikelihoodError, match="the fragment alone is"):
        log_marginal_alone(scorer, reading)


def test_a_probability_of_nought_is_one() -> None:
    scorer = make_scorer(Problem(Chain(lambda members, x: -np.inf), 1.0), None)
    reading = scorer.read(State(DirichletProcess(1.0)), Fragment("x", {}, (0.0,)))
    assert log_marginal_alone(scorer, reading) == -np.inf


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
