"""Shards, their router, and runs on workers that are lost: the bits of one session."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.pages import posterior_of
from kbforge.clustering.propose import Rules
from kbforge.clustering.session import SmcSession
from kbforge.clustering.sharding.conductor import Pace, cluster_on_workers
from kbforge.clustering.sharding.router import KeyCounts, Router
from kbforge.clustering.sharding.shard import Shard, ShardReport, require_shardable
from kbforge.clustering.state import DirichletProcess
from kbforge.contracts import (
    ConjugateLikelihood,
    Constraints,
    Ending,
    Fragment,
    Interrupted,
    LiveClusters,
    Posterior,
    Problem,
    Progress,
)
from kbforge.errors import KBForgeError, LikelihoodError, UsageError
from kbforge.testing import BlackBox
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from kbforge_plugins.likelihoods.names import Names
from kbforge_plugins.resamplers import Greedy, Multinomial
from tests.clustering.crews import HereExecutor
from tests.clustering.test_candidates import Keys
from tests.clustering.toys import Chain, normal
from tests.people import people
from tests.profile import examples

RULES = Rules(6, Greedy(), splits=True)


def of_people(entities: int, seed: int) -> tuple[list[Fragment], Problem]:
    fragments = people(entities, seed)
    likelihood = Attributes()
    likelihood.fit(fragments)
    return fragments, Problem(likelihood, 50.0, index=likelihood.index)


def local(problem: Problem, fragments: Sequence[Fragment], rules: Rules = RULES) -> Posterior:
    session = SmcSession(problem, rules, np.random.default_rng(0))
    session.add(fragments)
    return session.posterior()


def sharded(
    problem: Problem,
    rules: Rules,
    fragments: Sequence[Fragment],
    shards: int,
    ahead: int,
    rng: random.Random | None = None,
) -> tuple[Posterior, KeyCounts]:
    """A run on shards that report late; now and then one goes on from what it had saved."""
    index = problem.index
    assert index is not None
    router = Router(shards, index.families)
    held = [Shard(problem, rules, fragments[0]) for _ in range(shards)]
    waiting: list[ShardReport] = []
    for x in fragments:
        while len(waiting) > ahead:
            router.hear(waiting.pop(0))
        route = router.route(index.keys(x))
        for source, given_away in route.moves:
            held[route.shard].take(held[source].give(given_away))
        waiting.append(held[route.shard].add(route.fragment, x, route.closed))
        if rng is not None and rng.random() < 0.1:
            which = rng.randrange(shards)
            saved = held[which].save()
            known = {number: fragments[number] for number in saved.numbers()}
            held[which] = Shard(problem, rules, fragments[0], saved, known)
    assert router.n_pending == len(waiting) <= ahead + 1
    pages = sorted((page for shard in held for page in shard.pages()), key=lambda page: page.name)
    evaluations = sum(shard.evaluations for shard in held)
    prior = DirichletProcess(problem.alpha)
    return posterior_of(pages, prior, len(fragments), evaluations), router.counts


@examples(150)
@given(
    keys=st.lists(st.lists(st.integers(-3, 9), unique=True, max_size=4), min_size=1, max_size=45),
    spread=st.integers(0, 3),
    families=st.integers(1, 4),
    shared=st.integers(1, 3),
    compared=st.integers(0, 3),
    shards=st.integers(1, 4),
    ahead=st.sampled_from([0, 1, 3, 10, 100]),
    particles=st.sampled_from([1, 2, 6]),
    weights=st.sampled_from(["target", "marginal"]),
    seed=st.integers(0, 1000),
)
def test_any_stream(
    keys: list[list[int]],
    spread: int,
    families: int,
    shared: int,
    compared: int,
    shards: int,
    ahead: int,
    particles: int,
    weights: str,
    seed: int,
) -> None:
    """Keys that close, merges, splits, families that die: what is random is how it is cut."""
    fragments = [
        Fragment(f"f{i}", {"key": tuple(map(str, held))} if held else {}, (float(i * spread % 7),))
        for i, held in enumerate(keys)
    ]
    index = Keys(families=families, shared=shared)
    index.compared = compared
    problem = Problem(Chain(normal(2.0, 3.0)), 0.5, index=index)
    rules = Rules(particles, Greedy(), splits=True, weights=weights)  # type: ignore[arg-type]
    posterior, counts = sharded(problem, rules, fragments, shards, ahead, random.Random(seed))
    assert posterior == local(problem, fragments, rules)
    assert sum(counts.fragments) == len(fragments)
    assert counts.moves == 0 or shards > 1


@pytest.mark.parametrize("ahead", [0, 2, 6])
def test_keys_that_close_while_fragments_are_pending(ahead: int) -> None:
    """A fragment whose open keys close before its turn is compared by those closed before."""
    rules = Rules(4, Greedy(), splits=True)
    for seed in range(60):
        rng = random.Random(seed)
        fragments = [
            Fragment(
                f"f{i}",
                {"key": tuple(map(str, rng.sample(range(6), 2)))},
                (40.0 * rng.randrange(5),),
            )
            for i in range(30)
        ]
        index = Keys(families=rng.randint(1, 2))
        problem = Problem(Chain(normal(2.0, 90.0)), 0.5, index=index)
        posterior, _ = sharded(problem, rules, fragments, 3, ahead)
        assert posterior == local(problem, fragments, rules)


@pytest.mark.parametrize("model", [Attributes, Names], ids=lambda model: str(model.__name__))
@pytest.mark.parametrize("shards", [2, 3])
def test_records_of_people(model: type[ConjugateLikelihood], shards: int) -> None:
    fragments = people(150, 3)
    likelihood = model()
    likelihood.fit(fragments)
    problem = Problem(likelihood, 50.0, index=likelihood.index)
    rules = Rules(100, Greedy(), splits=True)
    posterior, counts = sharded(problem, rules, fragments, shards, 16, random.Random(1))
    assert posterior == local(problem, fragments, rules)
    assert min(counts.fragments) > 0
    assert (counts.moves > 0) == (model is Attributes)
    assert counts.messages == len(fragments) + counts.moves


@pytest.mark.parametrize("surrogate", [False, True])
def test_a_black_box(surrogate: bool) -> None:
    """Evaluations are left out: a set that went with its fragments may be asked for again."""
    fragments, whole = of_people(40, 5)
    likelihood: Any = whole.likelihood
    problem = Problem(
        BlackBox(likelihood), 50.0, likelihood if surrogate else None, index=whole.index
    )
    rules = Rules(10, Greedy(), splits=True)
    one, _ = sharded(problem, rules, fragments, 3, 8, random.Random(1))
    other = local(problem, fragments, rules)
    assert one.subproblems == other.subproblems
    assert one.log_posterior == other.log_posterior


def test_what_cannot_be_sharded_is_refused() -> None:
    chain = Chain(normal())
    problem = Problem(chain, 1.0, index=Keys())
    rules = Rules(3, Greedy(), splits=True)
    require_shardable(problem, rules)
    for bad, how, said in (
        (problem, Rules(3, Greedy(), splits=False), "plain smc"),
        (
            problem,
            Rules(3, Multinomial(), splits=True, weights="marginal"),
            "random numbers",
        ),
        (Problem(chain, 1.0), rules, "--index"),
        (Problem(chain, 1.0, index=Keys(), constraints=Constraints((), "x")), rules, "--link"),
    ):
        with pytest.raises(UsageError, match=said):
            require_shardable(bad, how)
    with pytest.raises(UsageError, match="workers: expected at least 1, got 0"):
        Router(0, 8)


@pytest.mark.slow
@examples(40)
@given(
    seed=st.integers(0, 10**6),
    workers=st.integers(1, 4),
    ahead=st.sampled_from([1, 5, 20]),
    letter=st.sampled_from([1, 3, 50]),
    save=st.sampled_from([3, 20, 10**6]),
    deadly=st.sampled_from([0.0, 0.01, 0.1]),
)
def test_losses_change_nothing(
    seed: int, workers: int, ahead: int, letter: int, save: int, deadly: float
) -> None:
    fragments, problem = of_people(25, seed)
    executor = HereExecutor(seed, deadly, 9)
    pace = Pace(ahead, letter, save)
    assert cluster_on_workers(executor, workers, RULES, fragments, problem, pace=pace) == local(
        problem, fragments
    )
    assert executor.crew is not None
    assert executor.crew.closed


@pytest.mark.slow
@pytest.mark.parametrize(("save", "deadly", "least"), [(10, 0.06, 8), (10**6, 0.02, 3)])
def test_many_losses(save: int, deadly: float, least: int) -> None:
    """Enough of them for what was saved, sent and handed over to be needed."""
    fragments, problem = of_people(120, 1)
    executor = HereExecutor(3, deadly, 30)
    found = cluster_on_workers(executor, 3, RULES, fragments, problem, pace=Pace(10, 4, save))
    assert found == local(problem, fragments)
    assert executor.crew is not None
    assert executor.crew.kills >= least


def test_workers_that_are_lost_again_and_again_end_the_run() -> None:
    fragments, problem = of_people(20, 1)
    executor = HereExecutor(3, 1.0, 10**6)
    with pytest.raises(KBForgeError, match="without an answer between"):
        cluster_on_workers(executor, 2, RULES, fragments, problem)
    assert executor.crew is not None
    assert executor.crew.closed


class Refusing(Chain):
    """Fails on the point 13."""

    def live_clusters(self) -> LiveClusters:  # type: ignore[override]
        table = super().live_clusters()
        inner = table.log_predictive_new

        def log_predictive_new(x: tuple[float, ...]) -> float:
            return float("nan") if x == (13.0,) else inner(x)

        table.log_predictive_new = log_predictive_new  # type: ignore[method-assign]
        return table


@pytest.mark.parametrize("bad", [(0,), (7,), (20, 7), (39,), (30, 31, 32)])
@pytest.mark.parametrize("letter", [1, 4, 100])
def test_the_first_fragment_that_is_refused_is_named(bad: tuple[int, ...], letter: int) -> None:
    fragments = [
        Fragment(
            f"f{i}",
            {"key": (str(i % 7), str(i // 3))},
            (13.0,) if i in bad else (float(i % 5),),
        )
        for i in range(40)
    ]
    problem = Problem(Refusing(normal()), 0.5, index=Keys(families=8))
    with pytest.raises(LikelihoodError) as one:
        local(problem, fragments)
    with pytest.raises(LikelihoodError) as other:
        cluster_on_workers(HereExecutor(), 3, RULES, fragments, problem, pace=Pace(20, letter, 5))
    assert str(one.value) == str(other.value)
    assert f'"f{min(bad)}"' in str(one.value)


def test_an_interrupt_leaves_a_prefix() -> None:
    fragments, problem = of_people(120, 2)
    told: list[Progress] = []

    def on_step(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 3:
            raise Interrupted

    found = cluster_on_workers(HereExecutor(), 2, RULES, fragments, problem, on_step, Pace(20, 8))
    assert found.ended is Ending.INTERRUPTED
    assert found.n_fragments == told[-1].fragments < len(fragments)
    assert found.subproblems == local(problem, fragments[: found.n_fragments]).subproblems
    assert [progress.total for progress in told] == [len(fragments)] * 3
    assert 0 < told[0].subproblems < told[-1].subproblems
    assert 0 < told[0].model_evaluations < told[-1].model_evaluations
