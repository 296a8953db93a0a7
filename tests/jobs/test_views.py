"""Showing entities of a store reads those entities, by indexes, and of one moment."""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kbforge.contracts import Entity
from kbforge.fit.choices import RunOptions
from kbforge.jobs.remove import remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import EntitySelector, entities_of
from kbforge.kb.show import outsiders
from kbforge.store.database import Database
from kbforge.store.pages import StoredPages
from kbforge.store.store import Store, StoreView
from tests.people import people
from tests.registry.distributions import python

PEOPLE = people(40, 3)
CHOICES = RunOptions(likelihood="attributes", alpha=5.0)
HEAVY = (
    *("scipy", "torch", "pyarrow", "pandas", "tokenizers", "kbforge_plugins"),
    *("kbforge.fit", "kbforge.models", "kbforge.jobs.cluster"),
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("filled") / "kb.sqlite")
    add_fragments(path, PEOPLE, CHOICES)
    return path


@pytest.fixture
def database(filled: str) -> Database:
    return Database(filled)


def by_top(choosing: EntitySelector) -> list[Entity]:
    return [*choosing.top(10, False), *choosing.top(10, True)]


def by_fragment(choosing: EntitySelector) -> list[Entity]:
    return [choosing.with_fragment(PEOPLE[30].id)]


def by_id(choosing: EntitySelector) -> list[Entity]:
    return choosing.with_id(choosing.with_fragment(PEOPLE[30].id).id)


@pytest.mark.parametrize("choose", [by_top, by_fragment, by_id])
def test_entities_that_are_shown_are_found_by_indexes(
    filled: str, choose: Callable[[EntitySelector], Sequence[Entity]]
) -> None:
    asked: list[str] = []
    choosing = EntitySelector(filled)
    store = choosing._store
    assert store is not None
    store.database.connection.set_trace_callback(asked.append)
    shown = choose(choosing)
    choosing.names_of({*outsiders(shown), PEOPLE[0].id, PEOPLE[1].id})
    store.database.connection.set_trace_callback(None)
    questions = [question for question in asked if question.startswith("SELECT")]
    assert {"fragment", "page", "entity", "confidence"} <= {
        word for question in questions for word in question.split()
    }
    with contextlib.closing(sqlite3.connect(filled)) as other:
        for question in questions:
            for *_, step in other.execute(f"EXPLAIN QUERY PLAN {question}"):
                assert "TEMP B-TREE" not in step, question
                # what is ordered by an index and limited ends after the first rows
                limited = "INDEX" in step and "ORDER BY" in question
                is_limited = "LIMIT" in question and (limited or step == "SCAN stale")
                # the order of subproblems is read, and verified, from its index alone
                is_order = step == "SCAN page USING COVERING INDEX page_first"
                assert step.startswith("SEARCH") or is_limited or is_order, (question, step)


def test_subproblems_that_are_asked_for_have_the_numbers_of_all(database: Database) -> None:
    view = StoreView(Store(database))
    told = {entity.id: entity for entity in view.entities()}
    homes = view._store.pages.homes(range(len(PEOPLE)))
    names = sorted(set(homes.values()))
    for some in (names, names[::-1], names[3::5], names[-1:], []):
        assert all(told[entity.id] == entity for entity in view.of_subproblems(some))
    assert [*view.of_subproblems(names[::-1])] == [*told.values()]


def test_what_is_shown_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, PEOPLE, CHOICES)
    expected = {id: entity for entity in entities_of(path) for id in entity.fragments}
    chosen = PEOPLE[30].id
    others = [id for id in expected[chosen].fragments if id != chosen]
    assert others
    homes = StoredPages.homes

    def homes_before_a_change(pages: StoredPages, numbers: Sequence[int]) -> object:
        found = homes(pages, numbers)
        with monkeypatch.context() as patched:
            patched.setattr(StoredPages, "homes", homes)
            remove(path, others)
        return found

    choosing = EntitySelector(path)
    with monkeypatch.context() as patched:
        patched.setattr(StoredPages, "homes", homes_before_a_change)
        assert choosing.with_fragment(chosen) == expected[chosen]
    assert choosing.with_fragment(chosen).fragments == (chosen,)


@pytest.mark.parametrize(
    "options", [("--top", "2"), ("--ambiguous", "--json"), ("--fragment", PEOPLE[30].id)]
)
def test_showing_entities_imports_no_more_than_it_needs(
    filled: str, options: tuple[str, ...]
) -> None:
    program = (
        f"import sys; sys.argv = {['kbforge', 'show', filled, *options]}\n"
        "import kbforge.cli.main as m\ntry: m.main()\nexcept SystemExit as ended: print(ended)\n"
        f"print('HEAVY', [m for m in {HEAVY} if m in sys.modules])"
    )
    shown = python("-c", program)
    assert "fragments" in shown.out
    assert shown.out.splitlines()[-1] == "HEAVY []"
