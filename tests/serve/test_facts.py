"""What the doors say of a store, against what its files and verbs say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.contracts.clusterer import Decision
from kbforge.errors import NotFoundError, UsageError, how_sure
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.report import status_of
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import around, entities_of
from kbforge.kb.similarity import block_of
from kbforge.kb.similarity import similar as similar_fragments
from kbforge_serve import facts as module
from kbforge_serve import listing as list_module
from kbforge_serve.answers import plain
from kbforge_serve.readers import Readers
from tests.people import people
from tests.serve.said import Said

facts = Said(module)
listings = Said(list_module)
_PEOPLE = people(60, 3, error=0.3)


def _filled(path: Path) -> str:
    """A store that two commands filled, with several entities that are in doubt."""
    add_fragments(str(path), _PEOPLE[:100], RunOptions(likelihood="attributes", seed=1))
    add_fragments(str(path), _PEOPLE[100:], RunOptions())
    return str(path)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    made = Readers(_filled(tmp_path_factory.mktemp("facts") / "kb.sqlite"))
    yield made
    made.close()


def test_an_entity_is_what_the_store_exports(readers: Readers) -> None:
    by_id = {fragment.id: fragment for fragment in _PEOPLE}
    for expected in entities_of(readers.path):
        told = facts.entity(readers, expected.id)
        json.dumps(told)
        assert told["name"] == expected.name
        assert told["confidence"] == expected.confidence
        assert told["reported"] == expected.probability
        assert [one["fragment"]["id"] for one in told["fragments"]] == list(expected.fragments)
        assert {
            a: [(v["value"], v["count"]) for v in vs] for a, vs in told["properties"].items()
        } == {a: [(v.value, v.count) for v in vs] for a, vs in expected.properties.items()}
        assert [(a["probability"], a["groups"]) for a in told["alternatives"]] == [
            (a.probability, [list(g) for g in a.groups]) for a in expected.alternatives
        ]
        for one in told["alternatives"]:
            outside = {*chain.from_iterable(one["groups"])}.difference(expected.fragments)
            assert one["homes"].keys() == outside
            assert {*one["homes"].values()} <= {other["id"] for other in one["others"]}
            assert not outside or any(other["name"] in one["said"] for other in one["others"])
        for one in told["fragments"]:
            held = by_id[one["fragment"]["id"]]
            assert "label" not in one["fragment"]
            assert one["fragment"]["properties"] == {k: list(v) for k, v in held.properties.items()}
            assert set(one["agrees"]).isdisjoint(one["differs"])


def test_a_fragment_agrees_with_the_commonest_value(tmp_path: Path) -> None:
    same = [Fragment(str(n), {"name": ("Ada",), "born": ("1815",)}) for n in range(3)]
    other = Fragment("3", {"name": ("Ada",), "born": ("1816",), "town": ("Ely",)})
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, [*same, other], RunOptions(likelihood="names"))
    readers = Readers(path)
    told = facts.fragment(readers, "3")
    assert told["agrees"] == ["name"]
    assert told["differs"] == {"born": ["1815"]}
    assert facts.fragment(readers, "0")["agrees"] == ["name", "born"]


def test_references_are_the_entities(readers: Readers) -> None:
    entities = {one.id: one for one in entities_of(readers.path)}
    ids = list(reversed(entities))
    with readers.store() as store:
        found = facts.references(readers, store, ["nobody", *ids])
        assert [one["id"] for one in found] == ids
        assert found == [facts.reference(entities[id]) for id in ids]
        numbers = store.pages.numbers([fragment.id for fragment in _PEOPLE])
        holding = module.holding(readers, store, list(numbers.values()))
    for one in entities.values():
        for fragment in one.fragments:
            assert holding[numbers[fragment]].id == one.id


def test_listings_are_in_order(readers: Readers) -> None:
    entities = list(entities_of(readers.path))
    sizes = [one["size"] for one in listings.listing(readers, order="largest", most=20)["entities"]]
    assert sizes == sorted((len(one.fragments) for one in entities), reverse=True)[:20]
    sure = [
        one["confidence"]
        for one in listings.listing(readers, order="least_sure", most=20)["entities"]
    ]
    assert sure == sorted(one.confidence for one in entities)[:20]
    with pytest.raises(UsageError, match="expected the order largest or least_sure"):
        listings.listing(readers, order="by heart")


def test_similar_fragments_are_those_of_the_verb(readers: Readers) -> None:
    for fragment in _PEOPLE[:40]:
        block = around(readers.path, [fragment.id])
        expected = similar_fragments(block.copy, fragment.id)
        told = facts.similar(readers, fragment.id)["similar"]
        assert [(one["fragment"], one["probability"]) for one in told] == [
            (one.fragment, one.probability) for one in expected
        ]


def test_a_subproblem_has_the_similarity_of_its_groupings(readers: Readers) -> None:
    seen = 0
    for one in listings.listing(readers, order="least_sure", most=30)["entities"]:
        name = facts.entity(readers, one["id"])["subproblem"]
        told = facts.subproblem(readers, name)
        first = told["fragments"][0]
        block, expected = block_of(around(readers.path, [first]).copy, first, 10_000)
        assert [one["id"] for one in told["entities"]] == [one.id for one in block]
        assert np.allclose(told["similarity"], expected, atol=1e-3)
        if told["particles"] <= 20:
            assert sum(g["probability"] for g in told["groupings"]) == pytest.approx(1)
        seen += len(told["groupings"]) > 1
    assert seen


def test_history_says_what_runs_did(tmp_path: Path) -> None:
    path = _filled(tmp_path / "kb.sqlite")
    readers = Readers(path)
    largest = listings.listing(readers, order="largest", most=1)["entities"][0]
    gone = facts.entity(readers, largest["id"])["fragments"][-1]["fragment"]["id"]
    remove(path, [gone])
    history = facts.entity(readers, largest["id"])["history"]
    assert history[0]["run"] == 3
    assert history[0]["verb"] == "remove"
    assert (history[0]["kind"], history[0]["gained"], history[0]["lost"]) == ("changed", 0, 1)
    assert history[-1]["kind"] == "created"
    assert sum(one["gained"] - one["lost"] for one in history) == largest["size"] - 1
    with pytest.raises(NotFoundError, match="has no fragment"):
        facts.fragment(readers, gone)
    erase(path, [gone])
    history = facts.entity(readers, largest["id"])["history"]
    (removed,) = [one for one in history if one["verb"] == "remove"]
    assert (removed["gained"], removed["lost"]) == (0, 0)


def test_history_names_the_entities_of_then(tmp_path: Path) -> None:
    given = [Fragment(id, {"name": (name,)}) for id, name in [("a", "Ada King"), ("b", "Bo Dahl")]]
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, given, RunOptions(likelihood="names"))
    before = {one.fragments[0]: one.id for one in entities_of(path)}
    decide(path, [Decision(True, "a", "b")])
    readers = Readers(path)
    (now,) = listings.listing(readers)["entities"]
    (former,) = {*before.values()} - {now["id"]}
    gone = next(id for id, entity in before.items() if entity == former)
    name = {"a": "Ada King", "b": "Bo Dahl"}[gone]
    assert facts.entity(readers, now["id"])["history"][0]["others"] == {former: name}


def test_a_former_entity_leads_to_those_that_have_its_fragments(readers: Readers) -> None:
    with readers.store() as store:
        former = [id for (id,) in store.database.connection.execute("SELECT id FROM redirect")]
    for id in former:
        told = facts.entity(readers, id)
        assert told["id"] == id
        assert [one["id"] for one in told["now"]]
    with pytest.raises(NotFoundError, match="never had an entity"):
        facts.entity(readers, "e-000000000000")
    with pytest.raises(NotFoundError, match="has no subproblem"):
        facts.subproblem(readers, 1 << 80)


@pytest.mark.slow
def test_readers_lend_each_thread_its_own_connection(readers: Readers) -> None:
    ids = [one["id"] for one in listings.listing(readers, order="largest", most=20)["entities"]]
    expected = [facts.entity(readers, id) for id in ids]
    wrong: list[object] = []

    def read() -> None:
        for _ in range(5):
            found = [facts.entity(readers, id) for id in ids]
            if found != expected:
                wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_lent_twice_is_two_connections_and_a_new_file_is_noticed(tmp_path: Path) -> None:
    path = _filled(tmp_path / "kb.sqlite")
    readers = Readers(path)
    with readers.store() as one, readers.store() as other:
        assert one is not other
    add_fragments(str(tmp_path / "new.sqlite"), _PEOPLE[:5], RunOptions(likelihood="names"))
    (tmp_path / "new.sqlite").rename(path)
    with readers.store() as store:
        assert store.n_fragments == 5
    readers.close()


def test_words_for_probabilities_are_in_order() -> None:
    said = [how_sure(k / 100) for k in range(101)]
    assert list(dict.fromkeys(said)) == [
        *("very unlikely", "unlikely", "uncertain", "likely", "very likely", "almost certain")
    ]


def test_the_status_follows_what_others_write(tmp_path: Path) -> None:
    path = _filled(tmp_path / "kb.sqlite")
    readers = Readers(path)
    assert facts.status(readers) == facts.status(readers)
    gone = _PEOPLE[0].id
    remove(path, [gone])
    now, expected = facts.status(readers), plain(status_of(path))
    assert now["fragments"] == len(_PEOPLE) - 1
    assert now["n_runs"] == 3
    assert {name: now[name] for name in expected.keys() - {"path"}} == {
        name: expected[name] for name in expected.keys() - {"path"}
    }
    readers.close()


def test_models_forget_what_they_were_asked(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgot = []
    with readers.store() as store:
        fit = readers.models(store)[0]
    monkeypatch.setattr(type(fit.models.likelihood), "forget", lambda self: forgot.append(self))
    for _ in range(10_000):
        with readers.scoring(), readers.scoring():
            pass
    assert len(forgot) == 2
