"""Subproblems in arrays are those that went in."""

from dataclasses import replace

import pytest
from hypothesis import given

from kbforge.contracts import Particle, Posterior, Subproblem
from kbforge.evaluation.reliability import cluster_probabilities, entity_probabilities
from tests.kb.posteriors import packed, posteriors

PLAIN = (
    Subproblem((0, 3), (Particle(-0.1, ((0, 3),)), Particle(-2.4, ((0,), (3,))))),
    Subproblem((1,), (Particle(0.0, ((1,),)),)),
    Subproblem(
        (2, 4, 5),
        (
            Particle(-0.7, ((2, 4), (5,))),
            Particle(-1.4, ((2, 4, 5),)),
            Particle(-1.5, ((2,), (4, 5))),
        ),
    ),
)


def test_they_are_what_went_in():
    found = packed(PLAIN)
    assert tuple(found) == PLAIN
    assert found == PLAIN
    assert found != PLAIN[:2]
    assert found != (*PLAIN[:2], PLAIN[0])
    assert len(found) == 3
    assert found[-1] == PLAIN[2]
    assert found[:2] == PLAIN[:2]
    with pytest.raises(IndexError):
        found[3]


def test_a_posterior_says_the_same_of_both():
    plain = Posterior(PLAIN, -1.0, 6, 9)
    other = replace(plain, subproblems=packed(PLAIN))
    assert other == plain
    assert other.clusters() == plain.clusters() == [(0, 3), (1,), (2, 4), (5,)]
    assert other.labels() == plain.labels()
    assert other.log10_effective_particles == plain.log10_effective_particles
    assert list(other.estimates()) == list(plain.estimates())


@given(posteriors())
def test_the_estimate_is_that_of_the_tuples(found):
    clusters = found.clusters()
    estimate = packed(found.subproblems).estimate()
    assert estimate.lengths.tolist() == [len(cluster) for cluster in clusters]
    assert estimate.members.tolist() == [fragment for cluster in clusters for fragment in cluster]
    numbers = [k for k, one in enumerate(found.subproblems) for _ in one.clusters]
    assert estimate.subproblem.tolist() == numbers
    masses = cluster_probabilities(found)
    assert estimate.probability.tolist() == [masses[cluster] for cluster in clusters]


@given(posteriors())
def test_entities_are_reported_alike_of_both(found):
    other = replace(found, subproblems=packed(found.subproblems))
    one, two = entity_probabilities([found]), entity_probabilities([other])
    for name in one.__slots__:
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name


def test_there_may_be_none():
    nothing = Posterior(packed(()), 0.0, 0, 0)
    assert nothing.clusters() == []
    assert nothing.log10_effective_particles == 0.0
    assert len(entity_probabilities([nothing])) == 0
