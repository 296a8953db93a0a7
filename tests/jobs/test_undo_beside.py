"""Undo beside another writer, and ids of entities that an undo takes away."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from kbforge.errors import OutputError
from kbforge.fit.choices import Choices
from kbforge.jobs import decide as events
from kbforge.jobs.decide import decide, decisions_of, reviewed, undo
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.database import Database
from kbforge.store.store import Store, changes
from tests.people import people
from tests.store.dump import dump

PEOPLE = people(40, 8)


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, PEOPLE, Choices(likelihood="attributes", alpha=30.0))
    return path


def content(store: str) -> dict[str, tuple[str, ...]]:
    return {entity.id: entity.fragments for entity in entities_of(store)}


def decisions_hold(store: str) -> None:
    with Database(store) as database:
        opened = Store(database)
        in_force = [one.decision for one in opened.decisions() if one.undone is None]
        assert list(opened.pages.totals.constraints.decisions) == in_force


def test_nobody_writes_between_what_undo_reads_and_what_it_writes(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another decision in between made `exact` a lie, and went from the constraints."""
    a, b, c, d = (ids[0] for ids in list(content(store).values())[:4])
    decide(store, decisions_of([("same", a, b)]))
    refused = []

    def bring_back_after_another(*given: object) -> object:
        with pytest.raises(OutputError, match="another kbforge command is writing"):
            decide(store, decisions_of([("same", c, d)]))
        refused.append(True)
        return undo_exactly(*given)  # type: ignore[arg-type]

    undo_exactly = events._undo_exactly
    monkeypatch.setattr(events, "_undo_exactly", bring_back_after_another)
    assert undo(store, 1).told["exact"]
    assert refused == [True]
    decide(store, decisions_of([("same", c, d)]))
    decisions_hold(store)
    assert any({c, d} <= set(ids) for ids in content(store).values())


def test_another_writer_without_the_lock_is_noticed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without locks each transaction makes sure of it."""
    a, b = (ids[0] for ids in list(content(store).values())[:2])
    decide(store, decisions_of([("same", a, b)]))
    read = Store.decisions

    def decisions_and_a_write(self: Store) -> object:
        found = read(self)
        with sqlite3.connect(store) as rows:
            rows.execute("DELETE FROM erased")
        return found

    monkeypatch.setattr(Store, "decisions", decisions_and_a_write)
    before = dump(Path(store))
    with pytest.raises(OutputError, match="another program has written it"):
        undo(store, 1)
    monkeypatch.undo()
    assert [x for x in dump(Path(store)) if not x.startswith("erased")] == [
        x for x in before if not x.startswith("erased")
    ]


def test_ids_that_an_exact_undo_takes_away_lead_on(store: str) -> None:
    before = content(store)
    a, b, *_ = next(ids for ids in before.values() if len(ids) > 1)
    decide(store, decisions_of([("different", a, b)]))
    new = {id: ids for id, ids in content(store).items() if id not in before}
    assert new
    assert undo(store, 1).told["exact"]
    with Database(store) as database:
        opened = Store(database)
        for id, ids in new.items():
            assert set(ids) <= {one for e in opened.now(id) for one in before[e]}
        told = {change.entity: change for change in changes(opened, 2)}
        for id in new:
            assert told[id].others == opened.now(id)


def test_ids_lead_on_that_one_run_gave_and_took(store: str) -> None:
    """Each answer of a review is written, so its ids were there to be seen."""
    shown: dict[str, tuple[str, ...]] = {}
    with reviewed(store) as review:
        for _ in range(12):
            shown |= content(store)
            evidence = review.asks.question()
            if evidence is None:
                break
            review.asks.answer(evidence, True)
            shown |= content(store)
            review.asks.undo()
            review.asks.answer(evidence, False)
        shown |= content(store)
        while review.asks.undo():
            shown |= content(store)
    now = content(store)
    assert set(shown) - set(now)
    with Database(store) as database:
        opened = Store(database)
        for id in shown:
            assert set(opened.now(id)) <= set(now)
