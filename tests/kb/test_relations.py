"""Values that name entities: the probabilities against a direct reading of the formula."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import KnowledgeBase, cluster
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.kb.relations import Mentions, Relations, meanings_of

K, T = 0.2, 0.05


def expected(names: Mentions, stated: Mentions) -> dict[tuple[int, int], list[tuple[float, int]]]:
    """By entity and key, the candidates with their probabilities, best first."""
    named = list(zip(*(column.tolist() for column in names), strict=True))
    asked: dict[tuple[int, int], set[int]] = {}
    for key, entity, unit in zip(*(column.tolist() for column in stated), strict=True):
        asked.setdefault((entity, key), set()).update({unit} - {-1})
    out = {}
    for (own, key), units in asked.items():
        same = [(e, u) for k, e, u in named if k == key and e != own]
        near = [e for e, u in same if u in units]
        found = []
        for c in {e for e, _ in same}:
            share = sum(e == c for e, _ in same) / (K + len(same))
            found.append(((near.count(c) + T * share) / (T + len(near)), c))
        none = T * K / (K + len(same)) / (T + len(near))
        found.sort(key=lambda one: (-round(one[0], 12), one[1]))
        if found and found[0][0] > none:
            out[own, key] = found
    return out


mentions = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(-1, 2)), max_size=12
)


def columns(rows: list[tuple[int, int, int]]) -> Mentions:
    return Mentions(*np.array(rows, np.int64).reshape(-1, 3).T)


@given(mentions, mentions)
def test_the_probabilities_are_those_of_the_formula(
    named: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    names, stated = columns(named), columns(asked)
    found = meanings_of(names, stated, 4)
    want = expected(names, stated)
    assert [divmod(code, 4) for code in found.code.tolist()] == sorted(want)
    for at, (_, ranked) in enumerate(sorted(want.items())):
        assert found.best[at] == ranked[0][1]
        assert found.probability[at] == pytest.approx(ranked[0][0])
        second = ranked[1] if len(ranked) > 1 else (0.0, -1)
        assert found.second[at] == second[1]
        assert found.second_probability[at] == pytest.approx(second[0])


def people(n: int = 6) -> list[Fragment]:
    """People and their employers, who are in the same text."""
    out = []
    for i in range(n):
        employer = f"Employer {chr(65 + i % 3)}"
        person = {"name": [f"Person {chr(65 + i)}"], "employer": [employer.upper()]}
        out.append(Fragment(f"p{i}", _tuples(person), source=f"text {i}"))
        named = _tuples({"name": [employer], "kind": ["company"]})
        out.append(Fragment(f"o{i}", named, source=f"text {i}"))
    return out


def _tuples(properties: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {attribute: tuple(values) for attribute, values in properties.items()}


def knowledge_base(fragments: list[Fragment], **choices: str) -> KnowledgeBase:
    return cluster(fragments, RunOptions(likelihood="names", alpha=1.0, **choices))  # type: ignore[arg-type]


def test_a_value_means_the_entity_that_the_text_names() -> None:
    entities = knowledge_base(people()).entities
    by_name = {entity.name: entity for entity in entities}
    for i in range(6):
        (value,) = by_name[f"Person {chr(65 + i)}"].properties["employer"]
        assert value.entity == by_name[f"Employer {chr(65 + i % 3)}"].id
        assert value.meanings[0].probability > 0.9
    assert all(v.entity is None for e in entities for v in e.properties["name"])


def test_namesakes_are_told_apart_by_the_text() -> None:
    city = [
        Fragment(f"c{i}", _tuples({"name": ["Paris"], "in": [place]}), source=f"text {i}")
        for i, place in enumerate(("France", "France", "Texas"))
    ]
    visits = [
        Fragment(f"v{i}", _tuples({"name": [f"Visitor {i}"], "visits": ["Paris"]}), source=source)
        for i, source in enumerate(("text 2", "elsewhere"))
    ]
    fragments = [*city, *visits]
    entities = np.array([0, 0, 2, 3, 4])
    found = Relations.of(fragments, entities, "visits")
    assert found is not None
    told = found.meanings
    assert told.best.tolist() == [2, 0]
    assert told.second.tolist() == [0, 2]
    assert told.probability[0] > 0.95
    assert told.probability[1] == pytest.approx(2 / 3.2)


def test_attributes_are_found_by_their_values() -> None:
    fragments = people(12)
    entities = np.arange(len(fragments))
    found = Relations.of(fragments, entities)
    assert found is not None
    assert found.attributes == ("employer",)


@pytest.mark.parametrize("refers", ["none", "auto"])
def test_a_file_without_references_is_written_as_before(refers: str) -> None:
    fragments = people() if refers == "none" else [x for x in people() if x.id[0] == "p"]
    assert all(
        not v.meanings
        for entity in knowledge_base(fragments, refers=refers).entities
        for values in entity.properties.values()
        for v in values
    )


def test_an_attribute_does_not_refer_by_numbers() -> None:
    fragments = [
        Fragment(f"y{i}", _tuples({"name": [str(1990 + i)], "year": [str(1990 + i % 5)]}))
        for i in range(12)
    ]
    assert Relations.of(fragments, np.arange(12)) is None


def test_names_in_parts_are_joined() -> None:
    parts = [("Ada", "Lovelace"), ("Alan", "Turing"), ("Grace", "Hopper")]
    fragments = [
        Fragment(f"n{i}", _tuples({"first_name": [first], "last_name": [last]}))
        for i, (first, last) in enumerate(parts)
    ]
    fragments.append(Fragment("t", _tuples({"title": ["Thesis"], "author": ["ADA LOVELACE"]})))
    found = Relations.of(fragments, np.arange(4), "author")
    assert found is not None
    assert found.meanings.best.tolist() == [0]


@pytest.mark.parametrize("employers", [["Employer A"], ["EMPLOYER A", "Łódź"]])
def test_an_employer_does_not_name_who_works_there(tmp_path: Path, employers: list[str]) -> None:
    """Without a name, an entity is called by another attribute, or by its first fragment."""
    fragments = people()
    fragments.append(Fragment("alone", _tuples({"employer": employers})))
    fragments.append(Fragment("told", _tuples({"employer": employers, "town": ["Łódź", "Lublin"]})))
    found = knowledge_base(fragments).entities
    store = str(tmp_path / "kb.sqlite")
    add_fragments(store, fragments, RunOptions(likelihood="names", alpha=1.0))
    for entities in (found, [*entities_of(store)]):
        names = {id: entity.name for entity in entities for id in entity.fragments}
        assert names["alone"] == "alone"
        assert names["told"] in ("Łódź", "Lublin")
        assert names["p0"] == "Person A"


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(UsageError, match=r'--refers: no fragment has "employr".*employer'):
        knowledge_base(people(), refers="employr")
