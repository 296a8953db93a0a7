"""Plan: it only reads, whatever comes of it, and says which fragment it could not place."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.clustering.core import Core
from kbforge.clustering.rules import Rules
from kbforge.contracts import FloatArray, IntArray, Problem
from kbforge.errors import LikelihoodError
from kbforge_plugins.clusterers.sequential import GreedyClusterer, Smc, SplitSmc
from kbforge_plugins.resamplers import Greedy as GreedyResampler
from kbforge_plugins.resamplers import Multinomial
from tests.clustering.both_engines import ALPHA, SEEDS, after, bridging_stream, consider
from tests.clustering.contents import contents
from tests.clustering.toys import POINTS, BlackBox, Chain, Rule, fragments_of, normal

CLUSTERERS = [GreedyClusterer, Smc, SplitSmc]
BRIDGE = 12  # where the points of a bridging stream begin that lie between its groups
RULES = {
    "greedy": Rules(1, GreedyResampler(), splits=True),
    "smc": Rules(6, GreedyResampler(), splits=False),
    "split-smc": Rules(6, GreedyResampler(), splits=True),
    "multinomial": Rules(6, Multinomial(), splits=True, weights="marginal"),
    "sampled": Rules(6, GreedyResampler(), splits=True, weights="marginal", sampled_merges=True),
}
PROBLEMS = {
    "conjugate": lambda: Problem(Chain(normal(1.0, 6.0)), ALPHA),
    "black box": lambda: Problem(BlackBox(normal(1.0, 6.0)), ALPHA),
    "surrogate": lambda: Problem(BlackBox(normal(1.0, 6.0)), ALPHA, Chain(normal(1.5, 8.0)), 6),
}


def reseeded(core: Core, seed: int) -> np.random.Generator:
    """Other random numbers."""
    core.rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    return core.rng


@pytest.mark.parametrize("stage", PROBLEMS)
@pytest.mark.parametrize("rules", RULES)
def test_a_plan_only_reads(rules: str, stage: str) -> None:
    """State and model are as before; asked again with the same random numbers it says the same."""
    merged = opened = 0
    for seed in SEEDS:
        items = fragments_of(bridging_stream(seed))
        for n in (0, 1, 5, BRIDGE, BRIDGE + 1):
            core = after(items[:n], PROBLEMS[stage](), RULES[rules])
            rng = reseeded(core, seed)
            before = contents(core)
            drawn = rng.bit_generator.state
            plan = consider(core, items[n])
            rng.bit_generator.state = drawn
            assert contents(core) == before
            again = consider(core, items[n])
            assert contents(again) == contents(plan)
            assert plan.fragment == n
            merged += len(plan.replaced) > 1
            opened += not plan.replaced
    assert opened >= len(SEEDS)
    assert (merged > 0) == (RULES[rules].splits and RULES[rules].particles > 1)


class Failing(Multinomial):
    """Draws, and then fails."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error, self.drew = error, False

    def resample(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        before = contents(rng)
        super().resample(log_weights, size, rng)
        rng.random()
        self.drew = contents(rng) != before
        raise self.error


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt()])
@pytest.mark.parametrize("splits", [True, False])
def test_what_a_failing_resampler_drew_is_given_back(error: BaseException, splits: bool) -> None:
    problem = PROBLEMS["conjugate"]()
    items = fragments_of(bridging_stream(0))
    rules = Rules(6, Multinomial(), splits=splits, weights="marginal")
    core, failing = after(items[:BRIDGE], problem, rules), Failing(error)
    reseeded(core, 11)
    core.run._rules = Rules(6, failing, splits=splits, weights="marginal")
    before = contents(core)
    with pytest.raises(type(error)):
        consider(core, items[BRIDGE])
    assert failing.drew
    assert contents(core) == before


def test_a_failing_model_leaves_the_random_numbers_alone() -> None:
    *items, x = fragments_of(POINTS)
    problem = Problem(Rule(lambda ids: np.nan if ids >= {"f4", "f2"} else 0.0), 1.0)
    rules = RULES["multinomial"]
    core = after(items, problem, rules)
    before = contents(core)
    with pytest.raises(LikelihoodError):
        consider(core, x)
    assert contents(core) == before


def test_a_greedy_step_draws_nothing_and_a_stochastic_one_does() -> None:
    items = fragments_of(bridging_stream(0))
    for name, draws in {"split-smc": False, "multinomial": True}.items():
        core = after(items[:BRIDGE], PROBLEMS["conjugate"](), RULES[name])
        before = contents(core.rng)
        consider(core, items[BRIDGE])
        assert (contents(core.rng) != before) == draws


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
