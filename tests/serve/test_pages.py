"""Pages without a browser: each is there, says what its JSON says, and shows text as text."""

from __future__ import annotations

from html import escape

import pytest

PAGE = {"accept": "text/html"}


@pytest.fixture
def ids(client):
    """An entity of the store, one of its fragments, and its subproblem."""
    found, second = (one["id"] for one in client.get("/.json").json()["largest"][:2])
    entity = client.get(f"/entity/{found}.json").json()
    return {
        "entity": found,
        "second": second,
        "fragment": entity["fragments"][0]["fragment"]["id"],
        "subproblem": entity["subproblem"],
    }


ADDRESSES = [
    "/",
    "/search?q=anna",
    "/entity/{entity}",
    "/fragment?id={fragment}",
    "/subproblem/{subproblem}",
    "/runs",
    "/quality",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_page_and_its_json_are_at_one_address(client, ids, address) -> None:
    path, *query = address.format(**ids).split("?")
    as_json = "?".join([f"{path}.json", *query])
    page = client.get("?".join([path, *query]), headers=PAGE)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert f'type="application/json" href="{escape(as_json)}"' in page.text
    assert client.get(as_json).json()
    assert " style=" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/entity/nobody", 404),
        ("/fragment?id=nobody", 404),
        ("/fragment", 422),
        ("/subproblem/999999999", 404),
        ("/subproblem/x", 422),
        ("/fragment?id=%00", 404),
        ("/why?fragment=nobody", 404),
        ("/compare?first=nobody&second=nobody", 404),
        ("/neighbourhood/nobody", 404),
        ("/search?q=x&cursor=y", 400),
        (f"/search?q={'x' * 500}", 422),
        ("/nowhere", 404),
        ("/static/../pages.py", 404),
    ],
)
def test_an_error_is_a_page_for_people_and_json_for_programs(client, address, status) -> None:
    page = client.get(address, headers=PAGE)
    assert page.status_code == status
    assert '<p role="alert">' in page.text
    told = client.get(address).json()
    assert (told["ok"], told["status"]) == (False, status)


def test_what_pages_load_is_kept_by_browsers(client) -> None:
    page = client.get("/", headers=PAGE).text
    for name in ("style.css", "pages.css", "app.js", "table.js", "icon.svg"):
        (address,) = {part.split('"')[0] for part in page.split('="') if f"/{name}?" in part[:40]}
        loaded = client.get(address)
        assert loaded.status_code == 200
        assert "immutable" in loaded.headers["cache-control"]


def test_a_fragment_that_only_a_decision_holds_says_so(client, ids) -> None:
    held = client.get(f"/entity/{ids['entity']}.json").json()["fragments"]
    first, other = (one["fragment"]["id"] for one in held[:2])
    before = client.get("/why", params={"fragment": first}, headers=PAGE).text
    assert "Compared alone" not in before
    parted = {"first": first, "second": other, "same": False}
    made = client.post("/api/decisions", json=parted).json()
    page = client.get("/why", params={"fragment": first}, headers=PAGE).text
    assert "Compared alone, it would be with" in page
    assert f"decision {made['decision']}</a> requires" in page


def test_the_words_of_a_search_are_marked(client, people_of_store) -> None:
    first, last = people_of_store[0].names[0].split()
    asked = {"q": f"{first.upper()} {last[:-1]}"}
    page = client.get("/search", params=asked, headers=PAGE).text
    assert f"<mark>{first}</mark> <mark>{last}</mark>" in page
    assert "<mark>" not in client.get("/search", params={"q": "zzqqxxyy"}, headers=PAGE).text


def test_a_former_entity_leads_to_the_one_that_has_its_fragments(client, people_of_store) -> None:
    alone = {}  # entities of one fragment
    for one in people_of_store:
        entity = client.get("/fragment.json", params={"id": one.id}).json()["entity"]
        if entity["size"] == 1:
            alone[entity["id"]] = one.id
        if len(alone) == 2:
            break
    first, second = alone.values()
    said = {"first": first, "second": second, "answer": "same"}
    told = client.post("/review", data=said, headers=PAGE)
    assert "One entity." in told.text
    (former,) = (id for id in alone if "now" in client.get(f"/entity/{id}.json").json())
    sent = client.get(f"/entity/{former}", headers=PAGE, follow_redirects=False)
    assert sent.status_code == 307
    assert sent.headers["location"] in {f"/entity/{id}" for id in alone if id != former}
    assert client.get(f"/entity/{former}", headers=PAGE).status_code == 200
    undone = client.post("/review", data={"answer": "undo"}, headers=PAGE)
    assert "Undone." in undone.text


@pytest.mark.parametrize("said", [{}, {"answer": "perhaps"}, {"answer": "same", "first": "x"}])
def test_an_answer_that_says_nothing_is_refused(client, said) -> None:
    assert 400 <= client.post("/review", data=said, headers=PAGE).status_code < 500
