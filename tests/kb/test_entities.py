"""Assembly against the definitions: coverage, confidence, alternatives, stable ids."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given

from kbforge.contracts import Fragment, Particle, Subproblem
from kbforge.kb import entities as module
from kbforge.kb.entities import assemble
from tests.kb.posteriors import plain_fragments, posterior, posteriors, subproblem


def ids(cluster):
    return tuple(f"f{i}" for i in cluster)


def by_definition(block, cluster):
    """Confidence and {groups: probability} of a cluster, particle by particle."""
    confidence, rivals = 0.0, defaultdict(float)
    for particle in block.particles:
        touching = frozenset(c for c in particle.clusters if set(c) & set(cluster))
        if touching == {cluster}:
            confidence += math.exp(particle.log_weight)
        else:
            rivals[frozenset(map(ids, touching))] += math.exp(particle.log_weight)
    return confidence, rivals


@given(posteriors())
def test_entities_say_what_the_particles_say(found):
    entities = list(assemble(plain_fragments(found.n_fragments), found, 1_000, 0.0))
    assert Counter(f for e in entities for f in e.fragments) == Counter(
        ids(range(found.n_fragments))
    )
    clusters = [c for s in found.subproblems for c in sorted(s.particles[0].clusters)]
    assert [e.fragments for e in entities] == [ids(c) for c in clusters]
    for entity, cluster in zip(entities, clusters, strict=True):
        block = found.subproblems[entity.subproblem]
        assert set(cluster) <= set(block.fragments)
        confidence, rivals = by_definition(block, cluster)
        assert entity.confidence == pytest.approx(confidence)
        assert (entity.confidence == 1) == (not rivals)
        probabilities = [a.probability for a in entity.alternatives]
        assert probabilities == sorted(probabilities, reverse=True)
        assert {frozenset(a.groups): a.probability for a in entity.alternatives} == pytest.approx(
            rivals
        )


@given(posteriors())
def test_what_is_reported_stands_beside_the_calibrated_confidence(found):
    fragments = plain_fragments(found.n_fragments)
    plain = list(assemble(fragments, found))
    assert {e.reported for e in plain} == {None}
    calibrated = {cluster: 1 / (1 + cluster[0]) for cluster in found.clusters()}
    mapped = list(assemble(fragments, found, calibrated=calibrated))
    numbers = {fragment.id: number for number, fragment in enumerate(fragments)}
    for entity, before in zip(mapped, plain, strict=True):
        assert entity.confidence == 1 / (1 + numbers[entity.fragments[0]])
        assert replace(entity, confidence=entity.probability, reported=None) == before


@given(posteriors())
def test_alternatives_are_cut_to_the_most_probable(found):
    fragments = plain_fragments(found.n_fragments)
    full = [e.alternatives for e in assemble(fragments, found, 1_000, 0.0)]
    cut = [e.alternatives for e in assemble(fragments, found)]
    assert cut == [tuple(a for a in all_of if a.probability > 0.01)[:3] for all_of in full]


def test_an_entity_by_hand():
    fragments = [
        Fragment("r1", {"name": ("Ada", "Ada"), "born": ("1815",)}, source="census"),
        Fragment("r2", {"name": ("Ada L.",), "born": ("1815", "1816")}),
        Fragment("r3", {"name": ("Ada", "Zoe")}),
    ]
    block = subproblem(range(3), (6, [(0, 1, 2)]), (3, [(0, 2), (1,)]), (1, [(0,), (1,), (2,)]))
    (entity,) = assemble(fragments, posterior(block))
    record = entity.to_json()
    record.pop("id")
    assert record.pop("confidence") == pytest.approx(0.6)
    assert [a.pop("probability") for a in record["alternatives"]] == pytest.approx([0.3, 0.1])
    assert record == {
        "name": "Ada",
        "properties": {
            "born": [
                {"value": "1815", "fragments": ["r1", "r2"], "count": 2},
                {"value": "1816", "fragments": ["r2"], "count": 1},
            ],
            "name": [
                {"value": "Ada", "fragments": ["r1", "r3"], "count": 2},
                {"value": "Ada L.", "fragments": ["r2"], "count": 1},
                {"value": "Zoe", "fragments": ["r3"], "count": 1},
            ],
        },
        "fragments": ["r1", "r2", "r3"],
        "subproblem": 0,
        "alternatives": [
            {"groups": [["r1", "r3"], ["r2"]]},
            {"groups": [["r1"], ["r2"], ["r3"]]},
        ],
    }


def test_rounding_is_not_doubt():
    block = Subproblem((0,), (Particle(-1e-12, ((0,),)),))
    (entity,) = assemble(plain_fragments(1), posterior(block))
    assert entity.confidence == 1


def test_the_id_depends_on_the_earliest_fragment_alone():
    fragments = plain_fragments(4)
    before = posterior(subproblem([0], (1, [(0,)])), subproblem([1], (1, [(1,)])))
    after = posterior(subproblem(range(4), (1, [(0, 2, 3), (1,)])))
    old = [e.id for e in assemble(fragments, before)]
    assert [e.id for e in assemble(fragments, after)] == old
    assert all(re.fullmatch(r"e-[0-9a-f]{12}", entity_id) for entity_id in old)


def test_colliding_ids_grow_until_they_differ(monkeypatch):
    monkeypatch.setattr(module, "_ID_DIGITS", 1)
    found = posterior(*(subproblem([i], (1, [(i,)])) for i in range(40)))
    made = [e.id for e in assemble(plain_fragments(40), found)]
    assert len(set(made)) == 40
    for number, entity_id in enumerate(made):
        digest = hashlib.blake2b(f"f{number}".encode(), digest_size=32).hexdigest()
        assert digest.startswith(entity_id.removeprefix("e-"))


@pytest.mark.parametrize(
    "blocks",
    [
        [([0, 1], [(0,)])],
        [([0, 1], [(0, 1), (1,)])],
        [([0], [(0,)]), ([0], [(0,)])],
        [([0, 2], [(0, 2)])],
    ],
    ids=["lost", "twice", "in two subproblems", "out of range"],
)
def test_a_point_estimate_that_is_no_partition_is_a_bug(blocks):
    found = posterior(*(subproblem(block, (1, clusters)) for block, clusters in blocks))
    with pytest.raises(AssertionError, match="not a partition"):
        next(assemble(plain_fragments(4), found))


def test_an_interrupted_run_gives_the_entities_of_its_prefix():
    found = posterior(subproblem([0, 1], (1, [(0, 1)])))
    (entity,) = assemble(plain_fragments(9), found)
    assert entity.fragments == ("f0", "f1")
