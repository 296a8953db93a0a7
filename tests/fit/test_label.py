"""Labelling asks about a file, keeps what is said, and runs choose by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import kbforge
from kbforge.errors import KBForgeError
from kbforge.files.answers import AnswerFile, read_answers
from kbforge.fit.alpha import fingerprint
from kbforge.fit.choices import Choices
from kbforge.fit.review import FileQuestion, FileReview
from tests.people import people

PEOPLE = people(40, 5)


def said_by_gold(question: FileQuestion) -> bool:
    return question.a.label == question.b.label


def labelled(path: Path, count: int, choices: Choices | None = None) -> FileReview:
    """A labelling of the people after so many answers by gold."""
    with AnswerFile(str(path)) as file:
        labelling = FileReview(PEOPLE, choices or Choices(), file)
        for _ in range(count):
            question = labelling.question()
            assert question is not None
            labelling.answer(question, said_by_gold(question))
        return labelling


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    labelled(path, 15)
    return path


def test_every_answer_is_kept_with_why_it_was_asked(answers: Path) -> None:
    kept = read_answers(str(answers))
    assert [answer.asked.number for answer in kept] == list(range(1, 16))
    assert {answer.fragments_sha256 for answer in kept} == {fingerprint(PEOPLE)}
    labels = {fragment.id: fragment.label for fragment in PEOPLE}
    assert all(answer.same == (labels[answer.a] == labels[answer.b]) for answer in kept)
    assert len({frozenset((answer.a, answer.b)) for answer in kept}) == 15


def test_a_run_uses_what_the_answers_say(answers: Path) -> None:
    said = labelled(answers, 0).changed()
    kb = kbforge.cluster(PEOPLE, answers=answers)
    assert said.after.likelihood != "names"
    assert kb.alpha == said.after.alpha
    assert str(said) in kb.notes
    assert said.answers == 15


def test_answers_by_gold_do_no_harm(answers: Path) -> None:
    before = kbforge.evaluate(kbforge.cluster(PEOPLE).entities, PEOPLE)
    after = kbforge.evaluate(kbforge.cluster(PEOPLE, answers=answers).entities, PEOPLE)
    assert after.scores.bcubed_f1_item_mean >= before.scores.bcubed_f1_item_mean - 0.01
    assert after.scores.bcubed_f1_item_mean > 0.9


def test_labels_are_neither_read_nor_shown(answers: Path, tmp_path: Path) -> None:
    bare = [replace(fragment, label=None) for fragment in PEOPLE]
    first = read_answers(str(answers))[0]
    with AnswerFile(str(tmp_path / "bare.jsonl")) as file:
        for fragments in (bare, PEOPLE):
            question = FileReview(fragments, Choices(), file).question()
            assert question is not None
            assert (question.a.id, question.b.id) == (first.a, first.b)
            assert "label" not in question.to_json()["a"].keys() | question.to_json()["b"].keys()


def test_a_named_likelihood_is_the_only_one_chosen_from(answers: Path) -> None:
    said = labelled(answers, 0, Choices(likelihood="bigram")).changed()
    assert {said.before.likelihood, said.after.likelihood} == {"bigram"}
    kb = kbforge.cluster(PEOPLE, likelihood="bigram", answers=answers)
    assert kb.alpha == said.after.alpha


def test_an_alpha_that_was_given_stays(answers: Path) -> None:
    assert kbforge.cluster(PEOPLE, alpha=7.0, answers=answers).alpha == 7.0


def test_a_session_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    labelled(whole, 6)
    labelled(parts, 2)
    labelled(parts, 4)
    assert parts.read_bytes() == whole.read_bytes()


def test_undo_asks_again(tmp_path: Path) -> None:
    with AnswerFile(str(tmp_path / "a.jsonl")) as file:
        labelling = FileReview(PEOPLE, Choices(), file)
        assert not labelling.undo()
        first = labelling.question()
        assert first is not None
        labelling.answer(first, None)
        assert labelling.changed().unknown == 1
        assert labelling.undo()
        assert labelling.question() == first
        assert file.answers == []


def test_answers_about_other_fragments_are_refused(answers: Path) -> None:
    with pytest.raises(KBForgeError, match="expected answers about these fragments"):
        kbforge.cluster(people(3, 6), answers=answers)
    with pytest.raises(KBForgeError, match="no fragments to ask about"):
        FileReview([], Choices(), AnswerFile(str(answers)))
