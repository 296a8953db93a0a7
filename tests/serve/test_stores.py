"""Several stores in one server: each below its own address, for those who may open it."""

from __future__ import annotations

import re
import shutil
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from kbforge.errors import UsageError
from kbforge_serve import stores as of_folder
from kbforge_serve.security import Access
from kbforge_serve.stores import Stores
from kbforge_serve.tokens import Right, Token
from tests.browsing import NEEDS_CHROMIUM, chromium
from tests.program import Run
from tests.serve.conftest import PEOPLE, running

NAMES = ["a b", "kb"]
ADA = Token("0123456789abcdef", Right.ANSWER, "ada", ["kb"])
ALL = Token("fedcba9876543210", Right.ADMINISTER, "root")


@pytest.fixture
def folder(store: Path) -> Path:
    """Two stores, and files that are none."""
    shutil.copy(store, store.parent / "a b.sqlite")
    (store.parent / "notes.sqlite").write_text("no store")
    (store.parent / "kb.sqlite-search").write_bytes(store.read_bytes()[:100])
    return store.parent


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(Stores(str(folder), Access()), "http://localhost") as made:
        yield made


def test_the_index_lists_stores_as_they_come_and_go(client: TestClient, folder: Path) -> None:
    found = client.get("/.json").json()["stores"]
    assert [one["name"] for one in found] == NAMES
    assert found[0]["fragments"] == len(PEOPLE)
    assert found[0]["run"]["verb"] == "cluster"
    shutil.copy(folder / "kb.sqlite", folder / "new.sqlite")
    assert [one["name"] for one in client.get("/.json").json()["stores"]] == [*NAMES, "new"]
    assert client.get("/s/new/api/status").json()["fragments"] == len(PEOPLE)
    (folder / "a b.sqlite").write_bytes(b"SQLite format 3\0" + bytes(1000))
    page = client.get("/").text
    assert re.findall('href="(/s/.*?)"', page) == ["/s/kb/", "/s/new/"]
    (damaged, _, _) = client.get("/.json").json()["stores"]
    assert "the file is damaged" in damaged["error"]
    assert str(folder) not in damaged["error"]
    assert client.get("/s/a%20b/api/status").status_code in (400, 503)


@pytest.mark.parametrize("name", ["other", "..", "%2e%2e", "kb.sqlite", "notes", "*", "", "kb%00"])
def test_other_names_lead_nowhere(client: TestClient, name: str) -> None:
    assert client.get(f"/s/{name}/api/status").status_code in (400, 404)


def test_each_store_is_written_alone(client: TestClient, folder: Path) -> None:
    one = {"id": "new", "properties": {"name": ["Nobody"]}}
    assert client.post("/s/kb/api/fragments", json=one).json()["added"] == 1
    counts = [client.get(f"/s/{name}/api/status").json()["fragments"] for name in NAMES]
    assert counts == [len(PEOPLE), len(PEOPLE) + 1]


def test_no_address_of_a_store_leads_out_of_it(client: TestClient) -> None:
    """All links, forms and redirects of its pages are below its root, and are there."""
    root = "/s/a%20b/"
    seen, left = {root}, [root]
    for url in left:  # which grows
        if len(seen) > 200:
            break
        answer = client.get(url, follow_redirects=False)
        assert answer.status_code in (200, 307), url
        links = re.findall(r' (?:href|src|action)="([^"#]*)"', answer.text)
        for link in [*links, answer.headers.get("location", "")]:
            to = urljoin(f"http://localhost{url}", link.replace("&amp;", "&"))
            own = to.removeprefix("http://localhost")
            assert own.startswith((root, "/static/")) or own == "/s/", (url, link)
            if own not in seen and own != "/s/" and not own.endswith("/name"):
                seen.add(own)
                left.append(own)
    assert {urlsplit(one).path for one in seen} > {f"{root}{way}" for way in ("review", "runs")}


def test_a_form_comes_back_to_its_store(client: TestClient) -> None:
    decision = {"same": False, "first": PEOPLE[0].id, "second": PEOPLE[-1].id}
    number = client.post("/s/kb/api/decisions", json=decision).json()["decision"]
    for path, form in (
        ("decisions", {"number": number}),
        ("name", {"name": "ada", "next": "/decisions"}),
    ):
        sent = client.post(f"/s/kb/{path}", data=form, follow_redirects=False)
        assert sent.status_code == 303
        assert urlsplit(sent.headers["location"]).path == "/s/kb/decisions"
    assert 'href="/s/kb/review"' in client.get("/s/kb").text


def test_reconciliation_and_the_document_say_where_they_are(client: TestClient) -> None:
    manifest = client.get("/s/kb/reconcile").json()
    assert manifest["view"]["url"] == "http://localhost/s/kb/entity/{{id}}"
    assert manifest["suggest"]["entity"]["service_url"] == "http://localhost/s/kb/reconcile"
    assert client.get("/s/kb/api/openapi.json").json()["servers"] == [{"url": "/s/kb"}]


def bearing(token: Token) -> dict[str, str]:
    return {"authorization": f"Bearer {token.secret}"}


