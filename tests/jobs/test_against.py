"""Clustering against an authority: files, links, stores and what is refused."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kbforge
from kbforge.contracts import Entity, Fragment
from kbforge.errors import ContradictionError, KBForgeError
from kbforge.files.fragments import write_fragments
from kbforge.fit import authority as room
from kbforge.fit.authority import Authority
from kbforge.jobs.views import entities_of
from kbforge.kb.links import KnownLink
from tests.jsonl import read_lines
from tests.people import people
from tests.profile import examples
from tests.program import Run

CHOSEN = {"likelihood": "attributes", "alpha": 2.0}


def person(id: str, name: str, town: str, label: str | None = None) -> Fragment:
    return Fragment(id, {"name": (name,), "town": (town,)}, label=label)


KNOWN = [
    person("a1", "Ann Lee", "Rome", "Q1"),
    person("a2", "Anna Lee", "Rome", "Q1"),
    person("b1", "Bo Ray", "Oslo", "Q2"),
    person("c1", "Ann Lee", "Rome", "Q3"),
    person("d1", "Dan Poe", "Bern", "Q4"),
]
MENTIONS = [
    person("m1", "Bo Ray", "Oslo"),
    person("m2", "Zed Zulu", "Lima"),
    person("m3", "Zed Zulu", "Lima"),
    person("m4", "Bo Ray", "Oslo"),
    person("m5", "Ann Lee", "Rome"),
]


def by_id(entities: Sequence[Entity]) -> dict[str, Entity]:
    return {entity.id: entity for entity in entities}


def known_in(entity: Entity) -> list[str]:
    return [id for id in entity.fragments if id.startswith("Q")]


def test_known_entities_take_in_what_belongs_to_them() -> None:
    kb = kbforge.cluster(MENTIONS, against=KNOWN, **CHOSEN)
    found = by_id(kb.entities)
    assert set(found["Q2"].fragments) == {"Q2", "m1", "m4"}
    assert "Q4" not in found  # it took in nothing
    (new,) = [entity for entity in kb.entities if "m2" in entity.fragments]
    assert set(new.fragments) == {"m2", "m3"}
    assert new.id.startswith("e-")
    links = {link.mention: link for link in kb.links if isinstance(link, KnownLink)}
    assert list(links) == [x.id for x in MENTIONS]
    assert (links["m1"].entity, links["m1"].linked) == ("Q2", True)
    assert (links["m1"].probability or 0) > 0.5
    assert (links["m2"].entity, links["m2"].linked, links["m2"].new_probability) == (None, False, 1)
    # two known entities of one name: the mention is of one, and the other is the runner-up
    twin = links["m5"]
    assert {twin.entity, twin.runner_up} == {"Q1", "Q3"}
    total = (twin.probability or 0) + (twin.runner_up_probability or 0) + twin.new_probability
    assert total == pytest.approx(1)
    assert not any(len(known_in(entity)) > 1 for entity in kb.entities)
    summary = kb.summary()
    assert (summary["mentions"], summary["linked"], summary["known_entities"]) == (5, 3, 4)
    assert summary["entities"] == len(kb.entities)


def test_all_known_entities_on_request() -> None:
    kb = kbforge.link(MENTIONS, against=KNOWN, all_known=True, **CHOSEN)
    found = by_id(kb.entities)
    assert {"Q1", "Q2", "Q3", "Q4"} <= set(found)
    names = {value.value for value in found["Q1"].properties["name"]}
    assert names == {"Ann Lee", "Anna Lee"}
    assert found["Q4"].fragments == ("Q4",)
    assert kb.summary()["entities"] == len(kb.entities)


@examples(15)
@given(seed=st.integers(0, 1000), alpha=st.sampled_from([1e-6, 1.0]), split=st.booleans())
def test_entities_of_the_authority_never_merge(seed: int, alpha: float, split: bool) -> None:
    """However alike they are, and however few entities there ought to be."""
    rng = np.random.default_rng(seed)
    names = ["Ann Lee", "Bo Ray", "Ann Ray"]
    known = [person(f"Q{n}", names[rng.integers(3)], "Rome") for n in range(6)]
    mentions = [person(f"m{n}", names[rng.integers(3)], "Rome") for n in range(10)]
    clusterer = "split-smc" if split else "greedy"
    kb = kbforge.cluster(
        mentions,
        against=known,
        all_known=True,
        likelihood="attributes",
        alpha=alpha,
        clusterer=clusterer,
    )
    held = [known_in(entity) for entity in kb.entities]
    assert sorted(id for ids in held for id in ids) == [x.id for x in known]
    assert all(len(ids) < 2 for ids in held)
    for subproblem in kb.posterior.subproblems:
        for particle in subproblem.particles:
            for cluster in particle.clusters:
                assert sum(kb.fragments[i].known is not None for i in cluster) < 2
    for entity, ids in zip(kb.entities, held, strict=True):
        assert not ids or entity.id == ids[0]


def test_an_authority_without_labels_is_an_entity_a_fragment() -> None:
    plain = [replace(x, label=None) for x in KNOWN]
    kb = kbforge.cluster(MENTIONS, against=plain, all_known=True, **CHOSEN)
    assert "the authority has no labels: each of its 5 fragments is a separate entity" in kb.notes
    assert {"a1", "a2", "b1", "c1", "d1"} <= set(by_id(kb.entities))


def test_a_large_authority_lends_what_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of all of it."""
    some = people(60, 7)
    known = [replace(x, id=f"K{x.id}", label=None) for x in some[::3]]
    mentions = [x for n, x in enumerate(some) if n % 3]
    whole = kbforge.cluster(mentions, against=known, **CHOSEN)
    monkeypatch.setattr(room, "WHOLE", 5)
    near = Authority.of_fragments(known).near(mentions)
    assert 0 < len(near) <= len(known)
    with_near = kbforge.cluster(mentions, against=known, **CHOSEN)

    def linked(kb: kbforge.KnowledgeBase) -> dict[str, str | None]:
        links = [link for link in kb.links if isinstance(link, KnownLink)]
        return {link.mention: link.entity for link in links if link.linked}

    assert linked(with_near) == linked(whole)
    none_near = [person("x", "Quux", "Zyzzx")]
    assert Authority.of_fragments(known).near(none_near) == []
    kb = kbforge.cluster(none_near, against=known, all_known=True, **CHOSEN)
    assert len(kb.entities) == len(known) + 1
    assert "0 of 57 known entities are near a fragment; the others took no part" in kb.notes


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ([], "the authority has no entities"),
        ([person("m1", "Ann", "Rome")], 'against: "m1" is the id of a fragment and of an entity'),
        ([person("a", "Ann", "Rome", "b"), person("b", "Bo", "Oslo")], '"b" both as a label'),
        ([person("a", "Ann", "Rome"), person("a", "Bo", "Oslo")], 'a unique id, got "a" again'),
    ],
)
def test_a_bad_authority_is_one_sentence(known: list[Fragment], said: str) -> None:
    with pytest.raises(KBForgeError, match=said) as caught:
        kbforge.cluster(MENTIONS, against=known, **CHOSEN)
    assert "\n" not in str(caught.value)


