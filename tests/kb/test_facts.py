"""Facts fused: the posterior and EM against enumeration, and what must hold of any file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import product
from math import exp, log

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Entity, Fragment, Particle, Posterior, Subproblem
from kbforge.files.columns import statements_of
from kbforge.jobs.cluster import KnowledgeBase, Times
from kbforge.kb.entities import entities_of, entity_lines, firsts_of_entities
from kbforge.kb.facts import (
    AttributeRates,
    ErrorRates,
    Facts,
    Questions,
    learned,
    posterior_of,
    rates_of,
)
from kbforge.kb.read import entity_from_json
from kbforge.kb.spelling import values_of
from kbforge.kb.view import Policy, golden

Cells = list[list[list[int]]]  # cells, candidates, fragments of each of two voters


def questions(cells: Cells, several: bool = False) -> Questions:
    """One attribute, with voter 0, and a source, voter 1."""
    candidates = [votes for cell in cells for votes in cell]
    n = len(candidates)
    of = np.repeat(np.arange(len(cells)), list(map(len, cells)))
    size = np.array([sum(votes) for votes in candidates], np.float64)
    stating = np.bincount(of, size)[of]
    own = np.arange(n) if several else of
    return Questions(
        np.array([several]),
        np.flatnonzero(np.diff(own, prepend=-1)),
        own,
        np.zeros(n, np.int64),
        np.ones((n, 1)),
        size,
        stating,
        np.zeros(n, np.bool_),
        np.repeat(np.arange(n), 2),
        np.tile([0, 1], n),
        np.array(candidates, np.float64).ravel(),
        np.zeros(2),
        np.array([0, 0]),
    )


def probability(votes: Iterable[list[int]], right: int | None, rates: ErrorRates) -> float:
    """The probability of what a cell's fragments state, if one value, or none, is right."""
    out = 1.0
    for at, of in enumerate(votes):
        for voter, n in enumerate(of):
            r = rates.right[voter]
            out *= (r if at == right else 1 - r) ** n
        if at != right:
            m = rates.repeated[0]
            out *= (1 - m) * m ** (sum(of) - 1)
    return out


def by_enumeration(cells: Cells, prior: list[float], rates: ErrorRates) -> list[float]:
    """The marginals of all joint truths of the file."""
    truths = [[*range(len(cell)), None] for cell in cells]
    starts = np.cumsum([0, *map(len, cells)])
    weight, whole = [0.0] * starts[-1], 0.0
    for truth in product(*truths):
        p = 1.0
        for cell, right, start in zip(cells, truth, starts, strict=False):
            p *= probability(cell, right, rates)
            p *= 1.0 if right is None else exp(prior[start + right])
        whole += p
        for right, start in zip(truth, starts, strict=False):
            if right is not None:
                weight[start + right] += p
    return [w / whole for w in weight]


votes = st.lists(st.integers(0, 2), min_size=2, max_size=2).filter(any)
files = st.lists(st.lists(votes, min_size=1, max_size=3), min_size=1, max_size=3)
shares = st.floats(0.05, 0.95)


@given(files, st.lists(st.floats(-3, 3), min_size=9, max_size=9), shares, shares, shares)
def test_the_posterior_is_that_of_enumeration(
    cells: Cells, prior: list[float], one: float, other: float, repeated: float
) -> None:
    q = questions(cells)
    rates = ErrorRates(np.array([one, other]), *(np.array([x]) for x in (repeated, 0.5, 0.1)))
    found = posterior_of(q, np.array(prior[: len(q.cell)]), rates)
    assert found == pytest.approx(by_enumeration(cells, prior, rates))


@given(files, st.lists(st.floats(-3, 3), min_size=9, max_size=9))
def test_em_is_em_with_enumeration(cells: Cells, prior: list[float]) -> None:
    q = questions(cells)
    rates = ErrorRates(np.array([0.8, 0.8]), np.array([0.1]), np.array([0.5]), np.array([0.05]))
    for _ in range(3):
        rates = rates_of(q, np.array(by_enumeration(cells, prior, rates)))
    found = learned(q, np.array(prior[: len(q.cell)]), rounds=3)
    for one, other in zip(found, rates, strict=True):
        assert one == pytest.approx(other)


def test_of_several_values_each_is_right_by_itself() -> None:
    q = questions([[[6, 0], [5, 0], [1, 0]]] * 30, several=True)
    q = q._replace(stating=np.full(len(q.cell), 10.0))
    found = posterior_of(q, np.zeros(len(q.cell)), learned(q, np.zeros(len(q.cell))))[:3]
    assert found[0] > found[1] > 0.9 > 0.6 > found[2]


