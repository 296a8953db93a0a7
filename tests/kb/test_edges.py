"""Edges and paths: against what a few loops over all of them find."""

import itertools
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Entity, Meaning, Value
from kbforge.errors import NotFoundError, UsageError
from kbforge.kb.edges import Edge, EdgeTable, edge_table, edges_of, surroundings_of
from kbforge.kb.paths import shortest_paths
from tests.profile import examples

IDS = ("a", "b", "c", "d", "e", "f", "g")
RELATIONS = ("knows", "employer")
PROBABILITIES = st.sampled_from([0.25, 0.5, 0.9, 1.0])


def value(text, fragments, *meanings):
    return Value(text, fragments, meanings=tuple(Meaning(e, p) for e, p in meanings))


def entity(id, name=None, type=None, /, **properties):
    held = {attribute: tuple(values) for attribute, values in properties.items()}
    fragments = dict.fromkeys(f for values in held.values() for v in values for f in v.fragments)
    ids = tuple(fragments) or (f"of-{id}",)
    if type is not None:
        held["type"] = (Value(type, ids[:1]),)
    return Entity(id, name or id.upper(), held, ids, 1.0, 0)


@st.composite
def knowledge(draw):
    """Entities whose values name others, and some that are not there."""
    found = []
    for id in draw(st.lists(st.sampled_from(IDS), unique=True, min_size=2)):
        fragments = [f"{id}{k}" for k in range(3)]
        properties = {}
        for relation in draw(st.lists(st.sampled_from(RELATIONS), unique=True)):
            values = []
            for spelling in range(draw(st.integers(1, 4))):
                stating = draw(st.lists(st.sampled_from(fragments), unique=True, min_size=1))
                named = draw(st.lists(st.sampled_from([*IDS, "ghost"]), max_size=2, unique=True))
                meanings = [(of, draw(PROBABILITIES)) for of in named]
                values.append(value(f"v{spelling}", tuple(stating), *meanings))
            properties[relation] = values
        found.append(entity(id, **properties))
    return found


def naive_edges(entities):
    """{(head, relation, tail): (probability, fragments, spellings)}."""
    found = {}
    for one in entities:
        for relation, values in one.properties.items():
            for stated in values:
                if stated.meanings:
                    first = stated.meanings[0]
                    key = (one.id, relation, first.entity)
                    p, fragments, texts = found.get(key, (0, set(), []))
                    found[key] = (
                        max(p, first.probability),
                        fragments | set(stated.fragments),
                        [*texts, stated.value],
                    )
    return found


@given(knowledge())
def test_edges_are_what_values_name(entities):
    found = [edge for one in entities for edge in edges_of(one)]
    naive = naive_edges(entities)
    assert {(e.head, e.relation, e.tail) for e in found} == naive.keys()
    assert len(found) == len(naive)
    for e in found:
        p, fragments, texts = naive[e.head, e.relation, e.tail]
        assert (e.probability, set(e.fragments), list(e.spellings)) == (p, fragments, texts)
        assert len(set(e.fragments)) == len(e.fragments)


@given(knowledge())
def test_a_table_keeps_the_edges_between_its_entities(entities):
    there = {one.id: one.name for one in entities}
    whole = [edge for one in entities for edge in edges_of(one)]
    kept = [edge for edge in whole if edge.tail in there]
    with edge_table() as table:
        assert list(table.through(entities)) == entities
        assert list(table.named()) == [(there[e.head], e, there[e.tail]) for e in kept]
        assert len(table) == len(kept)
        assert bool(table.notes()) == (len(kept) < len(whole))
        for one in IDS:
            ends = [(e.tail, e.probability) for e in kept if e.head == one]
            ends += [(e.head, e.probability) for e in kept if e.tail == one]
            assert sorted(table.others(one)) == sorted(ends)
            for other in IDS:
                both = [e for e in kept if (e.head, e.tail) in ((one, other), (other, one))]
                assert table.between(one, other) == sorted(both, key=lambda e: -e.probability)


def all_paths(edges, start, goal):
    """Every path without a repeated entity, as entities."""
    found, growing = [], [(start,)]
    while growing:
        path = growing.pop()
        if path[-1] == goal:
            found.append(path)
            continue
        for e in edges:
            for one, other in ((e.head, e.tail), (e.tail, e.head)):
                if one == path[-1] and other not in path:
                    growing.append((*path, other))
    return set(found)


def cost(edges, path):
    """As `kbforge.kb.paths`: billionths of nats."""

    def best(one, other):
        return max(e.probability for e in edges if {e.head, e.tail} == {one, other})

    return sum(round(-math.log(best(*step)) * 1e9) for step in pairwise(path))


@given(knowledge(), st.integers(1, 4), st.integers(1, 7))
@examples(300)
def test_paths_are_the_best_of_all(entities, most, longest):
    there = {one.id for one in entities}
    edges = [e for one in entities for e in edges_of(one) if e.tail in there]
    start, goal = entities[0].id, entities[-1].id
    every = all_paths(edges, start, goal)
    shortest = min(map(len, every), default=99)
    best = sorted((cost(edges, path), path) for path in every if len(path) == shortest)
    expected = [path for _, path in best[:most]] if shortest <= longest + 1 else []
    with edge_table() as table:
        list(table.through(entities))
        found = shortest_paths(table, start, goal, most, longest)
    assert [path.entities for path in found] == expected
    for path in found:
        assert path.probability == pytest.approx(math.exp(-cost(edges, path.entities) / 1e9))
        for (one, other), step in zip(pairwise(path.entities), path.steps, strict=True):
            assert step
            assert all({e.head, e.tail} == {one, other} for e in step)


