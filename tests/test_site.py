"""The manual as a site: every page is in it, it builds without a warning, and its links resolve."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from kbforge import cluster, contracts, load
from tests.registry.distributions import python

ROOT = Path(__file__).parent.parent
PAGES = sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def settings() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    read: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return read


def named(nav: Any) -> Iterator[str]:
    """The pages of a navigation."""
    for entry in nav:
        for inside in entry.values():
            yield from [inside] if isinstance(inside, str) else named(inside)


def test_every_page_is_in_the_navigation_once():
    assert sorted(named(settings()["nav"])) == PAGES


def test_every_contract_is_in_the_reference():
    page = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")
    modules = {path.stem for path in Path(contracts.__file__).parent.glob("*.py")}
    modules -= {"__init__"}
    assert set(re.findall(r"^::: kbforge\.contracts\.(\w+)$", page, re.MULTILINE)) == modules


@pytest.mark.parametrize("name", ["fragments.svg", "groupings.svg", "step.svg"])
def test_a_picture_is_readable_in_the_dark(name):
    """It brings its own ground, and changes it with the colours of its text."""
    picture = (ROOT / "docs" / name).read_text(encoding="utf-8")
    light, _, dark = picture.partition("@media (prefers-color-scheme: dark)")
    for shown in (".page { fill: #", "text { f"):
        assert shown in light
        assert shown in dark
    assert f"]({name})" in (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")


def test_the_pictures_show_what_a_run_says():
    people = load(str(ROOT / "examples" / "people" / "people.csv"), id="id")
    kb = cluster(people, likelihood="attributes", size_exponent=1.0)
    of = {fragment: entity for entity in kb.entities for fragment in entity.fragments}
    austen, newton, shelley = of["7"], of["15"], of["8"]
    doubts = [round(100 * (e.reported or 0)) for e in (austen, newton)]
    others = [round(100 * e.alternatives[0].probability) for e in (austen, newton)]
    odds = math.log(austen.alternatives[0].probability / (austen.reported or 0))
    drawn = {
        "fragments.svg": [f"confidence {shelley.confidence:.0%}".replace("%", " %")],
        "groupings.svg": [f">{percent} %<" for percent in (*doubts, *others)],
        "step.svg": [
            *(f">{percent} %<" for percent in (doubts[0], others[0])),
            f"alpha = {kb.alpha:.2f}",
            f"{odds:.2f} nats".replace("-", "−"),
        ],
        "concepts.md": [f"the confidence {100 * austen.confidence:.0f} %"],
    }
    for name, said in drawn.items():
        text = " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())
        assert [part for part in said if part not in text] == []


class Page(HTMLParser):
    """The ids of a page, and what it links to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := given.get(name))}
        self.links += [value for name in ("href", "src") if (value := given.get(name)) is not None]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("zensical")
    pytest.importorskip("mkdocstrings_handlers.python")
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", root / "docs")
    shutil.copy(ROOT / "mkdocs.yml", root)
    for package in ("kbforge", "plugins"):
        (root / package).symlink_to(ROOT / package)
    built = python("-m", "zensical", "build", "--strict", cwd=root)
    assert built.code == 0, built.out + built.err
    assert "warning" not in (built.out + built.err).lower()
    made = python(str(root / "docs" / "generate_llms.py"), str(root / "site"), cwd=root)
    assert made.code == 0, made.err
    return root / "site"


@pytest.mark.slow
def test_the_links_of_the_site_resolve(site):
    files = [file for file in site.rglob("*.html") if file.name != "404.html"]
    assert len(files) == len(PAGES)
    pages = {file: Page(file) for file in files}
    broken, looked = [], 0
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            looked += 1
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            there = target.is_file()
            if there and parts.fragment and target in pages:
                there = unquote(parts.fragment) in pages[target].ids
            if not there:
                broken.append(f"{file.relative_to(site)}: {link}")
    assert broken == []
    assert looked > 1_000


@pytest.mark.slow
def test_the_site_asks_nobody_else(site):
    """No font, script or picture comes from another server."""
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:link|script|img)[^>]+(?:href|src)=\"?(https?://[^\"> ]+)", text)
        assert fetched == [], file


@pytest.mark.slow
def test_the_reference_has_what_the_code_says(site):
    ids = Page(site / "api" / "index.html").ids
    assert {"kbforge.cluster", "kbforge.KnowledgeBase.write", "kbforge.review"} <= ids
    ids = Page(site / "contracts" / "index.html").ids
    assert "kbforge.testing.SourceContract.bad_documents" in ids
    assert not [name for name in ids if ".test_" in name]


@pytest.mark.slow
def test_language_models_find_every_page(site):
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# KBForge\n\n> Turn entity fragments into a knowledge base.\n")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S.*\.$", listed, re.MULTILINE)
    assert len(links) == len(PAGES)
    for link in links:
        assert (site / link).exists(), link
        assert link in PAGES or f"{link[:-1]}.md" in PAGES
