"""Assembly against the definitions: coverage, confidence, alternatives, stable ids."""

import hashlib
import math
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment, Particle, Subproblem
from kbforge.files.columns import FragmentColumns, statements_of
from kbforge.files.lines import read_columns
from kbforge.kb import entities as module
from kbforge.kb.entities import (
    AttributeOrder,
    Corpus,
    described,
    mean_vector,
    merged_order,
)
from tests.assembled import assemble
from tests.jsonl import write_lines
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
    entities = list(assemble(plain_fragments(found.n_fragments), found, None))
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
    calibrated = {cluster[0]: 1 / (1 + cluster[0]) for cluster in found.clusters()}
    mapped = list(assemble(fragments, found, calibrated=calibrated))
    numbers = {fragment.id: number for number, fragment in enumerate(fragments)}
    for entity, before in zip(mapped, plain, strict=True):
        assert entity.confidence == 1 / (1 + numbers[entity.fragments[0]])
        assert replace(entity, confidence=entity.probability, reported=None) == before


@given(posteriors())
def test_alternatives_are_cut_to_the_most_probable(found):
    fragments = plain_fragments(found.n_fragments)
    full = [e.alternatives for e in assemble(fragments, found, None)]
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


# The order of attributes: that of the file, as far as its records show it.


COLUMNS = tuple("hgfedcba")
RECORDS = st.lists(st.sets(st.sampled_from(COLUMNS), min_size=1), min_size=1, max_size=12)
ORDERS = st.lists(st.lists(st.sampled_from(COLUMNS), unique=True), max_size=12)


def of_record(held: set[str]) -> tuple[str, ...]:
    return tuple(column for column in COLUMNS if column in held)


@given(RECORDS)
def test_the_order_of_a_table_agrees_with_every_record(records):
    merged = merged_order(tuple(map(of_record, records)))
    assert set(merged) == set().union(*records)
    for held in records:
        assert tuple(column for column in merged if column in held) == of_record(held)


@given(RECORDS)
def test_a_whole_record_gives_the_order_of_the_table(records):
    assert merged_order((*map(of_record, records), COLUMNS)) == COLUMNS


@given(ORDERS)
def test_orders_that_contradict_each_other_lose_nothing(orders):
    order = AttributeOrder()
    for one in orders:
        order.add(one)
    merged = order.merged()
    assert sorted(merged) == sorted({attribute for one in orders for attribute in one})


def test_of_contradicting_orders_the_first_met_comes_first():
    assert merged_order((("a", "b"), ("b", "a"))) == ("a", "b")


# Names, values and vectors of entities.


def of_rows(*rows):
    """Fragments of rows: a name, or values (or tuples of values) by attribute."""
    records = ({"name": row} if isinstance(row, str) else row for row in rows)
    return [
        Fragment(str(i), {a: v if isinstance(v, tuple) else (v,) for a, v in record.items()})
        for i, record in enumerate(records)
    ]


FULL = {"first_name": "tom", "surname": "c"}
NAMES = {
    "most frequent": (["A", "B", "B"], "B"),
    "longest": (["A. L.", "The longer"], "The longer"),
    "code point": (["b", "a"], "a"),
    "a repeat counts once": ([{"name": ("Twice", "Twice")}, "Thrice!"], "Thrice!"),
    "name before title": ([{"title": "T", "name": "N"}, {"title": "T"}], "N"),
    "title before what ends in name": ([{"brand": "B", "Title": "T", "brand_name": "B"}], "T"),
    "a full name is not joined": (
        [{"first_name": "A", "surname": "L", "Full Name": "A. L."}],
        "A. L.",
    ),
    "the first attribute as it stands": ([{"town": "a", "type": "b"}, {"type": "b"}], "a"),
    "the first of the file, not of a fragment": (
        [{"type": "b"}, {"zone": "zzz", "type": "b"}],
        "zzz",
    ),
    "each of several values counts": ([{"born": "1900"}, {"born": ("1901", "1900")}], "1900"),
    "no properties: the id": ([{}], "0"),
    "case does not divide a name, and both cases are better than one": (
        ["ADA", "Ada", "Bob Ross"],
        "Ada",
    ),
    "the commonest case": (["ADA", "ADA", "Ada"], "ADA"),
    "words that stand once may be typos, however long": (
        ["Ada Lovelace", "Adda Lovelacce", "Ada", "Lovelace"],
        "Ada Lovelace",
    ),
    "of words that others state the longest": (
        ["J. Smith", "John Smithh", "John Smith"],
        "John Smith",
    ),
    "not turned around": (["Wrennick, Hamish", "Hamish Wrennick"], "Hamish Wrennick"),
    "joined": ([{"birthplace": "devon", "first_name": "thomas", "surname": "c"}], "thomas c"),
    "joined in the order of the record": (
        [{"Surname": "c", "town": "devon", "First name": "thomas"}],
        "c thomas",
    ),
    "a single part comes last": (
        [{"first_name": "tom"}, {"first_name": "tom"}, {"first_name": "thomas", "surname": "c"}],
        "thomas c",
    ),
    "the commonest, not the fullest": ([FULL, FULL, FULL | {"middle_name": "p"}], "tom c"),
    "as one record states them": (
        [{"first_name": "ann", "surname": "x"}, {"first_name": "zoe", "surname": "a"}],
        "ann x",
    ),
    "one part each": ([{"first_name": "tom"}, {"surname": "chudleigh"}], "chudleigh"),
    "from the record that has one": ([{"town": "devon"}, {"town": "devon", "surname": "c"}], "c"),
}


