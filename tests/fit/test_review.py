"""A review of a file keeps the answers, and takes them back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kbforge
from kbforge.errors import KBForgeError
from kbforge.files.answers import AnswerFile, read_answers
from kbforge.fit.alpha import fingerprint
from kbforge.fit.choices import RunOptions
from kbforge.fit.review import Evidence, FileReview
from tests.people import people

PEOPLE = people(40, 5)


def said_by_gold(evidence: Evidence[Any]) -> bool:
    return evidence.first.fragment.label == evidence.second.fragment.label


def pair(evidence: Evidence[Any] | None) -> tuple[str, str]:
    return evidence.first.fragment.id, evidence.second.fragment.id


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
