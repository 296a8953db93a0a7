"""What a Markov chain's visits say: subproblems, weights, what is kept of long runs."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import Subproblem
from kbforge_lab.batch.grouping import leaders
from kbforge_lab.batch.visits import LogTerms, Visits, VisitSample, subproblems_of
from tests.clustering.exact import partitions


def groups(labels: list[int]) -> np.ndarray:
    return leaders(labels).astype(np.int32)


def log_terms(clusters: Any) -> np.ndarray:
    """The larger the cluster, the better."""
    return np.array([float(len(cluster) ** 2) for cluster in clusters])


def sample_of(visits: Sequence[Any]) -> VisitSample:
    rows, often = np.unique(np.array(visits, dtype=np.int32), axis=0, return_counts=True)
    return VisitSample(rows, often)


def parts_of(
    visits: Sequence[Any], best: np.ndarray, particles: int = 10, terms: LogTerms = log_terms
) -> tuple[tuple[Subproblem, ...], float]:
    sample = sample_of(visits)
    return subproblems_of(sample, best.astype(np.int64), particles, terms)


def weights_of(part: Subproblem) -> list[float]:
    return [math.exp(p.log_weight) for p in part.particles]


def test_subproblems_are_what_one_visit_in_p_connects():
    best = groups([0, 0, 1, 1, 2])
    visits = [best] * 17 + [groups([0, 0, 1, 2, 2])] * 2 + [groups([0, 1, 1, 2, 3])]
    parts, _ = parts_of(visits, best)
    # 1 and 2 were together in one visit of 20, 3 and 4 in two
    assert [part.fragments for part in parts] == [(0, 1), (2, 3, 4)]
    # the visit across the border says nothing of either
    assert [p.clusters for p in parts[0].particles] == [((0, 1),)]
    assert [p.clusters for p in parts[1].particles] == [((2, 3), (4,)), ((2,), (3, 4))]
    # 17 visits and the best one's own, against 2; equal values are not pooled if in order
    assert weights_of(parts[1]) == pytest.approx([0.9, 0.1])


def test_frequencies_follow_the_known_order():
    """What is more probable never weighs less: neighbours out of order share their visits."""
    best = groups([0, 0, 0])
    visits = [best] * 2 + [groups([0, 0, 1])] * 5 + [groups([0, 1, 2])] * 2
    (part,), log_posterior = parts_of(visits, best)
    assert [p.clusters for p in part.particles] == [
        ((0, 1, 2),),
        ((0, 1), (2,)),
        ((0,), (1,), (2,)),
    ]
    assert weights_of(part) == pytest.approx([0.4, 0.4, 0.2])
    assert log_posterior == 9.0


def test_the_point_estimate_combines_the_best_of_each_subproblem():
    """Never visited together, and better than anything that was."""
    visits = [groups([0, 0, 1, 2]), groups([0, 1, 2, 2])] * 5
    parts, log_posterior = parts_of(visits, visits[0])
    assert [part.particles[0].clusters for part in parts] == [((0, 1),), ((2, 3),)]
    assert log_posterior == 8.0


@pytest.mark.parametrize("particles", [1, 2, 5])
def test_no_subproblem_has_more_than_p_groupings(particles):
    visits = [groups([int(c) for c in np.base_repr(i, 3, 6)[-6:]]) for i in range(200)]
    parts, _ = parts_of(visits, groups([0] * 6), particles)
    assert max(len(part.particles) for part in parts) == particles
    assert parts[0].particles[0].clusters[0] == tuple(range(6))


def test_visits_are_thinned_evenly_and_lose_their_first_half():
    every = sorted({tuple(leaders(sorted_labels(z))) for z in partitions(range(8))})
    visits = Visits(8)
    visits._limit = 100
    for grouping in every[:1600]:
        visits.record(np.array(grouping))
    kept = visits.after_burn_in()
    assert sorted(map(tuple, kept.groupings.tolist())) == sorted(every[800:1600:16])
    assert set(kept.often.tolist()) == {1}


def sorted_labels(grouping: Any) -> list[int]:
    labels = [0] * 8
    for number, cluster in enumerate(sorted(grouping)):
        for fragment in cluster:
            labels[fragment] = number
    return labels


def test_few_different_groupings_are_all_counted():
    visits = Visits(3)
    for _ in range(10_000):
        visits.record(np.array([0, 0, 2]))
    visits.record(np.array([0, 1, 2]))
    kept = visits.after_burn_in()
    found = zip(map(tuple, kept.groupings.tolist()), kept.often.tolist(), strict=True)
    assert dict(found) == {(0, 0, 2): 5000, (0, 1, 2): 1}


def test_as_many_groupings_as_p_are_all_kept():
    """In the proportions in which they were visited, with one more visit to the best."""
    labels = ([0, 0, 0], [0, 0, 1], [0, 1, 1])
    visits = [
        groups(z) for z, often in zip(labels, (600, 300, 99), strict=True) for _ in range(often)
    ]
    (part,), _ = parts_of(visits, visits[0], particles=3)
    assert weights_of(part) == pytest.approx([0.601, 0.3, 0.099])
    (part,), _ = parts_of(visits, visits[0], particles=2)
    # one of the two others stands for both; the best has its own visits
    assert weights_of(part) == pytest.approx([0.601, 0.399])


def test_what_is_left_out_is_right_on_average():
    """Of some 200 groupings 60 are kept, and pairs are together as often as in all."""
    rng = np.random.default_rng(1)
    visits = [groups(rng.integers(0, 3, size=7).tolist()) for _ in range(400)]
    best = groups([0] * 7)
    (whole,), _ = parts_of([*visits, best], best, particles=1000)
    assert len(whole.particles) > 150
    (part,), _ = parts_of(visits, best, particles=60)
    assert len(part.particles) == 60
    assert np.abs(together(part) - together(whole)).max() < 0.2
    # what is seen often keeps its share, however many others are seen once
    rare = [groups(list(z)) for z in itertools.product(range(3), repeat=6) if z[0] == 0][1:201]
    often = groups([0, 1, 2, 3, 4, 5])
    (part,), _ = parts_of([*rare, *[often] * 100], groups([0] * 6), 20, lambda c: np.zeros(len(c)))
    assert len(part.particles) == 20
    (weight,) = (math.exp(p.log_weight) for p in part.particles if len(p.clusters) == 6)
    assert weight == pytest.approx(1 / 3, abs=0.01)


def together(part: Subproblem) -> np.ndarray:
    """How probable it is that two fragments are one, shape [n, n]."""
    out = np.zeros((len(part.fragments), len(part.fragments)))
    for particle in part.particles:
        for cluster in particle.clusters:
            out[np.ix_(cluster, cluster)] += math.exp(particle.log_weight)
    return out


def test_rare_crossings_do_not_add_up():
    """Forty fragments join a cluster once in a hundred visits each: it is seldom as it is."""
    rng, alone = np.random.default_rng(0), 40
    best = groups([0] * 5 + list(range(1, alone + 1)))
    visits = []
    for _ in range(1000):
        labels = np.array([0] * 5 + list(range(1, alone + 1)))
        labels[5:][rng.random(alone) < 0.009] = 0
        visits.append(groups(labels.tolist()))
    exactly = np.mean([(visit == best).all() for visit in visits])
    cluster = tuple(range(5))

    def terms(clusters: Any) -> np.ndarray:
        """What joins the cluster makes it less probable, as often as the visits say."""
        return np.array([math.log(0.009) * (len(c) - 5) * (len(c) > 5) for c in clusters])

    parts, _ = parts_of(visits, best, 100, terms)
    (part,) = (part for part in parts if 0 in part.fragments)
    reported = sum(math.exp(p.log_weight) for p in part.particles if cluster in p.clusters)
    assert reported == pytest.approx(exactly, abs=0.05)


def test_what_every_visit_contradicts_is_not_certain():
    """Another fragment joins the cluster in each visit, so that it is never seen as it is."""
    alone = 30
    best = groups([0] * 3 + list(range(1, alone + 1)))
    visits = []
    for one in range(alone):
        labels = [0] * 3 + list(range(1, alone + 1))
        labels[3 + one] = 0
        visits.append(groups(labels))
    parts, _ = parts_of(visits, best, particles=100)
    (part,) = (part for part in parts if 0 in part.fragments)
    assert max(weights_of(part)) < 0.1
