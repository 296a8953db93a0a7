"""Reviewing a store: answers are decisions at once, undo is exact, the store remembers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from kbforge.contracts import DecisionRecord, Fragment
from kbforge.errors import ContradictionError, LikelihoodError, OutputError
from kbforge.evaluation.scores import score_entities
from kbforge.fit.choices import RunOptions
from kbforge.fit.review import MOST_OTHERS, Evidence
from kbforge.jobs.decide import (
    StoreReview,
    answered,
    decide,
    decisions_of,
    reviewed,
    signed_decisions,
    undo,
)
from kbforge.jobs.remove import erase
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import around, entities_of
from kbforge.store.audit import signed
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.store.dump import dump

STATE = ("meta", "page", "led", "entity", "fragment", "redirect", "kept")
PEOPLE = people(60, 5, error=0.5)


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, PEOPLE, RunOptions(likelihood="attributes", alpha=30.0))
    return path


def gold(evidence: Evidence) -> bool:
    """By the people's labels, which questions do not show."""
    label = {fragment.id: fragment.label for fragment in PEOPLE}
    return label[evidence.first.fragment.id] == label[evidence.second.fragment.id]


def ask(review: StoreReview, most: int) -> list[Evidence]:
    asked = []
    while len(asked) < most and (evidence := review.question()):
        review.answer(evidence, gold(evidence))
        asked.append(evidence)
    return asked


def decisions(store: str) -> list[DecisionRecord]:
    with Database(store) as database:
        return Store(database).decisions()


def state(store: str) -> list[str]:
    return [line for line in dump(store) if line.startswith(STATE)]


def f1(store: str) -> float:
    return score_entities(entities_of(store), PEOPLE).scores.bcubed_f1_item_mean


def ids(evidence: Evidence) -> tuple[str, str]:
    return evidence.first.fragment.id, evidence.second.fragment.id


def test_answers_are_decisions_that_hold_and_help(store: str) -> None:
    before = f1(store)
    with reviewed(store) as review:
        asked = ask(review, 12)
        done = review.done()
    assert len(asked) == 12
    made = decisions(store)
    assert done.told["decisions"] == [one.number for one in made]
    assert [(one.decision.first, one.decision.second) for one in made] == [ids(e) for e in asked]
    holder = {id: entity.id for entity in entities_of(store) for id in entity.fragments}
    assert len(holder) == done.fragments
    assert len(set(holder.values())) == done.entities
    for evidence in asked:
        a, b = ids(evidence)
        assert (holder[a] == holder[b]) == gold(evidence)
    assert f1(store) > before


def test_each_answer_is_in_the_store_before_the_next_question(store: str) -> None:
    with reviewed(store) as review:
        for number in range(1, 4):
            (evidence,) = ask(review, 1)
            assert len(decisions(store)) == number
            a, b = ids(evidence)
            together = any({a, b} <= set(e.fragments) for e in around(store, [a]))
            assert together == gold(evidence)


@pytest.mark.slow
def test_questions_end_when_nothing_is_in_doubt(store: str) -> None:
    with reviewed(store) as review:
        assert len(ask(review, 3)) == 3
    with reviewed(store) as review:
        assert ask(review, 1000)
        assert review.question() is None
    with reviewed(store) as review:
        assert review.question() is None
    assert {entity.probability for entity in entities_of(store)} == {1.0}


def test_undo_is_exact_and_asks_again(store: str) -> None:
    states, asked = [], []
    with reviewed(store) as review:
        assert not review.undo()
        for _ in range(4):
            states.append(state(store))
            asked += ask(review, 1)
        for evidence, before in zip(reversed(asked[1:]), reversed(states[1:]), strict=True):
            assert review.undo()
            assert state(store) == before
            assert review.question() == evidence
        review.answer(asked[1], not gold(asked[1]))
        assert review.done().told["decisions"] == [1, 5]
    assert [one.undone for one in decisions(store)] == [None, 2, 2, 2, None]
    undo(store, 5)
    assert state(store) == states[1]


