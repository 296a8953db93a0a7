"""Sequential importance resampling against enumeration, and what replicas keep count of."""

import itertools
import math

import numpy as np
import pytest

from kbforge.contracts import FloatArray, ModelSpec, Posterior
from kbforge.errors import LikelihoodError, UsageError
from kbforge.kb.consensus import similarity
from kbforge_lab.clusterers.sir import Replicas, Sir
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.test_exactness import exact_posterior, vectors
from tests.clustering.toys import Rule
from tests.lab.families import FAMILIES

N = 5


def together(posterior: Posterior) -> FloatArray:
    """How probable each pair is, shape [n, n]."""
    out = np.zeros((posterior.n_fragments,) * 2)
    for subproblem in posterior.subproblems:
        out[np.ix_(subproblem.fragments, subproblem.fragments)] = similarity(subproblem)
    return out


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_pairs_are_as_probable_as_by_enumeration(family, threshold):
    make_fragments, make_likelihood = FAMILIES[family]
    fragments = make_fragments(np.random.default_rng(5), N)
    likelihood = make_likelihood(fragments)
    exact = np.eye(N)
    for grouping, weight in exact_posterior(fragments, likelihood, 1.0).items():
        for group in grouping:
            for i, j in itertools.permutations(group, 2):
                exact[i, j] += math.exp(weight)
    sampler = Sir(replicas=20_000, threshold=threshold, particles=1000)
    found = sampler.cluster(fragments, ModelSpec(likelihood, 1.0), np.random.default_rng(1))
    assert np.abs(together(found) - exact).max() < 0.02


def test_the_most_probable_grouping_drawn_is_the_estimate():
    fragments = vectors(np.random.default_rng(8), 6)
    spec = ModelSpec(Gaussian(), 0.5)
    found = Sir(replicas=3000).cluster(fragments, spec, np.random.default_rng(0))
    exact = exact_posterior(fragments, spec.likelihood, spec.alpha)
    assert frozenset(found.clusters()) == max(exact, key=exact.__getitem__)


def test_clusters_are_shared_and_let_go():
    """A slot for each different cluster that is held, whatever replicas do."""
    rng = np.random.default_rng(3)
    replicas = Replicas(40, 50, 0.0, rng)
    live: set[int] = set()
    members: dict[int, tuple[int, ...]] = {}
    for x in range(40):
        assert set(replicas.held.tolist()) == live
        predictive = np.full(replicas.n_slots, np.nan)
        predictive[replicas.held] = rng.normal(size=len(live))
        parents, children, dropped = replicas.draw(predictive, 0.0)
        assert live.isdisjoint(children.tolist())
        grown = {
            child: (*members.get(parent, ()), x)
            for parent, child in zip(parents.tolist(), children.tolist(), strict=True)
        }
        members |= grown
        live |= grown.keys()
        live -= set(dropped.tolist())
        if x % 7 == 6:
            live -= set(replicas.resample().tolist())
            assert len(set(replicas.log_weights.tolist())) == 1
        assert len({members[slot] for slot in live}) == len(live)
    shown = {
        tuple(np.flatnonzero(row == first).tolist())
        for row in replicas.groupings()
        for first in set(row.tolist())
    }
    assert shown == {members[slot] for slot in live}


def test_weights_say_what_was_less_probable_than_it_seemed():
    """Of replicas that put the same fragments together, all weigh the same."""
    fragments = vectors(np.random.default_rng(2), N)
    replicas = Replicas(N, 400, 0.0, np.random.default_rng(0))
    likelihood = Gaussian()
    live = likelihood.live_clusters()
    for fragment in fragments:
        x = live.encode(fragment)
        told = live.log_predictive(x, replicas.n_slots), live.log_predictive_new(x)
        parents, children, dropped = replicas.draw(*told)
        live.extend(x, parents, children)
        live.release(dropped)
    exact = exact_posterior(fragments, likelihood, 1.0)
    by_target: dict[float, set[float]] = {}
    for target, row in zip(replicas.log_target.tolist(), replicas.groupings(), strict=True):
        grouping = frozenset(
            tuple(np.flatnonzero(row == first).tolist()) for first in set(row.tolist())
        )
        by_target.setdefault(round(target - exact[grouping], 6), set()).add(target)
    assert len(by_target) == 1  # the target is the unnormalised posterior


def test_what_no_replica_can_place_is_named():
    fragments = vectors(np.random.default_rng(2), 3)
    spec = ModelSpec(Rule(lambda ids: -math.inf if "f2" in ids else 0.0), 1.0)
    with pytest.raises(LikelihoodError, match='fragment "f2": the fragment has no finite'):
        Sir(replicas=10).cluster(fragments, spec, np.random.default_rng(0))


def test_replicas_that_come_to_nothing_weigh_nothing():
    """The second cannot be with the first, and the third cannot be apart from both."""

    def rule(ids: set[str]) -> float:
        return {1: 0.0, 3: 5.0}.get(len(ids), -math.inf) if ids != {"f2"} else -math.inf

    def either(ids: set[str]) -> float:
        return 0.0 if ids in ({"f0"}, {"f1"}, {"f0", "f1"}, {"f0", "f1", "f2"}) else -math.inf

    fragments = vectors(np.random.default_rng(2), 3)
    found = Sir(replicas=40, threshold=0).cluster(
        fragments, ModelSpec(Rule(either), 1.0), np.random.default_rng(0)
    )
    assert found.clusters() == [(0, 1, 2)]
    assert len(found.subproblems[0].particles) == 1
    with pytest.raises(LikelihoodError, match='"f2"'):
        Sir(replicas=40).cluster(fragments, ModelSpec(Rule(rule), 1.0), np.random.default_rng(0))


def test_a_likelihood_of_nan_is_refused():
    fragments = vectors(np.random.default_rng(2), 3)
    with pytest.raises(LikelihoodError, match='fragment "f0": the likelihood returned nan'):
        Sir(replicas=10).cluster(
            fragments, ModelSpec(Rule(lambda _: math.nan), 1.0), np.random.default_rng(0)
        )


@pytest.mark.parametrize("options", [{"replicas": 0}, {"threshold": 1.5}, {"budget": 0.0}])
def test_options_out_of_range(options):
    with pytest.raises(UsageError, match=f"{next(iter(options))}: expected"):
        Sir(**options)  # type: ignore[arg-type]
