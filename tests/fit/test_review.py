"""A review asks about a file or about a session, keeps the answers, and takes them back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kbforge
from kbforge import open_session
from kbforge.contracts import Decision, Fragment, SubproblemChanges
from kbforge.errors import ContradictionError, KBForgeError, LikelihoodError
from kbforge.files.answers import AnswerFile, read_answers
from kbforge.fit.alpha import fingerprint
from kbforge.fit.choices import RunOptions
from kbforge.fit.questions import PosteriorQueue
from kbforge.fit.review import MOST_OTHERS, Evidence, FileReview, PosteriorReview
from tests.people import people

PEOPLE = people(40, 5)


def said_by_gold(evidence: Evidence[Any]) -> bool:
    return evidence.first.fragment.label == evidence.second.fragment.label


def labelled(path: Path, count: int, choices: RunOptions | None = None) -> FileReview:
    """A labelling of the people after so many answers by gold."""
    with AnswerFile(str(path)) as file:
        labelling = FileReview(PEOPLE, choices or RunOptions(), file)
        for _ in range(count):
            question = labelling.question()
            labelling.answer(question, said_by_gold(question))
        return labelling


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    labelled(path, 15)
    return path


@pytest.fixture(scope="module")
def kb(answers):
    return kbforge.cluster(PEOPLE, answers=answers)


def test_every_answer_is_kept_with_why_it_was_asked(answers):
    kept = read_answers(str(answers))
    assert [answer.asked.number for answer in kept] == list(range(1, 16))
    assert {answer.fragments_sha256 for answer in kept} == {fingerprint(PEOPLE)}
    labels = {fragment.id: fragment.label for fragment in PEOPLE}
    assert all(answer.same == (labels[answer.a] == labels[answer.b]) for answer in kept)
    assert len({frozenset((answer.a, answer.b)) for answer in kept}) == 15


def test_a_run_learns_from_the_answers(answers, kb):
    lesson = labelled(answers, 0).lesson
    assert lesson.answers == 15
    assert lesson.loss_after < lesson.loss_before
    assert kb.likelihood == "pairs"
    assert str(lesson) in kb.notes


def test_answers_by_gold_do_no_harm(kb):
    before, after = (
        kbforge.evaluate(entities, PEOPLE).scores.bcubed_f1_item_mean
        for entities in (kbforge.cluster(PEOPLE).entities, kb.entities)
    )
    assert after >= before - 0.01
    assert after > 0.9


def test_labels_are_neither_read_nor_shown(answers, tmp_path):
    bare = [replace(fragment, label=None) for fragment in PEOPLE]
    first = read_answers(str(answers))[0]
    with AnswerFile(str(tmp_path / "bare.jsonl")) as file:
        for fragments in (bare, PEOPLE):
            question = FileReview(fragments, RunOptions(), file).question()
            assert pair(question) == (first.a, first.b)
            assert "label" not in question.to_json()["a"].keys() | question.to_json()["b"].keys()


def test_a_named_likelihood_gets_its_alpha_from_what_pairs_learned(answers):
    kb = kbforge.cluster(PEOPLE, likelihood="attributes", answers=answers)
    assert kb.likelihood == "attributes"
    assert kbforge.evaluate(kb.entities, PEOPLE).scores.bcubed_f1_item_mean > 0.9
    # and an alpha that was given stays
    named = kbforge.cluster(PEOPLE, likelihood="attributes", alpha=7.0, answers=answers)
    assert named.alpha == 7.0


def test_a_session_goes_on_where_the_last_one_ended(tmp_path):
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    labelled(whole, 6)
    labelled(parts, 2)
    labelled(parts, 4)
    assert parts.read_bytes() == whole.read_bytes()


def test_undo_asks_again(tmp_path):
    with AnswerFile(str(tmp_path / "a.jsonl")) as file:
        labelling = FileReview(PEOPLE, RunOptions(), file)
        assert not labelling.undo()
        first = labelling.question()
        labelling.answer(first, None)
        assert labelling.lesson.answers == 0
        assert labelling.undo()
        assert labelling.question() == first
        assert file.answers == []


def test_answers_about_other_fragments_are_refused(answers):
    with pytest.raises(KBForgeError, match="expected answers about these fragments"):
        kbforge.cluster(people(3, 6), answers=answers)
    with pytest.raises(KBForgeError, match="no fragments to ask about"):
        FileReview([], RunOptions(), AnswerFile(str(answers)))


NAMES = ["ada lovelace", "ada lovelac", "a lovelace", "bo ek", "bo ekk", "bo eck", "cyd orr"]
FRAGMENTS = [
    Fragment(
        f"p{n}", {"name": (NAMES[n % 7],), "born": (str(1800 + n % 3),)}, label=NAMES[n % 7][0]
    )
    for n in range(21)
]


class Memory(PosteriorReview):
    """The review of a session, which goes back by its snapshots."""

    def __init__(self, likelihood: str = "bigram") -> None:
        live = open_session(FRAGMENTS, likelihood=likelihood, alpha=3)
        live.add(FRAGMENTS)
        self.session = live.session
        self._clusterer, self._before = live.prepared.clusterer, []
        self.session.touched()
        blocks = self.session.posterior().subproblems
        super().__init__(live.prepared.spec, PosteriorQueue(), blocks)

    def _names(self):
        return {s.fragments[0] for s in self.session.posterior().subproblems}

    def _subproblem(self, name):
        return self.session.subproblem(name)

    def _fragment(self, number):
        return self.session.fragments[number]

    def _honour(self, question, same):
        first, second = (self._fragment(n).id for n in (question.first, question.second))
        before = self.session.snapshot()
        self.session.constrain([Decision(same, first, second)])
        self._before.append(before)
        return self.session.touched()

    def _withdraw(self):
        old = self._names()
        rng = np.random.default_rng(0)
        self.session = self._clusterer.open(self._spec, rng, self._before.pop())
        new = self._names()
        return SubproblemChanges(tuple(sorted(new)), tuple(sorted(old - new)))


def pair(evidence: Evidence[Any] | None) -> tuple[str, str]:
    return evidence.first.fragment.id, evidence.second.fragment.id


def test_answers_become_decisions_and_end_the_doubt():
    memory, asked = Memory(), 0
    while evidence := memory.question():
        memory.answer(evidence, said_by_gold(evidence))
        asked += 1
    assert len(memory.session.constraints.decisions) == asked > 0
    for decision in memory.session.constraints.decisions:
        labels = {f.label for f in FRAGMENTS if f.id in (decision.first, decision.second)}
        assert decision.same == (len(labels) == 1)


def test_undo_asks_the_same_question_again():
    memory = Memory()
    assert not memory.undo()
    asked = []
    for same in (True, None, False, None):
        asked.append(memory.question())
        memory.answer(asked[-1], same)
    assert len(memory.session.constraints.decisions) == 2
    for evidence in reversed(asked):
        assert memory.undo()
        assert memory.question() == evidence
    assert not memory.undo()
    assert memory.session.constraints.decisions == ()


def test_evidence_tells_both_sides_and_no_labels():
    memory = Memory("attributes")
    evidence = memory.question()
    told = json.loads(json.dumps(evidence.to_json()))
    assert told.keys() == {"a", "b", "asked", "explanation"}
    assert "label" not in json.dumps(told)
    clusters = memory.session.subproblem(evidence.question.subproblem).clusters
    for side in (evidence.first, evidence.second):
        held = next(c for c in clusters if int(side.fragment.id[1:]) in c)
        assert side.size == len(held)
        assert len(side.others) <= MOST_OTHERS
        assert not {f.id for f in side.others} & set(pair(evidence))
        assert {int(f.id[1:]) for f in side.others} <= set(held)
    assert evidence.explanation.attributes.keys() == {"name", "born"}
    assert told["asked"]["value"] == evidence.question.value
    assert [*told["asked"]] == ["reported", "believed", "joined", "value", "information"]


@pytest.mark.parametrize("error", [ContradictionError, LikelihoodError])
def test_an_answer_that_cannot_hold_is_not_kept_and_asked_no_more(error):
    class Refusing(Memory):
        def _honour(self, question, same):
            raise error("no")

    memory = Refusing()
    evidence = memory.question()
    with pytest.raises(error):
        memory.answer(evidence, True)
    assert memory.session.constraints.decisions == ()
    assert memory.question() is None or pair(memory.question()) != pair(evidence)