def test_undo_of_what_nobody_knows_asks_the_same_again(store: str) -> None:
    asked = []
    with reviewed(store) as review:
        for same in (True, None, False, None):
            asked.append(review.question())
            review.answer(asked[-1], same)
        for evidence in reversed(asked):
            assert review.undo()
            assert review.question() == evidence
        assert not review.undo()
    assert [one.undone is None for one in decisions(store)] == [False, False]


def test_what_was_undone_is_no_change(store: str) -> None:
    with reviewed(store) as review:
        asked = ask(review, 3)
        for _ in asked:
            review.undo()
    with Database(store) as database:
        assert list(changes(Store(database), 1)) == []
    assert [one.undone for one in decisions(store)] == [2, 2, 2]


def test_an_answer_that_contradicts_is_refused_and_nothing_else_is_lost(store: str) -> None:
    with reviewed(store) as review:
        evidence = review.question()
        assert evidence is not None
    a, b = ids(evidence)
    with reviewed(store) as review:
        found = review.question()
        assert found is not None
        review.answer(found, True)
        before = state(store)
        with pytest.raises(ContradictionError, match="decision 1"):
            review.answer(found, False)
        assert state(store) == before
        ask(review, 1)
    assert len(decisions(store)) == 2
    assert decisions(store)[0].decision.same
    with pytest.raises(ContradictionError):
        decide(store, decisions_of([("different", a, b)]))


