"""What persons assert about values: golden by every policy, beside the grouping, and undone."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Entity, Fragment
from kbforge.errors import BadRecord, ContradictionError, NotFoundError, UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge.jobs.decide import assert_value, decide, decisions_of, signed_decisions, undo
from kbforge.jobs.refit import refit
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of, store_view
from kbforge.kb.read import entity_from_json
from kbforge.kb.view import LATEST, LONGEST, MOST_STATED, Policy, golden
from kbforge.store.audit import signed
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.profile import examples
from tests.store.dump import dump

PEOPLE = people(15, 8)
IDS = [fragment.id for fragment in PEOPLE]
RULES = ("fused", MOST_STATED, LONGEST, LATEST)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("asserted") / "kb.sqlite"
    add_fragments(str(path), PEOPLE, RunOptions(likelihood="attributes", alpha=10.0))
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> str:
    return shutil.copy(whole, tmp_path / "kb.sqlite")


def state(by: str, about: str, attribute: str, value: str, path: str, note: str = "") -> int:
    """The number of the decision."""
    with signed(by, note):
        (number,) = assert_value(path, about, attribute, value).told["decisions"]
    return int(number)


def of(path: str, fragment: str) -> Entity:
    with Database(path) as database:
        entity = store_view(Store(database)).with_fragment(fragment)
    assert entity_from_json(entity.to_json(), "here") == entity
    return entity


def content(path: str) -> list[Entity]:
    """Entities without what persons assert."""
    return [
        replace(
            entity,
            name="",
            properties={},
            fragments=tuple(id for id in entity.fragments if id in IDS),
            alternatives=tuple(
                (one.probability, tuple(tuple(id for id in g if id in IDS) for g in one.groups))
                for one in entity.alternatives
            ),
        )
        for entity in entities_of(path)
    ]


def chosen(entity: Entity, rule: str) -> dict[str, str]:
    found = golden(entity, Policy(rule), lambda entity: []).properties
    return {attribute: values[0].value for attribute, values in found.items()}


def test_a_value_is_golden_by_every_policy_with_its_person_and_names_the_entity(store: str) -> None:
    about = next(x for x in PEOPLE if "name" in x.properties)
    before = of(store, about.id)
    number = state("ada", about.id, "name", "Zoë", store, "she said so")
    entity = of(store, about.id)
    (first, *others) = entity.properties["name"]
    said = f"ada, decision {number}"
    assert (entity.name, first.value, first.by, first.confidence) == ("Zoë", "Zoë", "ada", 1.0)
    assert first.fragments == (said,)
    assert {v.value for v in others} == {v.value for v in before.properties["name"]}
    assert {v.confidence for v in others} == {0.0}
    assert {chosen(entity, rule)["name"] for rule in RULES} == {"Zoë"}
    assert entity.fragments == (*before.fragments, said)
    with Database(store) as database:
        view = store_view(Store(database))
        (x,) = [x for x in view.fragments(entity) if x.id == said]
        assert Store(database).fragment(said)[1] == x
    assert (x.source, x.asserted_of, (x.metadata or {})["note"]) == ("ada", about.id, "she said so")


def test_confirming_the_only_value_adds_no_contradiction(store: str) -> None:
    entity, value = next(
        (e, e.properties["born"][0])
        for e in entities_of(store)
        if len(e.properties.get("born", ())) == 1
    )
    state("ada", entity.fragments[0], "born", value.value, store)
    (now,) = of(store, entity.fragments[0]).properties["born"]
    assert (now.by, now.confidence, now.count) == ("ada", None, value.count + 1)


def test_a_value_that_nobody_stated_comes_in(store: str) -> None:
    add_fragments(store, [Fragment("bare", {"name": ("Quux Yvqzk",)})], RunOptions())
    state("ada", "bare", "town", "Ulm", store)
    assert of(store, "bare").properties["town"][0].by == "ada"


def test_of_two_persons_the_last_one_holds_and_the_contradiction_stays(store: str) -> None:
    number = state("ada", IDS[0], "town", "Ulm", store)
    assert state("ada", IDS[0], "town", "Ulm", store) == number  # it is in force
    state("bob", IDS[0], "town", "Bonn", store)
    first, *others = of(store, IDS[0]).properties["town"]
    assert (first.value, first.by) == ("Bonn", "bob")
    (ada,) = [one for one in others if one.value == "Ulm"]
    assert (ada.by, ada.confidence, ada.fragments) == (None, 0.0, (f"ada, decision {number}",))


@pytest.mark.parametrize(
    ("about", "attribute", "value", "error"),
    [
        ("nobody", "town", "Ulm", NotFoundError),
        (IDS[0], "twon", "Ulm", UsageError),
        (IDS[0], "town", "", BadRecord),
        (IDS[0], "town", "a\0b", BadRecord),
    ],
)
def test_what_cannot_be_asserted_is_refused_and_changes_nothing(
    store: str, about: str, attribute: str, value: str, error: type[Exception]
) -> None:
    before = dump(Path(store))
    with pytest.raises(error):
        state("ada", about, attribute, value, store)
    assert dump(Path(store)) == before


def test_undo_restores_the_store_exactly_or_takes_the_value_out(store: str) -> None:
    before = list(entities_of(store))
    first = state("ada", IDS[0], "town", "Ulm", store)
    second = state("bob", IDS[1], "town", "Bonn", store)
    assert undo(store, second).told["exact"] is True
    state("bob", IDS[1], "town", "Bonn", store)
    assert undo(store, first).told["exact"] is False
    assert all(v.by is None for v in of(store, IDS[0]).properties.get("town", ()))
    assert of(store, IDS[1]).properties["town"][0].by == "bob"
    undo(store, 3)
    assert list(entities_of(store)) == before


def test_readers_of_changes_are_told_of_an_assertion_and_of_its_end(store: str) -> None:
    number = state("ada", IDS[0], "town", "Ulm", store)
    state("ada", IDS[1], "town", "Ulm", store)
    undo(store, number)
    for since, about in ((1, IDS[0]), (2, IDS[1]), (3, IDS[0])):
        with Database(store) as database:
            (change,) = changes(Store(database), since, since + 1)
        assert about in change.after == change.before


def test_the_words_of_an_assertion_are_in_the_audit_until_it_is_erased(store: str) -> None:
    number = state("ada", IDS[0], "town", "Ulm", store, "a note")
    with Database(store) as database:
        (one,) = signed_decisions(Store(database))
    assert (one.by, one.note, one.asserts) == ("ada", "a note", f'value of {IDS[0]}: town is "Ulm"')
    erase(store, [f"ada, decision {number}"])
    assert b"Ulm" not in Path(store).read_bytes()
    assert of(store, IDS[0]).properties.get("town", ((),))[0] != "Ulm"
    with Database(store) as database:
        assert Store(database).decisions() == []


def test_an_assertion_goes_and_comes_with_its_fragment(store: str) -> None:
    x = PEOPLE[0]
    state("ada", x.id, "town", "Ulm", store)
    remove(store, [x.id])
    assert "Ulm" not in str([entity.to_json() for entity in entities_of(store)])
    add_fragments(store, [x], RunOptions())
    assert of(store, x.id).properties["town"][0].by == "ada"
    refit(store)
    assert of(store, x.id).properties["town"][0].by == "ada"
    erase(store, [x.id])
    assert b"Ulm" not in Path(store).read_bytes()


def test_what_persons_assert_is_no_fragment_to_add(store: str) -> None:
    number = state("ada", IDS[0], "town", "Ulm", store)
    said = of(store, IDS[0]).fragments[-1]
    with pytest.raises(UsageError, match="is the id of what a person asserts"):
        add_fragments(store, [Fragment(said, {"town": ("Ulm",)})], RunOptions())
    marked = Fragment("x", {"town": ("Ulm",)}, source="bob", metadata={"asserted_of": IDS[0]})
    with pytest.raises(UsageError, match="kbforge decide STORE value"):
        add_fragments(store, [marked], RunOptions())
    with pytest.raises(UsageError, match="kbforge decide STORE value"):
        cluster([*PEOPLE, marked], RunOptions(likelihood="attributes", alpha=10.0))
    undo(store, number)
    add_fragments(store, [Fragment(said, {"town": ("Ulm",)})], RunOptions())


class Asserted(NamedTuple):
    number: int
    about: str
    attribute: str
    value: str
    by: str


@examples(25)
@given(seed=st.integers(0, 1 << 32))
def test_random_assertions_decisions_and_undo_against_a_model(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Golden values are those of the model, and all else is as in a store without assertions."""
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("random")
    path, twin = (shutil.copy(whole, folder / f"{name}.sqlite") for name in ("kb", "twin"))
    told, made, left = list[Asserted](), list[tuple[int, int]](), list(IDS)
    act = ""
    for _ in range(8):
        before, act = (
            act,
            rng.choice(["assert", "assert", "assert", "undo", "decide", "revoke", "remove"]),
        )
        if act == "assert":
            about, attribute = rng.choice(left), rng.choice(["name", "born", "town"])
            value, by = rng.choice(["Ulm", "Zoë", "1815"]), rng.choice(["ada", "bob"])
            number = state(by, about, attribute, value, path)
            if all(one.number != number for one in told):
                told.append(Asserted(number, about, attribute, value, by))
        elif act == "undo" and told:
            undo(path, told.pop(rng.randrange(len(told))).number)
        elif act == "decide":
            pair = (rng.choice(["same", "different"]), *rng.sample(left, 2))
            try:
                numbers = [decide(p, decisions_of([pair])).told["decisions"] for p in (path, twin)]
            except ContradictionError:
                continue
            made.append((numbers[0][0], numbers[1][0]))
        elif act == "revoke" and (len(made) > 1 or (made and before == "decide")):
            # in both stores the last decision, or in both an earlier one
            twins = made.pop(rng.randrange(len(made) - 1) if len(made) > 1 else 0)
            exact = [undo(*one).told["exact"] for one in zip((path, twin), twins, strict=True)]
            assert exact[0] == exact[1]
        elif act == "remove":
            gone = left.pop(rng.randrange(len(left)))
            remove(path, [gone])
            remove(twin, [gone])
    assert content(path) == content(twin)
    for entity, plain in zip(entities_of(path), entities_of(twin), strict=True):
        require_settled(entity, plain, [one for one in told if one.about in entity.fragments])


def require_settled(entity: Entity, plain: Entity, told: list[Asserted]) -> None:
    """The values of an entity are those without assertions, and those that its own ones settle."""
    latest: Mapping[str, Asserted] = {one.attribute: one for one in told}
    said = [f"{one.by}, decision {one.number}" for one in told]
    assert entity.fragments == (*plain.fragments, *said)
    for attribute, values in entity.properties.items():
        held = {v.value: v.fragments for v in plain.properties.get(attribute, ())}
        for one, id in zip(told, said, strict=True):
            if one.attribute == attribute:
                held[one.value] = (*held.get(one.value, ()), id)
        assert {v.value: v.fragments for v in values} == held
        settled = [v for v in values if v.by is not None]
        if attribute not in latest:
            assert not settled
            assert tuple(values) == tuple(plain.properties[attribute])
            continue
        assert [(v.value, v.by) for v in settled] == [latest[attribute][3:]]
        assert values[0] is settled[0]
        assert {chosen(entity, rule)[attribute] for rule in RULES} == {settled[0].value}
