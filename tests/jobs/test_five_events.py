"""The five events of a living source, each with what it does to entities and their ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbforge.contracts import Entity, Fragment
from kbforge.fit.choices import Choices
from kbforge.jobs.update import take_in
from kbforge.jobs.views import entities_of
from tests.people import people


def person(id: str, **said: str) -> Fragment:
    return Fragment(id, {attribute: (value,) for attribute, value in said.items()})


ANNA = {"name": "anna karenina", "born": "1928-03-14", "town": "tverskaja"}
BORIS = {"name": "boris godunov", "born": "1911-11-02", "town": "novgorod"}


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with Anna twice, Boris once, and others."""
    path = str(tmp_path / "kb.sqlite")
    held = [person("anna-1", **ANNA), person("anna-2", **ANNA), person("boris-1", **BORIS)]
    take_in(path, [*people(60, 3), *held], Choices(likelihood="attributes", alpha=50.0))
    return path


def holding(store: str, fragment: str) -> Entity:
    return next(entity for entity in entities_of(store) if fragment in entity.fragments)


def content(store: str) -> dict[str, tuple[str, ...]]:
    return {entity.id: entity.fragments for entity in entities_of(store)}


def test_a_new_record_joins_an_entity(store: str) -> None:
    before = content(store)
    entity = holding(store, "anna-1").id
    take_in(store, [person("anna-3", **ANNA)], Choices())
    assert content(store) == {**before, entity: ("anna-1", "anna-2", "anna-3")}


def test_a_new_record_opens_an_entity(store: str) -> None:
    before = content(store)
    vera = person("vera-1", name="vera pavlovna", born="1877-11-30", town="kasan")
    take_in(store, [vera], Choices())
    opened = holding(store, "vera-1")
    assert opened.id not in before
    assert content(store) == {**before, opened.id: ("vera-1",)}


def test_a_bridge_makes_two_entities_one(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    by_name = person("name-1", name="stepan oblonsky")
    by_birth = person("born-1", born="1901-05-06", town="moskau arbat")
    others = people(60, 3)
    take_in(path, [*others, by_name, by_birth], Choices(likelihood="attributes", alpha=50.0))
    one, other = holding(path, "name-1").id, holding(path, "born-1").id
    assert one != other
    bridges = [
        person(f"bridge-{k}", name="stepan oblonsky", born="1901-05-06", town="moskau arbat")
        for k in range(2)
    ]
    take_in(path, bridges, Choices())
    merged = holding(path, "name-1")
    assert set(merged.fragments) == {"name-1", "born-1", "bridge-0", "bridge-1"}
    assert merged.id in (one, other)


def test_a_corrected_record_no_longer_belongs_and_its_entity_splits(store: str) -> None:
    before = content(store)
    entity = holding(store, "anna-1").id
    take_in(store, [person("anna-2", **BORIS)], Choices(), on_duplicate="replace")
    boris = holding(store, "boris-1").id
    now = {**before, entity: ("anna-1",), boris: ("anna-2", "boris-1")}
    assert content(store) == now


def test_a_reverted_correction_leaves_all_as_before(store: str) -> None:
    before = [entity.to_json() for entity in entities_of(store)]
    other = person("anna-1", **BORIS)
    take_in(store, [other], Choices(), on_duplicate="replace")
    assert content(store) != {one["id"]: tuple(one["fragments"]) for one in before}
    take_in(store, [person("anna-1", **ANNA)], Choices(), on_duplicate="replace")
    after = [entity.to_json() for entity in entities_of(store)]
    for one, other in zip(before, after, strict=True):
        # a subproblem that was one with another and is by itself again is weighed anew
        for figure in ("confidence", "reported"):
            assert one.pop(figure, None) == pytest.approx(other.pop(figure, None))
        for here, there in zip(
            one.pop("alternatives", ()), other.pop("alternatives", ()), strict=True
        ):
            assert here.pop("probability") == pytest.approx(there.pop("probability"))
            assert here == there
        assert one == other