@pytest.mark.parametrize("error", [ContradictionError, LikelihoodError])
def test_an_answer_that_cannot_hold_is_not_kept_and_asked_no_more(
    store: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise error("no")

    monkeypatch.setattr("kbforge.jobs.decide.honour_one", refused)
    with reviewed(store) as review:
        evidence = review.question()
        assert evidence is not None
        with pytest.raises(error):
            review.answer(evidence, True)
        following = review.question()
        assert following is None or ids(following) != ids(evidence)
    assert decisions(store) == []


def test_evidence_tells_both_sides_and_no_labels(store: str) -> None:
    with reviewed(store) as review:
        evidence = review.question()
        assert evidence is not None
        told = json.loads(json.dumps(evidence.to_json()))
        assert told.keys() == {"a", "b", "asked", "settles", "explanation"}
        assert "label" not in json.dumps(told)
        pages = Store(review._held.store.database).pages
        clusters = pages.page(evidence.question.subproblem).subproblem().clusters
        for side in (evidence.first, evidence.second):
            held = next(
                {one.id for one in pages.fragments(c).values()}
                for c in clusters
                if side.fragment.id in {one.id for one in pages.fragments(c).values()}
            )
            assert side.size == len(held)
            assert len(side.others) <= MOST_OTHERS
            assert not {one.id for one in side.others} & {*ids(evidence)}
            assert {one.id for one in side.others} <= held
        assert evidence.explanation is not None
        assert evidence.explanation.attributes
        assert told["asked"]["value"] == evidence.question.value
        assert [*told["asked"]] == ["reported", "believed", "joined", "value", "information"]


def test_the_report_hears_how_pairs_turned_out(store: str) -> None:
    with Database(store) as database:
        assert answered(Store(database)).count == 0
    with reviewed(store) as review:
        asked = ask(review, 10)
        review.undo()
    decide(store, decisions_of([("same", *ids(asked[-1]))]))
    with Database(store) as database:
        found = answered(Store(database))
    assert found.count == 9
    reported = sum(one.question.reported for one in asked[:9])
    assert sum(bin.reported * bin.count for bin in found.table) == pytest.approx(reported)
    right = sum(map(gold, asked[:9]))
    assert sum(bin.share * bin.count for bin in found.table) == pytest.approx(right)


def test_what_is_erased_is_not_heard_any_more(store: str) -> None:
    with reviewed(store) as review:
        asked = ask(review, 3)
    erase(store, list(ids(asked[-1])))
    left = decisions(store)
    assert 0 < len(left) < 3
    others = [e.fragments[0] for e in entities_of(store) if len(e.fragments) == 1]
    decide(store, decisions_of([("different", *others[:2])]))
    assert decisions(store)[-1].number == left[-1].number + 1
    with Database(store) as database:
        assert answered(Store(database)).count == len(left)


@pytest.mark.slow
def test_there_is_one_writer(store: str) -> None:
    with (
        reviewed(store),
        pytest.raises(OutputError, match="another kbforge command is writing"),
        reviewed(store),
    ):
        pass


@pytest.mark.slow
def test_fragments_that_came_since_are_asked_about(store: str) -> None:
    with reviewed(store) as review:
        ask(review, 100)
    twins = [Fragment(f"twin-{x.id}", x.properties) for x in people(80, 6, error=0.5)[:60]]
    add_fragments(store, twins, RunOptions())
    with reviewed(store) as review:
        evidence = review.question()
        assert evidence is not None
        assert any(id.startswith("twin-") for id in ids(evidence))


def test_what_somebody_cannot_tell_is_kept_with_a_name_and_asked_no_more(store: str) -> None:
    with reviewed(store) as review, signed("ada", "both are faint"):
        evidence = review.question()
        assert evidence is not None
        before = {frozenset(entity.fragments) for entity in entities_of(store)}
        review.cannot_tell(evidence)
        following = review.question()
        assert following is None or ids(following) != ids(evidence)
    assert {frozenset(entity.fragments) for entity in entities_of(store)} == before
    with Database(store) as database:
        (one,) = signed_decisions(Store(database))
    assert (one.same, one.by, one.note) == (None, "ada", "both are faint")
    with reviewed(store) as review:
        asked = {ids(found) for found in iter(review.question, None) if skipped(review, found)}
        assert asked
        assert ids(evidence) not in asked
    undo(store, 1)
    with reviewed(store) as review:
        asked = {ids(found) for found in iter(review.question, None) if skipped(review, found)}
    assert ids(evidence) in asked


def skipped(review: StoreReview, evidence: Evidence) -> bool:
    review.answer(evidence, None)
    return True


def test_undo_takes_back_in_order_what_was_decided_skipped_and_not_told(store: str) -> None:
    before = state(store)
    with reviewed(store) as review:
        asked = []
        for act in (review.answer, review.cannot_tell, review.answer, review.cannot_tell):
            asked.append(review.question())
            act(asked[-1], *([True] if act == review.answer else []))
        for evidence in reversed(asked):
            assert review.undo()
            assert review.question() == evidence
    assert [one.undone for one in decisions(store)] == [2, 2, 2, 2]
    assert state(store) == before


def test_records_that_state_the_same_are_asked_about_last(tmp_path: Path) -> None:
    store = str(tmp_path / "kb.sqlite")
    same = [Fragment(f"s{n}", {"name": ("Wat Penhalow",)}) for n in range(4)]
    add_fragments(store, [*PEOPLE, *same], RunOptions(likelihood="attributes", alpha=30.0))
    with reviewed(store) as review:
        seen = []
        while (evidence := review.question()) is not None:
            seen.append(evidence.first.fragment.properties == evidence.second.fragment.properties)
            assert evidence.question.value <= 0 or not (seen[-1] and evidence.question.joined)
            review.answer(evidence, None)
    assert not all(seen)


def test_answers_about_others_do_not_make_probable_what_the_evidence_is_against(store: str) -> None:
    with reviewed(store) as review:
        for _ in range(8):
            if (evidence := review.question()) is None:
                break
            asked = evidence.question
            assert evidence.explanation is not None
            total = evidence.explanation.total
            if not asked.joined and total < 0:
                assert asked.believed <= max(asked.reported, 1 / (1 + math.exp(-total))) + 1e-9
            review.answer(evidence, True)
