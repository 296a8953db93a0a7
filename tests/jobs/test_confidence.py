"""Confidence is told when a run ends, is kept, and is read without any model."""

import contextlib
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kbforge.clustering.constraints import DecisionGraph
from kbforge.contracts import Decision
from kbforge.errors import KBForgeError
from kbforge.files.answers import Answer, QuestionDetails
from kbforge.fit.choices import RunOptions
from kbforge.jobs import acts, views
from kbforge.jobs import confidence as calibrating
from kbforge.jobs.cluster import cluster
from kbforge.jobs.decide import decide, undo
from kbforge.jobs.opening import EventResult, opened
from kbforge.jobs.refit import refit, revisit
from kbforge.jobs.remove import remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import EntitySelector, entities_of
from kbforge.kb import read
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.profile import examples

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


def act(path: str, propose: Callable[..., acts.Proposal], *given: object) -> EventResult:
    with opened(path, "decide", "") as held:
        return acts.take(held, propose(held.store, *given))


def test_what_is_confirmed_is_as_sure_as_the_posterior_and_its_undo_brings_doubt_back(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "_FEW", 0)  # only what changed is told anew
    monkeypatch.setattr(calibrating, "_SHARE", 0)
    before = list(entities_of(store))
    unsure = [one for one in before if (one.confidence or 0) < 0.99]
    kinds = {(len(one.fragments) == 1, one.reported == 1): one for one in unsure}
    assert len(kinds) == 4  # if all particles have it, no page changes when it is confirmed
    for one in (*kinds.values(), unsure[0]):
        run = act(store, acts.confirm, one.id).run
        (now,) = EntitySelector(store).with_id(one.id)
        assert now.fragments == one.fragments
        assert now.confidence == now.reported == 1
        assert act(store, acts.confirm, one.id).told["decisions"] == []
        with Database(store) as database:
            (made, *_) = [x for x in Store(database).decisions() if x.run == run]
        undo(store, made.number)
        assert EntitySelector(store).with_id(one.id) == [one]
    for one in unsure[:2]:
        act(store, acts.confirm, one.id)
    undo(store, 6)  # which is not the last
    (one,), (other,) = (EntitySelector(store).with_id(was.id) for was in unsure[:2])
    assert (one.confidence or 0) < other.confidence == 1


@given(seed=st.integers(0, 10**6))
@examples(3, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_decisions_the_store_says_what_it_would_say_anew(
    store: str, tmp_path: Path, seed: int
) -> None:
    path = str(shutil.copy(store, tmp_path / "lived.sqlite"))
    rng = random.Random(seed)
    for _ in range(4):
        ids = [one.id for one in entities_of(path)]
        one, other = rng.sample(ids, 2)
        for way in rng.sample(("confirm", "join", "same", "undo", "remove"), 2):
            with contextlib.suppress(KBForgeError):
                if way == "undo":
                    undo(path, rng.randint(1, 6))
                elif way == "remove":
                    remove(path, [rng.choice(FIRST).id])
                elif way == "same":
                    decide(path, [Decision(True, rng.choice(FIRST).id, rng.choice(FIRST).id)])
                else:
                    act(path, getattr(acts, way), *((one, other) if way == "join" else (one,)))
        with Database(path) as database:
            held = Store(database)
            rows = list(database.connection.execute("SELECT * FROM confidence"))
            anew = calibrating.confidence_of(held, held.pages.names())
            decided = held.pages.totals.constraints.decisions
        told = {first: (reported, sure) for first, _, _, reported, sure, _ in rows}
        assert {first: sure for first, (_, sure) in told.items()} == pytest.approx(anew)
        component = DecisionGraph([x for x in decided if x.same]).component
        for entity in entities_of(path):
            (tie, *more) = {component.get(id) for id in entity.fragments}
            if tie is not None and not more:
                assert (entity.confidence or 0) >= (entity.reported or 0) - 1e-9


def test_a_file_says_what_a_store_says_of_answers(tmp_path: Path) -> None:
    ids = [x.id for x in FIRST]
    asked = QuestionDetails(1, "informative", 0.5, 0.5)
    same = [Answer(a, b, True, asked, "0" * 64) for a, b in zip(ids[:6], ids[6:12], strict=True)]
    answers = tmp_path / "answers.jsonl"
    answers.write_bytes(b"".join(one.to_line() for one in same))
    choices = replace(CHOICES, answers=str(answers))
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, FIRST, choices)
    expected = {e.fragments: (e.confidence, e.reported) for e in cluster(FIRST, choices).entities}
    found = figures(path)
    assert found.keys() == expected.keys()
    tied = [{one.a, one.b} for one in same]
    sure = [both for key, both in found.items() if {*key} in tied]
    assert sure
    assert all(confidence >= (reported or 0) - 1e-9 for confidence, reported in sure)
    for fragments, (confidence, _) in found.items():
        assert confidence == pytest.approx(expected[fragments][0], abs=0.01)


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
