"""Hypotheses of other biases are there when there are answers, and change nothing without."""

import numpy as np
import pytest

import kbforge
from kbforge.files.answers import AnswerFile, NumberedAnswer
from kbforge.fit.choices import RunOptions, choices_of
from kbforge.fit.judge import BIASES, Judgement, judge, shipped_scorer, with_biases
from kbforge.fit.prepare import Chooser
from kbforge.fit.review import FileReview
from kbforge.fit.statistics import agreement
from kbforge.indexes.selective import Selective
from kbforge.jobs.models import restore
from kbforge.jobs.refit import refit
from kbforge.models.bundle import make_likelihood
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from kbforge_plugins.likelihoods.pairs.odds import UNITS
from tests.fit.people import made
from tests.people import people

FRAGMENTS = made("organisations")


@pytest.fixture(scope="module")
def plain():
    index = Selective()
    index.fit(FRAGMENTS)
    fitted = Pairs()
    fitted.fit(FRAGMENTS)
    return judge(FRAGMENTS, {"pairs": fitted}, index, shipped_scorer(None), fitted)


@pytest.fixture(scope="module")
def more(plain):
    fitted = Pairs()
    fitted.fit(FRAGMENTS)
    return with_biases(plain, fitted)


def test_without_answers_the_choice_stays(plain, more):
    assert more.found[: len(plain.found)] == plain.found
    assert {h.bias for h in more.found} == {0.0, *BIASES}
    assert more.chosen is plain.chosen
    assert more.expected_f1 == plain.expected_f1
    one, other = (judged.predicted(plain.chosen.likelihood) for judged in (plain, more))
    assert np.array_equal(one.labels, other.labels)  # what confidence maps read stays too


def test_a_grouping_unlike_all_others_is_worth_less(plain, more):
    known = [h.labels for h in plain.found if h.likelihood == "pairs"]
    for hypothesis, worth in list(zip(more.found, more.worth, strict=True))[len(plain.found) :]:
        assert not any(np.array_equal(hypothesis.labels, labels) for labels in known)
        assert worth < plain.worth.max()


def test_answers_by_one_of_them_lead_near_it(more):
    before, after = [], []
    for bias in BIASES:
        along = [h.labels for h in more.found if h.bias == bias]
        truth = along[len(along) // 2]
        queue = more.questions(0)
        said: list[NumberedAnswer] = []
        while len(said) < 40 and (pair := queue.next()) is not None:
            same = bool(truth[pair.first] == truth[pair.second])
            queue.add(pair, same)
            first, second = more.sample.places[pair.first], more.sample.places[pair.second]
            said.append(NumberedAnswer(first, second, same, False))
        before.append(agreement(more.chosen.labels, truth)[2])
        after.append(agreement(more.answered(said).chosen.labels, truth)[2])
    assert sum(after) > max(sum(before), 0.95 * len(BIASES))


def test_the_plain_default_tries_none():
    for asks, any_alpha in ((False, True), (True, False), (True, True)):
        chosen = Chooser(FRAGMENTS, asks=asks)
        chosen.choose(any_alpha=any_alpha)  # a bias goes with its own alpha
        tried = {h.bias for h in chosen.judgement.found}
        assert tried == ({0.0, *BIASES} if asks and any_alpha else {0.0})


@pytest.fixture
def chosen(monkeypatch):
    """The judge takes a hypothesis of bias 1.5 wherever there is one."""
    chooses = vars(Judgement)["place"].fget

    def biased(judged: Judgement) -> int:
        found = [k for k, h in enumerate(judged.found) if h.bias == 1.5]
        return found[0] if found else int(chooses(judged))

    monkeypatch.setattr(Judgement, "place", property(biased))


@pytest.mark.usefixtures("chosen")
def test_a_bias_that_was_found_is_kept(tmp_path):
    """In the record of a knowledge base, in a store, and when the store learns again."""
    fragments = people(15, 2)
    path, into = str(tmp_path / "answers.jsonl"), str(tmp_path / "kb.sqlite")
    with AnswerFile(path) as file:
        review = FileReview(fragments, RunOptions(), file)
        question = review.question()
        review.answer(question, True)
    assert review.changed().to_json()["after"]["bias"] == 1.5
    kb = kbforge.cluster(fragments, answers=path)
    assert kb.likelihood == "pairs"
    assert kb.made.options["likelihood"] == {"bias": "1.5"}
    assert any("and bias +1.5 is best" in note for note in kb.notes)
    again = choices_of(kb.made, "kb").of("likelihood")
    assert make_likelihood("pairs", again).log_marginal([]).shape == (0,)
    kbforge.update(into, fragments, answers=path)
    for _ in range(2):
        with Database(into) as database:
            store = Store(database)
            assert store.made.options["likelihood"] == {"bias": "1.5"}
            likelihood = restore(store)[0].models.likelihood
            assert isinstance(likelihood, Pairs)
            assert likelihood.dump().values["shift"] == 1.5 * UNITS
        refit(into)
