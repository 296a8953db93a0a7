"""The review of a served store: its questions, what answers do, and what others do in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import ContradictionError, NotFoundError, UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import answered, decide, decisions_of, reviewed
from kbforge.jobs.refit import refit
from kbforge.jobs.remove import remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.audit import signed
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge_serve.answers import Facts
from kbforge_serve.decisions import decisions_of as decisions_listed
from kbforge_serve.questions import Questions
from kbforge_serve.service import Service
from tests.people import people
from tests.serve.said import Said
from tests.store.dump import dump

PEOPLE = people(80, 6, error=0.5)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("review") / "kb.sqlite"
    add_fragments(str(path), PEOPLE, RunOptions(likelihood="attributes", alpha=30.0))
    return path


@pytest.fixture
def asks(path: str) -> Iterator[Any]:
    service = Service(path)
    yield Said(service.questions)
    service.close()


def question(asks: Any) -> Facts:
    found = asks.next()["question"]
    assert isinstance(found, dict)
    return found


def pair(question: Facts) -> tuple[str, str]:
    return question["first"], question["second"]


def content(path: str) -> set[frozenset[str]]:
    return {frozenset(entity.fragments) for entity in entities_of(path)}


def together(path: str, first: str, second: str) -> bool:
    return any({first, second} <= ids for ids in content(path))


def test_it_asks_what_the_command_line_asks(path: str, base: Path, asks: Any) -> None:
    with reviewed(str(base)) as review:
        evidence = review.question()
    assert evidence is not None
    asked = question(asks)
    assert pair(asked) == (evidence.first.fragment.id, evidence.second.fragment.id)
    said = evidence.to_json()
    assert (asked["asked"], asked["explanation"]) == (said["asked"], said["explanation"])
    for side in ("a", "b"):
        entity = asked[side].pop("entity")
        assert asked[side] == said[side]
        assert entity["size"] == asked[side]["size"]
        assert 0 <= entity["confidence"] <= 1
    assert "label" not in str(asked)


@pytest.mark.parametrize("same", [True, False])
def test_an_answer_is_a_decision_and_its_effect_is_told(path: str, asks: Any, same: bool) -> None:
    while (asked := question(asks))["asked"]["joined"] is same:
        asks.answer(*pair(asked), None)
    before = content(path)
    answered_so = asks.answer(*pair(asked), same)
    effect = answered_so["effect"]
    assert answered_so["decision"] == 1
    assert together(path, *pair(asked)) is same
    after = content(path)
    assert sorted(one["size"] for one in effect["before"]) == sorted(map(len, before - after))
    assert sorted(one["size"] for one in effect["after"]) == sorted(map(len, after - before))
    assert all(0 <= one["confidence"] <= 1 for one in [*effect["before"], *effect["after"]])
    assert effect["n_moved"] == len(effect["moved"]) > 0
    with Database(path) as opened:
        assert answered(Store(opened)).count == 1


def test_an_answer_that_changes_nothing_tells_of_the_pair(path: str, asks: Any) -> None:
    asked = question(asks)
    before = content(path)
    effect = asks.answer(*pair(asked), asked["asked"]["joined"])["effect"]
    assert content(path) == before
    assert {one["id"] for one in effect["before"]} == {one["id"] for one in effect["after"]}
    assert {one["id"] for one in effect["after"]} == {
        asked[side]["entity"]["id"] for side in ("a", "b")
    }
    assert effect["moved"] == []


def test_undo_brings_back_what_was_and_asks_again(path: str, asks: Any) -> None:
    first = question(asks)
    state = [line for line in dump(path) if line.startswith(("page", "entity", "fragment"))]
    asks.answer(*pair(first), None)
    second = question(asks)
    assert pair(second) != pair(first)
    asks.answer(*pair(second), not second["asked"]["joined"])
    assert asks.next()["answered"] == 2
    undone = asks.undo()
    assert undone["undone"]["decision"] == 1
    assert undone["effect"]["n_moved"] > 0
    assert [line for line in dump(path) if line.startswith(("page", "entity", "fragment"))] == state
    assert pair(question(asks)) == pair(second)
    assert asks.undo()["undone"]["same"] is None
    assert pair(question(asks)) == pair(first)
    assert asks.undo() == {"undone": None, "effect": None}


@pytest.mark.slow
def test_it_asks_until_nothing_is_in_doubt(path: str, asks: Any) -> None:
    seen = set()
    while (asked := asks.next()["question"]) is not None:
        assert pair(asked) not in seen
        seen.add(pair(asked))
        asks.answer(*pair(asked), asked["asked"]["believed"] > 0.5)
    assert len(seen) > 3
    assert asks.next() == {"question": None, "left": 0, "answered": len(seen)}


def test_what_somebody_cannot_tell_is_asked_of_nobody_until_it_is_undone(
    path: str, asks: Any
) -> None:
    asked = question(asks)
    state = content(path)
    with signed("ada", "both are faint"):
        done = asks.answer(*pair(asked), None, True)
    assert (done["decision"], done["effect"]["moved"]) == (1, [])
    assert content(path) == state
    service = Service(path)  # which was started anew
    others = Said(service.questions)
    seen = set()
    while (other := others.next()["question"]) is not None and len(seen) < 30:
        seen.add(pair(other))
        others.answer(*pair(other), None)
    assert seen
    assert pair(asked) not in seen
    (made,) = decisions_listed(service.readers).decisions
    assert (made.same, made.by, made.note) == (None, "ada", "both are faint")
    service.close()
    assert pair(question(asks)) != pair(asked)
    assert asks.undo()["undone"]["decision"] == 1
    assert pair(question(asks)) == pair(asked)


def test_a_question_tells_what_its_answers_settle(path: str, asks: Any) -> None:
    asked = question(asks)
    settles = asked["settles"]
    same = asked["asked"]["joined"]
    sizes = {asked[side]["entity"]["id"]: asked[side]["entity"]["size"] for side in ("a", "b")}
    assert settles["same" if same else "different"]["sizes"] == list(sizes.values())
    left = asks.next()["left"]
    asks.answer(*pair(asked), same)
    assert asks.next()["left"] < left


def test_others_write_between_two_questions(path: str, asks: Any) -> None:
    asked = question(asks)
    decide(path, decisions_of([("same", *pair(asked))]))
    assert pair(question(asks)) != pair(asked)
    assert asks.answer(*pair(asked), True)["already"] is True
    with pytest.raises(ContradictionError):
        asks.answer(*pair(asked), False)
    asked = question(asks)
    remove(path, [asked["first"]])
    assert asked["first"] not in pair(question(asks))
    with pytest.raises(NotFoundError, match="has no fragment"):
        asks.answer(*pair(asked), True)
    refit(path)
    assert asks.next()["question"] is not None


def test_fragments_that_came_since_are_asked_about(path: str, asks: Any) -> None:
    while (asked := asks.next()["question"]) is not None:
        asks.answer(*pair(asked), None)
    twins = [Fragment(f"twin-{x.id}", x.properties) for x in PEOPLE[:40]]
    add_fragments(path, twins, RunOptions())
    asked_about = set[str]()
    while (asked := asks.next()["question"]) is not None:
        asked_about.update(pair(asked))
        asks.answer(*pair(asked), None)
    assert any(id.startswith("twin-") for id in asked_about)


def test_a_pair_that_nobody_was_asked_about_can_be_decided(path: str, asks: Any) -> None:
    first, second = sorted(min(ids) for ids in content(path))[:2]
    with pytest.raises(UsageError, match="expected two fragments"):
        asks.answer(first, first, True)
    assert asks.answer(first, second, False)["decision"] == 1
    asked = question(asks)
    assert asks.answer(second, first, False)["already"] is True
    assert asks.undo()["undone"]["decision"] is None
    assert asks.undo()["undone"]["decision"] == 1
    assert pair(question(asks)) == pair(asked)


def test_memory_is_bounded(path: str, asks: Any) -> None:
    assert asks.next()["left"] > 2
    service = Service(path)
    few = Questions(service.readers, service.writer, most=2)
    few.next()
    assert len(few._queue) <= 2
    service.close()


def test_a_note_on_a_skipped_question_is_there_when_it_is_asked_again(asks: Any) -> None:
    first = question(asks)
    assert first["note"] == ""
    with signed(None, "two lines,\nin one note"):
        asks.answer(*pair(first), None)
    assert question(asks)["note"] == ""
    asks.undo()
    again = question(asks)
    assert (pair(again), again["note"]) == (pair(first), "two lines,\nin one note")
    asks.answer(*pair(again), True)
    asks.undo()
    assert question(asks)["note"] == ""
