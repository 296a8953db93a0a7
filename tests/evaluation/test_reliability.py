"""Claims against the definitions, particle by particle; ECE by hand."""

import itertools
import math
import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import KBForgeError
from kbforge.evaluation.reliability import (
    Claims,
    entity_claims,
    entity_probabilities,
    pair_claims,
    pair_probabilities,
    reliability,
    renumbered,
)
from tests.kb.posteriors import posterior, posteriors, subproblem


def pairs_by_definition(found):
    """{(i, j): (probability, size)} of pairs that ever share a cluster."""
    out = {}
    for block in found.subproblems:
        for i, j in itertools.combinations(sorted(block.fragments), 2):
            p = sum(
                math.exp(particle.log_weight)
                for particle in block.particles
                for cluster in particle.clusters
                if i in cluster and j in cluster
            )
            if p > 0:
                out[i, j] = (p, len(block.fragments))
    return out


def told(pairs):
    columns = (pairs.first, pairs.second, pairs.probability, pairs.size)
    return {(i, j): (p, s) for i, j, p, s in zip(*(c.tolist() for c in columns), strict=True)}


@given(posteriors(), st.floats(0, 1))
def test_pairs_say_what_the_particles_say_above_the_least(found, least):
    pairs = told(pair_probabilities([found]))
    expected = pairs_by_definition(found)
    assert list(pairs) == sorted(expected)
    for pair, (p, size) in expected.items():
        assert pairs[pair] == (pytest.approx(p), size)
        assert pairs[pair][0] <= 1
    above = {pair: said for pair, said in pairs.items() if said[0] > least}
    assert told(pair_probabilities([found], least)) == above


labels_of_8 = st.lists(st.sampled_from(["a", "b", None]), min_size=8, max_size=8)


@given(posteriors(), labels_of_8)
def test_claims_meet_gold(found, labels):
    labels = labels[: found.n_fragments]
    claims = pair_claims(pair_probabilities([found]), labels)
    expected = [
        (p, size, labels[i] == labels[j])
        for (i, j), (p, size) in sorted(pairs_by_definition(found).items())
        if labels[i] is not None and labels[j] is not None
    ]
    assert claims.true.tolist() == [true for _, _, true in expected]
    assert claims.probability.tolist() == pytest.approx([p for p, _, _ in expected])
    assert claims.size.tolist() == [size for _, size, _ in expected]


@given(posteriors(), labels_of_8)
def test_entities_meet_gold(found, labels):
    labels = labels[: found.n_fragments]
    gold = {
        frozenset(i for i, other in enumerate(labels) if other == label)
        for label in set(labels) - {None}
    }
    expected = []
    for number, block in enumerate(found.subproblems):
        for cluster in block.particles[0].clusters:
            if all(labels[i] is not None for i in cluster):
                p = sum(math.exp(q.log_weight) for q in block.particles if cluster in q.clusters)
                expected.append((p, len(block.fragments), number, frozenset(cluster) in gold))
    claims = entity_claims(entity_probabilities([found]), labels)
    columns = (claims.size, claims.subproblem, claims.true)
    assert claims.probability.tolist() == pytest.approx([p for p, *_ in expected])
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == [
        tuple(rest) for _, *rest in expected
    ]


