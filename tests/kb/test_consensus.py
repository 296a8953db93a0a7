"""The grouping next to a posterior, against brute force over all groupings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment, Particle, Posterior, Subproblem
from kbforge.evaluation.reliability import entity_probabilities, renumbered
from kbforge.kb.consensus import LOSSES, MOST, consensus, search, similarity
from tests.assembled import assemble
from tests.profile import examples

LOSS = pytest.mark.parametrize("estimate", ["binder", "vi"])


def partitions(items):
    """All groupings of a tuple, by recursion on its first item."""
    if not items:
        yield ()
        return
    first, *others = items
    for rest in partitions(tuple(others)):
        yield ((first,), *rest)
        for at, group in enumerate(rest):
            yield (*rest[:at], (first, *group), *rest[at + 1 :])


def subproblem(weighted):
    """A subproblem of {grouping: weight}."""
    total = sum(weighted.values())
    ranked = sorted(weighted.items(), key=lambda item: -item[1])
    fragments = tuple(sorted(f for cluster in ranked[0][0] for f in cluster))
    return Subproblem(
        fragments,
        tuple(Particle(math.log(w / total), tuple(sorted(z))) for z, w in ranked),
    )


def drawn(rng, n, kept):
    """A subproblem of some of the groupings of n fragments, numbered with gaps."""
    every = list(partitions(tuple(range(3, 3 + 2 * n, 2))))
    chosen = rng.choice(len(every), min(kept, len(every)), replace=False)
    return subproblem({every[k]: float(rng.gamma(0.5)) + 1e-6 for k in chosen.tolist()})


def probability(block, i, j):
    return math.fsum(
        math.exp(p.log_weight)
        for p in block.particles
        if any(i in cluster and j in cluster for cluster in p.clusters)
    )


def expected(block, grouping, estimate):
    """What a grouping loses, as the definitions say it."""
    if estimate == "binder":
        return math.fsum(
            1 - 2 * probability(block, i, j) for c in grouping for i in c for j in c if i < j
        )
    return math.fsum(
        math.log(len(c)) - 2 * math.log(math.fsum(probability(block, i, j) for j in c))
        for c in grouping
        for i in c
    )


def of(labels, fragments):
    return [
        tuple(f for f, label in zip(fragments, labels, strict=True) if label == k)
        for k in sorted(set(labels.tolist()))
    ]


@LOSS
@pytest.mark.parametrize("seed", range(20))
def test_small_subproblems_are_exact(estimate, seed):
    rng = np.random.default_rng(seed)
    block = drawn(rng, int(rng.integers(2, 7)), int(rng.integers(2, 12)))
    (found,) = consensus(Posterior((block,), 0.0, 0, 0), estimate).subproblems
    least = min(expected(block, z, estimate) for z in partitions(block.fragments))
    assert expected(block, found.clusters, estimate) == pytest.approx(least, abs=1e-8)
    assert (found.particles, found.fragments) == (block.particles, block.fragments)


@LOSS
@pytest.mark.parametrize("seed", range(10))
def test_the_losses_are_those_of_the_definitions(estimate, seed):
    block = drawn(np.random.default_rng(seed), 5, 6)
    together = similarity(block)
    for labels in np.random.default_rng(seed).integers(0, 3, (5, 5)):
        grouping = of(labels, block.fragments)
        assert LOSSES[estimate](together, labels) == pytest.approx(
            expected(block, grouping, estimate), abs=1e-9
        )


@LOSS
def test_the_search_finds_what_brute_force_finds_nearly_always(estimate):
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        block = drawn(rng, 6, 8)
        together = similarity(block)
        ends = [search(together, start, estimate) for start in (np.arange(6), np.zeros(6, int))]
        lost = min(expected(block, of(labels, block.fragments), estimate) for labels in ends)
        least = min(expected(block, z, estimate) for z in partitions(block.fragments))
        assert lost >= least - 1e-9
        found += lost < least + 1e-8
    assert found >= 38


@LOSS
@given(seed=st.integers(0, 10**6), n=st.integers(9, 16))
@examples(25)
def test_a_large_one_loses_no_more_than_any_particle_and_no_move_gains(estimate, seed, n):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    weighted = {}
    for _ in range(10):
        labels = np.where(rng.random(n) < 0.2, rng.integers(0, 5, n), truth)
        weighted[tuple(of(labels, range(n)))] = float(rng.random()) + 1e-3
    block = subproblem(weighted)
    (found,) = consensus(Posterior((block,), 0.0, n, 0), estimate).subproblems
    together = similarity(block)
    loss = LOSSES[estimate]

    def numbered(grouping):
        return np.array([k for f in range(n) for k, c in enumerate(grouping) if f in c])

    best = loss(together, numbered(found.clusters))
    assert all(best <= loss(together, numbered(p.clusters)) + 1e-8 for p in block.particles)
    labels = numbered(found.clusters)
    for i in range(n):
        for k in range(labels.max() + 2):
            moved = labels.copy()
            moved[i] = k
            assert loss(together, moved) >= best - 1e-7


def test_binder_takes_what_is_likelier_than_not():
    """Three particles, each with another of three fragments apart; all pairs at 1/3 to 2/3."""
    a, b, c = ((0, 1), (2,)), ((0,), (1, 2)), ((0, 1, 2),)
    block = subproblem({a: 0.4, b: 0.35, c: 0.25})
    posterior = Posterior((block,), 0.0, 3, 0)
    (binder,) = consensus(posterior, "binder").subproblems
    # 0-1 with .65, 1-2 with .6, 0-2 with .25: all together loses 3 - 2 * 1.5 = 0, a 1 - 1.3 = -.3
    assert binder.clusters == a
    together = similarity(block)
    assert together == pytest.approx(np.array([[1, 0.65, 0.25], [0.65, 1, 0.6], [0.25, 0.6, 1]]))


def test_an_estimate_that_no_particle_has():
    """Every particle moves another fragment out; the consensus keeps them all in."""
    everyone = tuple(range(4))
    block = subproblem(
        {((i,), tuple(j for j in everyone if j != i)): 1.0 + i / 100 for i in everyone}
    )
    posterior = consensus(Posterior((block,), 0.0, 4, 0), "vi")
    assert posterior.clusters() == [everyone]
    assert entity_probabilities([posterior]).probability.tolist() == [0.0]
    fragments = [Fragment(f"f{i}", {"name": ("x",)}) for i in everyone]
    (entity,) = assemble(fragments, posterior, most_alternatives=9)
    assert entity.confidence == 0.0
    assert len(entity.alternatives) == 4
    assert math.fsum(a.probability for a in entity.alternatives) == pytest.approx(1)
    turned = renumbered(posterior, [3, 2, 1, 0])
    assert turned.clusters() == [everyone]


@LOSS
def test_too_large_a_subproblem_keeps_its_heaviest_particle(estimate):
    everyone = tuple(range(MOST + 1))
    block = subproblem({(everyone[:2], everyone[2:]): 0.6, (everyone,): 0.4})
    assert consensus(Posterior((block,), 0.0, len(everyone), 0), estimate).subproblems == (block,)
