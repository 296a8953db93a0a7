"""Exchange under a link: what it finds is compared with all groupings of few fragments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from kbforge.clustering.revise import exchanged
from kbforge.clustering.session import SmcSession
from kbforge.contracts import Cluster, Constraints, Fragment, Interrupted, ModelSpec
from kbforge.evaluation.reliability import pair_probabilities
from kbforge_plugins.clusterers.sequential import GreedyClusterer, Smc, SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.invariants import check_session, mass

LINKED = Constraints(link="source")


def tables(seed: int, sizes: tuple[int, ...], spread: float = 1.5) -> list[Fragment]:
    """Points of tables, close enough that many could be partners, table after table."""
    rng = np.random.default_rng(seed)
    return [
        Fragment(f"{t}-{k}", {}, tuple(rng.normal(scale=spread, size=1)), source=f"{t}")
        for t, size in enumerate(sizes)
        for k in range(size)
    ]


def groupings(items: list[Fragment]) -> Iterator[tuple[Cluster, ...]]:
    """All that have at most one fragment of each table in a cluster."""

    def grown(at: int, clusters: tuple[Cluster, ...]) -> Iterator[tuple[Cluster, ...]]:
        if at == len(items):
            yield clusters
            return
        for k, cluster in enumerate(clusters):
            if all(items[i].source != items[at].source for i in cluster):
                yield from grown(at + 1, (*clusters[:k], (*cluster, at), *clusters[k + 1 :]))
        yield from grown(at + 1, (*clusters, (at,)))

    return grown(0, ())


def exact(items: list[Fragment], spec: ModelSpec) -> dict[tuple[Cluster, ...], float]:
    """Log target density of each grouping."""
    known: dict[Cluster, float] = {}

    def term(cluster: Cluster) -> float:
        if cluster not in known:
            (score,) = spec.likelihood.log_marginal([[items[i] for i in cluster]])
            known[cluster] = math.log(spec.alpha) + math.lgamma(len(cluster)) + float(score)
        return known[cluster]

    return {each: math.fsum(map(term, each)) for each in groupings(items)}


def spec(alpha: float = 0.5) -> ModelSpec:
    return ModelSpec(Gaussian(), alpha, constraints=LINKED)


CLUSTERERS = {"split": SplitSmc(), "few": SplitSmc(particles=2), "one": GreedyClusterer()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLUSTERERS)
@pytest.mark.parametrize("sizes", [(5, 5), (3, 3, 3)])
def test_the_best_grouping_is_found_nearly_always(name: str, sizes: tuple[int, ...]) -> None:
    found = 0
    for seed in range(20):
        items = tables(seed, sizes)
        posterior = CLUSTERERS[name].cluster(items, spec(), np.random.default_rng(0))
        best = max(exact(items, spec()).values())
        assert posterior.log_posterior <= best + 1e-6
        found += posterior.log_posterior > best - 1e-6
    assert found >= 18


def test_pair_probabilities_are_those_of_all_groupings() -> None:
    for seed in range(6):
        items = tables(seed, (4, 4), spread=3.0)
        posterior = SplitSmc(particles=400).cluster(items, spec(), np.random.default_rng(0))
        densities = exact(items, spec())
        total = np.logaddexp.reduce(list(densities.values()))
        together = np.zeros((8, 8))
        for clusters, density in densities.items():
            for cluster in clusters:
                for i, j in itertools.combinations(sorted(cluster), 2):
                    together[i, j] += math.exp(density - total)
        pairs = pair_probabilities([posterior])
        found = np.zeros((8, 8))
        found[pairs.first, pairs.second] = pairs.probability
        assert np.abs(found - together).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("clusterer", [*CLUSTERERS.values(), Smc(particles=5)])
def test_nothing_gets_worse_and_the_session_stays_whole(clusterer: SplitSmc) -> None:
    gained = 0.0
    for seed in range(8):
        session = SmcSession(spec(), clusterer.rules, np.random.default_rng(0))
        session.add(tables(seed, (8, 8, 4)))
        before = mass(session), session.posterior().log_posterior
        _, _, gain = exchanged(session._state, lambda: None)
        after = mass(session), session.posterior().log_posterior
        assert after[0] - before[0] == pytest.approx(gain, abs=1e-6)
        assert after[1] >= before[1] - 1e-9
        check_session(session)
        again = exchanged(session._state, lambda: None)[2]
        assert again >= 0
        gained += gain
    assert gained > 0


def test_a_later_and_better_partner_takes_the_place() -> None:
    points = {"a-0": 0.0, "a-1": 9.0, "b-0": 0.9, "b-1": 0.0}
    items = [Fragment(id, {}, (x,), source=id[0]) for id, x in points.items()]
    posterior = GreedyClusterer().cluster(items, spec(0.01), np.random.default_rng(0))
    assert sorted(posterior.clusters()) == [(0, 3), (1,), (2,)]


def test_an_end_in_between_leaves_what_was_there() -> None:
    def stop() -> None:
        raise Interrupted

    session = SplitSmc().open(spec(), np.random.default_rng(0))
    assert isinstance(session, SmcSession)
    session.add(tables(1, (8, 8)))
    before = session.posterior().subproblems
    with pytest.raises(Interrupted):
        exchanged(session._state, stop)
    assert session.posterior().subproblems == before
