"""What a step asks of a likelihood, and refuses of it, through sessions and clusterers."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.clustering.rules import Rules, multinomial
from kbforge.clustering.session import SmcSession
from kbforge.contracts import FloatArray, Fragment, IntArray, ModelSpec
from kbforge.errors import LikelihoodError, UsageError
from kbforge_plugins.clusterers.sequential import GreedyClusterer, Smc, SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.contents import contents
from tests.clustering.test_failures import RULES
from tests.clustering.toys import (
    ALPHA,
    POINTS,
    BlackBox,
    Chain,
    Rule,
    bridging_stream,
    fragments_of,
    normal,
    opened,
)

CLUSTERERS = [GreedyClusterer, Smc, SplitSmc]
PREDICTIVE = normal(1.0, 6.0)
BRIDGE = 12  # where the points of a bridging stream begin that lie between its groups
PROBLEMS = {
    "conjugate": lambda: ModelSpec(Chain(PREDICTIVE), ALPHA),
    "black box": lambda: ModelSpec(BlackBox(PREDICTIVE), ALPHA),
    "surrogate": lambda: ModelSpec(BlackBox(PREDICTIVE), ALPHA, Chain(normal(1.5, 8.0)), 6),
}


class Failing:
    """A resampler that draws, and then fails where it is told to."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.armed, self.drew = error, False, False
        self.__name__ = "multinomial"

    def __call__(
        self, log_weights: FloatArray, size: int, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        before = contents(rng)
        found = multinomial(log_weights, size, rng)
        if self.armed:
            rng.random()
            self.drew = contents(rng) != before
            raise self.error
        return found


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt()])
@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.parametrize("stage", PROBLEMS)
def test_what_a_failing_resampler_drew_is_given_back(
    stage: str, error: BaseException, splits: bool
) -> None:
    items, failing = fragments_of(bridging_stream(0)), Failing(error)
    rules = Rules(6, failing, splits=splits, weights="marginal")
    session = SmcSession(PROBLEMS[stage](), rules, np.random.default_rng(11))
    session.add(items[:BRIDGE])
    before, failing.armed = contents(session.snapshot()), True
    with pytest.raises(type(error)):
        session.add(items[BRIDGE:])
    assert failing.drew
    assert contents(session.snapshot()) == before
    failing.armed = False
    session.add(items[BRIDGE:])
    whole = SmcSession(PROBLEMS[stage](), rules, np.random.default_rng(11))
    whole.add(items)
    assert session.posterior() == whole.posterior()


def test_a_failing_model_leaves_the_random_numbers_alone() -> None:
    *items, x = fragments_of(POINTS)
    spec = ModelSpec(Rule(lambda ids: np.nan if ids >= {"f4", "f2"} else 0.0), 1.0)
    session = SmcSession(spec, RULES["multinomial"], np.random.default_rng(0))
    session.add(items)
    before = contents(session.snapshot())
    with pytest.raises(LikelihoodError):
        session.add([x])
    assert contents(session.snapshot()) == before


def test_a_greedy_step_draws_nothing_and_a_stochastic_one_does() -> None:
    items = fragments_of(bridging_stream(0))
    for name, draws in {"split-smc": False, "multinomial": True}.items():
        rng = np.random.default_rng(0)
        SmcSession(PROBLEMS["conjugate"](), RULES[name], rng).add(items)
        assert (contents(rng) != contents(np.random.default_rng(0))) == draws


def run(clusterer, likelihood, alpha: float = 1.0):  # type: ignore[no-untyped-def]
    return clusterer().cluster(
        fragments_of(POINTS), ModelSpec(likelihood, alpha), np.random.default_rng(0)
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
def test_what_is_impossible_is_not_found(clusterer) -> None:  # type: ignore[no-untyped-def]
    no_joins = Rule(lambda ids: -np.inf if len(ids) > 1 else 0.0)
    assert sorted(run(clusterer, no_joins).clusters()) == [(0,), (1,), (2,), (3,), (4,)]
    no_singletons = Rule(lambda ids: -np.inf if len(ids) == 1 and ids != {"f0"} else 0.0)
    assert run(clusterer, no_singletons).clusters() == [(0, 1, 2, 3, 4)]


def test_sets_asked_for_are_counted_when_the_fragment_is_taken_in() -> None:
    likelihood = BlackBox(PREDICTIVE)
    session = opened(ModelSpec(likelihood, ALPHA), 4)
    for fragment in fragments_of(bridging_stream(0)[:14]):
        (step,) = session.add([fragment])
        assert step.model_evaluations == session.posterior().model_evaluations
        assert step.model_evaluations == sum(likelihood.asked)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_the_fragment_alone_must_have_a_probability(bad: float) -> None:
    session = opened(ModelSpec(Chain(lambda members, x: bad), 1.0), 5)
    with pytest.raises(LikelihoodError, match="the fragment alone is"):
        session.add([Fragment("x", {}, (0.0,))])


def test_a_probability_of_nought_is_one() -> None:
    session = opened(ModelSpec(Chain(lambda members, x: -np.inf), 1.0), 5)
    with pytest.raises(LikelihoodError, match="no finite assignment"):
        session.add([Fragment("x", {}, (0.0,))])


def test_each_distinct_content_is_scored_once() -> None:
    likelihood = BlackBox(normal())
    fragments = fragments_of([(1.0,)] * 30)
    posterior = SplitSmc(particles=5).cluster(
        fragments, ModelSpec(likelihood, 0.1), np.random.default_rng(0)
    )
    # sets of equal fragments differ only in size: 1..30
    assert posterior.model_evaluations == sum(likelihood.asked) == 30


def test_max_evals_zero_clusters_by_the_surrogate_alone() -> None:
    never = Rule(lambda _: float("nan"))
    fragments = fragments_of(POINTS)
    by_surrogate = SplitSmc(particles=5).cluster(
        fragments, ModelSpec(never, 1.0, Chain(normal()), 0), np.random.default_rng(0)
    )
    alone = SplitSmc(particles=5).cluster(
        fragments, ModelSpec(Chain(normal()), 1.0), np.random.default_rng(0)
    )
    assert by_surrogate == alone


def test_max_evals_zero_without_a_surrogate_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="surrogate"):
        SplitSmc().cluster(
            fragments_of(POINTS), ModelSpec(Gaussian(), 1.0, None, 0), np.random.default_rng(0)
        )
