"""Answers teach the model of pairs, which is kept with what it learned."""

import numpy as np
import pytest

import kbforge
from kbforge.files.answers import AnswerFile
from kbforge.fit.choices import RunOptions, choices_of
from kbforge.fit.review import FileReview
from kbforge.jobs.decide import undo
from kbforge.jobs.models import restore
from kbforge.jobs.refit import refit
from kbforge.models.bundle import make_likelihood
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.people import people

FRAGMENTS = people(40, 2)
CHOICES = RunOptions(likelihood="pairs")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Of a person to whom nobody is the same as another, so that the odds fall."""
    path = str(tmp_path_factory.mktemp("answers") / "answers.jsonl")
    with AnswerFile(path) as file:
        review = FileReview(FRAGMENTS, CHOICES, file)
        for _ in range(12):
            review.answer(review.question(), False)
    assert review.lesson.loss_after < review.lesson.loss_before
    return path


def layer_of(store: str) -> tuple[float, ...]:
    with Database(store) as database:
        likelihood = restore(Store(database))[0].models.likelihood
    assert isinstance(likelihood, Pairs)
    return likelihood.layer


def test_the_odds_of_other_pairs_fall(answers):
    plain, taught = (
        kbforge.cluster(FRAGMENTS, likelihood="pairs", alpha=1.0, answers=path)
        for path in (None, answers)
    )
    assert len(taught.entities) > len(plain.entities) + 12


def test_what_was_learned_is_named_with_the_knowledge_base(answers):
    kb = kbforge.cluster(FRAGMENTS, likelihood="pairs", answers=answers)
    named = kb.made.options["likelihood"]["layer"]
    again = make_likelihood("pairs", choices_of(kb.made, "kb").of("likelihood"))
    assert again.layer == tuple(map(float, named.split(",")))
    assert again.layer[0] < 0


def test_a_store_keeps_it_and_learns_it_again(answers, tmp_path):
    into = str(tmp_path / "kb.sqlite")
    kbforge.update(into, FRAGMENTS, answers=answers, likelihood="pairs")
    first = layer_of(into)
    assert first[0] < 0
    refit(into)
    assert layer_of(into) == first
    with Database(into) as database:
        numbers = [one.number for one in Store(database).decisions()]
    for number in numbers:
        undo(into, number)
    refit(into)
    assert layer_of(into) == ()  # no decision is left to learn from


def test_linked_tables_are_taught_too(answers):
    split = [
        kbforge.Fragment(f.id, f.properties, label=f.label, source="ab"[k % 2])
        for k, f in enumerate(FRAGMENTS)
    ]
    kb = kbforge.cluster(split, link="source", answers=answers)
    assert "layer" in kb.made.options["likelihood"]
    assert np.isfinite(float(kb.made.options["likelihood"]["layer"].split(",")[0]))