def test_other_estimates_are_refused() -> None:
    with pytest.raises(KBForgeError, match='estimate="binder" may merge entities of the authority'):
        kbforge.cluster(MENTIONS, against=KNOWN, estimate="binder", **CHOSEN)
    with pytest.raises(KBForgeError, match="against: expected one table, got 2"):
        kbforge.link(MENTIONS, MENTIONS, against=KNOWN)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_fragments(KNOWN, "authority.jsonl")
    write_fragments(MENTIONS, "mentions.jsonl")
    return tmp_path


OPTIONS = ("--likelihood", "attributes", "--alpha", 2)


def test_on_the_command_line(program: Run, here: Path) -> None:
    against = ("--against", "authority.jsonl", *OPTIONS)
    ran = program("link", "mentions.jsonl", *against, "--links", "links.csv")
    assert "known entities" in ran.err
    with open("links.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["mention"], row["entity"], row["linked"]) for row in rows][:2] == [
        ("m1", "Q2", "true"),
        ("m2", "", "false"),
    ]
    linked = Path("mentions.kb.jsonl").read_bytes()
    made = orjson.loads(linked.splitlines()[0])["made"]
    assert made["choices"]["against"] == "authority.jsonl"
    program("cluster", "mentions.jsonl", *against)
    assert Path("mentions.kb.jsonl").read_bytes() == linked
    # the knowledge base is an authority itself
    program("link", "mentions.jsonl", *against, "--all-known", "-o", "all.jsonl")
    write_fragments([person("n1", "Bo Ray", "Oslo"), person("n2", "Zed Zulu", "Lima")], "n.jsonl")
    program("link", "n.jsonl", "--against", "all.jsonl", *OPTIONS, "--links", "links.jsonl")
    zed = next(e for e in entities_of("all.jsonl") if "m2" in e.fragments)
    assert [link["entity"] for link in read_lines("links.jsonl")] == ["Q2", zed.id]


