"""`kbforge report` as users run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people import write_people
from tests.program import Run

CLUSTER = ("--likelihood", "attributes", "--alpha", "30")


@pytest.fixture
def store(program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "people.jsonl")
    program("cluster", "people.jsonl", "--into", "kb.sqlite", *CLUSTER)
    return tmp_path / "kb.sqlite"


def test_a_store_is_a_page(program: Run, store: Path) -> None:
    ran = program("report", "kb.sqlite", "-o", "page.html")
    assert (ran.out, ran.err) == (b"", "wrote page.html\n")
    page = Path("page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    for section in ("How it was made", "Sizes", "Calibration", "Changes of the last run", "Runs"):
        assert f"<h2>{section}</h2>" in page
    assert "people.jsonl" in page  # what the run was given
    assert program("report", "kb.sqlite", "-o", "-").out.decode() == page


def test_a_store_and_a_file_of_its_entities_tell_the_same(program: Run, store: Path) -> None:
    program("export", "kb.sqlite", "-o", "kb.jsonl")
    by_store = program("report", "kb.sqlite", "--labels", "--json").json
    by_file = program("report", "kb.jsonl", "--fragments", "people.jsonl", "--json").json
    assert by_store.pop("runs") == 1
    assert by_file.pop("runs") == 0
    assert by_store.pop("drift") == 0
    assert by_file.pop("drift") is None
    assert by_file == by_store
    assert by_store["output"] == "report.html"
    assert 0 < by_store["right"] <= by_store["with_labels"] == by_store["entities"]
    assert "<h1><bdi>kb.jsonl</bdi></h1>" in Path("report.html").read_text()


def test_standard_input_and_a_title(program: Run, store: Path) -> None:
    kb = program("export", "kb.sqlite").out
    program("report", "-", stdin=kb)
    assert "<title>standard input - KBForge report</title>" in Path("report.html").read_text()
    program("report", "-", "--title", "Folk & co", stdin=kb)
    assert "<title>Folk &amp; co - KBForge report</title>" in Path("report.html").read_text()
    assert program("report", "-", "--json", stdin=kb).json["right"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("kb.sqlite", "--fragments", "people.jsonl"), 2, "--fragments: kb.sqlite is a store"),
        (("people.jsonl", "--labels"), 2, "--labels: people.jsonl has no labels"),
        (("kb.sqlite", "-o", "-", "--json"), 2, "--json and the page cannot both go"),
        (("kb.sqlite", "-o", "kb.sqlite"), 2, "the output kb.sqlite is an input"),
        (("kb.sqlite", "-o", "no/page.html"), 1, "cannot write no/page.html"),
        (("people.jsonl",), 1, "people.jsonl:1: "),
        (("nowhere.jsonl",), 1, "nowhere.jsonl"),
    ],
)
def test_what_cannot_be_told_is_one_sentence(
    program: Run, store: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ran = program("report", *arguments)
    assert ran.code == code
    assert len(ran.err.splitlines()) == 1
    assert said in ran.err
    assert not Path("report.html").exists()
