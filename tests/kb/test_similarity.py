"""Pairs read off entities: exact with all alternatives, and within bounds with a few."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Alternative, Entity, Fragment, Particle, Posterior, Subproblem
from kbforge.errors import UsageError
from kbforge.kb.consensus import consensus, similarity
from kbforge.kb.similarity import Groupings, block_of, leaf_names, similar
from tests.assembled import assemble
from tests.kb.test_consensus import drawn, subproblem
from tests.profile import examples

MADE = st.tuples(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 12))


def made(seed, n, kept):
    block = drawn(np.random.default_rng(seed), n, kept)
    fragments = [Fragment(f"f{i:02}", {"name": ("x",)}) for i in range(block.fragments[-1] + 1)]
    return block, fragments


def entities_of(block, fragments, estimate="map", most=None):
    posterior = Posterior((block,), 0.0, len(block.fragments), 0)
    if estimate != "map":
        posterior = consensus(posterior, estimate)
    return list(assemble_block(fragments, posterior, most))


def assemble_block(fragments, posterior, most):
    # the block is a part of some larger numbering, which `assemble` refuses; number it anew
    (block,) = posterior.subproblems
    place = {f: k for k, f in enumerate(block.fragments)}

    def told(clusters):
        return tuple(tuple(place[f] for f in c) for c in clusters)

    particles = tuple(type(p)(p.log_weight, told(p.clusters)) for p in block.particles)
    estimate = None if block.estimate is None else told(block.estimate)
    again = type(block)(tuple(range(len(place))), particles, estimate)
    whole = Posterior((again,), 0.0, len(place), 0)
    return assemble([fragments[f] for f in block.fragments], whole, most)


@given(MADE, st.sampled_from(["map", "vi"]))
@examples(60)
def test_all_alternatives_give_the_posterior_similarity(case, estimate):
    block, fragments = made(*case)
    entities = entities_of(block, fragments, estimate)
    together = similarity(block)
    for i, one in enumerate(block.fragments):
        found = {
            s.fragment: (s.probability, s.rest)
            for s in similar(lambda: entities, fragments[one].id)
        }
        expected = {
            fragments[other].id: (pytest.approx(together[i, j], abs=1e-8), 0.0)
            for j, other in enumerate(block.fragments)
            if j != i and together[i, j] > 1e-9
        }
        assert {k: v for k, v in found.items() if v[0] > 1e-9} == expected


@given(MADE, st.integers(0, 3))
@examples(60)
def test_a_few_alternatives_give_bounds(case, most):
    block, fragments = made(*case)
    entities = entities_of(block, fragments, most=most)
    together = similarity(block)
    for i, one in enumerate(block.fragments):
        for j, other in enumerate(block.fragments):
            if i != j:
                (s,) = similar(lambda: entities, fragments[one].id, fragments[other].id)
                assert s.probability - 1e-8 <= together[i, j] <= s.probability + s.rest + 1e-8


@given(MADE, st.floats(0, 0.9))
@examples(40)
def test_pairs_are_those_above_the_least(case, least):
    block, fragments = made(*case)
    together = similarity(block)
    found = {
        frozenset((one, other)): probability
        for entity in entities_of(block, fragments)
        for one, other, probability, _ in Groupings(entity).pairs(least)
    }
    for i, one in enumerate(block.fragments):
        for j, other in enumerate(block.fragments[:i]):
            key = frozenset((fragments[one].id, fragments[other].id))
            if abs(together[i, j] - least) > 1e-8:
                assert (key in found) == (together[i, j] > least)
            if key in found:
                assert found[key] == pytest.approx(together[i, j], abs=1e-8)


def test_all_alternatives_stay_within_a_line():
    block = subproblem({((0, 1),): 0.5, ((0,), (1,)): 0.5 - 1e-6})
    long = "long id" * 300_000
    fragments = [Fragment(long, {"name": ("x",)}), Fragment("another", {"name": ("x",)})]
    (entity,) = assemble(fragments, Posterior((block,), 0.0, 2, 0), None)
    assert entity.alternatives == ()
    (found,) = similar(lambda: [entity], long, "another")
    assert found.probability + found.rest == pytest.approx(1)


ADA = Entity("e1", "Ada", {}, ("a", "b"), 0.8, 0, (Alternative(0.2, (("a", "c"), ("b",))),))
CYD = Entity("e2", "Cyd", {}, ("c",), 0.8, 0, (Alternative(0.15, (("a", "c"),)),))
BOB = Entity("e3", "Bob", {}, ("z",), 1.0, 1)


def test_both_entities_know_a_pair_and_the_closer_bounds_hold():
    entities = [ADA, CYD, BOB]
    (b, c) = similar(lambda: iter(entities), "a")
    assert (b.fragment, b.entity, b.probability, b.rest) == ("b", ADA, 0.8, 0.0)
    assert (c.fragment, c.entity, c.probability, c.rest) == ("c", CYD, 0.2, 0.0)
    (back,) = similar(lambda: iter(entities), "c")
    assert (back.fragment, back.probability, back.rest) == ("a", 0.2, 0.0)


def test_a_map_is_told_of_the_size_and_of_pairs_above_one_percent():
    asked = []

    def calibrate(probability, size):
        asked.append((probability, size))
        return 0.5

    (b, _) = similar(lambda: [ADA, CYD, BOB], "a", calibrate=calibrate)
    assert b.calibrated == 0.5
    assert asked == [(0.8, 3), (0.2, 3)]
    (never,) = similar(lambda: [ADA, CYD, BOB], "b", "c", calibrate)
    assert (never.probability, never.calibrated) == (0.0, None)


def test_two_subproblems_share_no_entity():
    (found,) = similar(lambda: [ADA, CYD, BOB], "a", "z")
    assert (found.probability, found.rest, found.entity) == (0.0, 0.0, BOB)


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (("a", "a"), 'expected two fragments, got "a" twice'),
        (("nope",), 'the knowledge base has no fragment "nope"'),
        (("a", "nope"), 'the knowledge base has no fragment "nope"'),
    ],
)
def test_what_is_not_there(ids, sentence):
    with pytest.raises(UsageError, match=sentence):
        similar(lambda: [ADA, CYD], *ids)


def test_many_equal_fragments_are_one_class():
    ids = tuple(f"f{i}" for i in range(10_000))
    entity = Entity("e", "x", {}, ids, 0.9, 0, (Alternative(0.1, (ids[:-1], ids[-1:])),))
    groupings = Groupings(entity)
    assert groupings.probability("f0", "f9999") == 0.9
    assert groupings.probability("f0", "f9998") == 1.0
    assert len(groupings.similar("f9999")) == 9_999


def test_leaves_say_what_differs():
    """Ten leaves of one entity had one name, ten times."""
    rows = [
        {"name": "Ann Lee", "born": "1900", "kind": "person"},
        {"name": "A. Lee", "kind": "person"},
        {"name": "Ann Lee", "born": "1901", "kind": "person", "town": "Rome"},
    ]
    fragments = [Fragment(f"f{k}", {a: (v,) for a, v in row.items()}) for k, row in enumerate(rows)]
    both = Subproblem((0, 1, 2), (Particle(0.0, ((0, 1, 2),)),))
    entities = list(assemble(fragments, Posterior((both,), 0.0, 3, 0)))
    block, _ = block_of(lambda: entities, "f0", 9)
    assert leaf_names(block) == ["Ann Lee, 1900 (f0)", "A. Lee (f1)", "Ann Lee, 1901, Rome (f2)"]