class Counting:
    """Connections that count the entities asked for."""

    def __init__(self, table: EdgeTable) -> None:
        self.table, self.asked = table, []

    def others(self, one: str) -> list[tuple[str, float]]:
        self.asked.append(one)
        return list(self.table.others(one))

    def between(self, one: str, other: str) -> list[Edge]:
        return self.table.between(one, other)


def test_a_hub_is_met_and_not_read():
    """Two people of one country are connected without reading all of its people."""
    people = [
        entity(f"p{k}", country=[value("PL", (f"f{k}",), ("poland", 0.9))]) for k in range(200)
    ]
    with edge_table() as table:
        list(table.through([*people, entity("poland")]))
        counting = Counting(table)
        (path,) = shortest_paths(counting, "p3", "p7")
    assert path.entities == ("p3", "poland", "p7")
    assert path.probability == pytest.approx(0.81)
    assert counting.asked == ["p3", "p7"]


def pairs_of(edges, relation):
    return {(e.head, e.tail) for e in edges if e.relation == relation}


@given(st.data())
@examples(100)
def test_relations_that_could_be_one(data):
    """Against sets of pairs."""
    people = range(8)
    names = ("employer", "works_for", "job_at", "knows")
    stated = {
        name: {k for k in people if data.draw(st.integers(0, 9)) < data.draw(st.integers(5, 10))}
        for name in names
    }
    where = {name: data.draw(st.sampled_from(["x", "y"])) for name in names}
    entities = [entity("x"), entity("y")]
    for k in people:
        held = {n: [value("v", (f"f{k}",), (where[n], 0.5))] for n in names if k in stated[n]}
        entities.append(entity(f"p{k}", **held))
    with edge_table(entities) as table:
        found = table.same_relations()
    edges = [e for one in entities for e in edges_of(one)]
    expected = set()
    for a, b in itertools.permutations(names, 2):
        mine, other = pairs_of(edges, a), pairs_of(edges, b)
        both = len(mine & other)
        is_smaller = (len(mine), b) < (len(other), a)
        if is_smaller and both >= 5 and both >= 0.9 * len(mine) and both >= 0.9 * len(other):
            expected.add((a, b, both, len(mine), len(other)))
    assert set(found) == expected
    assert [-one.both for one in found] == sorted(-one.both for one in found)


def test_relations_that_often_go_together_are_not_one():
    """Whoever is the capital of a country is in it, but most places in it are not its capital."""
    places = [entity(f"p{k}", within=[value("c", (f"f{k}",), (f"c{k}", 1.0))]) for k in range(40)]
    capitals = [
        entity(
            f"q{k}",
            within=[value("c", (f"g{k}",), (f"c{k}", 1.0))],
            capital_of=[value("c", (f"g{k}",), (f"c{k}", 1.0))],
        )
        for k in range(40)
    ]
    countries = [entity(f"c{k}") for k in range(40)]
    with edge_table([*places, *capitals, *countries]) as table:
        assert table.same_relations() == []
    with edge_table([*places[:4], *capitals, *countries]) as table:
        assert table.same_relations() == [("capital_of", "within", 40, 40, 44)]


def test_around():
    found = surroundings_of([entity("x"), TWO], [entity("x"), TWO, entity("z", "Zed"), entity("n")])
    assert found.names == {"x": "X", "z": "Zed"}
    assert found.stated == {"x": {"knows": 1}, "two": {}}


TWO = entity("two", "Two", knows=[value("X", ("f",), ("x", 0.75), ("z", 0.25))])


def test_how_an_entity_is_called():
    entities = [
        entity("e1", "Victoria", born=[value("1819", ("queen", "q2"))]),
        entity("e2", "Victoria", born=[value("1834", ("city",))]),
        entity("e3", "Albert"),
        entity("e4", "albert"),
        entity("Albert", "Someone"),
        entity("e6", "ALBERTA"),
        entity("e7", "Vic", name=[value("Vic", ("f",)), value("Tory", ("g",))]),
    ]
    with edge_table() as table:
        texts = ("e1", "city", "Albert", "albert", "Alberta", "Victoria", "ALBERT", "TORY", "none")
        list(table.through(entities, texts))
        assert table.called("e1") == "e1"
        assert table.called("city") == "e2"
        assert table.called("Albert") == "Albert"  # an id, before the name of e3
        assert table.called("albert") == "e4"
        assert table.called("Alberta") == "e6"
        assert table.called("TORY") == "e7"  # a spelling of its name
        with pytest.raises(UsageError) as several:
            table.called("Victoria")
        assert str(several.value) == (
            '2 entities are called "Victoria"; give the id of one: '
            "e1 (2 fragments), e2 (1 fragment)"
        )
        with pytest.raises(UsageError, match="2 entities are called"):
            table.called("ALBERT")
        with pytest.raises(NotFoundError, match='no entity "none", by id, fragment or name'):
            table.called("none")
