"""A run on workers, some of which are lost: the posterior of one session, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.rules import Rules
from kbforge.clustering.session import SmcSession
from kbforge.clustering.sharding.conductor import Pace, cluster_on_workers
from kbforge.contracts import (
    Ending,
    Fragment,
    Interrupted,
    LiveClusters,
    Posterior,
    Problem,
    Progress,
)
from kbforge.errors import KBForgeError, LikelihoodError
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from kbforge_plugins.resamplers import Greedy
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
