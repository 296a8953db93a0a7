"""The pages in a real browser: both colours, both widths, and the keyboard alone.

The browser is Debian's Chromium. Messages on the console, errors of scripts and requests to other
places fail every test.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("playwright", reason="needs playwright, to drive a browser")

from playwright.sync_api import Browser, Page

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge_serve.app import application
from kbforge_serve.security import Access
from kbforge_serve.service import Service
from kbforge_serve.tokens import Token
from tests.browsing import NEEDS_CHROMIUM, chromium
from tests.serve.conftest import running
from tests.serve.linked import make_linked

pytestmark = NEEDS_CHROMIUM

MENTIONS = Path(__file__).parents[2] / "examples/quickstart/fragments.jsonl"
LOOKS = [
    ("light", 1280),
    ("dark", 390),
    pytest.param("light", 390, marks=pytest.mark.slow),
    pytest.param("dark", 1280, marks=pytest.mark.slow),
]


SMALL_TARGETS = """() => [...document.querySelectorAll("a, button, input, select, summary")]
    .filter((it) => getComputedStyle(it).display !== "inline" && !it.matches(".skip, svg *"))
    .map((it) => [it.textContent, it.getBoundingClientRect()])
    .filter(([, { width, height }]) => width && height && Math.min(width, height) < 24)
    .map(([text, { width, height }]) => `${text}: ${width} by ${height}`)"""
"""Links within a sentence are as high as its line, and a drawing has others beside it."""


@contextmanager
def served(store: Path, access: Access | None = None) -> Iterator[str]:
    """The address of a server over a store, without a slash at its end."""
    service = Service(str(store))
    with running(application(service, access), service.feed.stop) as address:
        yield address.rstrip("/")


@pytest.fixture(scope="module")
def mentions(tmp_path_factory) -> Path:
    """A store with much in doubt."""
    path = tmp_path_factory.mktemp("pages") / "kb.sqlite"
    fragments = list(read_fragments(str(MENTIONS)))
    add_fragments(str(path), fragments[:200], RunOptions(likelihood="pairs"))
    add_fragments(str(path), fragments[200:240], RunOptions(likelihood="pairs"))
    return path


@pytest.fixture(scope="module")
def address(mentions) -> Iterator[str]:
    """A server that nothing is written to."""
    with served(mentions) as found:
        yield found


@pytest.fixture
def writable(mentions, tmp_path) -> Iterator[tuple[str, Path]]:
    """A server, and the store that it may write to."""
    path = Path(shutil.copy(mentions, tmp_path / "kb.sqlite"))
    with served(path) as found:
        yield found, path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all of these tests."""
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser) -> Iterator[Callable[..., Page]]:
    """Opens a page of a colour and width; at the end nothing may have gone wrong in any."""
    contexts, wrong = [], []

    def visit(scheme: str = "light", width: int = 1280, **settings: Any) -> Page:
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, **settings))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        page.on(
            "request",
            lambda asked: "127.0.0.1" in asked.url.split("/")[2] or wrong.append(asked.url),
        )
        return page

    yield visit
    for context in contexts:
        context.close()
    assert wrong == []


def places(page: Page, address: str) -> dict[str, str]:
    """The address of each page, by its name, for an entity with other groupings."""
    home = page.request.get(f"{address}/.json").json()
    doubtful = [one["id"] for one in home["least_sure"]]
    found = page.request.get(f"{address}/entity/{doubtful[0]}.json").json()
    fragment = page.request.get(f"{address}/entity/{doubtful[0]}.json").json()["fragments"][0]
    asked = fragment["fragment"]["id"].replace("#", "%23")
    return {
        "home": "/",
        "search": "/search?q=strand",
        "entity": f"/entity/{doubtful[0]}",
        "fragment": f"/fragment?id={asked}",
        "why": f"/why?fragment={asked}",
        "compare": f"/compare?first={doubtful[0]}&second={doubtful[1]}",
        "subproblem": f"/subproblem/{found['subproblem']}",
        "neighbourhood": f"/neighbourhood/{doubtful[0]}",
        "review": "/review",
        "runs": "/runs?from=1&to=2",
        "quality": "/quality",
        "decisions": "/decisions",
        "import": "/import",
        "entities": "/entities?where=name&columns=name&order=least_sure",
    }


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_page_fits_and_can_be_read_by_all(address, opened, scheme, width) -> None:
    require_readable(opened(scheme, width), address, places)


