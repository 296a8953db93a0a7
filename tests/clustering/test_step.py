"""A step: planning only reads; what is written is the slow engine's next state."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kbforge.clustering.core import Core
from kbforge.clustering.propose import Rules
from kbforge.clustering.step import commit
from kbforge.clustering.tables import PythonTable
from kbforge.contracts import Fate, FloatArray, IntArray, Problem
from kbforge.errors import LikelihoodError
from kbforge_plugins.clusterers.sequential import GreedyClusterer, Smc, SplitSmc
from kbforge_plugins.resamplers import Greedy, Multinomial
from tests.clustering.both_engines import (
    ALPHA,
    SEEDS,
    add,
    after,
    bridging_stream,
    compare,
    consider,
    reference,
    state_of,
)
from tests.clustering.contents import contents
from tests.clustering.oracle import SlowSmc, Target
from tests.clustering.test_failures import RULES
from tests.clustering.toys import POINTS, BlackBox, Chain, ChainTable, Rule, fragments_of, normal

CLUSTERERS = [GreedyClusterer, Smc, SplitSmc]


BRIDGE = 12  # where the points of a bridging stream begin that lie between its groups


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


PREDICTIVE = normal(1.0, 6.0)


@pytest.mark.parametrize("particles", [1, 3, 10])
@pytest.mark.parametrize("splits", [True, False])
def test_what_is_written_is_the_slow_engines_step_and_is_told(splits: bool, particles: int) -> None:
    """Which subproblems were replaced and by which, found as those that the slow one renewed."""
    fates: set[Fate] = set()
    for seed in SEEDS:
        points = bridging_stream(seed)
        rules = Rules(particles, Greedy(), splits=splits)
        slow = SlowSmc(Target(points, PREDICTIVE, ALPHA), particles, splits=splits)
        core = reference(Problem(Chain(PREDICTIVE), ALPHA), rules)
        for x, fragment in enumerate(fragments_of(points)):
            old = dict(slow.subproblems)
            slow.step(x)
            info = add(core, fragment)
            compare(state_of(core), slow)
            new = slow.subproblems
            kept = {name for name in old if new.get(name) is old[name]}
            assert info.fragment == x
            assert info.before == tuple(sorted(set(old) - kept))
            assert info.after == tuple(sorted(set(new) - kept))
            assert info.fate == (Fate.OPENED, Fate.JOINED, Fate.MERGED)[min(len(info.before), 2)]
            assert info.subproblems == len(new)
            effective = sum(math.log10(len(particles)) for particles in new.values())
            assert info.log10_effective_particles == pytest.approx(effective, abs=1e-9)
            fates.add(info.fate)
    assert (Fate.MERGED in fates) == (splits and particles > 1)
    assert {Fate.OPENED, Fate.JOINED} <= fates


def test_the_table_holds_the_clusters_of_the_state_and_no_others() -> None:
    for seed in SEEDS:
        points = bridging_stream(seed)
        rules = Rules(4, Greedy(), splits=True)
        for n in (1, 12, 14, len(points)):
            problem = Problem(Chain(PREDICTIVE), ALPHA)
            core = after(fragments_of(points[:n]), problem, rules)
            state = state_of(core)
            assert isinstance(core.table, PythonTable)
            assert isinstance(core.table.live, ChainTable)
            target = Target(points, PREDICTIVE, ALPHA)
            live = np.flatnonzero(state.reach[: state.n_slots] > -np.inf).tolist()
            members = {slot: state.members(slot) for slot in live}
            assert core.table.live._members == {
                slot: [points[i] for i in group] for slot, group in members.items()
            }
            assert sorted([*live, *state.free]) == list(range(state.n_slots))
            for slot, group in members.items():
                assert state.score[slot] == pytest.approx(target.score(group))
                assert state.term[slot] == pytest.approx(target.log_posterior(frozenset({group})))
            assert core.held == fragments_of(points[:n])


def test_sets_asked_for_are_counted_when_the_fragment_is_taken_in() -> None:
    rules, items = Rules(4, Greedy(), splits=True), fragments_of(bridging_stream(0)[:14])
    likelihood = BlackBox(PREDICTIVE)
    core = reference(Problem(likelihood, ALPHA), rules)
    for fragment in items:
        counted = core.table.evaluations
        consider(core, fragment)
        assert core.table.evaluations == counted
        info = add(core, fragment)
        assert info.model_evaluations == core.table.evaluations == sum(likelihood.asked)


def test_a_plan_is_written_once() -> None:
    """It holds for the state that it was made of; a later one is left as it is."""
    rules, items = Rules(4, Greedy(), splits=True), fragments_of(bridging_stream(0)[:6])
    core = after(items[:-1], Problem(Chain(PREDICTIVE), ALPHA), rules)
    plan, state = consider(core, items[-1]), state_of(core)
    commit(state, plan)
    before = contents(state)
    with pytest.raises(AssertionError, match="the state it was made of"):
        commit(state, plan)
    assert contents(state) == before