@given(posteriors(), st.randoms(use_true_random=False))
def test_orders_are_averaged_in_the_numbers_of_the_first(found, rng):
    n = found.n_fragments
    order = list(range(n))
    rng.shuffle(order)
    # a second opinion that is certain of two halves
    halves = [list(range(n))[: n // 2 + 1], list(range(n))[n // 2 + 1 :]]
    blocks = [subproblem(half, (1, [half])) for half in halves if half]
    other = renumbered(posterior(*blocks), order)
    assert sorted(f for s in other.subproblems for f in s.fragments) == list(range(n))
    sure = {frozenset(order[k] for k in half) for half in halves}
    one = pairs_by_definition(found)
    averaged = told(pair_probabilities([found, other]))
    for i, j in itertools.combinations(range(n), 2):
        together = any({i, j} <= half for half in sure)
        expected = (one.get((i, j), (0.0, 0))[0] + together) / 2
        assert averaged.get((i, j), (0.0, 0))[0] == pytest.approx(expected)
    claims = entity_claims(entity_probabilities([found, other]), ["x"] * n)
    clusters = [c for s in found.subproblems for c in s.particles[0].clusters]
    before = entity_claims(entity_probabilities([found]), ["x"] * n).probability
    for cluster, p, was in zip(clusters, claims.probability, before, strict=True):
        assert p == pytest.approx((was + (frozenset(cluster) in sure)) / 2)


def test_what_no_particle_denies_is_certain():
    # seven weights whose sum rounds to something else than 1
    partitions = [[(0, 1), *rest] for rest in ([(2, 3, 4)], [(2,), (3, 4)], [(2, 3), (4,)])]
    partitions += [[(0, 1), (2, 4), (3,)], [(0, 1), (2,), (3,), (4,)]]
    found = posterior(subproblem(range(5), *((k + 0.1, p) for k, p in enumerate(partitions))))
    assert told(pair_probabilities([found]))[0, 1] == (1.0, 5.0)
    assert 1.0 in entity_claims(entity_probabilities([found]), ["x"] * 5).probability


def claims_of(*rows):
    """Of (probability, true)."""
    p, true = zip(*rows, strict=True)
    n = len(rows)
    return Claims(np.array(p, float), np.full(n, 2.0), np.arange(n), np.array(true, bool))


def test_expected_calibration_error_by_hand():
    table = reliability(
        claims_of((0.1, 0), (0.3, 1), (0.35, 0), (0.9, 1), (1.0, 0), (1.0, 1)), bins=4
    )
    # bins: [0, .25) .1 vs 0; [.25, .5) .325 vs 1/2; [.75, 1] 2.9/3 vs 2/3
    assert [(b.low, b.high, b.count) for b in table.table] == [
        (0, 0.25, 1), (0.25, 0.5, 2), (0.75, 1, 3)
    ]  # fmt: skip
    assert [b.share for b in table.table] == pytest.approx([0, 1 / 2, 2 / 3])
    assert [b.reported for b in table.table] == pytest.approx([0.1, 0.325, 2.9 / 3])
    assert table.ece == pytest.approx((0.1 + 2 * 0.175 + 0.9) / 6)
    squares = 0.1**2 + 0.7**2 + 0.35**2 + 0.1**2 + 1 + 0
    assert table.brier == pytest.approx(squares / 6)
    assert table.count == 6


def test_no_claims_are_no_error():
    empty = pair_claims(pair_probabilities([posterior(subproblem([0], (1, [(0,)])))]), ["x"])
    assert len(empty) == 0
    assert asdict(reliability(empty)) == {
        "count": 0, "bins": 15, "table": (), "ece": 0.0, "brier": 0.0
    }  # fmt: skip


def test_too_many_pairs_are_refused_before_they_are_made():
    found = posterior(subproblem(range(20_000), (1, [tuple(range(20_000))])))
    with pytest.raises(KBForgeError, match=r"200,000,000 pairs of fragments; .* over 100,000,000"):
        pair_probabilities([found])


def test_many_large_subproblems():
    """2,000 fragments in 20 subproblems of 100 particles, against sums over a sample of pairs."""
    rng = random.Random(3)

    def particle(members):
        groups = {}
        for i in members:
            groups.setdefault((i % 10) if rng.random() < 0.95 else rng.randrange(12), []).append(i)
        return rng.random(), list(groups.values())

    blocks = (range(start, start + 100) for start in range(0, 2_000, 100))
    found = posterior(*(subproblem(block, *(particle(block) for _ in block)) for block in blocks))
    pairs = told(pair_probabilities([found]))
    for _ in range(200):
        block = found.subproblems[rng.randrange(20)]
        i, j = sorted(rng.sample(block.fragments, 2))
        p = sum(
            math.exp(q.log_weight) * any(i in c and j in c for c in q.clusters)
            for q in block.particles
        )
        assert pairs.get((i, j), (0.0, 0))[0] == pytest.approx(p)
