"""One run: its row is what the library gives, its trace is the way there."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import (
    Clusterer,
    Ending,
    Fragment,
    Interrupted,
    ModelSpec,
    OnStep,
    Posterior,
    Progress,
    Rounds,
)
from kbforge.errors import BadRecord
from kbforge.evaluation.scores import compare
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge_lab.bench.perform import Outcome, perform
from kbforge_lab.suites.plan import Method, Model
from kbforge_plugins.clusterers.sequential import Smc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.lab.bench.toys import GREEDY, SPLIT, run
from tests.registry.distributions import Distribution, forget


@pytest.mark.parametrize(
    "method",
    [
        GREEDY,
        SPLIT,
        replace(SPLIT, name="SMC", clusterer="smc"),
        replace(SPLIT, surrogate=True, max_evals=2),
        replace(SPLIT, options={"weights": "marginal"}),
    ],
)
def test_the_row_is_that_of_the_clustering(method):
    job = run(method, shuffle=3)
    fragments = job.fragments()
    options = {"likelihood": {"b": 1.0}, "clusterer": method.options}
    choices = RunOptions(
        clusterer=method.clusterer,
        likelihood="gaussian",
        surrogate="gaussian" if method.surrogate else None,
        particles=method.particles,
        max_evals=method.max_evals,
        alpha=2.0,
        options=options,
    )
    posterior = cluster(fragments, choices).posterior
    scores = compare(posterior.labels(), [fragment.label for fragment in fragments])
    row = perform(job).row
    assert row.log_posterior == posterior.log_posterior
    assert row.f1 == scores.bcubed_f1_item_mean
    assert (row.precision, row.recall) == (scores.bcubed_precision, scores.bcubed_recall)
    assert (row.entities, row.gold_entities) == (scores.clusters, 5)
    assert row.subproblems == len(posterior.subproblems)
    assert row.model_evaluations == posterior.model_evaluations
    assert (row.fragments, row.of, row.cut) == (40, 40, False)
    assert row.key == job.key
    assert row.seconds > 0
    assert row.cpu_seconds > 0


def test_what_the_surrogate_finds_alone_is_judged_by_the_likelihood():
    job = run(replace(SPLIT, surrogate=True, max_evals=0), surrogate=Model("gaussian", {"b": 30.0}))
    fragments, alpha = job.fragments(), 2.0
    choices = RunOptions(
        likelihood="gaussian", particles=10, alpha=alpha, options={"likelihood": {"b": 30.0}}
    )
    clusters = cluster(fragments, choices).posterior.clusters()
    assert len(clusters) > 1
    sets = [[fragments[i] for i in c] for c in clusters]
    prior = sum(math.log(alpha) + math.lgamma(len(c)) for c in clusters)
    row = perform(job).row
    assert row.entities == len(clusters)
    expected = prior + Gaussian(b=1.0).log_marginal(sets).sum()
    assert row.log_posterior == pytest.approx(expected, rel=1e-12)


class Bringing(Gaussian):
    """A likelihood that brings its surrogate."""

    surrogate = property(lambda self: Gaussian(b=30.0))


class Noting(Smc):
    """A clusterer that keeps the problems it was given."""

    problems: ClassVar[list[ModelSpec]] = []

    def cluster(self, fragments: Sequence[Fragment], spec: ModelSpec, *given: Any) -> Posterior:
        self.problems.append(spec)
        return super().cluster(fragments, spec, *given)


@pytest.fixture(autouse=True)
def announced(tmp_path, monkeypatch):
    """The registry knows the plugins of this module."""
    plugins = {
        "likelihoods": {"bringing": "Bringing"},
        "clusterers": {name.lower(): name for name in ("Noting", "Minding", "Ticking", "Wrong")},
    }
    entries = {
        f"kbforge.{kind}": {name: f"{__name__}:{it}" for name, it in found.items()}
        for kind, found in plugins.items()
    }
    Distribution("strangers", entry_points=entries).write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget(registry)
    yield
    monkeypatch.undo()
    forget(registry)


def test_a_surrogate_that_a_likelihood_brings_proposes_only_when_asked():
    method, bringing = replace(SPLIT, clusterer="noting"), Model("bringing", {"b": 1.0})
    perform(run(method, likelihood=bringing))
    perform(run(replace(method, surrogate=True), likelihood=bringing))
    asked = [(p.surrogate is None, p.max_evals) for p in Noting.problems]
    assert asked == [(True, None), (False, 10)]


def test_the_trace_holds_the_state_of_every_prefix():
    job = run()
    fragments = job.fragments()
    outcome = perform(job)
    assert [t.fragments for t in outcome.trace] == list(range(1, 41))
    seconds = [t.seconds for t in outcome.trace]
    assert seconds == sorted(seconds)
    for t in (outcome.trace[6], outcome.trace[25], outcome.trace[-1]):
        choices = RunOptions(
            likelihood="gaussian", particles=10, alpha=2.0, options={"likelihood": {"b": 1.0}}
        )
        posterior = cluster(fragments[: t.fragments], choices).posterior
        gold = [fragment.label for fragment in fragments[: t.fragments]]
        assert t.log_posterior == posterior.log_posterior
        assert t.f1 == compare(posterior.labels(), gold).bcubed_f1_item_mean
        assert t.subproblems == len(posterior.subproblems)
        assert t.log10_effective_particles == pytest.approx(posterior.log10_effective_particles)
    last, row = outcome.trace[-1], outcome.row
    assert (last.f1, last.log_posterior) == (row.f1, row.log_posterior)


def test_a_long_run_is_traced_at_about_fifty_points():
    fragments = tuple(replace(f, id=f"{f.id}-{k}") for k in range(10) for f in run().task.fragments)
    trace = perform(run(GREEDY, fragments=fragments)).trace
    assert 50 <= len(trace) <= 52
    assert trace[-1].fragments == 400


def test_a_run_over_its_budget_is_cut_and_scored_on_what_it_got_to():
    row = perform(run(seconds=1e-9)).row
    assert (row.cut, row.fragments, row.of, row.f1) == (True, 1, 40, 1.0)


class Minding(Clusterer):
    """A clusterer with a budget of its own, which it forgets."""

    told: ClassVar[list[float]] = []

    def __init__(self, budget: float = 600.0) -> None:
        Minding.told.append(budget)

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        inner: Clusterer = registry.create("clusterers", "greedy")
        return inner.cluster(fragments, spec, rng, on_step)


def test_a_clusterer_with_a_budget_is_told_and_stopped_only_when_it_forgets():
    minding = Method("Minding", "minding")
    assert not perform(run(minding, seconds=60.0)).row.cut
    assert not perform(run(replace(minding, options={"budget": 7.0}))).row.cut
    assert perform(run(minding, seconds=1e-9)).row.cut
    assert Minding.told == [60.0, 7.0, 1e-9]


class Clocks:
    """All clocks of a run, which only what is run moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        for name in ("perf_counter", "process_time", "monotonic"):
            monkeypatch.setattr(f"kbforge_lab.bench.perform.time.{name}", lambda: self.now)