# --- files ----------------------------------------------------------------------------------------

Row = tuple[int, str | None, dict[str, list[str]]]  # entity, source, properties


def entities_from(rows: list[Row], order: list[int] | None = None) -> list[Entity]:
    """The entities of a grouping, with confidences."""
    places = range(len(rows)) if order is None else order
    fragments = [
        Fragment(f"f{k}", {a: tuple(v) for a, v in rows[k][2].items()}, source=rows[k][1])
        for k in places
    ]
    groups = defaultdict[int, list[int]](list)
    for at, k in enumerate(places):
        groups[rows[k][0]].append(at)
    blocks = [Subproblem(tuple(g), (Particle(0.0, (tuple(g),)),)) for g in groups.values()]
    posterior = Posterior(tuple(blocks), 0.0, len(fragments), 0)
    facts = Facts.of(fragments, firsts_of_entities(posterior))
    told = [] if facts is None else [facts.annotate]
    return list(entities_of(entity_lines(fragments, posterior, annotators=told)))


def confidences(entities: Iterable[Entity]) -> dict[tuple[str, str, str], float | None]:
    """By the first fragment in order of ids, attribute and value."""
    return {
        (min(entity.fragments), attribute, value.value): value.confidence
        for entity in entities
        for attribute, values in entity.properties.items()
        for value in values
    }


TEXTS = st.sampled_from(
    [
        "Ann Lee",
        "ann lee",
        "Lee, Ann",
        "A. Lee",
        "Anm Lee",
        "Bo",
        "n/a",
        "12 Elm St",
        "Łódź",
        "Lodz",
    ]
)
ROWS: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([None, "web", "till"]),
        st.dictionaries(
            st.sampled_from(["name", "street", "born"]),
            st.lists(TEXTS, min_size=1, max_size=2),
            min_size=1,
        ),
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS, st.randoms())
def test_the_order_of_fragments_does_not_matter(rows: list[Row], random: object) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)  # type: ignore[attr-defined]
    found, again = confidences(entities_from(rows)), confidences(entities_from(rows, order))
    assert found.keys() == again.keys()
    for key, confidence in found.items():
        assert (confidence is None) == (again[key] is None)
        assert confidence == pytest.approx(again[key], abs=0.0011)


@given(ROWS)
def test_what_holds_of_any_file(rows: list[Row]) -> None:
    stated = {(a, text) for _, _, properties in rows for a, v in properties.items() for text in v}
    several = {
        a for a in ("name", "street", "born") if any(len(p.get(a, [])) > 1 for _, _, p in rows)
    }
    for entity in entities_from(rows):
        chosen = golden(entity, Policy("fused"), list)
        for attribute, values in entity.properties.items():
            (best,) = chosen.properties[attribute]
            assert (attribute, best.value) in stated
            pools, _ = values_of([value.value for value in values])
            if len({*pools.values()}) < 2:
                assert all(value.confidence is None for value in values)
                continue
            by_pool = {pools[value.value]: value.confidence for value in values}
            assert None not in by_pool.values()
            assert best.confidence == max(by_pool.values())
            assert by_pool.get(pools.get("n/a", ""), 0.0) == 0.0
            if attribute not in several:
                assert sum(by_pool.values()) <= 1


def test_no_contradiction_says_nothing() -> None:
    rows: list[Row] = [
        (0, None, {"name": ["Ann Lee"]}),
        (0, None, {"name": ["ANN LEE", "Lee, Ann"]}),
    ]
    assert {*confidences(entities_from(rows)).values()} == {None}
    fragments = [Fragment("a", {"name": ("Ann",)}), Fragment("b", {"name": ("Ann",)})]
    assert Facts.of(fragments, np.array([0, 0])) is None


def test_a_year_is_the_date_in_it() -> None:
    rows: list[Row] = [
        (n, None, {"born": [text]})
        for n in range(5)
        for text in (f"197{n}-03-30", f"30/03/197{n}", f"197{n}")
    ]
    assert {*confidences(entities_from(rows)).values()} == {None}


def people(wrong: Mapping[str, int], n: int = 200) -> list[Row]:
    """A source states the wrong town for so many of a hundred people."""
    rows: list[Row] = []
    for k in range(n):
        for at, (source, share) in enumerate(sorted(wrong.items())):
            town = (k + at + 1 if (k * 37 + at * 11) % 100 < share else k) % 40
            rows.append((k, source, {"town": [f"Town {chr(65 + town)}{town}"]}))
    return rows