@pytest.mark.parametrize("why", NAMES)
def test_names(why):
    rows, name = NAMES[why]
    assert described(of_rows(*rows)).name == name


def test_attributes_in_another_order_name_alike():
    two = {"born": "1630"} | FULL
    one = {"first_name": "thomas", "surname": "c"}
    assert (
        described(of_rows(one, two, two)).name == described(of_rows(two, two, one)).name == "tom c"
    )


def test_attributes_keep_the_order_of_the_file():
    """A cell that is empty in the first record does not move its column to the end."""
    rows = [{"surname": "x", "born": "1900"}, {"first_name": "y", "surname": "x"}, {"town": "z"}]
    assert list(described(of_rows(*rows)).properties) == ["first_name", "surname", "born", "town"]


def test_the_best_value_is_the_first_and_others_go_by_count_then_code_point():
    found = described(of_rows({"b": ("z", "é"), "a": "q"}, {"b": ("é", "a")})).properties
    assert list(found) == ["b", "a"]
    values = [(v.value, v.fragments) for v in found["b"]]
    assert values == [("é", ("0", "1")), ("a", ("1",)), ("z", ("0",))]
    found = described(
        of_rows(*({"a": a} for a in ("Bob", "Bob", "ANN", "Ann", "ann.", "Cid")))
    ).properties
    assert [(v.value, v.count) for v in found["a"]] == [
        *(("Ann", 1), ("Bob", 2), ("ANN", 1), ("Cid", 1), ("ann.", 1)),
    ]


def test_the_parts_of_a_name_are_those_of_one_fragment():
    """Each alone would be another: first names are two each, and the longer one is the best."""
    rows = [
        {"first_name": "tom", "surname": "chudleigh"},
        {"first_name": "tom"},
        {"first_name": "thomas", "surname": "chudleigh"},
        {"first_name": "thomas", "surname": "chudliegh"},
        {"surname": "chudleigh"},
    ]
    found = described(of_rows(*rows)).properties
    assert described(of_rows(*rows)).name == " ".join(values[0].value for values in found.values())
    assert described(of_rows(*rows[:1], *rows[3:])).name == "tom chudleigh"


def test_words_that_stand_once_in_the_file_may_be_slips():
    """Two fragments cannot say which is right; others of the file have the word."""
    two = of_rows("Ruth Maosn", "Ruth Mason")
    assert described(two).name == "Ruth Maosn"
    others = [Fragment("x", {"surname": ("MASON",)}), Fragment("y", {"name": ("Ruth Cole",)})]
    assert described(two, Corpus.of(statements_of([*two, *others]))).name == "Ruth Mason"
    assert described(two[::-1], Corpus.of(statements_of([*others, *two]))).name == "Ruth Mason"


@pytest.mark.parametrize(
    ("vectors", "mean"),
    [
        ([(1.0, 2.0), (3.0, 6.0)], (2.0, 4.0)),
        ([(1.0,), None], (1.0,)),
        ([(1.0,), (1.0, 2.0)], None),
        ([None], None),
        ([(1.7e308,), (1.7e308,)], (1.7e308,)),
    ],
)
def test_mean_vectors(vectors, mean):
    assert mean_vector([Fragment("x", {}, vector) for vector in vectors]) == mean


@given(posteriors())
def test_entities_of_columns_are_those_of_fragments(found):
    fragments = plain_fragments(found.n_fragments)
    with TemporaryDirectory() as folder:
        path = write_lines(Path(folder) / "f.jsonl", [x.to_json() for x in fragments])
        columns = read_columns(str(path))
    assert isinstance(columns, FragmentColumns)
    assert list(assemble(columns, found)) == list(assemble(fragments, found))