class Ticking(Clusterer):
    """An offline clusterer whose rounds take a second each, and its posterior `looking`."""

    clocks: ClassVar[Clocks]

    def __init__(self, budget: float = 600.0, looking: float = 0.0, rounds: int = 0) -> None:
        self.looking, self.rounds = looking, rounds

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        found: Posterior = registry.create("clusterers", "greedy").cluster(fragments, spec, rng)

        def posterior() -> Posterior:
            self.clocks.now += self.looking
            return found

        n = len(fragments)
        assert on_step is not None
        with contextlib.suppress(Interrupted):
            for done in range(self.rounds):
                self.clocks.now += 1.0
                rounds = Rounds(done + 1, None, 1, 0.0)
                on_step(Progress(n, n, 1, 0.0, 0, posterior, rounds))
            return found
        return replace(found, ended=Ending.INTERRUPTED)


@pytest.fixture
def ticking(monkeypatch):
    """A run of so many rounds on clocks of its own."""
    Ticking.clocks = Clocks(monkeypatch)

    def ticked(rounds: int, seconds: float, looking: float = 0.0) -> Outcome:
        options = {"looking": looking, "rounds": rounds}
        return perform(run(Method("Ticking", "ticking", options), seconds=seconds))

    return ticked


def test_what_watching_takes_is_not_the_runs(ticking):
    outcome = ticking(30, 20.0, looking=25.0)
    assert Ticking.clocks.now > 50
    assert (outcome.row.seconds, outcome.row.cpu_seconds) == (30.0, 30.0)
    assert not outcome.row.cut


@pytest.mark.parametrize("looking", [0.0, 0.05, 0.5])
def test_an_offline_run_is_traced_further_and_further_apart(ticking, looking):
    """Each mark 15 % later than the one before, and watching takes an eleventh at the most."""
    marks = [t.seconds for t in ticking(500, 500.0, looking).trace]
    expected = [1.0]
    while (due := max(1.15 * expected[-1], expected[-1] + 10 * looking)) <= 500:
        expected.append(math.ceil(due - 1e-9))
    assert marks == pytest.approx(expected)
    assert marks[0] == 1.0
    assert len(marks) < 50


@pytest.mark.parametrize(("rounds", "cut"), [(39, False), (40, False), (41, True), (60, True)])
def test_a_clusterer_that_forgets_its_budget_has_twice_as_long(ticking, rounds, cut):
    row = ticking(rounds, 20.0).row
    assert row.cut == cut
    assert row.seconds == min(rounds, 41)


class Wrong(Clusterer):
    """A clusterer whose posterior has these figures."""

    figures: ClassVar[dict[str, Any]] = {}

    def cluster(self, *arguments: Any) -> Posterior:
        found: Posterior = registry.create("clusterers", "greedy").cluster(*arguments[:3])
        return replace(found, **self.figures)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"log_posterior": math.nan}, "log_posterior: expected a number or -inf, got nan"),
        ({"log_posterior": math.inf}, "log_posterior: expected a number or -inf, got inf"),
        ({"model_evaluations": -1}, "model_evaluations: expected a whole number of at least 0"),
        ({"model_evaluations": 0.5}, "model_evaluations: expected a whole number of at least 0"),
    ],
)
def test_figures_that_are_none_are_refused(wrong, says):
    """Kept, they would be read as something else, or stop the next bench."""
    Wrong.figures = wrong
    with pytest.raises(BadRecord, match=says):
        perform(run(Method("Wrong", "wrong")))
