"""Acts by the API and on pages: what is shown before is what happens, and one undo withdraws it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge_serve import acts
from kbforge_serve.acts import Acted, TakenBackRun
from kbforge_serve.app import application
from kbforge_serve.service import Service
from tests.jobs.test_acts import content, entities, in_doubt
from tests.people import people
from tests.serve.test_api import required
from tests.store.dump import dump

PEOPLE = people(60, 8, error=0.3)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "kb.sqlite"
    add_fragments(str(path), PEOPLE, RunOptions(likelihood="attributes", alpha=30.0))
    return path


@pytest.fixture
def client(path: str) -> Iterator[TestClient]:
    with TestClient(application(Service(path)), "http://localhost") as made:
        yield made


def act(client: TestClient, act: str, rehearse: bool = False, query: str = "", **given: Any) -> Any:
    sent = client.post(
        f"/api/acts?rehearse={str(rehearse).lower()}{query}", json={"act": act, **given}
    )
    assert sent.status_code == 200, sent.text
    return required(Acted, sent.content)


def undo(client: TestClient, run: int, rehearse: bool = False) -> Any:
    sent = client.post(f"/api/acts/{run}/undo?rehearse={str(rehearse).lower()}")
    assert sent.status_code == 200, sent.text
    return required(TakenBackRun, sent.content)


def largest(path: str) -> tuple[str, str]:
    held = entities(path)
    first, second = sorted(held, key=lambda id: -len(held[id]))[:2]
    return first, second


def test_a_join_is_shown_before_and_undone(client: TestClient, path: str) -> None:
    first, second = largest(path)
    before = dump(path)
    would = act(client, "join", True, entity=first, other=second)
    assert dump(path) == before
    assert would["rehearsed"]
    assert set(would["effect"]["leads"]) == {second} or set(would["effect"]["leads"]) == {first}
    assert would["effect"]["n_moved"] == min(len(entities(path)[id]) for id in (first, second))
    did = act(client, "join", entity=first, other=second, note="same phone")
    assert did["effect"] == would["effect"]
    assert did["decisions"] == would["decisions"] == [1]
    (line,) = client.get("/api/audit?limit=1").json()["lines"]
    assert (line["verb"], line["said"]["note"]) == ("join", "same phone")
    assert (
        client.post("/api/acts", json={"act": "join", "entity": first, "other": second})
        .json()["error"]
        .startswith("both are the entity")
    )
    back = undo(client, did["run"], rehearse=True)
    assert undo(client, did["run"])["effect"] == back["effect"]
    assert back["exact"]
    assert content(path) == [line for line in before if line in {*content(path)}]
    assert undo(client, did["run"])["exact"] is None


def test_many_pairs_are_accepted_with_a_count_and_one_undo(client: TestClient, path: str) -> None:
    was, before = content(path), entities(path)
    would = act(client, "accept", True, at_least=0.6)
    did = act(client, "accept", at_least=0.6)
    assert {**would, "rehearsed": False} == did
    assert len(did["decisions"]) > 3
    assert len(would["pairs"]) == min(len(did["decisions"]), 100)
    made = {one["number"]: one for one in client.get("/api/decisions").json()["decisions"]}
    for number, pair in zip(reversed(did["decisions"]), would["pairs"], strict=False):
        assert (made[number]["first"], made[number]["second"]) == (pair["first"], pair["second"])
        assert pair["joins"] is not any(
            {pair["first"], pair["second"]} <= x for x in before.values()
        )
    sure = [pair["probability"] for pair in would["pairs"]]
    assert sure == sorted(sure)
    assert min(sure) >= 0.6
    assert content(path) != was
    assert act(client, "accept", at_least=0.6)["run"] is None
    assert undo(client, did["run"])["undone"] == len(did["decisions"])
    assert (content(path), entities(path)) == (was, before)


def test_a_filtered_list_is_accepted_alone(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = act(client, "accept", True, at_least=0.6)
    changed = whole["effect"]["before"][0]["id"]
    told = client.get(f"/api/entities/{changed}").json()["fragments"][0]
    attribute, (value,) = next(iter(told["fragment"]["properties"].items()))
    some = act(client, "accept", True, f"&where={attribute}={value}", at_least=0.6)
    assert 0 < len(some["decisions"]) < len(whole["decisions"])
    none = act(client, "accept", True, "&where=name=nobody", at_least=0.6)
    assert none["decisions"] == []
    monkeypatch.setattr(acts, "_MOST_FILTERED", 1)
    refused = client.post("/api/acts?most_size=9", json={"act": "accept", "at_least": 0.6})
    assert refused.status_code == 400
    assert "more than 1 entities are selected" in refused.json()["error"]


def test_a_grouping_is_chosen_by_its_key(client: TestClient, path: str) -> None:
    name, said, _ = in_doubt(path)[0]
    block = client.get(f"/api/subproblems/{name}").json()
    for one in block["groupings"][:3] + block["groupings"][-2:]:
        sent = {"subproblem": name, "grouping": one["key"]}
        did = act(client, "choose", **sent)
        groups = {frozenset(block["fragments"][at] for at in group) for group in one["groups"]}
        assert groups <= {*entities(path).values()}
        undo(client, did["run"])
    assert len(block["groupings"]) == min(len(said), 20)
    gone = client.post("/api/acts", json={"act": "choose", "subproblem": name, "grouping": "x"})
    assert gone.status_code == 404


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"act": "join", "entity": "x", "other": "y"}, 404),
        ({"act": "part", "fragments": []}, 400),
        ({"act": "part", "fragments": ["x"]}, 404),
        ({"act": "accept", "at_least": 0.2}, 400),
        ({"act": "erase"}, 422),
        ({"act": "choose", "subproblem": -1}, 422),
        ({"act": "confirm", "entity": "x", "strange": 1}, 422),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(
    client: TestClient, sent: dict[str, Any], status: int
) -> None:
    for rehearse in ("true", "false"):
        refused = client.post(f"/api/acts?rehearse={rehearse}", json=sent)
        assert (refused.status_code, refused.json()["ok"]) == (status, False), refused.text
    assert client.post("/api/acts/1/undo").status_code == 404
    assert client.get("/api/decisions").json()["decisions"] == []


@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_random_acts_do_what_they_showed_and_are_undone(
    base: Path, tmp_path: Path, data: st.DataObject
) -> None:
    path = str(shutil.copy(base, tmp_path / "random.sqlite"))
    with TestClient(application(Service(path)), "http://localhost") as client:
        states, runs = [(entities(path), content(path))], []
        for _ in range(3):
            held = states[-1][0]
            one, other = (data.draw(st.sampled_from(sorted(held))) for _ in range(2))
            some = data.draw(st.sets(st.sampled_from(sorted(held[one])), min_size=1))
            sent = {
                "act": data.draw(st.sampled_from(["join", "part", "move", "confirm"])),
                "entity": other,
                "other": one,
                "fragments": sorted(some),
            }
            would = client.post("/api/acts?rehearse=true", json=sent)
            assert content(path) == states[-1][1]
            did = client.post("/api/acts", json=sent)
            assert did.status_code == would.status_code
            if did.status_code != 200:
                assert did.content == would.content
                continue
            told, shown = did.json(), would.json()
            assert {**shown, "rehearsed": False} == told
            now = entities(path)
            assert len(now) - len(held) == told["effect"]["n_after"] - told["effect"]["n_before"]
            sizes = {one["id"]: one["size"] for one in told["effect"]["after"]}
            if told["run"] is not None:
                assert sizes == {id: len(now[id]) for id in sizes}
                states.append((now, content(path)))
                runs.append(told["run"])
        for run in reversed(runs):
            states.pop()
            assert undo(client, run)["exact"]
            assert (entities(path), content(path)) == states[-1]
    for left in tmp_path.glob("random.sqlite*"):
        left.unlink()


# --- pages ---


def page(client: TestClient, address: str, **sent: Any) -> str:
    found = client.post(address, data=sent) if sent else client.get(address)
    assert found.status_code == 200, found.text
    return found.text


def test_two_entities_are_joined_by_name_on_a_page(client: TestClient, path: str) -> None:
    first, second = largest(path)
    before = entities(path)
    name = client.get(f"/api/entities/{second}").json()["name"]
    assert 'name="other"' in page(client, f"/entity/{first}")
    shown = page(client, "/acts", act="join", entity=first, other=name)
    assert "This would make 1 decision." in shown
    assert f'name="other" value="{second}"' in shown
    assert entities(path) == before
    sent = {"act": "join", "entity": first, "other": second, "note": "<same> phone"}
    assert "1 decision made." in page(client, "/acts", take="true", **sent)
    assert before[first] | before[second] in entities(path).values()
    told = page(client, f"/entity/{first}") + page(client, f"/why?fragment={min(before[first])}")
    assert "&lt;same&gt; phone" in told
    assert "join: same" in told
    assert "1 decision undone, exactly as before." in page(client, "/acts/undo", run=2)
    assert entities(path) == before


def test_an_unclear_name_is_asked_about(client: TestClient, path: str) -> None:
    first, _ = largest(path)
    name = client.get(f"/api/entities/{first}").json()["name"]
    asked = page(client, "/acts", act="join", entity=first, other=name.split()[0][:3])
    assert "Which" in asked or "No entity is called" in asked
    assert "No entity is called" in page(client, "/acts", act="join", entity=first, other="qqqq")


def test_fragments_are_chosen_parted_and_moved(client: TestClient, path: str) -> None:
    first, second = largest(path)
    held = entities(path)
    some = sorted(held[first])[:2]
    listed = page(client, f"/entity/{first}")
    assert all(f'name="fragments" value="{id}"' in listed for id in held[first])
    page(client, "/acts", act="part", fragments=some, entity="", take="true")
    assert frozenset(some) in entities(path).values()
    page(client, "/acts", act="move", fragments=some, entity=second, take="true")
    assert held[second] | {*some} in entities(path).values()
    refused = client.post("/acts", data={"act": "part", "fragments": [some[0], max(held[first])]})
    assert refused.status_code == 400
    assert "of one entity, got 2" in refused.text


def test_a_grouping_is_taken_and_a_filtered_list_accepted(client: TestClient, path: str) -> None:
    name, said, keys = in_doubt(path)[0]
    assert (
        f'name="grouping" value="{keys[-1]}"' in page(client, f"/subproblem/{name}")
        or len(keys) > 20
    )
    page(client, "/acts", act="choose", subproblem=name, grouping=keys[-1], take="true")
    assert {frozenset(group) for group in said[-1]} <= {*entities(path).values()}
    shown = page(client, "/entities?least_confidence=0&most_size=3")
    assert 'action="/acts?least_confidence=0&amp;most_size=3"' in shown
    before = entities(path)
    shown = page(client, "/acts?most_size=3", act="accept", at_least="0.6")
    pairs = act(client, "accept", True, "&most_size=3", at_least=0.6)["pairs"]
    for pair in pairs:
        assert f'/compare?first={pair["first"]}&amp;second={pair["second"]}"' in shown
        assert all(name in shown for name in pair["names"])
    assert f">{len(pairs)} pair" in shown
    taken = page(client, "/acts?most_size=3", act="accept", at_least="0.6", take="true")
    (run,) = {one["run"] for one in client.get("/api/decisions").json()["decisions"]} - {2}
    assert f'name="run" value="{run}"' in taken
    assert f"Undo all of run {run}" in page(client, "/decisions")
    page(client, "/acts/undo", run=run)
    assert entities(path) == before


def test_a_fragment_is_removed_and_erased_on_a_page(client: TestClient, path: str) -> None:
    first, _ = largest(path)
    one, other, *_ = sorted(entities(path)[first])
    assert 'action="/remove"' in page(client, f"/fragment?id={one}")
    before = dump(path)
    assert "This would be gone." in page(client, "/remove", id=one)
    assert dump(path) == before
    assert "Removed." in page(client, "/remove", id=one, take="remove", note="twice")
    assert client.get("/fragment", params={"id": one}).status_code == 404
    act(client, "part", fragments=[other])
    assert "Erased." in page(client, "/remove", id=other, take="erase")
    assert client.get("/api/decisions").json()["decisions"] == []
    assert client.post("/remove", data={"id": other}).status_code == 404
    assert {one, other}.isdisjoint(set().union(*entities(path).values()))
