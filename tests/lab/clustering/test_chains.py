"""Runs of Markov chains: stop rules, the posterior of the visits, impossible places, interrupts."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from kbforge.clustering.rules import DirichletProcess
from kbforge.clustering.scoring import ScoreCache
from kbforge.contracts import (
    Constraints,
    Decision,
    Ending,
    Interrupted,
    ModelSpec,
    OnStep,
    Posterior,
    Progress,
)
from kbforge.errors import LikelihoodError, UsageError
from kbforge_lab.batch import run as offline
from kbforge_lab.batch.agglomerate import agglomerate
from kbforge_lab.batch.chain import MarkovChain
from kbforge_lab.batch.grouping import NEW
from kbforge_lab.clusterers.offline import Agglomerative, Gibbs, Metropolis
from kbforge_plugins.clusterers.sequential import GreedyClusterer
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.exact import Target
from tests.clustering.test_exactness import represented
from tests.clustering.toys import POINTS, BlackBox, Chain, Point, Rule, fragments_of, normal
from tests.lab.clustering.chains import chain_of

SAMPLERS: list[Any] = [Gibbs, Metropolis]
OFFLINE: list[Any] = [*SAMPLERS, Agglomerative]
LOOSE: list[Point] = [(0.0,), (1.0,), (2.5,), (3.0,), (9.0,), (10.0,)]
# every fragment must leave where it starts
OUT = Rule(lambda ids: 1.7 if len(ids) in (2, 3) else -np.inf)


def run(
    clusterer: Any,
    likelihood: Any,
    points: list[Point] = POINTS,
    on_step: OnStep | None = None,
    seed: int = 0,
    alpha: float = 1.0,
    surrogate: Any = None,
) -> Posterior:
    spec, rng = ModelSpec(likelihood, alpha, surrogate), np.random.default_rng(seed)
    found: Posterior = clusterer.cluster(fragments_of(points), spec, rng, on_step)
    return found


@pytest.fixture
def ticking(monkeypatch):
    """A clock on which a second passes whenever a run looks at it; the next second."""
    ticks = itertools.count()
    monkeypatch.setattr(offline.time, "monotonic", lambda: float(next(ticks)))
    return ticks


def quick(clusterer: Any) -> Any:
    return clusterer() if clusterer is Agglomerative else clusterer(sweeps=30)


# -- impossible places --------------------------------------------------------------------------


@pytest.mark.parametrize("clusterer", OFFLINE)
@pytest.mark.parametrize(
    ("bad", "of", "says"),
    [
        (math.nan, {"f1", "f3"}, r'fragment "f[0-4]"'),
        (math.inf, {"f1", "f3"}, r'fragment "f[0-4]"'),
        (-math.inf, {"f3"}, r'fragment "f3".*no finite assignment'),
    ],
)
def test_scores_that_are_none_are_errors_that_name_a_fragment(clusterer, bad, of, says):
    with pytest.raises(LikelihoodError, match=says):
        run(quick(clusterer), Rule(lambda ids: bad if of <= ids else 0.0))


@pytest.mark.parametrize("clusterer", OFFLINE)
@pytest.mark.parametrize(
    ("possible", "sizes"),
    [((1,), [1] * 5), ((2, 3), [2, 3])],
    ids=["no joins", "a way out of an impossible start"],
)
def test_only_sets_of_some_sizes_are_possible(clusterer, possible, sizes):
    found = run(quick(clusterer), Rule(lambda ids: 0.0 if len(ids) in possible else -np.inf))
    assert sorted(map(len, found.clusters())) == sizes
    assert found.log_posterior == pytest.approx(sum(map(math.lgamma, sizes)))


@pytest.mark.parametrize("likelihood", [Gaussian(), BlackBox(normal(1.0, 4.0)), OUT])
@pytest.mark.parametrize("clusterer", OFFLINE)
def test_progress_tells_the_log_posterior(clusterer, likelihood):
    """Exactly, as soon as there is one, where the start was impossible."""
    told: list[tuple[float, float]] = []
    done: list[int] = []

    def on_step(progress: Progress) -> None:
        assert progress.posterior is not None
        done.append(progress.rounds.done)
        told.append((progress.rounds.log_posterior, progress.posterior().log_posterior))

    options = {} if clusterer is Agglomerative else {"sweeps": 9, "particles": 1}
    run(clusterer(**options), likelihood, LOOSE, on_step, alpha=3.0)
    assert clusterer is Agglomerative or done[-1] == 9
    told = [(rounds, found) for rounds, found in told if found > -np.inf]
    assert told
    assert [rounds for rounds, _ in told] == pytest.approx([found for _, found in told], abs=1e-9)


@pytest.mark.parametrize("clusterer", SAMPLERS)
def test_a_sequential_start_needs_no_possible_singletons_but_the_first(clusterer):
    likelihood = Rule(lambda ids: -np.inf if len(ids) == 1 and ids != {"f0"} else 0.0)
    found = run(clusterer(start="sequential", sweeps=1), likelihood)
    assert all(len(cluster) > 1 or cluster == (0,) for cluster in found.clusters())


@pytest.mark.parametrize("surrogate", [None, Chain(normal(1e-3, 16.0))])
def test_metropolis_ends_as_the_others_where_nothing_is_possible(surrogate):
    with pytest.raises(LikelihoodError, match=r'fragment "f0".*no finite assignment'):
        run(Metropolis(sweeps=9), Rule(lambda _: -np.inf), [(0.0,)], surrogate=surrogate)


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("clusterer", OFFLINE)
def test_out_of_time_before_there_is_a_possible_grouping(clusterer):
    """Only all of them together are possible, and time is up at once."""
    likelihood = Rule(lambda ids: 0.0 if len(ids) == len(POINTS) else -np.inf)
    found = run(clusterer(budget=0.5), likelihood)
    assert found.ended is Ending.INTERRUPTED
    assert found.log_posterior == -np.inf
    assert found.n_fragments == len(POINTS)


# -- where a chain starts -----------------------------------------------------------------------

GROUPS = [(0, 3), (1, 2, 5), (4,)]


@pytest.mark.parametrize("likelihood", [Gaussian(), Chain(normal(1.0, 4.0)), BlackBox(normal())])
@pytest.mark.parametrize("kernel", [Gibbs.make_kernel, Metropolis.make_kernel])
def test_a_chain_knows_what_it_starts_from(kernel, likelihood):
    fragments, spec = fragments_of(LOOSE), ModelSpec(likelihood, 0.5)
    chain, _ = chain_of(kernel, fragments, spec, start=GROUPS)
    prior, state = DirichletProcess(0.5), chain.grouping
    assert chain.best.tolist() == [0, 1, 1, 0, 4, 1]
    assert (chain.placed, chain.best_clusters) == (6, 3)
    for _ in range(20):
        now = [state.cluster(slot) for slot in state.slots()]
        sets = [[fragments[i] for i in cluster] for cluster in now]
        terms = prior.log_cluster(np.array([len(c) for c in now])) + likelihood.log_marginal(sets)
        assert chain.log_posterior == pytest.approx(terms.sum())
        list(chain.sweep())


@pytest.mark.parametrize("clusterer", [Gibbs(sweeps=12), Metropolis(sweeps=12)])
def test_the_best_grouping_is_the_best_of_all_that_were_visited(clusterer, monkeypatch):
    """However little better it is: here about a tenth of a nat, by the prior alone."""
    visited: list[float] = []
    keep = MarkovChain._keep_best
    chains: set[MarkovChain] = set()

    def keeping(self: MarkovChain) -> None:
        keep(self)
        chains.add(self)
        visited.append(self.log_posterior)
        assert self.best_log_posterior == pytest.approx(max(visited), abs=1e-5)

    monkeypatch.setattr(MarkovChain, "_keep_best", keeping)
    run(clusterer, Rule(lambda ids: 0.0), LOOSE[:2], alpha=0.9)
    (chain,) = chains
    assert max(visited) - min(visited) == pytest.approx(-math.log(0.9))
    assert chain.best.tolist() == [0, 0]


@pytest.mark.parametrize("kernel", [Gibbs.make_kernel, Metropolis.make_kernel])
def test_a_chain_goes_on_when_its_slots_are_numbered_anew(kernel):
    """Of 200 fragments by themselves few clusters are left; empty slots go, and moves go on."""
    rng, n = np.random.default_rng(3), 200
    centres = rng.normal(scale=30, size=12)[rng.integers(12, size=n)]
    fragments = fragments_of([(float(x),) for x in centres + rng.normal(size=n)])
    chain, _ = chain_of(kernel, fragments, ModelSpec(Gaussian(), 1.0, Gaussian(b=0.5)))
    state = chain.grouping
    before = state.n_slots
    for _ in range(5):
        list(chain.sweep())
        assert all(fragment in state.members[slot] for fragment, slot in enumerate(state.slot_of))
        now = [state.cluster(slot) for slot in state.slots()]
        assert sorted(i for cluster in now for i in cluster) == list(range(n))
        assert chain.log_posterior == pytest.approx(chain.log_terms(now).sum())
    assert state.n_slots < before


def test_metropolis_leaves_what_the_surrogate_rules_out():
    """Nothing ever proposes to come back, so that what is proposed there is accepted."""
    together = Chain(lambda members, _: -np.inf if members else 0.0)
    fragments, spec = fragments_of(LOOSE[:2]), ModelSpec(Rule(lambda _: 0.0), 0.5, together)
    chain, kernel = chain_of(Metropolis.make_kernel, fragments, spec, start=[(0, 1)])
    move = kernel.place(chain.grouping, 0, (0.5, 0.89))
    assert (move.fragments, move.place) == ((0,), NEW)
    assert move.gain == pytest.approx(math.log(0.5))


@pytest.mark.parametrize("likelihood", [Gaussian(), BlackBox(normal(1.0, 4.0))])
def test_merges_go_on_from_a_start(likelihood):
    """What is merged first does not matter where merging all is best by far."""
    fragments, spec = fragments_of(LOOSE[:4]), ModelSpec(likelihood, 1e-9)
    rng = np.random.default_rng(0)
    found = agglomerate(fragments, spec, [(0, 3), (1,), (2,)], rng)
    assert found.clusters() == [(0, 1, 2, 3)]
    alone = agglomerate(fragments, spec, [(i,) for i in range(4)], rng)
    assert found.log_posterior == pytest.approx(alone.log_posterior)


# -- when a chain stops -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clusterer", "ended"),
    [
        (Gibbs(sweeps=7), Ending.SWEEPS),
        (Metropolis(sweeps=7, patience=7), Ending.SWEEPS),
        (Gibbs(patience=20, sweeps=9_999), Ending.PATIENCE),
        (Metropolis(patience=20, sweeps=9_999), Ending.PATIENCE),
        (Agglomerative(), Ending.DONE),
        (Agglomerative(batch=5), Ending.DONE),
        (GreedyClusterer(), Ending.DONE),
    ],
)
def test_it_says_what_ended_it(clusterer, ended):
    assert run(clusterer, Gaussian(), LOOSE).ended is ended


@pytest.mark.parametrize("clusterer", SAMPLERS)
def test_it_stops_when_nothing_better_is_found_for_long(clusterer):
    seen: list[tuple[int, float]] = []

    def on_step(progress: Progress) -> None:
        seen.append((progress.rounds.done, progress.rounds.log_posterior))

    run(clusterer(patience=40), Gaussian(), LOOSE, on_step, seed=1)
    values = dict(seen)  # the last of each sweep
    best = max(values.values())
    found = min(sweep for sweep, value in values.items() if value == best)
    assert max(values) == max(found, 1) + 40 - (found == 0)
    assert list(values.values()) == sorted(values.values())


@pytest.mark.parametrize("clusterer", OFFLINE)
def test_it_stops_when_the_budget_is_spent(clusterer, ticking):
    found = run(clusterer(budget=9.0), Gaussian(), LOOSE)
    assert (found.ended, found.complete) == (Ending.BUDGET, True)
    assert next(ticking) < 16
    assert found.n_fragments == len(LOOSE)


@pytest.mark.parametrize(
    ("clusterer", "options"),
    [
        *((clusterer, ("particles", "patience", "sweeps", "budget")) for clusterer in SAMPLERS),
        (Agglomerative, ("batch", "budget")),
    ],
)
def test_options_out_of_range(clusterer, options):
    for option, value in itertools.product(options, (0, -1)):
        with pytest.raises(UsageError, match=f"{option}: expected a number above 0, got {value}"):
            clusterer(**{option: value})


# -- what a run shows and keeps -----------------------------------------------------------------


@pytest.mark.parametrize("clusterer", OFFLINE)
def test_an_interrupted_run_keeps_all_fragments_as_grouped_by_then(clusterer):
    shown: list[Posterior] = []

    def stop(progress: Progress) -> None:
        if progress.rounds is None:  # within a round, on a slow machine
            return
        assert progress.posterior is not None
        assert (progress.fragments, progress.total) == (len(LOOSE), len(LOOSE))
        shown.append(progress.posterior())
        if progress.rounds.done == 2:
            raise Interrupted

    found = run(clusterer(), Gaussian(), LOOSE, stop, seed=1)
    assert found == shown[-1]
    assert len(shown) == 2
    assert found.ended is Ending.INTERRUPTED
    assert found.n_fragments == len(LOOSE)


@pytest.mark.usefixtures("ticking")
def test_an_interrupt_within_a_sequential_start_keeps_the_prefix():
    def stop(progress: Progress) -> None:
        if progress.fragments == 3:
            raise Interrupted

    found = run(Gibbs(start="sequential"), Gaussian(), LOOSE, stop, seed=1)
    assert (found.n_fragments, found.complete) == (3, False)
    assert sorted(i for cluster in found.clusters() for i in cluster) == [0, 1, 2]


@pytest.mark.parametrize("clusterer", OFFLINE)
def test_no_fragments_are_no_clusters(clusterer):
    assert run(quick(clusterer), Gaussian(), []) == Posterior((), 0.0, 0, 0)


def test_metropolis_scores_one_or_two_sets_a_move():
    points = [tuple(p) for p in np.random.default_rng(2).normal(scale=4, size=(12, 1)).tolist()]
    likelihood = BlackBox(normal(1.0, 4.0))
    run(Metropolis(sweeps=20), likelihood, points, surrogate=Chain(normal(1.3, 5.0)))
    singletons, *moves = likelihood.asked
    assert singletons == len(points)
    assert set(moves) <= {1, 2}
    assert len(moves) <= 20 * len(points)


def test_metropolis_never_proposes_where_a_fragment_is():
    """A surrogate that is sure of what there is keeps no one from asking the model."""
    points = [(0.0,), (1.0,), (9.0,)]
    model, surrogate = BlackBox(normal(1.0, 16.0)), Chain(normal(1e-3, 16.0))
    found = run(Metropolis(sweeps=3), model, points, alpha=1e-2, surrogate=surrogate)
    assert sorted(map(tuple, found.clusters())) == [(0, 1), (2,)]


@pytest.mark.parametrize("clusterer", [Gibbs(sweeps=10), Agglomerative()])
def test_runs_share_a_cache_without_a_trace(clusterer):
    likelihood = BlackBox(normal(1.0, 4.0))
    cache = ScoreCache(likelihood)
    runs, asked = [], []
    for _ in range(2):
        runs.append(run(clusterer, cache, LOOSE))
        asked.append(sum(likelihood.asked))
    assert runs[0] == runs[1]
    assert asked[0] == asked[1] == runs[0].model_evaluations


# -- the posterior of the visits ----------------------------------------------------------------


def test_long_runs_represent_the_exact_posterior():
    target = Target(LOOSE[:4], normal(1.0, 3.0), 1.0)
    exact = target.exact(4)
    likelihood = Chain(normal(1.0, 3.0))
    clusterer = Gibbs(sweeps=8000, patience=None, particles=1000)
    got = represented(run(clusterer, likelihood, LOOSE[:4]))
    distance = 0.5 * sum(
        abs(math.exp(got.get(z, -math.inf)) - math.exp(w)) for z, w in exact.items()
    )
    assert distance < 0.02


@pytest.mark.parametrize("clusterer", [Gibbs(sweeps=2), Agglomerative()])
def test_batch_methods_refuse_constraints(clusterer):
    items = fragments_of([(0.0,), (1.0,)])
    for some in (Constraints((Decision(True, "f0", "f1"),)), Constraints((), "source")):
        spec = ModelSpec(Gaussian(), 1.0, constraints=some)
        with pytest.raises(UsageError, match="expected split-smc, smc or greedy"):
            clusterer.cluster(items, spec, np.random.default_rng(0))