def require_readable(page: Page, address: str, of: Callable[[Page, str], dict[str, str]]) -> None:
    """Pages are there, are no wider than the screen, have targets that a finger hits, and axe finds
    nothing serious."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    rules = {"rules": {"target-size": {"enabled": True}}}
    for name, path in of(page, address).items():
        answer = page.goto(address + path)
        assert answer is not None
        assert answer.status == 200, name
        assert page.locator("h1").count() == 1, name
        assert (
            page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
        ), name
        assert page.evaluate(SMALL_TARGETS) == [], name
        found = axe.run(page, options=rules).response["violations"]
        serious = [
            (one["id"], [node["target"] for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], name


@pytest.fixture(scope="module")
def linked(tmp_path_factory) -> Iterator[str]:
    """A server over a store whose entities name each other."""
    with served(make_linked(tmp_path_factory.mktemp("linked") / "kb.sqlite")) as found:
        yield found


def linked_places(page: Page, address: str) -> dict[str, str]:
    """The address of each page of entities that name each other."""
    ids = {}
    for fragment in ("ada", "eli 1", "flo 1", "hydro 1"):
        asked = page.request.get(f"{address}/fragment.json", params={"id": fragment})
        ids[fragment] = asked.json()["entity"]["id"]
    return {
        "links": f"/entity/{ids['ada']}",
        "times": f"/entity/{ids['eli 1']}",
        "contradictions": f"/entity/{ids['flo 1']}",
        "one time": f"/entity/{ids['eli 1']}?at=2009-12",
        "stated": f"/entity/{ids['hydro 1']}",
        "who states": f"/stated/{ids['hydro 1']}",
        "no path": "/path",
        "namesakes": "/path?first=Acme&second=ada",
        "path": "/path?first=Ada+Berg&second=Norsk+Hydro",
    }


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_pages_of_relations_fit_and_can_be_read_by_all(linked, opened, scheme, width) -> None:
    require_readable(opened(scheme, width), linked, linked_places)


def test_the_keyboard_alone_connects_two_entities(linked, opened) -> None:
    for scripts in (True, False):
        page = opened("dark", 390, java_script_enabled=scripts)
        page.goto(f"{linked}/path")
        page.locator("#first").focus()
        page.keyboard.type("Acme")
        page.keyboard.press("Tab")
        page.keyboard.type("Norsk Hydro")
        page.keyboard.press("Enter")
        page.wait_for_url("**/path?first=Acme&second=Norsk+Hydro")
        assert "Which Acme?" in page.locator("h2").all_inner_texts()
        page.locator(".choices a").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/path?first=e-*")
        assert page.locator("#first").input_value().startswith("e-")
        assert page.locator(".path, main > p").count()


TABLE = b"id;Name;Born at;?\n" + b"\n".join(
    b"n%d;nils strand %d;1950;x" % (n, n) for n in range(60)
)


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_keyboard_alone_imports_a_file(writable, opened, scripts, scheme, width) -> None:
    address, _ = writable
    page = opened(scheme, width, java_script_enabled=scripts)
    given = {"name": "people.csv", "mimeType": "text/csv", "buffer": TABLE}

    def press(name: str) -> None:
        page.get_by_role("button", name=name).focus()
        page.keyboard.press("Enter")

    page.goto(f"{address}/import")
    page.locator("input[type=file]").set_input_files(given)
    press("Send")
    page.wait_for_url("**/import/*")
    require_readable(
        opened(scheme, width), address, lambda *_: {"columns": page.url[len(address) :]}
    )
    assert page.get_by_label("Name", exact=True).input_value() == "name"
    for column in ("Born at", "?"):
        page.get_by_label(column, exact=True).focus()
        page.keyboard.type("left")
    press("Show the effect")
    page.wait_for_selector("text=nothing written yet")
    require_readable(
        opened(scheme, width), address, lambda *_: {"effect": page.url[len(address) :]}
    )
    press("Add 60 records")
    page.wait_for_selector("text=60 fragments added")
    require_readable(opened(scheme, width), address, lambda *_: {"done": page.url[len(address) :]})
    press("Remove what this import added")
    page.wait_for_selector("text=60 fragments removed")


def test_a_file_is_dropped_on_the_page(writable, opened) -> None:
    page = opened()
    page.goto(f"{writable[0]}/import")
    dropped = page.evaluate_handle(
        "text => { const it = new DataTransfer();"
        " it.items.add(new File([text], 'a.csv', {type: 'text/csv'})); return it; }",
        TABLE.decode(),
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": dropped})
    page.wait_for_url("**/import/*")
    assert page.locator("h1").inner_text() == "Import a.csv"


@pytest.mark.slow
def test_pages_say_the_same_without_scripts(address, opened) -> None:
    page, plain = opened(), opened(java_script_enabled=False)
    for name, path in places(page, address).items():
        page.goto(address + path)
        plain.goto(address + path)
        for part in ("h1", "main table tbody"):
            assert plain.locator(part).all_inner_texts() == page.locator(part).all_inner_texts()
        assert plain.title() == page.title(), name


def test_the_keyboard_alone_leads_from_a_name_to_the_reason(address, opened) -> None:
    page = opened()
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type("strandvik")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=strandvik")
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    first = page.locator(".results h2 a").first
    assert first.evaluate("it => it === document.activeElement")
    page.keyboard.press("Enter")
    page.wait_for_url("**/entity/*")
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "why?":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "who uses the keyboard sees where they are"
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/why\?fragment="))
    assert "Why is" in page.locator("h1").inner_text()
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/quality")


def test_an_entity_is_a_report_on_paper(address, opened) -> None:
    page = opened("dark", 718)  # the width of a sheet
    page.goto(address + places(page, address)["entity"])
    sections = page.locator("main h2").all_inner_texts()
    page.emulate_media(media="print")
    assert {"Values", "Fragments", "Alternatives", "History"} <= {*sections}
    assert page.locator("h2:visible").all_inner_texts() == sections
    for screen in (".top", "footer", "main button", "main .actions"):
        assert page.locator(f"{screen}:visible").count() == 0, screen
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    colours = "x => [getComputedStyle(x).color, getComputedStyle(x).backgroundColor]"
    for text in page.locator("td :is(.agrees, .differs)").all()[:4]:
        assert text.evaluate(colours) == ["rgb(0, 0, 0)", "rgba(0, 0, 0, 0)"]
    assert page.locator("body").evaluate(colours) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_results_come_as_one_types(address, opened) -> None:
    page = opened()
    page.goto(f"{address}/search")
    page.locator("#find").press_sequentially("strandv")
    page.wait_for_selector(".results li")
    assert "Strandvik" in page.locator(".results").inner_text()
    page.wait_for_url("**/search?q=strandv")
    page.locator("#find").fill("nobody is called so")
    page.wait_for_selector("text=No matches for")


def test_tables_sort_by_their_heads(address, opened) -> None:
    page = opened()
    page.goto(address + places(page, address)["neighbourhood"])
    head = page.locator("th", has_text="one entity")
    numbers = page.locator("table.sorts tbody td:nth-child(3)")
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    told = [float(it.get_attribute("data-n")) for it in numbers.all()]
    assert told == sorted(told, reverse=True)
    head.get_by_role("button").press("Enter")
    assert [float(it.get_attribute("data-n")) for it in numbers.all()] == sorted(told)


def decisions(path: Path) -> list[tuple[str, str, bool]]:
    """Those in force: two fragments, and whether they are the same."""
    with Database(str(path)) as database:
        return [
            (one.decision.first, one.decision.second, one.decision.same)
            for one in Store(database).decisions()
            if one.undone is None
        ]


def pair(page: Page) -> tuple[str, str]:
    """The fragments that are asked about."""
    fields = [page.locator(f"input[name={name}]").input_value() for name in ("first", "second")]
    return fields[0], fields[1]


@pytest.mark.parametrize(
    "scripts", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["scripts", "none"]
)
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_a_review_decides_skips_and_takes_back(writable, opened, scripts, scheme, width) -> None:
    address, path = writable
    page = opened(scheme, width, java_script_enabled=scripts)

    def answer(key: str, name: str, effect: str) -> None:
        if scripts:
            form = page.query_selector(".answers")
            page.keyboard.press(key)
            form.wait_for_element_state("hidden")  # another one has taken its place
        else:
            page.locator(f"button[value='{name}']").click()
        page.wait_for_selector(f"[role=status]:has-text('{effect}')")

    page.goto(f"{address}/review")
    assert page.locator("button[value=undo]").is_disabled()
    first = pair(page)
    answer("y", "same", "One entity.")
    assert decisions(path) == [(*first, True)]
    assert "After:" in page.locator(".effect").inner_text()
    second = pair(page)
    assert set(second) != set(first)
    answer("n", "different", "Two entities.")
    assert decisions(path) == [(*first, True), (*second, False)]
    third = pair(page)
    page.keyboard.press("w") if scripts else page.locator("textarea[name=note]").focus()
    page.keyboard.type("skin")  # no key of an answer
    page.keyboard.press("Escape")
    answer("s", "skip", "Skipped for now.")
    assert len(decisions(path)) == 2
    assert set(pair(page)) != set(third)
    assert page.locator("textarea[name=note]").input_value() == ""
    answer("u", "undo", "Undone.")
    assert set(pair(page)) == set(third), "what was taken back is asked again"
    assert len(decisions(path)) == 2
    assert page.locator("textarea[name=note]").input_value() == "skin", "and its note is there"
    answer("c", "cannot tell", "Nobody will be asked about these two again.")
    assert decisions(path)[2] == (*third, None)
    assert page.locator("textarea[name=note]").input_value() == ""
    page.goto(f"{address}/decisions")
    row = page.locator("tr", has_text="cannot tell").inner_text()
    assert "skin" in row
    page.goto(f"{address}/review")
    answer("u", "undo", "Undone.")
    assert set(pair(page)) == set(third)
    answer("u", "undo", "Undone.")
    assert decisions(path) == [(*first, True)]


def test_an_answer_that_contradicts_another_is_refused_in_words(writable, opened) -> None:
    address, path = writable
    page = opened()
    page.goto(f"{address}/review")
    first, second = pair(page)
    asked = {"headers": {"Origin": address}}
    said = {"first": first, "second": second}
    api = page.request
    assert api.post(f"{address}/review", form={**said, "answer": "same"}, **asked).status == 200
    refused = api.post(f"{address}/review", form={**said, "answer": "different"}, **asked)
    assert refused.status == 409
    assert 'role="alert"' in refused.text()
    assert decisions(path) == [(first, second, True)]


def test_who_knows_the_token_signs_in_and_goes_on(mentions, opened) -> None:
    token = "a token that is long enough".replace(" ", "-")
    page = opened("dark", 390)
    with served(mentions, Access(tokens=[Token(token)])) as address:
        page.goto(f"{address}/search?q=strandvik")
        assert page.locator("h1").inner_text() == "Sign in"
        page.keyboard.type(token)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/search\?q=strandvik"))
        assert page.locator(".results li").count()


HOSTILE = (
    "<script>window.harmed = 1</script>",
    "</bdi></td></table><img src=x onerror='window.harmed = 1'>",
    "\"' onmouseover=window.harmed=1 x=\"'",
    "javascript:window.harmed=1",
    "\u202egnorw si sihT\u202c \u2066",
    "https://elsewhere.example/harm.js",
    "{{ 7 * 7 }} {% raw %}",
    "v" * 60_000,
    "\x1b[2J\x07\x7f",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Iterator[str]:
    """A server over a store whose every text is hostile: ids, attributes, values, sources."""
    path = tmp_path_factory.mktemp("hostile") / f"kb{HOSTILE[2]}.sqlite".replace("/", "")
    fragments = [
        Fragment(
            id=f"{text[:400]}/{copy}?&#",
            properties={"name": (text, f"{text} {copy}"), text[:300]: (text,)},
            source=text[:400],
        )
        for text in HOSTILE
        for copy in range(3)
    ]
    wide = {f"{k} {HOSTILE[k % 2]}": ("v" * 300, f"{k}") for k in range(1_000)}
    fragments += [Fragment(f"wide {k}", {"name": ("wide",), **wide}) for k in range(2)]
    add_fragments(str(path), fragments, RunOptions(likelihood="pairs"))
    with served(path) as found:
        yield found


@pytest.mark.slow
def test_hostile_data_is_inert(hostile, opened) -> None:
    page = opened()
    home = page.request.get(f"{hostile}/.json").json()
    for entity in [one["id"] for one in home["largest"]]:
        found = page.request.get(f"{hostile}/entity/{entity}.json").json()
        page.goto(f"{hostile}/entity/{entity}")
        fragment = page.locator("td a[href^='/fragment']").first.get_attribute("href")
        for path in (
            f"/entity/{entity}",
            fragment,
            fragment.replace("/fragment?id", "/why?fragment"),
            f"/compare?first={entity}&second={home['largest'][0]['id']}",
            f"/subproblem/{found['subproblem']}",
            f"/neighbourhood/{entity}",
        ):
            if path.startswith("/compare") and entity == home["largest"][0]["id"]:
                continue
            answer = page.goto(hostile + path)
            assert answer.status == 200, path
            check(page)
    for path in ("/", "/review", "/runs?from=0&to=1", "/quality"):
        page.goto(hostile + path)
        check(page)
    for text in HOSTILE:
        page.goto(f"{hostile}/search")
        page.locator("#find").fill(text[:400].replace("\x1b", "").replace("\x07", ""))
        page.locator("#find").press("Enter")
        page.wait_for_load_state()
        check(page)


def check(page: Page) -> None:
    """Nothing ran, no address leads elsewhere, nothing turns the text around, and it is short."""
    assert page.evaluate("window.harmed") is None
    assert page.locator("img, iframe, object, embed, base, meta[http-equiv]").count() == 0
    assert page.locator("script:not([src^='/static/'])").count() == 0
    links = [
        link
        for name in ("href", "src", "action")
        for link in page.eval_on_selector_all(
            f"[{name}]", f"them => them.map(it => it.getAttribute('{name}'))"
        )
    ]
    assert [link for link in links if link[:1] not in "/#" or link[:2] == "//"] == []
    text = page.evaluate("document.body.innerText")
    assert not set(text) & set("\u202e\u2066\x1b\x07\x00\x7f")
    assert len(page.content()) < 1_000_000


@pytest.mark.slow
def test_a_page_shows_what_was_under_way_once_it_is_there(
    mentions: Path, opened: Callable[..., Page]
) -> None:
    go, service = threading.Event(), Service(str(mentions))
    service.computations.get("first", (), lambda _: go.wait(60), 0.0)  # one is computed at a time
    with running(application(service), service.feed.stop) as address:
        page = opened()
        page.goto(f"{address}quality")
        page.get_by_text("Computing scores.").wait_for()
        go.set()
        page.get_by_text("Computing scores.").wait_for(state="detached")
        assert page.get_by_text("B-cubed, mean F1 of the items").is_visible()


def test_a_page_follows_what_others_write_unless_it_is_used(writable, opened) -> None:
    address, _ = writable
    page = opened()
    page.goto(address)
    pair = page.request.get(f"{address}/api/review").json()["question"]
    said = {"first": pair["first"], "second": pair["second"], "same": True}
    page.locator("main a").first.focus()
    assert page.request.post(f"{address}/api/review", data=said).status == 200
    page.wait_for_timeout(1_000)
    assert page.locator("main a").first.evaluate("it => it === document.activeElement")
    page.locator("#find").focus()
    page.locator(".tile", has_text="1decision").wait_for()


def test_the_ways_to_pages_open_without_scripts_on_a_phone(address, opened) -> None:
    page = opened("dark", 390, java_script_enabled=False)
    page.goto(address)
    assert not page.locator("nav").is_visible()
    page.get_by_role("button", name="Pages").focus()
    page.keyboard.press("Enter")
    page.locator("nav").get_by_role("link", name="Decisions").click()
    page.wait_for_url("**/decisions")


@contextmanager
def site(content: str) -> Iterator[str]:
    """The address of another site than 127.0.0.1, with one page."""

    class OnePage(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), OnePage) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def test_another_site_asks_for_reconciliation_and_frames_previews_alone(address, browser) -> None:
    page = browser.new_page()
    (entity, *_) = page.request.get(f"{address}/.json").json()["largest"]
    frames = "".join(
        f'<iframe id="{name}" src="{address}{path}"></iframe>'
        for name, path in (
            ("preview", f"/reconcile/preview?id={entity['id']}"),
            ("entity", f"/entity/{entity['id']}"),
        )
    )
    with site(frames) as elsewhere:
        page.goto(elsewhere)
        assert entity["name"] in page.frame_locator("#preview").locator("h1").inner_text()
        assert sum(frame.url.startswith(address) for frame in page.frames) == 1
        answer = page.evaluate(
            """async ([address, queries]) => (await fetch(address + "/reconcile", {
                method: "POST", body: new URLSearchParams({ queries })
            })).json()""",
            [address, f'{{"q0": {{"query": "{entity["id"]}"}}}}'],
        )
        assert answer["q0"]["result"][0]["id"] == entity["id"]
        for path in ("/api/status", "/.json", f"/entity/{entity['id']}.json"):
            told = page.evaluate(
                "address => fetch(address).then(() => true, () => false)", f"{address}{path}"
            )
            assert not told, path
    page.close()
