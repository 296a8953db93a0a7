"""What a budget, a callback and Ctrl-C can stop: every part of an offline run, also its start."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    Ending,
    FloatArray,
    Fragment,
    Interrupted,
    LiveClusters,
    ModelSpec,
    OnStep,
    Posterior,
    Progress,
)
from kbforge.testing import Categorical, LikelihoodContract
from kbforge_lab.batch import run as offline
from kbforge_lab.batch.grouping_model import RebuiltClusters, TableModel
from kbforge_lab.clusterers.offline import Agglomerative, Gibbs, Metropolis
from kbforge_lm.likelihoods.ngram import Bigram
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.toys import Chain, Point, fragments_of, normal

OFFLINE: list[Any] = [Gibbs, Metropolis, Agglomerative]
N = 30
POINTS: list[Point] = [(float(i % 9), 40.0 * (i % 4)) for i in range(N)]
# the first groups reach beyond the fragments that are scored at once
GROUPS: list[Cluster] = [(0, 2, 29), (1, 13), *((i,) for i in range(3, 29) if i != 13)]


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Slow:
    """A black box that takes a second for every set, and remembers how many there were."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._inner, self.sets = clock, Gaussian(), 0

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        self._clock.now += len(clusters)
        self.sets += len(clusters)
        return self._inner.log_marginal(clusters)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(offline.time, "monotonic", made)
    monkeypatch.setattr(offline, "_SETS_A_STEP", 8)
    return made


def run(clusterer: Any, likelihood: Any, on_step: OnStep | None = None) -> Posterior:
    spec, rng = ModelSpec(likelihood, 1.0), np.random.default_rng(0)
    found: Posterior = clusterer.cluster(fragments_of(POINTS), spec, rng, on_step)
    return found


def starts(tmp_path: Path) -> dict[str, tuple[str, list[Cluster]]]:
    """By name: the option, and the groups."""
    file = tmp_path / "found.jsonl"
    with open(file, "w") as out:
        for number, group in enumerate(GROUPS):
            entity = {"id": f"e{number}", "name": "x", "properties": {}, "confidence": 1.0}
            held = [f"f{i}" for i in group]
            out.write(json.dumps({**entity, "fragments": held, "subproblem": number}) + "\n")
    return {
        "singletons": ("singletons", [(i,) for i in range(N)]),
        "a file": (str(file), GROUPS),
    }


def within(groups: list[Cluster], n: int) -> list[Cluster]:
    """The groups of the first n fragments."""
    kept = (tuple(i for i in group if i < n) for group in groups)
    return sorted(group for group in kept if group)


def log_posterior(clusters: list[Cluster]) -> float:
    fragments = fragments_of(POINTS)
    marginals = Gaussian().log_marginal([[fragments[i] for i in c] for c in clusters])
    return float(marginals.sum()) + sum(math.lgamma(len(c)) for c in clusters)


@pytest.mark.parametrize("name", ["singletons", "a file"])
@pytest.mark.parametrize("clusterer", OFFLINE)
def test_a_budget_can_be_spent_within_the_start(clusterer, name, clock, tmp_path):
    start, groups = starts(tmp_path)[name]
    likelihood = Slow(clock)
    found = run(clusterer(start=start, budget=1.0), likelihood)
    assert 0 < found.n_fragments < N
    assert likelihood.sets <= 3 * found.n_fragments
    assert (found.ended, found.complete) == (Ending.INTERRUPTED, False)
    assert sorted(found.clusters()) == within(groups, found.n_fragments)
    assert found.log_posterior == pytest.approx(log_posterior(found.clusters()))


@pytest.mark.parametrize("name", ["singletons", "a file"])
@pytest.mark.parametrize("clusterer", OFFLINE)
def test_an_interrupt_within_the_start_keeps_the_prefix(clusterer, name, clock, tmp_path):
    start, groups = starts(tmp_path)[name]
    shown: list[tuple[int, Posterior]] = []

    def stop(progress: Progress) -> None:
        assert progress.posterior is not None
        shown.append((progress.fragments, progress.posterior()))
        if len(shown) == 2:
            raise Interrupted

    found = run(clusterer(start=start), Slow(clock), stop)
    assert 0 < shown[0][0] < shown[1][0] < N
    assert (found.n_fragments, found) == shown[1]
    assert found.ended is Ending.INTERRUPTED
    assert sorted(found.clusters()) == within(groups, found.n_fragments)


@pytest.mark.parametrize("clusterer", [Gibbs, Metropolis])
def test_a_budget_that_ends_a_sequential_start_is_no_whole_result(clusterer, clock):
    found = run(clusterer(start="sequential", budget=9.5 + N), Slow(clock))
    assert 0 < found.n_fragments < N
    assert (found.ended, found.complete) == (Ending.INTERRUPTED, False)
    assert sorted(i for c in found.clusters() for i in c) == list(range(found.n_fragments))


