"""What the guard refuses, and what it lets through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from kbforge.errors import UsageError
from kbforge_serve import security
from kbforge_serve.app import application
from kbforge_serve.security import Access, Guard
from kbforge_serve.service import Service
from kbforge_serve.tokens import Token
from tests.program import Run

TOKEN = "0123456789abcdef"


async def echo(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
ECHO = Starlette(routes=[Route("/{path:path}", echo, methods=METHODS)])


def echo_client(access: Access | None = None, address: str = "http://localhost") -> TestClient:
    guard = Guard(ECHO, access or Access())
    return TestClient(guard, address, raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture
def guarded() -> TestClient:
    return echo_client()


@pytest.fixture
def signed(store: Path) -> Iterator[TestClient]:
    app = application(Service(str(store)), Access("127.0.0.1", [Token(TOKEN)]))
    with TestClient(app, "http://localhost", follow_redirects=False) as client:
        yield client


# --- where requests come from ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:80", "LOCALHOST", "[::1]:8000", "127.1.2.3"]
)
def test_names_of_this_machine_are_answered(guarded: TestClient, host: str) -> None:
    assert guarded.get("/x", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("", "[", "10.0.0.1", "localhost@evil.example:80", "0.0.0.0"),
    ],
)
def test_other_names_are_refused_so_that_rebinding_reads_nothing(
    guarded: TestClient, host: str
) -> None:
    for method in METHODS:
        refused = guarded.request(method, "/x", headers={"host": host})
        assert refused.status_code == 421
        assert refused.json()["ok"] is False


def test_the_address_listened_on_is_a_name_of_this_machine() -> None:
    client = echo_client(Access("localhost"))
    assert client.get("/x", headers={"host": "localhost"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:9999"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost"},
        {"sec-fetch-site": "whatever"},
    ],
)
def test_a_page_of_another_site_cannot_write(guarded: TestClient, headers: dict[str, str]) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert guarded.request(method, "/api/x", headers=headers).status_code == 403
    assert guarded.get("/api/x", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost"},
        {"sec-fetch-site": "same-origin", "origin": "https://kb.example"},
        {"sec-fetch-site": "none"},
    ],
)
def test_own_pages_and_programs_write(guarded: TestClient, headers: dict[str, str]) -> None:
    assert guarded.post("/api/x", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("origin", "reads"),
    [
        ("http://127.0.0.1:3333", True),  # OpenRefine
        ("http://localhost", True),
        ("https://[::1]:8443", True),
        ("https://sheet.example", True),  # allowed
        ("http://sheet.example", False),
        ("https://sheet.example:8443", False),
        ("https://sheet.example.evil.example", False),
        ("http://evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://[", False),
        ("file://localhost", False),
        ("null", False),
        ("", False),
    ],
)
def test_reconciliation_is_read_by_this_machine_and_who_is_allowed(
    origin: str, reads: bool
) -> None:
    client = echo_client(Access(origins=("https://sheet.example",)))
    foreign = {"origin": origin, "sec-fetch-site": "cross-site"}
    for method in ("GET", "POST", "OPTIONS"):
        answer = client.request(method, "/reconcile/extend", headers=foreign)
        assert answer.is_success is reads
        assert answer.headers.get("access-control-allow-origin") == (origin if reads else None)
        assert answer.headers["vary"] == "Origin"
        if not reads:
            assert "--allow-origin" in answer.json()["error"]
    assert client.post("/reconciled", headers=foreign).status_code == 403
    assert "access-control-allow-origin" not in client.get("/reconciled", headers=foreign).headers


def test_a_link_to_a_preview_is_followed_and_a_form_of_another_site_is_not(
    guarded: TestClient,
) -> None:
    headers = {"sec-fetch-site": "cross-site"}
    assert guarded.get("/reconcile/preview?id=x", headers=headers).status_code == 200
    assert guarded.post("/reconcile", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "origin", ["", "*", "null", "example.org", "https://example.org/", "https://A.example", "a://;"]
)
def test_what_is_no_origin_cannot_be_allowed(program: Run, store: Path, origin: str) -> None:
    ran = program("serve", store, "--port", "0", "--allow-origin", origin)
    ran.require_refusal("--allow-origin: expected a scheme and a host", 2)


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *("/static/%2e%2e/app.py", "/static/..%2fapp.py", "/%2e%2e/%2e%2e/etc/passwd"),
        *("/static/..%5capp.py", "/static/%00", "/entity/%2e%2e%2f%2e%2e"),
    ],
)
def test_paths_lead_nowhere_else(client: TestClient, path: str) -> None:
    refused = client.get(path)
    assert refused.status_code == 400
    assert "root:" not in refused.text


@given(st.text(st.sampled_from("./\\a\0%"), max_size=8))
def test_no_path_climbs(path: str) -> None:
    written = quote(path, safe="").replace(".", "%2e")  # a client would shorten plain dots
    found = echo_client().get(f"/static/{written}")
    climbs = {".", ".."} & set(path.split("/")) or "\\" in path or "\0" in path
    assert found.status_code == (400 if climbs else 200)


# --- tokens ---------------------------------------------------------------------------------------


def test_other_addresses_need_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(UsageError, match="KBFORGE_TOKEN"):
            Access(host)
        assert not Access(host, [Token(TOKEN)]).is_loopback


@pytest.mark.parametrize("token", ["", "short", "0123456789abcde", "with spaces in the middle"])
def test_a_token_cannot_be_guessed(token: str) -> None:
    with pytest.raises(UsageError, match="--token"):
        Token(token)


def test_the_verb_refuses_an_open_address(program: Run, store: Path) -> None:
    ran = program("serve", store, "--host", "0.0.0.0", "--port", "0")
    ran.require_refusal("needs a token", 2)


def test_the_verb_says_why_it_cannot_listen(program: Run, store: Path) -> None:
    from kbforge_serve.server import listen

    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        program("serve", store, "--port", port).require_refusal("in use", 1)


def test_programs_send_the_token(signed: TestClient) -> None:
    path = "/api/openapi.json"
    refused = signed.get(path)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == 'Bearer realm="kbforge"'
    expected = "expected the header Authorization: Bearer TOKEN"
    assert refused.json()["error"] == expected
    for missing in ("Bearer", "Bearer ", f"Basic {TOKEN}"):
        refused = signed.get(path, headers={"authorization": missing})
        assert (refused.status_code, refused.json()["error"]) == (401, expected)
    for wrong in ("Bearer x", f"Bearer {TOKEN}x", "bearer \xe9"):
        refused = signed.get(path, headers={b"authorization": wrong.encode("latin-1")})
        assert refused.status_code == 401
        assert refused.json()["error"].endswith("is not that of this server")
        assert "invalid_token" in refused.headers["www-authenticate"]
    assert signed.get(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_people_sign_in_with_a_form(signed: TestClient) -> None:
    browser = {"accept": "text/html"}
    sent = signed.get("/search?q=a&b=1", headers=browser)
    assert sent.status_code == 303
    form = sent.headers["location"]
    assert form == "/sign-in?next=%2Fsearch%3Fq%3Da%26b%3D1"
    assert "<form" in signed.get(form).text

    wrong = signed.post(form, data={"token": "not it"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers

    right = signed.post(form, data={"token": TOKEN})
    assert right.status_code == 303
    assert right.headers["location"] == "/search?q=a&b=1"
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert signed.get("/api/openapi.json").status_code == 200


@pytest.mark.parametrize(
    "path", ["//evil.example", "http://evil.example", "/\\evil.example", "javascript:x", "/a\nb"]
)
def test_signing_in_leads_to_this_server_alone(signed: TestClient, path: str) -> None:
    sent = signed.post("/sign-in", params={"next": path}, data={"token": TOKEN})
    assert sent.headers["location"] == "/"


def test_a_site_cannot_sign_somebody_in(signed: TestClient) -> None:
    headers = {"origin": "http://evil.example"}
    sent = signed.post("/sign-in", data={"token": TOKEN}, headers=headers)
    assert sent.status_code == 403


# --- bodies ---------------------------------------------------------------------------------------


def test_a_large_body_is_refused_before_it_is_read(guarded: TestClient) -> None:
    large = {"content-length": str(security.MOST_BYTES + 1)}
    assert guarded.post("/api/x", headers=large, content=b"").status_code == 413
    assert guarded.post("/api/x", content=b"x" * security.MOST_BYTES).status_code == 200
    assert guarded.post("/api/fragments", headers=large).status_code == 200


def test_a_large_body_without_a_length_is_cut_off(guarded: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * (1 << 16)

    assert guarded.post("/api/x", content=chunks()).status_code == 413


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "9" * 30, "\xb2"])
def test_a_length_that_is_none_is_refused(guarded: TestClient, length: str) -> None:
    headers = [(b"content-length", length.encode("latin-1"))]
    assert guarded.post("/api/x", headers=headers).status_code == 400


def test_a_request_of_two_lengths_is_refused(guarded: TestClient) -> None:
    """A proxy may take one of them, and the server the other: the rest is another request."""
    both = {"content-length": "3", "transfer-encoding": "chunked"}
    for method in METHODS:
        refused = guarded.request(method, "/api/x", headers=both, content=b"0\r\n\r\n")
        assert refused.status_code == 400
        assert refused.headers["connection"] == "close"


def test_a_slow_body_is_ended() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/x",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-length", b"10")],
    }
    asyncio.run(Guard(ECHO, Access(), silence=0.01)(scope, receive, send))
    assert sent[0]["status"] == 408


def test_who_sends_too_much_at_once_is_asked_to_come_again() -> None:
    guarded = TestClient(Guard(ECHO, Access(), most_held=100), "http://localhost")
    for _ in range(3):  # what was answered is held no more
        assert guarded.post("/api/x", content=b"x" * 100).status_code == 200
    refused = guarded.post("/api/x", content=b"x" * 101)
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["connection"] == "close"


# --- answers --------------------------------------------------------------------------------------


def test_every_answer_says_what_a_browser_may_do(client: TestClient) -> None:
    for path in ("/api/openapi.json", "/nowhere", "/static/%2e%2e/x"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert headers["server-timing"].startswith("answer;dur=")


def test_errors_are_pages_for_people_and_json_for_programs(client: TestClient) -> None:
    browser = {"accept": "text/html"}
    assert (
        client.get("/nowhere<b>", headers=browser).headers["content-type"].startswith("text/html")
    )
    for path in ("/api/nowhere", "/nowhere.json", "/reconcile/nowhere"):
        said = client.get(path, headers=browser).json()
        assert said == {"ok": False, "error": "there is nothing at this address", "status": 404}
    assert client.get("/nowhere").json()["status"] == 404


def test_errors_name_files_without_their_folders(store: Path) -> None:
    away = store.parent / "my data" / "served.sqlite"
    away.parent.mkdir()
    store.rename(away)
    with TestClient(application(Service(str(away))), "http://localhost") as client:
        (first,) = client.get("/api/entities?limit=1").json()["entities"]
        held = client.get(f"/api/entities/{first['id']}").json()["fragments"][0]["fragment"]
        other = {"id": held["id"], "properties": {"name": ["somebody else"]}}
        told = client.post("/api/fragments", json=other)
        assert told.status_code == 409
        assert "served.sqlite" in told.json()["error"]
        decision = {"same": True, "first": held["id"], "second": "/m/02mjmr"}
        asked = client.post("/api/decisions", json=decision)
        assert '"/m/02mjmr"' in asked.json()["error"]
        away.unlink()
        gone = client.get("/api/status")
        for answer in (told, asked, gone):
            assert answer.status_code >= 400
            assert str(store.parent) not in answer.text
            assert "my data" not in answer.text


def test_an_unexpected_error_shows_no_traceback(store: Path) -> None:
    app = application(Service(str(store)))

    @app.app.get("/api/broken")  # type: ignore[attr-defined, untyped-decorator]
    def broken() -> None:
        raise RuntimeError("secret")

    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        said = client.get("/api/broken")
    assert said.status_code == 500
    assert "secret" not in said.text
    assert "Traceback" not in said.text
    assert "content-security-policy" in said.headers


def test_a_real_server_answers(address: str) -> None:
    import httpx

    assert httpx.get(f"{address}api/openapi.json").status_code == 200
    rebound = httpx.get(f"{address}api/openapi.json", headers={"host": "evil.example"})
    assert rebound.status_code == 421
