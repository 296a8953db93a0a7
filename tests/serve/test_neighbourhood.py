"""Who is near an entity, and where it is drawn."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import NotFoundError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import around
from kbforge_serve import facts as module
from kbforge_serve import listing as list_module
from kbforge_serve.neighbourhood import MOST_NEIGHBOURS, _drawn, neighbourhood
from kbforge_serve.pages import _neighbours_view
from kbforge_serve.readers import Readers
from tests.people import people
from tests.serve.said import Said

facts = Said(module)
listings = Said(list_module)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Readers:
    path = str(tmp_path_factory.mktemp("near") / "kb.sqlite")
    add_fragments(path, people(80, 3, error=0.3), RunOptions(likelihood="attributes", seed=1))
    return Readers(path)


def test_neighbours_are_those_of_alternatives_first(readers: Readers) -> None:
    doubtful = 0
    for one in listings.listing(readers, order="least_sure", most=30)["entities"]:
        told = neighbourhood(readers, one["id"])
        json.dumps(told)
        assert told["nodes"][0]["id"] == one["id"]
        assert len(told["nodes"]) <= MOST_NEIGHBOURS + 1
        ids = {node["id"] for node in told["nodes"]}
        assert all(edge["first"] in ids and edge["second"] in ids for edge in told["edges"])
        joined = {frozenset((e["first"], e["second"])): e["joined"] for e in told["edges"]}
        known = facts.entity(readers, one["id"])
        for alternative in known["alternatives"]:
            for other in alternative["others"]:
                probability = joined[frozenset((one["id"], other["id"]))]
                assert probability >= alternative["probability"] - 1e-9
                doubtful += 1
    assert doubtful > 5


def test_the_probability_of_an_edge_is_that_of_the_groupings(readers: Readers) -> None:
    """Between two fragments that are alone, what the store says of the pair."""
    checked = 0
    for one in listings.listing(readers, order="least_sure", most=60)["entities"]:
        if one["size"] > 1:
            continue
        told = neighbourhood(readers, one["id"])
        alone = {node["id"] for node in told["nodes"] if node["size"] == 1}
        (own,) = facts.entity(readers, one["id"])["fragments"]
        pairs = {
            s["entity"]["id"]: s for s in facts.similar(readers, own["fragment"]["id"])["similar"]
        }
        for edge in told["edges"]:
            if edge["joined"] and edge["first"] == one["id"] and edge["second"] in alone:
                assert edge["joined"] == pytest.approx(
                    pairs[edge["second"]]["probability"], abs=1e-6
                )
                checked += 1
    assert checked


def test_shared_values_are_named(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    given = [
        Fragment("1", {"name": ("Ada King",), "town": ("Ely",)}),
        Fragment("2", {"name": ("Ada Byron",), "town": ("Ely",)}),
        Fragment("3", {"name": ("Charles Babbage",)}),
    ]
    add_fragments(path, given, RunOptions(likelihood="names"))
    readers = Readers(path)
    (first, *_) = around(path, ["1"])
    told = neighbourhood(readers, first.id)
    for edge in told["edges"]:
        assert edge["values"] in ([], [["town", "Ely"]])
    with pytest.raises(NotFoundError, match="has no entity"):
        neighbourhood(readers, "e-nothing")


@pytest.mark.parametrize("n", [1, 2, 3, 19])
def test_a_drawing_stays_in_its_square_and_keeps_nodes_apart(n: int) -> None:
    strength = np.zeros((n, n))
    strength[0, 1:] = strength[1:, 0] = 0.5
    at = _drawn(strength)
    assert at.shape == (n, 2)
    assert ((at >= 0) & (at <= 1)).all()
    apart = np.sqrt(((at[:, None] - at) ** 2).sum(axis=2)) + np.eye(n)
    assert apart.min() > 0.02
    assert np.array_equal(at, _drawn(strength))


def test_values_that_name_entities_are_links(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    given = [
        Fragment("1", {"name": ("Ada King",), "employer": ("Acme Engines",)}),
        Fragment("2", {"name": ("Acme Engines",), "seat": ("Ely",)}),
        Fragment("3", {"name": ("Ely",)}),
    ]
    add_fragments(path, given, RunOptions(likelihood="names", refers="employer,seat"))
    readers = Readers(path)
    ada, acme, ely = (around(path, [id])[0].id for id in "123")
    told = neighbourhood(readers, acme)
    assert {node["id"] for node in told["nodes"]} == {ada, acme, ely}
    links = {frozenset((e["first"], e["second"])): e["links"] for e in told["edges"]}
    assert links[frozenset((ada, acme))] == [[ada, "employer"]]
    assert links[frozenset((acme, ely))] == [[acme, "seat"]]
    drawn = _neighbours_view(told)
    assert {edge["kind"] for edge in drawn["edges"]} == {"links"}
    named = [[(a["id"], name, b["id"]) for a, name, b in e["links"]] for e in drawn["edges"]]
    assert sorted(named) == sorted([[(ada, "employer", acme)], [(acme, "seat", ely)]])


@pytest.mark.parametrize("n", [2, 5, 19])
def test_names_do_not_overlap(n: int) -> None:
    strength = np.zeros((n, n))
    strength[0, 1:] = strength[1:, 0] = 0.5
    nodes = [
        {"id": str(k), "name": "a name that is long " * 2, "size": 1 + k, "x": x, "y": y}
        for k, (x, y) in enumerate(_drawn(strength).tolist())
    ]
    for *_, most, drawn in _neighbours_view({"nodes": nodes, "edges": []})["drawings"]:
        shown = [node for node in drawn.values() if node["label"] is not None]
        assert shown[0]["id"] == "0"
        assert len(shown) > n // 3
        for one, other in combinations(shown, 2):
            beside = abs(one["at"] - other["at"]) >= most * 8
            assert beside or abs(one["label"] - other["label"]) >= 16
