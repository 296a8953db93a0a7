"""What a person knows of a value, said to a server: shown before, everywhere afterwards, undone."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge_serve.app import application
from kbforge_serve.service import Service
from tests.people import people
from tests.serve.test_acts import act, undo
from tests.serve.test_relations import PAGE
from tests.store.dump import dump

PEOPLE = people(20, 8, error=0.3)


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, PEOPLE, RunOptions(likelihood="attributes", alpha=10.0))
    return path


@pytest.fixture
def client(path: str) -> Iterator[TestClient]:
    with TestClient(application(Service(path)), "http://localhost") as made:
        yield made


def contested(client: TestClient) -> tuple[str, str, dict[str, object]]:
    """An entity, its attribute with values in question, and the least probable of them."""
    for one in client.get("/api/entities?limit=50").json()["entities"]:
        entity = client.get(f"/api/entities/{one['id']}").json()
        for attribute, claims in entity["contradictions"].items():
            return one["id"], attribute, claims[-1]
    raise AssertionError("no value is in question")


def test_a_value_is_settled_with_its_effect_shown_before_and_undone(
    client: TestClient, path: str
) -> None:
    id, attribute, claim = contested(client)
    was = client.get(f"/api/entities/{id}").json()
    stating = next(v for v in was["properties"][attribute] if v["value"] == claim["value"])
    said = {"fragments": stating["fragments"][:1], "attribute": attribute, "value": claim["value"]}
    before = dump(path)
    would = act(client, "value", True, **said)
    assert dump(path) == before
    did = act(client, "value", **said, note="letter")
    assert {**would, "rehearsed": False} == did
    assert [one["id"] for one in did["effect"]["after"]] == [id]
    now = client.get(f"/api/entities/{id}").json()
    first, *others = now["contradictions"][attribute]
    assert (first["value"], first["taken"], first["confidence"]) == (claim["value"], True, 1.0)
    assert first["by"]
    assert {(one["by"], one["taken"]) for one in others} == {(None, False)}
    assert now["properties"][attribute][0]["by"] == first["by"]
    event = now["history"][0]
    assert (event["kind"], event["gained"], event["lost"]) == ("changed", 0, 0)
    (fragment,) = {one["fragment"]["id"] for one in now["fragments"]} - {
        one["fragment"]["id"] for one in was["fragments"]
    }
    shown = client.get("/api/fragment", params={"id": fragment}).json()
    assert shown["entity"]["id"] == id
    assert shown["fragment"]["metadata"] == {"asserted_of": said["fragments"][0], "note": "letter"}
    assert client.get("/api/why", params={"fragment": fragment}).status_code == 400
    assert act(client, "value", **said)["decisions"] == []
    (decision,) = client.get("/api/decisions").json()["decisions"]
    assert decision["asserts"].endswith(f'{attribute} is "{claim["value"]}"')
    assert undo(client, did["run"])["exact"]
    again = client.get(f"/api/entities/{id}").json()
    left = {"history": [], "decisions": []}  # which tell of it
    assert {**again, **left} == {**was, **left}


def test_a_name_that_a_person_gives_is_that_of_lists_and_of_effects(client: TestClient) -> None:
    one = client.get("/api/entities?limit=1").json()["entities"][0]
    for name in ("Zoë", "Yva"):  # a rehearsed name is nobody's
        said = {"entity": one["id"], "attribute": "name", "value": name}
        assert act(client, "value", True, **said)["effect"]["after"][0]["name"] == name
        assert client.get("/api/entities?limit=1").json()["entities"][0]["name"] != name
    did = act(client, "value", **said)
    assert did["effect"]["before"][0]["name"] == one["name"]
    assert did["effect"]["after"][0]["name"] == "Yva"
    assert client.get("/api/entities?limit=1").json()["entities"][0]["name"] == "Yva"
    undo(client, did["run"])
    assert client.get("/api/entities?limit=1").json()["entities"][0]["name"] == one["name"]


def test_pages_settle_a_value_with_what_their_forms_send(client: TestClient) -> None:
    id, _, claim = contested(client)
    page = client.get(f"/entity/{id}", headers=PAGE).text
    forms = re.findall(r'<form method="post" action="/acts">(.*?)</form>', page)
    sent = [dict(re.findall(r'name="(\w+)" value="(.*?)"', form)) for form in forms]
    said = next(one for one in sent if one["value"] == claim["value"])
    attribute = said["attribute"]
    would = client.post("/acts", data=said, headers=PAGE).text
    assert "This would make 1 decision." in would
    assert client.get("/api/decisions").json()["decisions"] == []
    did = client.post("/acts", data={**said, "take": "true", "note": "a letter"}, headers=PAGE).text
    assert "1 decision made." in did
    page = client.get(f"/entity/{id}", headers=PAGE).text
    assert page.count('<b class="mark">settled by') == 2  # among its values, and in question
    assert "a letter" in page
    assert f'{attribute} is "' in html.unescape(page)
    (decision,) = client.get("/api/decisions").json()["decisions"]
    assert page.count(f'aria-label="choose {decision["second"]}"') == 0
    client.post("/acts/undo", data={"run": decision["run"]}, headers=PAGE)
    assert "settled by" not in client.get(f"/entity/{id}", headers=PAGE).text


def test_a_correction_is_a_form_that_escapes_what_it_is_given(client: TestClient) -> None:
    id = client.get("/api/entities?limit=1").json()["entities"][0]["id"]
    hostile = '"><script>alert(1)</script>'
    said = {"act": "value", "entity": id, "attribute": "town", "value": hostile}
    for more in ({}, {"take": "true", "note": hostile}):
        assert "<script>alert" not in client.post("/acts", data=said | more, headers=PAGE).text
    for address in (f"/entity/{id}", "/decisions", "/runs"):
        page = client.get(address, headers=PAGE).text
        assert "<script>alert" not in page
    assert hostile in html.unescape(client.get(f"/entity/{id}", headers=PAGE).text)
    wrong = client.post("/acts", data={**said, "attribute": "twon"}, headers=PAGE)
    assert wrong.status_code == 400
    assert "did you mean" in wrong.text


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"entity": "e-none", "attribute": "town", "value": "Ulm"}, 404),
        ({"fragments": ["none"], "attribute": "town", "value": "Ulm"}, 404),
        ({"fragments": [PEOPLE[0].id], "attribute": "twon", "value": "Ulm"}, 400),
        ({"fragments": [PEOPLE[0].id], "attribute": "town", "value": ""}, 400),
        ({"fragments": [PEOPLE[0].id], "attribute": "town", "value": "x" * 65_537}, 422),
    ],
)
def test_what_cannot_be_said_is_refused(
    client: TestClient, said: dict[str, object], status: int
) -> None:
    sent = client.post("/api/acts", json={"act": "value", **said})
    assert sent.status_code == status, sent.text
    assert client.get("/api/decisions").json()["decisions"] == []
