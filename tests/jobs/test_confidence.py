"""Confidence is told when a run ends, is kept, and is read without any model."""

from pathlib import Path

import pytest

from kbforge.contracts import Decision
from kbforge.fit.choices import RunOptions
from kbforge.jobs import confidence as calibrating
from kbforge.jobs import views
from kbforge.jobs.cluster import cluster
from kbforge.jobs.decide import decide, undo
from kbforge.jobs.refit import refit, revisit
from kbforge.jobs.remove import remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import EntitySelector, entities_of
from kbforge.kb import read
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people

PEOPLE = people(40, 3)
FIRST = PEOPLE[:90]
CHOICES = RunOptions(likelihood="attributes", alpha=5.0)


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, FIRST, CHOICES)
    return path


def stale(path: str) -> int:
    with Database(path) as database:
        return int(database.connection.execute("SELECT count(*) FROM stale").fetchone()[0])


def figures(path: str) -> dict[tuple[str, ...], tuple[float, float | None]]:
    return {e.fragments: (e.confidence, e.reported) for e in entities_of(path)}


def test_a_store_says_what_a_file_says(store: str) -> None:
    file = cluster(FIRST, CHOICES)
    expected = {e.fragments: (e.confidence, e.reported) for e in file.entities}
    found = figures(store)
    assert found.keys() == expected.keys()
    for fragments, (confidence, reported) in found.items():
        # of equally near neighbours the first subproblem is compared with, whose order may differ
        assert confidence == pytest.approx(expected[fragments][0], abs=0.01)
        assert reported == pytest.approx(expected[fragments][1])


def test_every_command_that_writes_tells_it_and_readers_make_no_model(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = PEOPLE[90:]
    ids = [fragment.id for fragment in FIRST]

    def no_model(*_: object, **__: object) -> None:
        raise AssertionError("a reader made a model")

    for change in (
        lambda: add_fragments(store, later, RunOptions()),
        lambda: remove(store, [ids[5]]),
        lambda: decide(store, [Decision(False, ids[0], ids[1], "")]),
        lambda: undo(store, 1),
        lambda: revisit(store),
        lambda: refit(store),
    ):
        change()
        assert stale(store) == 0
        with monkeypatch.context() as patched:
            patched.setattr(calibrating, "restore", no_model)
            entities = list(entities_of(store))
            assert all(entity.reported is not None for entity in entities)
            choosing = EntitySelector(store)
            for least_sure, choose in ((False, read.largest), (True, read.least_sure)):
                assert choosing.top(4, least_sure) == choose(entities, 4)
            one = entities[3]
            assert choosing.with_id(one.id) == [one]
            assert choosing.with_fragment(one.fragments[-1]) == one


def test_undoing_brings_back_what_was_told(store: str) -> None:
    ids = EntitySelector(store).top(1, least_sure=False)[0].fragments

    def tables() -> list[tuple[object, ...]]:
        with Database(store) as database:
            rows = database.connection.execute("SELECT * FROM confidence ORDER BY first")
            return list(rows.fetchall())

    before = tables()
    decide(store, [Decision(False, ids[0], ids[1], "")])
    assert tables() != before
    undo(store, 1)
    assert tables() == before


def test_what_a_killed_run_left_is_told_by_whoever_opens_it(store: str) -> None:
    before = figures(store)
    with Database(store, write=True) as database:
        rows = database.connection
        names = rows.execute("SELECT name FROM page").fetchall()

        def forget(rows: object) -> None:
            calibrating.insert_rows(database.connection, "stale", names)
            database.connection.execute("DELETE FROM confidence")

        database.transaction(forget)
    asked = views.store_view(Store(Database(store)))
    assert {e.fragments: (e.confidence, e.reported) for e in asked.entities()} == before
    assert stale(store) == len(names)
    assert figures(store) == before
    assert stale(store) == 0