def test_a_token_opens_its_stores_only(folder: Path) -> None:
    app = Stores(str(folder), Access("0.0.0.0", [ADA, ALL]))
    with TestClient(app, "http://localhost", follow_redirects=False) as client:
        assert client.get("/s/kb/api/status").status_code == 401
        assert client.get("/s/other/api/status").status_code == 401
        page = client.get("/s/kb/runs?from=1", headers={"accept": "text/html"})
        assert page.headers["location"] == "/sign-in?next=%2Fs%2Fkb%2Fruns%3Ffrom%3D1"
        of_ada = client.get("/.json", headers=bearing(ADA)).json()["stores"]
        assert [one["name"] for one in of_ada] == ["kb"]
        assert client.get("/s/kb/api/status", headers=bearing(ADA)).status_code == 200
        assert client.get("/s/kb/api/status", headers=bearing(ALL)).status_code == 200
        foreign = client.get("/s/a%20b/api/status", headers=bearing(ADA))
        missing = client.get("/s/other/api/status", headers=bearing(ADA))
        assert (foreign.status_code, foreign.json()) == (404, missing.json())
        assert client.get("/s/a%20b/api/status", headers=bearing(ALL)).status_code == 200
        one = {"id": "x", "properties": {"name": ["x"]}}
        sent = client.post("/s/kb/api/fragments", json=one, headers=bearing(ADA))
        assert sent.status_code == 403
        client.post("/sign-in", data={"token": ADA.secret})
        assert client.get("/s/kb/api/status").status_code == 200
        assert client.get("/healthz", headers={}).json() == {"ok": True}


def test_few_stores_are_open_and_none_is_closed_in_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_folder, "MOST_OPEN", 2)
    for at in range(3):
        shutil.copy(folder / "kb.sqlite", folder / f"kb{at}.sqlite")
    stores = Stores(str(folder), Access())
    with (
        running(stores, stores.stop) as address,
        httpx.Client(base_url=f"{address}s/", timeout=60) as web,
        web.stream("GET", "kb/api/changes/stream"),
    ):
        for at in (0, 1, 2, 1, 0):
            assert web.get(f"kb{at}/api/status").status_code == 200
            assert stores._open.keys() == {"kb", f"kb{at}"}
        with web.stream("GET", "kb0/api/changes/stream"):
            full = web.get("kb1/api/status")
            assert (full.status_code, full.headers["retry-after"]) == (503, "5")


def test_an_idle_store_is_closed_and_opened_again(folder: Path) -> None:
    app = Stores(str(folder), Access(), idle=0.2)
    with TestClient(app, "http://localhost") as client:
        assert client.get("/s/kb/api/status").status_code == 200
        wait_until(lambda: not app._open)
        assert client.get("/s/kb/api/status").status_code == 200


def test_a_closed_store_has_no_models_in_memory(folder: Path) -> None:
    app = Stores(str(folder), Access(), idle=3.0)
    with TestClient(app, "http://localhost") as client:
        record = {"properties": {"name": [PEOPLE[0].names[0]]}}
        assert client.post("/s/kb/api/match", json=record).json()["candidates"]
        fit = app._open["kb"].service.readers._fit
        assert fit is not None
        likelihood = weakref.ref(fit[1].models.likelihood)
        del fit
        assert likelihood() is not None
        wait_until(lambda: likelihood() is None)
        assert not app._open


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come")


def test_many_open_a_store_at_once(client: TestClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = [f"/s/{name}/api/status" for name in NAMES * 8]
        assert {answer.status_code for answer in pool.map(client.get, asked)} == {200}


def test_a_folder_without_stores_is_refused(tmp_path: Path, program: Run) -> None:
    with pytest.raises(UsageError, match="has no store"):
        Stores(str(tmp_path), Access())
    program("serve", tmp_path).require_refusal("has no store: expected files *.sqlite", 2)
    program("serve", tmp_path, "--gold", "x").require_refusal("--gold is of one store", 2)


@NEEDS_CHROMIUM
def test_keys_and_search_work_below_a_root(folder: Path) -> None:
    stores = Stores(str(folder), Access())
    with running(stores, stores.stop) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 700})
        failed = list[str]()
        page.on("response", lambda r: failed.append(r.url) if r.status >= 400 else None)
        page.goto(address)
        page.click("text=a b")
        page.wait_for_url(f"{address}s/a%20b/")
        for key, path in (("r", "review"), ("c", "runs"), ("h", ""), ("p", "path")):
            page.keyboard.press("g")
            page.keyboard.press(key)
            page.wait_for_url(f"{address}s/a%20b/{path}")
        page.goto(f"{address}s/a%20b/search")
        page.locator("#find").press_sequentially(PEOPLE[0].properties["name"][0][:4])
        page.wait_for_selector(".results h2 a")
        assert f"{address}s/a%20b/search?q=" in page.url
        page.click(".results h2 a")
        assert f"{address}s/a%20b/entity/" in page.url
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto(f"{address}s/a%20b/review")
        page.keyboard.press("s")
        page.wait_for_selector("[role=status]")
        page.fill("#signer", "Ada")
        page.press("#signer", "Enter")
        page.wait_for_load_state()
        assert page.url == f"{address}s/a%20b/review"
        assert page.input_value("#signer") == "Ada"
        page.click("text=all stores")
        assert page.url == f"{address}s/"
        assert not [url for url in failed if not url.endswith("favicon.ico")]


@NEEDS_CHROMIUM
@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_axe_finds_nothing_in_the_list(folder: Path, scheme: Any, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    (folder / "damaged.sqlite").write_bytes(b"SQLite format 3\0" + bytes(1000))
    stores = Stores(str(folder), Access())
    with running(stores, stores.stop) as address, chromium() as browser:
        size = {"width": width, "height": 700}
        page = browser.new_context(color_scheme=scheme, bypass_csp=True, viewport=size).new_page()
        page.goto(address)
        assert page.locator("tbody tr").count() == 3
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not axe.run(page).response["violations"]
