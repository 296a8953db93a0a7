"""The fast engine against the slow one, state for state after every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kbforge.clustering.propose import Rules
from kbforge.contracts import (
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    LiveClusters,
    Problem,
)
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from kbforge_plugins.resamplers import Greedy
from tests.clustering.both_engines import ALPHA, SEEDS, bridging_stream, run_both
from tests.clustering.oracle import SlowSmc, Target
from tests.clustering.test_exactness import attributes
from tests.clustering.toys import BlackBox, Chain, Point, Predictive, normal
from tests.people import people

PARTICLES = (1, 2, 3, 5, 10)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["target", "marginal"])
@pytest.mark.parametrize("sampled", [False, True])
def test_split_smc_equals_the_slow_engine(weights: str, sampled: bool) -> None:
    predictive = normal(spread=1.0, prior_spread=6.0)
    merges: set[int] = set()
    splittings = samplings = 0
    for particles in PARTICLES:
        for seed in SEEDS:
            values = bridging_stream(seed)
            slow = SlowSmc(
                Target(values, predictive, ALPHA),
                particles,
                sampled_merges=sampled,
                marginal_weights=weights == "marginal",
            )
            rules = Rules(
                particles,
                Greedy(),
                splits=True,
                weights=weights,  # type: ignore[arg-type]
                sampled_merges=sampled,
            )
            run_both(values, slow, Problem(Chain(predictive), ALPHA), rules)
            merges.update(slow.merges)
            splittings += slow.splittings
            samplings += slow.sampled
    # the streams did what they were built for
    assert {2, 3, 4} <= merges
    assert splittings > 10
    assert (samplings > 0) == sampled


@pytest.mark.parametrize("particles", PARTICLES)
def test_plain_smc_equals_the_slow_engine(particles: int) -> None:
    predictive = normal(spread=1.0, prior_spread=6.0)
    for seed in SEEDS:
        values = bridging_stream(seed)
        slow = SlowSmc(Target(values, predictive, ALPHA), particles, splits=False)
        rules = Rules(particles, Greedy(), splits=False)
        run_both(values, slow, Problem(Chain(predictive), ALPHA), rules)


@pytest.mark.parametrize("particles", [1, 4, 10])
def test_black_box_without_surrogate_equals_the_conjugate_engine(particles: int) -> None:
    predictive = normal(1.0, 6.0)
    for seed in SEEDS:
        values = bridging_stream(seed)
        slow = SlowSmc(Target(values, predictive, ALPHA), particles)
        problem = Problem(BlackBox(predictive), ALPHA)
        run_both(values, slow, problem, Rules(particles, Greedy(), splits=True))


class Records(ConjugateLikelihood):
    """The attribute likelihood and a point beside it.

    By attributes alone groupings tie in earnest, and rounding would put one or the other first.
    """

    def __init__(self, model: Attributes, point: Predictive) -> None:
        self._model, self._point = model, Chain(point)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return self._model.log_marginal(clusters) + self._point.log_marginal(clusters)

    def live_clusters(self) -> Any:
        tables = self._model.live_clusters(), self._point.live_clusters()

        class Table(LiveClusters):
            def encode(self, fragment: Fragment) -> Any:
                return [table.encode(fragment) for table in tables]

            def log_predictive(self, x: Any, slots: int) -> FloatArray:
                one, other = (t.log_predictive(y, slots) for t, y in zip(tables, x, strict=True))
                return np.asarray(one + other)

            def log_predictive_new(self, x: Any) -> float:
                return sum(t.log_predictive_new(y) for t, y in zip(tables, x, strict=True))

            def extend(self, x: Any, parents: IntArray, children: IntArray) -> None:
                for table, y in zip(tables, x, strict=True):
                    table.extend(y, parents, children)

            def release(self, slots: IntArray) -> None:
                for table in tables:
                    table.release(slots)

        return Table()


@pytest.mark.parametrize("particles", [1, 3, 10])
def test_the_attribute_likelihood_in_both_engines(particles: int) -> None:
    """The slow engine's point has the fragment's number, too; its clusters grow from nothing."""
    alpha, point = 1.0, normal(1.0, 2.0)
    subproblems, splittings = set(), 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        records = people(9, seed, error=0.4)[:18]
        fragments = [
            replace(record, vector=(float(x), float(i)))
            for i, (record, x) in enumerate(zip(records, rng.normal(size=18), strict=False))
        ]
        model = attributes(fragments)

        def beside(members: Sequence[Point], x: Point) -> float:
            return point([member[:1] for member in members], x[:1])

        def predictive(members: Sequence[Point], x: Point) -> float:
            table = model.live_clusters()  # noqa: B023
            *held, new = [table.encode(fragments[int(i)]) for _, i in (*members, x)]  # noqa: B023
            for k, one in enumerate(held):
                table.extend(one, np.array([k - 1]), np.array([k]))
            alone = table.log_predictive_new(new)
            gain = float(table.log_predictive(new, len(held))[-1]) if held else alone
            return gain + beside(members, x)

        values = [fragment.vector for fragment in fragments if fragment.vector]
        slow = SlowSmc(Target(values, predictive, alpha), particles)
        rules = Rules(particles, Greedy(), splits=True)
        run_both(values, slow, Problem(Records(model, beside), alpha), rules, fragments)
        subproblems.add(len(slow.subproblems))
        splittings += slow.splittings
    assert max(subproblems) > 1
    assert (splittings > 0) == (particles > 1)
