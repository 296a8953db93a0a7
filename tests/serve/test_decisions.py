"""The page of decisions: who made each, when and why, and its undo."""

from __future__ import annotations

from starlette.testclient import TestClient

from tests.serve.conftest import PEOPLE


def decided(client: TestClient, first: int, second: int, note: str = "") -> int:
    said = {"same": False, "first": PEOPLE[first].id, "second": PEOPLE[second].id, "note": note}
    number: int = client.post("/api/decisions", json=said).json()["decision"]
    return number


def test_decisions_are_listed_and_undone_on_their_page(client: TestClient) -> None:
    assert "No decision is in force" in client.get("/decisions").text
    one = decided(client, 0, 60, "<two> phones")
    two = decided(client, 1, 61)
    page = client.get("/decisions").text
    assert "&lt;two&gt; phones" in page
    assert page.index(f"undo decision {two}") < page.index(f"undo decision {one}")
    undone = client.post("/decisions?by=", data={"number": one}, follow_redirects=False)
    assert undone.status_code == 303
    after = client.get(undone.headers["location"]).text
    assert f"undo decision {two}" in after
    assert "phones" not in after
    assert "in run" in client.get("/decisions?all=true").text
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


def test_a_decision_has_the_names_of_entities_and_says_what_is_gone(client: TestClient) -> None:
    number = decided(client, 0, 60)
    page = client.get("/decisions").text
    (made,) = client.get("/api/decisions").json()["decisions"]
    for place, one in ((0, made["first_entity"]), (60, made["second_entity"])):
        entity = client.get(f"/api/entities/{one['id']}").json()
        assert PEOPLE[place].id in {x["fragment"]["id"] for x in entity["fragments"]}
        assert one["name"] == entity["name"]
        assert f'<a href="/entity/{one["id"]}">' in page
        assert f'<a class="code" href="/fragment?id={PEOPLE[place].id}">' in page
        assert entity["decisions"][0]["number"] == number
    assert client.delete("/api/fragments", params={"id": PEOPLE[60].id}).status_code == 200
    (made,) = client.get("/api/decisions").json()["decisions"]
    assert made["second_entity"] is None
    assert "removed" in client.get("/decisions").text


def test_many_decisions_are_paged_by_who_and_whether_they_are_in_force(client: TestClient) -> None:
    """Against a plain filter of all of them."""
    for at in range(9):
        client.post("/name", data={"name": f"person {at % 3}", "next": "/"})
        decided(client, at, 60 + at)
        if at % 2:
            client.post("/decisions", data={"number": at})
    every = client.get("/api/decisions").json()["decisions"]
    assert {one["undone"] is None for one in every} == {True, False}
    for by in ("", "person 1", "nobody"):
        for in_force in (False, True):
            expected = [
                one["number"]
                for one in every
                if by in ("", one["by"]) and not (in_force and one["undone"])
            ]
            found, before = list[int](), None
            while True:
                here = "" if before is None else f"&before={before}"
                asked = f"/api/decisions?limit=2&by={by}&in_force={in_force}{here}"
                page = client.get(asked).json()
                found += [one["number"] for one in page["decisions"]]
                if (before := page["next"]) is None:
                    break
                assert len(page["decisions"]) == 2
            assert found == expected


def test_runs_have_the_names_of_who_wrote(client: TestClient) -> None:
    client.post("/name", data={"name": "<Ada>", "next": "/"})
    decided(client, 0, 60)
    (last, first) = client.get("/runs.json").json()["runs"]
    assert last["by"] == ["<Ada>"]
    assert first["by"]
    assert "&lt;Ada&gt;" in client.get("/runs").text
