"""An hour of a data steward in a real browser, with the keyboard alone.

She imports a file, finds what is doubtful, joins and parts, accepts many pairs and undoes that,
corrects values, filters, exports, and looks up who did what. Whatever page she sees is looked at in
both colours and at both widths: axe finds nothing in it.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("playwright", reason="needs playwright, to drive a browser")

from playwright.sync_api import Browser, Locator, Page

from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.browsing import NEEDS_CHROMIUM, chromium
from tests.serve.test_browser import served
from tests.store.dump import dump

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]

GENERATOR = Path(__file__).parents[2] / "examples/reproductions/people.py"
STORED, IMPORTED = 2_000, 5_000
LOOKS = [(scheme, width) for width in (390, 1280) for scheme in ("light", "dark")]
_MOST_STEPS = 600  # from one thing on a page to another
_RULES = {"rules": {"target-size": {"enabled": True}}}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """Records for the store, and a table of others of the same people."""
    folder = tmp_path_factory.mktemp("people")
    files = [str(folder / "people.jsonl"), str(folder / "people.csv")]
    number = str(STORED + IMPORTED)
    subprocess.run([sys.executable, str(GENERATOR), number, *files, "--seed", "3"], check=True)
    first = folder / "first.jsonl"
    with open(files[0], "rb") as lines:
        first.write_bytes(b"".join(line for _, line in zip(range(STORED), lines, strict=False)))
    with open(files[1], newline="") as table:
        head, *records = [[row[0], *row[2:]] for row in csv.reader(table)]  # without the labels
    out = io.StringIO()
    csv.writer(out, delimiter=";").writerows([head, *records[STORED:]])
    return first, out.getvalue().encode()


@pytest.fixture(scope="module")
def store(rows: tuple[Path, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hour") / "people.sqlite"
    add_fragments(str(path), list(read_fragments(str(rows[0]))), RunOptions(likelihood="pairs"))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


class Steward:
    """Someone at a keyboard, who looks at each page in all colours and widths."""

    def __init__(self, page: Page, address: str, look: tuple[str, int]) -> None:
        self.page, self.address, self._look = page, address, look
        self._axe: Any = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        self._seen: set[str] = set()

    def open(self, path: str) -> None:
        """Open an address, as from a bookmark or a letter."""
        self.page.goto(self.address + path)
        self.look_at(path.partition("?")[0].split("/")[1] or "home")

    def reach(self, wanted: Locator) -> None:
        """Go to something on the page, step by step."""
        self.page.wait_for_load_state()
        wanted.wait_for(state="attached")
        for _ in range(_MOST_STEPS):
            if wanted.evaluate("it => it === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"the keyboard does not reach {wanted}")

    def press(self, wanted: Locator, key: str = "Enter") -> None:
        self.reach(wanted)
        self.page.keyboard.press(key)

    def write(self, wanted: Locator, text: str) -> None:
        self.reach(wanted)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def fragments_of(self, entity: str) -> list[str]:
        found = orjson.loads(self.page.request.get(f"{self.address}{entity}.json").body())
        return [one["fragment"]["id"] for one in found["fragments"]]

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True).first

    def see(self, text: str, kind: str) -> str:
        """Wait until the page says something; returns all that is said of what was done."""
        self.page.locator("main", has_text=text).wait_for()
        self.look_at(kind)
        return self.page.locator("main").inner_text()

    def look_at(self, kind: str) -> None:
        """Look at the first page of each kind in all colours and widths."""
        if kind in self._seen:
            return
        self._seen.add(kind)
        for scheme, width in LOOKS:
            self._wear(scheme, width)
            wide = self.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (kind, width)
            found = self._axe.run(self.page, options=_RULES).response["violations"]
            told = [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found]
            assert told == [], (kind, scheme, width)
        self._wear(*self._look)

    def _wear(self, scheme: Any, width: int) -> None:
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": width, "height": 900})

    def take(self, act: str, note: str) -> str:
        """Take the act whose effect is shown, with a reason."""
        said = self.see("This would make", f"{act}, before")
        self.write(self.page.get_by_label("Why"), note)
        self.press(self.page.locator("main button.first"))
        assert "decision" in self.see("made.", f"{act}, after")
        return said


def group_of(fragment: str | None, path: Path) -> set[str]:
    """The fragments of the entity that holds one."""
    with Database(str(path)) as database:
        ids = [id for (id,) in database.connection.execute("SELECT id FROM entity")]
        return next(
            set(held) for _, held in Store(database).members(sorted(ids)) if fragment in held
        )


def import_rows(steward: Steward, table: bytes) -> None:
    page = steward.page
    given = {"name": "people.csv", "mimeType": "text/csv", "buffer": table}
    steward.open("/import")
    page.locator("input[type=file]").set_input_files(given)  # the dialog is the browser's
    steward.press(steward.button("Send"))
    page.wait_for_url("**/import/*")
    steward.look_at("columns")
    steward.press(steward.button("Show the effect"))
    assert f"{IMPORTED:,} new records" in steward.see("nothing written yet", "import, before")
    steward.press(steward.button(f"Add {IMPORTED:,} records"))
    page.set_default_timeout(180_000)
    steward.see(f"{IMPORTED:,} fragments added", "import, after")
    page.set_default_timeout(20_000)


class Doubtful:
    """The least sure entities of what was imported, those that no act has touched yet."""

    def __init__(self, steward: Steward) -> None:
        self._steward = steward
        steward.press(steward.page.get_by_role("link", name="The least sure of what changed"))
        steward.page.wait_for_url("**/entities?*")
        steward.look_at("entities")
        self._address = steward.page.url.removeprefix(steward.address)
        self._touched: set[str] = set()

    def next(self, at_least: int = 1) -> tuple[str, list[str]]:
        """The address and the fragments of the next one of so many fragments."""
        self._steward.open(self._address)
        for link in self._steward.page.locator("td.name a").all():
            entity = str(link.get_attribute("href"))
            held = self._steward.fragments_of(entity)
            if len(held) >= at_least and self._touched.isdisjoint(held):
                self._touched.update(held)
                return entity, held
        raise AssertionError("too few entities are listed")


def part_one(steward: Steward, doubtful: Doubtful, path: Path) -> None:
    """Part the first fragment from its entity; what else it belongs to, the evidence says."""
    entity, held = doubtful.next(at_least=2)
    steward.open(entity)
    box = steward.page.get_by_role("checkbox").first
    chosen = box.get_attribute("value")
    steward.press(box, "Space")
    steward.press(steward.button("Part"))
    steward.take("part", "another person")
    assert group_of(chosen, path).isdisjoint({*held} - {chosen})


def join_two(steward: Steward, doubtful: Doubtful, path: Path) -> None:
    (first, held), (second, more) = doubtful.next(), doubtful.next()
    ids = [one.rpartition("/")[2] for one in (first, second)]
    steward.open(f"/compare?first={ids[0]}&second={ids[1]}")
    steward.press(steward.button("Join them"))
    steward.take("join", "the same person")
    assert {*held, *more} <= group_of(held[0], path)


def accept_and_undo(steward: Steward, path: Path) -> None:
    """What is accepted is certain then; most of it was the best grouping already."""
    before = pages_of(path)
    steward.open("/review")
    steward.write(steward.page.get_by_label("Or accept all with a probability"), ".51")
    steward.press(steward.button("Show"))
    said = steward.take("accept", "a first guess")
    number = int(said.partition("This would make ")[2].split()[0].replace(",", ""))
    assert number >= 200
    assert pages_of(path) != before
    steward.press(steward.button("Undo"))
    assert f"{number:,} decisions undone" in steward.see("undone", "undo")
    assert pages_of(path) == before


def pages_of(path: Path) -> list[str]:
    """The competing groupings of a store, and its entities."""
    return [line for line in dump(path) if line.startswith(("page", "entity"))]


def correct(steward: Steward, doubtful: Doubtful, attribute: str, value: str) -> None:
    entity, _ = doubtful.next(at_least=2)
    steward.open(entity)
    steward.write(steward.page.get_by_label("I know that"), attribute)
    steward.write(steward.page.get_by_label("is", exact=True), value)
    steward.press(steward.button("Settle…"))
    steward.take("value", "from the register")
    steward.open(entity)
    settled = steward.page.locator("td.value", has_text="settled by Ada").all_inner_texts()
    assert any(one.startswith(value) for one in settled)


def export(steward: Steward) -> None:
    """Filter by contradiction, and export what is left."""
    page = steward.page
    steward.open("/entities")
    steward.press(page.get_by_label("contradictions"), "Space")
    steward.press(steward.button("Show"))
    page.wait_for_url("**contradicts=true*")
    said = page.locator("main p[role=status]").inner_text()
    steward.write(page.get_by_label("Export these as"), "members")
    with page.expect_download() as downloads:
        steward.press(steward.button("Export"))
    with open(downloads.value.path(), newline="") as members:
        entities = {row["entity_id"] for row in csv.DictReader(members)}
    assert entities
    if "About" not in said:
        assert f"{len(entities):,} entit" in said


def who_did_what(steward: Steward, number: int) -> None:
    steward.open("/decisions")
    page = steward.page
    steward.write(page.get_by_label("by", exact=True), "Ada")
    steward.press(steward.button("Show"))
    page.wait_for_url("**by=Ada*")
    assert page.locator("main tbody tr").count() == number
    for note in ("another person", "the same person", "from the register"):
        assert page.locator("main tbody tr", has_text=note).count()
    audit = orjson.loads(page.request.get(f"{steward.address}/api/audit?limit=100").body())
    assert {one["by"] for one in audit["lines"] if one["decision"]} == {"Ada"}


@pytest.mark.parametrize("look", LOOKS[::3], ids=str)
def test_an_hour(
    look: tuple[str, int], rows: tuple[Path, bytes], store: Path, browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "people.sqlite"
    path.write_bytes(store.read_bytes())
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(20_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    with served(path) as address:
        steward = Steward(page, address, look)
        steward.open("/")
        steward.write(page.get_by_label("What you write is signed as"), "Ada")
        with page.expect_navigation():
            steward.press(steward.button("Change"))
        import_rows(steward, rows[1])
        doubtful = Doubtful(steward)
        for _ in range(5):
            part_one(steward, doubtful, path)
            join_two(steward, doubtful, path)
        accept_and_undo(steward, path)
        correct(steward, doubtful, "suburb", "Lower Oxbridge")
        correct(steward, doubtful, "surname", "Lovelace")
        export(steward)
        who_did_what(steward, 12)
    context.close()
    assert wrong == []