def test_tables_on_the_command_line(program: Run, here: Path) -> None:
    Path("who.csv").write_text("key,who,town\n1,Bo Ray,Oslo\n2,Zed Zulu,Lima\n")
    Path("register.csv").write_text("key,name,town\n1,Ann Lee,Rome\n7,Bo Ray,Oslo\n")
    columns = ("--id", "key", "--map", "who=name", *OPTIONS)
    ran = program("link", "who.csv", "--against", "register.csv", *columns, "--links", "l.jsonl")
    assert "linking who (2), 2 known entities" in ran.err
    found = [(link["mention"], link["entity"]) for link in read_lines("l.jsonl")]
    assert found == [("who:1", "register:7"), ("who:2", None)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("link", "mentions.jsonl", "--links", "l.csv"), "two or more tables"),
        (("link", "mentions.jsonl", "--all-known"), "expected --against AUTHORITY"),
        (("cluster", "-", "--against", "-"), "standard input has the fragments"),
        (("cluster", "mentions.jsonl", "--against", "none.jsonl"), "none.jsonl"),
        (("link", "mentions.jsonl", "mentions.jsonl", "--against", "authority.jsonl"), "one table"),
        (
            (
                "link",
                "mentions.jsonl",
                "--against",
                "authority.jsonl",
                "--links",
                "mentions.kb.jsonl",
            ),
            "mentions.kb.jsonl",
        ),
    ],
)
def test_refusals(program: Run, here: Path, arguments: Sequence[str], said: str) -> None:
    ran = program(*arguments)
    assert ran.code != 0
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_store_honours_its_authority_later(here: Path) -> None:
    kbforge.update("kb.sqlite", MENTIONS[:2], against="authority.jsonl", **CHOSEN)
    kbforge.update("kb.sqlite", MENTIONS[2:])
    found = by_id(list(entities_of("kb.sqlite")))
    assert {"Q1", "Q2", "Q3", "Q4"} <= set(found)
    assert set(found["Q2"].fragments) == {"Q2", "m1", "m4"}
    with pytest.raises(ContradictionError, match='entities "Q1" and "Q3" of the authority'):
        kbforge.decide("kb.sqlite", [("same", "Q1", "Q3")])
    # the same again adds nothing; a grown authority adds its new entity
    again = kbforge.update("kb.sqlite", MENTIONS, against=KNOWN)
    assert (again.added, again.skipped) == (0, 9)
    zed = person("z1", "Zed Zulu", "Lima", "Q9")
    kbforge.update("kb.sqlite", [person("m6", "Zed Zulu", "Lima")], against=[*KNOWN, zed])
    found = by_id(list(entities_of("kb.sqlite")))
    assert set(found["Q9"].fragments) == {"Q9", "m2", "m3", "m6"}
    # a decision that leaves one of many fragments leaves the entity its id
    kbforge.decide("kb.sqlite", [("different", "Q9", id) for id in ("m2", "m3", "m6")])
    found = by_id(list(entities_of("kb.sqlite")))
    assert found["Q9"].fragments == ("Q9",)
    assert all(len(known_in(entity)) < 2 for entity in found.values())
    kbforge.remove("kb.sqlite", ["Q9"])
    assert "Q9" not in by_id(list(entities_of("kb.sqlite")))


def test_a_store_without_an_authority_takes_none(here: Path) -> None:
    kbforge.update("kb.sqlite", MENTIONS, **CHOSEN)
    with pytest.raises(KBForgeError, match=r"kb\.sqlite was made without it"):
        kbforge.update("kb.sqlite", MENTIONS, against=KNOWN)