def test_sources_are_weighed_by_how_often_others_agree() -> None:
    rows = people({"good": 2, "fair": 20, "bad": 60})
    fragments = [
        Fragment(f"f{k}", {"town": (p["town"][0],)}, source=s) for k, (_, s, p) in enumerate(rows)
    ]
    facts = Facts.of(fragments, np.arange(len(rows)) // 3 * 3)
    assert facts is not None
    sources = facts.rates["town"].sources
    assert sources["good"] > 0.9 > sources["fair"] > 0.7 > 0.6 > sources["bad"]
    two: list[Row] = [
        *rows,
        (999, "good", {"town": ["Town Q1"]}),
        (999, "bad", {"town": ["Town Q2"]}),
    ]
    values = entities_from(two)[-1].properties["town"]
    sure = {value.value: value.confidence or 0.0 for value in values}
    assert sure["Town Q1"] > 0.65 > 0.25 > sure["Town Q2"]


def test_a_slip_of_a_frequent_value_is_wrong() -> None:
    rows: list[Row] = [(k // 2, None, {"town": ["Sheffield"]}) for k in range(40)]
    rows += [(99, None, {"town": ["Shefield"]}), (99, None, {"town": ["Sheffield"]})]
    values = entities_from(rows)[-1].properties["town"]
    sure = {value.value: value.confidence or 0.0 for value in values}
    assert sure["Sheffield"] > 0.9 > 0.05 > sure["Shefield"]


def test_a_knowledge_base_says_it_and_golden_records_take_it() -> None:
    towns = [*["Sheffield"] * 40, "Leeds", "Leedds", "Sheffield", "Sheffieldd"]
    fragments = [Fragment(f"f{k}", {"town": (town,)}) for k, town in enumerate(towns)]
    groups = [*((k, k + 1) for k in range(0, 40, 2)), tuple(range(40, 44))]
    blocks = tuple(Subproblem(group, (Particle(0.0, (group,)),)) for group in groups)
    kb = KnowledgeBase(fragments, Posterior(blocks, 0.0, 44, 0), Times(), 1.0, None, ())
    values = {v.value: v.confidence or 0.0 for v in kb.entities[-1].properties["town"]}
    assert 1 >= sum(values.values()) > values["Sheffield"] > 0.5
    assert kb.wide().to_pylist()[-1]["town"] == max(values, key=values.__getitem__) == "Sheffield"
    assert kb.entities[0].properties["town"][0].confidence is None


def test_rates_are_kept_and_applied() -> None:
    rows = people({"good": 2, "fair": 20, "bad": 60})
    fragments = [
        Fragment(f"f{k}", {"town": (p["town"][0],)}, source=s) for k, (_, s, p) in enumerate(rows)
    ]
    entities = np.arange(len(rows)) // 3 * 3
    facts = Facts.of(fragments, entities)
    assert facts is not None
    kept = msgspec.json.encode(facts.rates)
    again = msgspec.json.decode(kept, type=dict[str, AttributeRates])
    assert again == facts.rates
    applied = Facts.of(fragments, entities, rates=again)
    assert applied is not None
    assert applied._confidence == pytest.approx(facts._confidence, abs=0.0011)
    new = [
        Fragment("a", {"town": ("Leeds",)}, source="good"),
        Fragment("b", {"town": ("York",)}, source="bad"),
        Fragment("c", {"town": ("York",)}, source="unheard of"),
    ]
    few = Facts.of(new, np.array([0, 0, 0]), rates=again)
    assert few is not None
    stated = statements_of(new)
    assert len(few._confidence) == len(stated.texts[0]) == 2


def test_the_reader_takes_what_the_writer_says() -> None:
    rows: list[Row] = [(0, None, {"name": ["Ann"]}), (0, None, {"name": ["Bob"]})]
    (entity,) = entities_from(rows)
    assert entity_from_json(entity.to_json(), "here") == entity
    assert log(2) > sum(value.confidence or 0.0 for value in entity.properties["name"]) > 0


def test_an_error_that_the_file_shares_is_no_independent_vote() -> None:
    streets = ["Oak", "Elm", "Bridge", "Castle", "Station", "Mill", "Church", "Albert", "Harbour"]
    rows: list[Row] = [
        (k, None, {"street": [f"{name} {end}"]})
        for k, name in enumerate(streets)
        for end in ("Street", "Street", "St")
    ]
    own: list[Row] = [(99, None, {"street": [f"Victoria {end}"]}) for end in ("St", "St", "Street")]

    def told(rows: list[Row]) -> dict[str, float]:
        values = entities_from(rows)[-1].properties["street"]
        return {value.value: value.confidence or 0.0 for value in values}

    alone, among = told(own), told([*rows, *own])
    assert alone["Victoria St"] > 0.8 > alone["Victoria Street"]
    assert among["Victoria Street"] > 0.5 > among["Victoria St"]
