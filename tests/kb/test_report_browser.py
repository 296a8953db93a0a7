"""The report in a real browser, read from a file: it sorts, searches and prints by itself."""

from typing import Any, Literal

import pytest

pytest.importorskip("playwright", reason="needs playwright, to drive a browser")

from playwright.sync_api import Page

from kbforge.contracts import Fragment
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide, decisions_of
from kbforge.jobs.report import report
from kbforge.jobs.update import add_fragments
from tests.browsing import NEEDS_CHROMIUM, chromium
from tests.people import people

pytestmark = NEEDS_CHROMIUM

HOSTILE = (
    "</script></style><script>document.title = 'obeyed'</script>",
    "<img src=x onerror=\"document.title = 'obeyed'\">",
    "javascript:document.title='obeyed'",
    "\u202egnp.\u2066' \" \x1b & &lt;",
    "v" * 65_000,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of a store whose data are hostile."""
    folder = tmp_path_factory.mktemp("report")
    path, out = str(folder / "kb.sqlite"), folder / "report.html"
    fragments = people(40, 5, error=0.5)
    hostile = [
        Fragment(f"h{k}", {"name": (text,), text[:60]: ("x",)}) for k, text in enumerate(HOSTILE)
    ]
    add_fragments(path, [*fragments[:60], *hostile], RunOptions(likelihood="attributes"), about="a")
    add_fragments(path, [*fragments, *hostile], RunOptions(), about="b")
    decide(path, decisions_of([("same", "h0", "h1"), ("different", "h1", "h2")]))
    out.write_text(report(path, labels=True).html, encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def browser():
    """One browser for all of these tests."""
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser, written, request):
    """The report in a colour and a width; nothing may be asked for, and nothing said of errors."""
    scheme: Literal["light", "dark"]
    scheme, width = getattr(request, "param", ("light", 1280))
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.goto(written.as_uri())
    page.on("request", lambda asked: wrong.append(asked.url))
    yield page
    assert page.title() == "kb.sqlite - KBForge report"
    assert wrong == []
    context.close()


def cells(page: Page, column: int) -> list[str]:
    """The texts of the rows that are shown of the table of entities."""
    rows = page.locator(".listed tbody tr:visible")
    return [row.locator("td").nth(column).inner_text() for row in rows.all()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "opened",
    [("light", 1280), ("light", 390), ("dark", 1280), ("dark", 390)],
    indirect=True,
    ids=str,
)
def test_it_fits_both_widths_in_both_colours_and_axe_finds_nothing_serious(opened):
    axe: Any = pytest.importorskip("axe_playwright_python.sync_playwright")
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    # the script of axe runs in the page, which allows no other
    found = axe.Axe().run(opened).response
    assert found["passes"]
    wrong = [v["id"] for v in found["violations"] if v["impact"] in ("serious", "critical")]
    assert wrong == []


@pytest.mark.slow
def test_entities_are_searched_and_sorted_without_a_network(opened):
    everything = cells(opened, 0)
    opened.get_by_label("Search").fill(everything[3][:5])
    found = cells(opened, 0)
    assert everything[3] in found
    assert len(found) < len(everything)
    opened.get_by_label("Search").fill("")
    assert cells(opened, 0) == everything
    head = opened.locator(".listed th").get_by_role("button", name="confidence")
    head.click()
    assert opened.locator(".listed th").nth(3).get_attribute("aria-sort") == "descending"
    stated = [int(text.split()[0].lstrip("<>")) for text in cells(opened, 3)]
    assert stated == sorted(stated, reverse=True)
    head.press("Enter")
    stated = [int(text.split()[0].lstrip("<>")) for text in cells(opened, 3)]
    assert stated == sorted(stated)


def test_the_most_uncertain_entities_have_alternatives_and_a_waterfall(opened):
    assert opened.locator(".entity .grouping").count() > 1
    waterfall = opened.locator(".entity .waterfall").first
    rows = [row.locator("td.count").inner_text() for row in waterfall.locator("tbody tr").all()]
    *parts, total = (float(text.replace(",", "").replace("−", "-")) for text in rows)
    assert total == pytest.approx(sum(parts), abs=0.01 * len(rows))


def test_it_prints_without_what_only_a_screen_has(opened):
    assert opened.pdf().startswith(b"%PDF")
    opened.emulate_media(media="print")
    assert not opened.get_by_label("Search").is_visible()
    assert len(cells(opened, 0)) <= 200
    opened.emulate_media(media="screen")
