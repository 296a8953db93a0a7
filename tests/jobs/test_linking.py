"""Linking two tables: the source is the table, and a link says what it binds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kbforge import cluster, decide, link, load, update
from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.fit.choices import RunOptions, link_note
from kbforge.jobs.remove import remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.kb.view import Policy, golden
from tests.people import people
from tests.program import Run

TABLES = {
    "left.csv": "id,name,town\na1,Ann Lee,Rome\na2,Ann Lee,Rome\na3,Bo Ray,Oslo\n",
    "right.csv": "id,name,town\nb1,Ann Lee,Rome\nb2,Bo Ray,Oslo\n",
}


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    return [tmp_path / name for name in TABLES]


def test_rows_of_one_table_share_the_source(tables: list[Path]) -> None:
    found = load(*tables, source="csv", id="id")
    assert [x.source for x in found] == ["left.csv"] * 3 + ["right.csv"] * 2
    assert [x.row for x in found] == [2, 3, 4, 2, 3]
    assert [x.place for x in found][-2:] == ["right.csv:2", "right.csv:3"]


def test_tables_of_one_name_are_two_sources(tmp_path: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "in.csv").write_text("name\nAnn\n")
    found = load(tmp_path / "a/in.csv", tmp_path / "b/in.csv", source="csv")
    assert [(x.id, x.source) for x in found] == [("in-1", "in.csv"), ("in~2-1", "in.csv~2")]


def test_linking_keeps_the_rows_of_a_table_apart(program: Run, tables: list[Path]) -> None:
    folder = tables[0].parent
    program("load", "csv", *tables, "--id", "id", "-o", folder / "both.jsonl")
    for linked in ((), ("--link", "source")):
        options = ("--likelihood", "attributes", "--alpha", "0.01", *linked)
        ran = program("cluster", folder / "both.jsonl", *options, "-o", folder / "kb.jsonl")
        homes = [set(e.fragments) for e in entities_of(str(folder / "kb.jsonl"))]
        together = any({"a1", "a2"} <= home for home in homes)
        assert together is (linked == ())
        assert any({"a3", "b2"} <= home for home in homes)
    note = "note: --link source keeps 5 fragments apart in 2 groups: no entity has two fragments "
    assert note + "that share a source\n" in ran.err


def fragment(id: str, source: str | None = None, **properties: str) -> Fragment:
    return Fragment(id, {key: (v,) for key, v in properties.items()}, source=source)


LINKS = {
    "no effect": (
        [fragment("a", "x", name="Ann"), fragment("b", "y", name="Ann")],
        "source",
        "--link source has no effect: no two fragments share a source; the source of a fragment "
        "is the table that it was read from",
    ),
    "an attribute without effect": (
        [fragment("a", name="Ann"), fragment("b", name="Bo")],
        "name",
        '--link name has no effect: no two fragments share a value of "name"',
    ),
    "an attribute": (
        [fragment(c, name="Ann" if c < "d" else c) for c in "abcde"],
        "name",
        "--link name keeps 3 fragments apart in 1 group: no entity has two fragments that share "
        'a value of "name"',
    ),
    "all of them": (
        [fragment(c, "one.csv", name=c) for c in "abc"],
        "source",
        "--link source keeps all 3 fragments apart: all share a source, so none is merged",
    ),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_link_says_what_it_binds(case: str) -> None:
    fragments, link, sentence = LINKS[case]
    assert link_note(fragments, link) == sentence


def test_python_speaks_of_the_keyword() -> None:
    kb = cluster(LINKS["no effect"][0], likelihood="attributes", alpha=1.0, link="source")
    assert any(note.startswith('link="source" has no effect') for note in kb.notes)


def test_a_store_withdraws_a_table(tables: list[Path], tmp_path: Path) -> None:
    store = str(tmp_path / "kb.sqlite")
    found = load(*tables, source="csv", id="id")
    found[-1] = replace(found[-1], source="right.csv:3", metadata=None)  # as kbforge 0.1 wrote it
    add_fragments(store, found, RunOptions(likelihood="attributes", alpha=1.0))
    assert remove(store, [], "right.csv").told["removed"] == 2
    left = {id for entity in entities_of(store) for id in entity.fragments}
    assert left == {"a1", "a2", "a3"}


def test_a_linked_store_goes_on_after_a_decision(tables: list[Path], tmp_path: Path) -> None:
    store = str(tmp_path / "kb.sqlite")
    left, right = (load(path, id="id") for path in tables)
    update(store, left, link="source", likelihood="attributes", alpha=1.0)
    decide(store, [("different", "a1", "a3")])
    assert update(store, right).added == 2


def test_a_row_that_moved_is_the_same_fragment(tmp_path: Path) -> None:
    store = str(tmp_path / "kb.sqlite")
    old = [
        replace(x, source=f"in.csv:{k}" if k % 2 else "in.csv", metadata={"row": k, "x": 1})
        for k, x in enumerate(people(12, 3), 2)
    ]
    add_fragments(store, old, RunOptions(likelihood="attributes", alpha=5.0))
    moved = [replace(x, source="in.csv", metadata={"row": k, "x": 1}) for k, x in enumerate(old, 9)]
    assert add_fragments(store, moved, RunOptions()).skipped == len(old)
    other = replace(moved[0], metadata={"row": 9, "x": 2})
    with pytest.raises(Exception, match="with other content"):
        add_fragments(store, [other], RunOptions())


def test_golden_records_prefer_a_table() -> None:
    kb = cluster(
        [
            Fragment("a", {"name": ("Ann",), "town": ("Rome",)}, source="a.csv"),
            Fragment("b", {"name": ("Ann",), "town": ("Oslo",)}, source="b.csv"),
        ],
        likelihood="attributes",
        alpha=1e-6,
    )
    (entity,) = kb.entities
    policy = Policy("preferred", {}, ("b.csv", "a.csv"))
    chosen = golden(entity, policy, lambda entity: kb.fragments)
    assert [value.value for value in chosen.properties["town"]] == ["Oslo"]


def test_tables_are_linked_in_python() -> None:
    left = [fragment("1", name="Ann Lee"), fragment("2", name="Ann Lee")]
    right = [fragment("1", name="Ann Lee"), fragment("3", name="Bo Ray")]
    kb = link(left, right, names=("left", "right"), likelihood="names")
    assert [x.id for x in kb.fragments] == ["left:1", "left:2", "right:1", "right:3"]
    assert [x.source for x in kb.fragments] == ["left"] * 2 + ["right"] * 2
    assert sorted(len(entity.fragments) for entity in kb.entities) == [1, 1, 2]
    assert any("2 of 2 of left" in note for note in kb.notes)
    for wrong in ((left,), (left, left[:1])):
        with pytest.raises(UsageError, match="expected two or more tables"):
            link(*wrong, names=("left",) * len(wrong))
