"""The page of decisions: who made each, when and why, and its undo."""

from __future__ import annotations

from starlette.testclient import TestClient

from tests.serve.conftest import PEOPLE


def decided(client: TestClient, first: int, second: int, note: str = "") -> int:
    said = {"same": False, "first": PEOPLE[first].id, "second": PEOPLE[second].id, "note": note}
    number: int = client.post("/api/decisions", json=said).json()["decision"]
    return number


def test_decisions_are_listed_and_undone_on_their_page(client: TestClient) -> None:
    assert "Nobody has decided anything yet" in client.get("/decisions").text
    one = decided(client, 0, 60, "<two> phones")
    two = decided(client, 1, 61)
    page = client.get("/decisions").text
    assert "&lt;two&gt; phones" in page
    assert page.index(f"undo decision {two}") < page.index(f"undo decision {one}")
    undone = client.post("/decisions?in_force=true", data={"number": one}, follow_redirects=False)
    assert undone.status_code == 303
    after = client.get(undone.headers["location"]).text
    assert f"undo decision {two}" in after
    assert "phones" not in after
    assert "in run" in client.get("/decisions").text
    assert client.post("/decisions", data={"number": 99}).status_code == 404


def test_decisions_are_filtered_and_paged(client: TestClient) -> None:
    numbers = [decided(client, at, 60 + at) for at in range(5)]
    me = client.get("/api/decisions?limit=1").json()["decisions"][0]["by"]
    first = client.get("/api/decisions", params={"limit": 3, "by": me}).json()
    assert [one["number"] for one in first["decisions"]] == numbers[:1:-1]
    rest = client.get("/api/decisions", params={"before": first["next"], "by": me}).json()
    assert [one["number"] for one in rest["decisions"]] == numbers[1::-1]
    assert rest["next"] is None
    assert client.get("/api/decisions?by=nobody").json() == {"decisions": [], "next": None}
    assert "No such decision" in client.get("/decisions?by=nobody").text
