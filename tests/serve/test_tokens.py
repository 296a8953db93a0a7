"""Tokens with names and rights: who may send what, and whose name the audit has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from kbforge.errors import KBForgeError
from kbforge_serve.app import application
from kbforge_serve.security import Access
from kbforge_serve.service import Service
from kbforge_serve.tokens import Right, Token, needed, read_tokens
from tests.program import Run
from tests.serve.conftest import PEOPLE

TOKENS = [
    Token(f"{right.name.lower()}-0123456789abcdef", right, right.name.lower()) for right in Right
]
WRITES = {
    ("POST", "/sign-in"): Right.READ,
    ("POST", "/reconcile"): Right.READ,
    ("POST", "/reconcile/"): Right.READ,
    ("POST", "/api/match"): Right.READ,
    ("POST", "/review"): Right.ANSWER,
    ("POST", "/decisions"): Right.ANSWER,
    ("POST", "/acts"): Right.ANSWER,
    ("POST", "/acts/undo"): Right.ANSWER,
    ("POST", "/remove"): Right.ADMINISTER,
    ("POST", "/api/review"): Right.ANSWER,
    ("POST", "/api/review/undo"): Right.ANSWER,
    ("POST", "/api/decisions"): Right.ANSWER,
    ("POST", "/api/decisions/{number}/undo"): Right.ANSWER,
    ("POST", "/api/acts"): Right.ANSWER,
    ("POST", "/api/acts/{run}/undo"): Right.ANSWER,
    ("POST", "/api/fragments"): Right.WRITE,
    ("DELETE", "/api/fragments"): Right.ADMINISTER,
    ("POST", "/api/rules"): Right.ADMINISTER,
    ("POST", "/rules"): Right.ADMINISTER,
    ("POST", "/api/import"): Right.WRITE,
    ("POST", "/import"): Right.WRITE,
    ("POST", "/import/{key}"): Right.WRITE,
}


@pytest.fixture
def client(store: Path) -> Iterator[TestClient]:
    app = application(Service(str(store)), Access("0.0.0.0", TOKENS))
    with TestClient(app, "http://localhost", follow_redirects=False) as client:
        yield client


def bearing(token: Token) -> dict[str, str]:
    return {"authorization": f"Bearer {token.secret}"}


def test_every_route_has_a_right(client: TestClient) -> None:
    """The table above is that of the application: a new route has to be added to it."""
    found = set()
    routes = [*client.app.app.routes]  # type: ignore[attr-defined]
    while routes:
        route = routes.pop()
        routes += getattr(getattr(route, "original_router", route), "routes", None) or []
        if isinstance(route, Route):
            found |= {(method, route.path) for method in route.methods or ()}
    assert {one for one in found if one[0] not in ("GET", "HEAD", "OPTIONS")} == WRITES.keys()
    for method, path in found:
        assert needed(method, path) == WRITES.get((method, path), Right.READ)


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.name)
def test_fewer_rights_are_refused(client: TestClient, token: Token) -> None:
    for (method, path), right in WRITES.items():
        sent = client.request(
            method, path.replace("{number}", "1").replace("{run}", "1"), headers=bearing(token)
        )
        refused = sent.status_code == 403
        assert refused == (token.right < right), (path, sent.text)
        if refused:
            assert f"the right to {right.name.lower()}" in sent.text
    assert client.get("/api/status", headers=bearing(token)).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
def test_an_unknown_route_needs_all_rights(method: str) -> None:
    assert needed(method, "/api/anything") is Right.ADMINISTER
    assert needed(method, "/api/fragmentsX") is Right.ADMINISTER


def test_the_audit_has_the_name_of_the_token(client: TestClient, store: Path) -> None:
    first, second = PEOPLE[0].id, PEOPLE[-1].id
    answer = TOKENS[Right.ANSWER - 1]
    said = {"same": False, "first": first, "second": second, "note": "two phones"}
    sent = client.post("/api/decisions", json=said, headers=bearing(answer))
    assert sent.status_code == 200
    client.post(f"/api/decisions/{sent.json()['decision']}/undo", headers=bearing(TOKENS[-1]))
    lines = client.get("/api/audit?limit=2", headers=bearing(TOKENS[0])).json()["lines"]
    assert [(one["by"], one["verb"], one["said"]["note"]) for one in lines] == [
        ("administer", "undo", ""),
        ("answer", "decide", "two phones"),
    ]


def test_people_sign_in_with_their_own_token(client: TestClient, store: Path) -> None:
    first, second = PEOPLE[0].id, PEOPLE[-1].id
    said = {"same": False, "first": first, "second": second}
    client.post("/sign-in", data={"token": TOKENS[0].secret})
    assert client.post("/api/decisions", json=said).status_code == 403
    client.post("/sign-in", data={"token": TOKENS[1].secret})
    assert client.post("/api/decisions", json=said).status_code == 200
    assert client.get("/api/audit?limit=1").json()["lines"][0]["by"] == "answer"


def test_a_browser_without_a_token_says_its_name(store: Path) -> None:
    first, second = PEOPLE[0].id, PEOPLE[-1].id
    said = {"same": False, "first": first, "second": second}
    app = application(Service(str(store)))
    with TestClient(app, "http://localhost", follow_redirects=False) as client:
        page = "/decisions?by=%C3%A9va&in_force=true"
        shown = client.get(page).text
        assert f'value="{page.replace("&", "&amp;")}"' in shown
        sent = client.post("/name", data={"name": " Éva\n<b>Nagy ", "next": page})
        assert (sent.status_code, sent.headers["location"]) == (303, page)
        assert 'value="Éva &lt;b&gt;Nagy"' in client.get("/decisions").text
        made = client.post("/api/decisions", json=said).json()
        line = client.get("/api/audit?limit=1").json()["lines"][0]
        assert (line["decision"], line["by"]) == (made["decision"], "Éva <b>Nagy")
        assert client.get(f"/api/decisions?by={line['by']}").json()["decisions"]


@pytest.mark.parametrize("cookie", ["", "%20%0a", "%", "x" * 2000, "%00%ff", "a;b"])
def test_a_strange_name_is_none_or_short(store: Path, cookie: str) -> None:
    with TestClient(application(Service(str(store))), "http://localhost") as client:
        sent = client.get("/decisions", headers={"cookie": f"kbforge-name={cookie}"})
        assert sent.status_code == 200
        assert "x" * 200 in sent.text or "x" * 20 not in sent.text
        assert "x" * 201 not in sent.text


@pytest.mark.parametrize("away", ["https://example.org/", "//example.org", "/\\example.org", "x"])
def test_a_name_leads_nowhere_else(store: Path, away: str) -> None:
    app = application(Service(str(store)))
    with TestClient(app, "http://localhost", follow_redirects=False) as client:
        sent = client.post("/name", data={"name": "ada", "next": away})
        assert sent.headers["location"] == "/"
        foreign = {"sec-fetch-site": "cross-site"}
        assert client.post("/name", data={"name": "eve"}, headers=foreign).status_code == 403


def test_each_who_adds_fragments_has_a_line(client: TestClient, store: Path) -> None:
    """Requests of two names are no one run, even if they wait together."""
    sent = []
    for at, token in enumerate([*TOKENS[2:], *TOKENS[2:], TOKENS[3]]):
        one = {"id": f"new{at}", "properties": {"name": [f"Nobody {at}"]}}
        added = client.post("/api/fragments", json=one, headers=bearing(token)).json()
        sent.append((added["run"], token.name))
    lines = client.get("/api/audit?limit=4", headers=bearing(TOKENS[0])).json()["lines"]
    assert [(one["run"], one["by"]) for one in reversed(lines)] == list(dict.fromkeys(sent))
    assert len(lines) == 4
    assert [run for run, _ in sent] == [2, 3, 4, 5, 5]


GOOD = '[ada]\ntoken = "0123456789abcdef"\nright = "answer"\n'


def test_a_file_of_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(GOOD)
    assert read_tokens(str(path)) == [Token("0123456789abcdef", Right.ANSWER, "ada")]
    path.write_text(f'{GOOD}stores = ["kb"]')
    (limited,) = read_tokens(str(path))
    assert [limited.opens(store) for store in ("kb", "other")] == [True, False]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "expected a table for each name, got nothing"),
        ("ada", "expected TOML"),
        ("ada = 1", "[ada]: expected a table with token and right"),
        ('[ada]\ntoken = "0123456789abcdef"', "[ada]: expected a table with token and right"),
        (GOOD.replace("answer", "all"), "expected right = read or answer or write or administer"),
        (GOOD.replace('"0123456789abcdef"', "1"), "expected the token as a text"),
        (GOOD.replace("cdef", ""), "the token of ada: expected 16 characters"),
        (GOOD + GOOD.replace("ada", "bob"), "two names have the same token"),
        (f'{GOOD}stores = "kb"', "expected stores as a list of names"),
        (f"{GOOD}stores = [1]", "expected stores as a list of names"),
        (f"{GOOD}store = []", "expected a table with token and right, and perhaps stores"),
    ],
)
def test_a_wrong_file_of_tokens_is_refused(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(content)
    with pytest.raises(KBForgeError) as refused:
        read_tokens(str(path))
    assert expected in str(refused.value)


def test_a_token_of_another_store_opens_none(program: Run, store: Path) -> None:
    path = store.parent / "tokens.toml"
    path.write_text(f'{GOOD}stores = ["other"]')
    program("serve", store, "--tokens", path).require_refusal("no token opens", 2)


def test_one_token_or_a_file(program: Run, store: Path) -> None:
    both = "--token", "0123456789abcdef", "--tokens", "x.toml"
    program("serve", store, *both).require_refusal("give one of them", 2)