@pytest.mark.parametrize("clusterer", OFFLINE)
def test_a_start_that_is_watched_is_the_same(clusterer, clock, tmp_path):
    """Whoever watches, and whatever the clock says, a run scores the same and ends the same."""
    options = {} if clusterer is Agglomerative else {"sweeps": 1}
    for start, _ in starts(tmp_path).values():
        seen: list[int] = []
        likelihoods = [Slow(clock), Slow(Clock())]
        watched = run(
            clusterer(start=start, **options),
            likelihoods[0],
            lambda progress: seen.append(progress.fragments),  # noqa: B023
        )
        assert seen == sorted(seen)
        assert seen[0] < seen[-1] == N
        assert watched == run(clusterer(start=start, **options), likelihoods[1])
        assert likelihoods[0].sets == likelihoods[1].sets


@pytest.mark.parametrize("clusterer", OFFLINE)
def test_the_seconds_of_who_watches_are_not_the_budgets(clusterer, clock):
    options = {} if clusterer is Agglomerative else {"sweeps": 1}

    def slow(progress: Progress) -> None:
        clock.now += 1e6

    alone = Slow(clock)
    found = run(clusterer(**options), alone)
    begin, watched = clock.now, Slow(clock)
    budget = alone.sets + 1.0
    assert run(clusterer(budget=budget, **options), watched, slow) == found
    assert clock.now - begin > 1e6
    assert watched.sets == alone.sets
    short = run(clusterer(budget=0.9 * budget, **options), Slow(clock), slow)
    assert short.ended is Ending.BUDGET


# Fragments that leave: tables that can only grow do as well as those that can edit.


class Rebuilding(Categorical):
    """A likelihood of which every table can be edited, by rebuilding."""

    def live_clusters(self) -> Any:
        return RebuiltClusters(super().live_clusters())


class TestRebuiltClusters(LikelihoodContract):
    def make(self) -> Any:
        return Rebuilding()


def points(seed: int, n: int) -> list[Fragment]:
    rows = np.random.default_rng(seed).normal(scale=3, size=(n, 2))
    return [Fragment(f"f{i}", {}, tuple(row)) for i, row in enumerate(rows.tolist())]


class OnlyGrows(ConjugateLikelihood):
    """Another likelihood, of which fragments cannot leave the tables."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def log_marginal(self, clusters: Any) -> Any:
        return self._inner.log_marginal(clusters)

    def live_clusters(self) -> Any:
        table = self._inner.live_clusters()

        class Table(LiveClusters):
            encode, extend, release = table.encode, table.extend, table.release
            log_predictive = table.log_predictive
            log_predictive_new = table.log_predictive_new

        return Table()


@pytest.mark.parametrize("inner", [Gaussian(lam=0.1), Bigram()])
def test_a_sampler_does_the_same_with_either(inner):
    fragments = points(1, 25)
    if isinstance(inner, Bigram):
        names = ["ann lee", "anne lee", "bo ek", "bob ek", "cy"] * 5
        fragments = [Fragment(f"f{i}", {"name": (name,)}) for i, name in enumerate(names)]
    runs = [
        Gibbs(sweeps=15).cluster(fragments, ModelSpec(model, 1.0), np.random.default_rng(3))
        for model in (inner, OnlyGrows(inner))
    ]
    assert runs[0].subproblems == runs[1].subproblems


def test_clusters_are_made_anew_once_in_a_while(monkeypatch):
    """What bounds the drift of any table's moves is the same as no drift."""
    fragments, spec = points(2, 20), ModelSpec(Chain(normal(1.0, 4.0)), 1.0)

    def run() -> Any:
        return Gibbs(sweeps=30).cluster(fragments, spec, np.random.default_rng(5))

    never = run()
    monkeypatch.setattr(TableModel, "most_moves", 2)
    often = run()
    assert often.model_evaluations > never.model_evaluations
    assert often.subproblems == never.subproblems


def test_an_observation_is_found_by_identity():
    """Arrays have no equality to speak of."""
    table = RebuiltClusters(Gaussian().live_clusters())
    x = [table.encode(fragment) for fragment in points(3, 3)]
    table.extend(x[0], np.array([-1]), np.array([0]))
    table.add(x[1], 0)
    table.add(x[2], 0)
    before = table.log_predictive(x[0], 1).tolist()
    table.remove(x[1], 0)
    table.add(x[1], 0)
    assert table.log_predictive(x[0], 1).tolist() == pytest.approx(before, rel=1e-12)
