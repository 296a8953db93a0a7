"""Empirical Bayes: the bound against the evidence, by enumeration of all partitions."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from kbforge.contracts import ModelSpec, Search
from kbforge.errors import KBForgeError, UsageError
from kbforge_lab.empirical_bayes import EmpiricalBayes, EvidenceBound, log_rising
from kbforge_plugins.clusterers.sequential import SplitSmc
from tests.calibrators.toys import Letters, draw, fragments, partitions

SEARCH = Search(-6.0, 8.0)


def by_evidence(data, particles=100, search=SEARCH, **options):
    spec, rng = ModelSpec(Letters(), 1.0), np.random.default_rng(0)
    return EmpiricalBayes(**options).calibrate(data, spec, SplitSmc(particles), search, rng)


def test_bad_use_is_one_sentence():
    with pytest.raises(UsageError, match="grid >= 1"):
        EmpiricalBayes(grid=0)
    with pytest.raises(KBForgeError, match="there are no fragments"):
        by_evidence([])


@cache
def joint_terms(names):
    """(number of clusters, log of the alpha-free part) of every partition."""
    data, model = fragments(names), Letters()
    out = []
    for partition in partitions(len(data)):
        scores = model.log_marginal([[data[i] for i in c] for c in partition])
        out.append((len(partition), float((gammaln([len(c) for c in partition]) + scores).sum())))
    return np.array(out).T


def log_evidence(data, log_alpha):
    """By enumeration of all partitions."""
    clusters, rest = joint_terms(tuple(f.names[0] for f in data))
    alpha = math.exp(log_alpha)
    return logsumexp(clusters * log_alpha + rest) + gammaln(alpha) - gammaln(alpha + len(data))


WORDS = fragments(["aaab", "aaba", "bbbb", "cdcd", "ccdd", "bb"])


def test_with_all_partitions_kept_the_objective_is_the_log_evidence():
    result = by_evidence(WORDS, particles=1000)
    for alpha, value in result.curve:
        assert value == pytest.approx(log_evidence(WORDS, math.log(alpha)), abs=1e-6)
    grid = np.linspace(SEARCH.low, SEARCH.high, 141)
    best = grid[np.argmax([log_evidence(WORDS, a) for a in grid])]
    assert math.log(result.alpha) == pytest.approx(best, abs=0.1)
    assert result.at_edge == ""


@pytest.mark.parametrize("particles", [1, 2, 5])
def test_with_few_particles_it_is_a_lower_bound_everywhere(particles):
    spec = ModelSpec(Letters(), alpha=1.0)
    clusterer = SplitSmc(particles=particles)
    bound = EvidenceBound(clusterer.cluster(WORDS, spec, np.random.default_rng(0)), 0.0)
    for log_alpha in np.linspace(-6, 8, 29):
        assert bound(log_alpha) <= log_evidence(WORDS, log_alpha) + 1e-9


@pytest.mark.slow
def test_it_recovers_alpha_of_a_dirichlet_process():
    rng = np.random.default_rng(3)
    alpha, tastes, sizes, names = 6.0, [], [], []
    for t in range(250):
        p = np.array([*sizes, alpha]) / (t + alpha)
        k = int(rng.choice(len(p), p=p))
        if k == len(sizes):
            sizes.append(0)
            tastes.append(rng.dirichlet(np.full(4, 0.2)))
        sizes[k] += 1
        names.append("".join(rng.choice(list("abcd"), size=40, p=tastes[k])))
    result = by_evidence(fragments(names), particles=20)
    assert result.at_edge == ""
    assert 2.0 < result.alpha < 18.0


def test_edges_of_the_evidence_are_reported():
    alike = fragments(["aaaa"] * 12)
    assert by_evidence(alike, search=Search(2.0, 8.0)).at_edge == "low"
    unlike = fragments(["a" * 9, "b" * 9, "c" * 9, "d" * 9])
    result = by_evidence(unlike, search=Search(-6.0, 0.0))
    assert result.at_edge == "high"
    assert result.alpha == pytest.approx(1.0, rel=0.05)


def test_more_rounds_are_never_worse():
    data = draw(8, 4, seed=2)
    few = by_evidence(data, particles=5, rounds=0)
    many = by_evidence(data, particles=5, rounds=10)
    assert many.objective >= few.objective


def test_normaliser_at_large_alpha():
    alpha = math.exp(20.0)
    exact = -sum(math.log(alpha + t) for t in range(50))
    assert log_rising(20.0, 50) == pytest.approx(exact, rel=1e-12)
    assert log_rising(math.log(1e6) - 1e-9, 50) == pytest.approx(
        log_rising(math.log(1e6) + 1e-9, 50), rel=1e-9
    )
