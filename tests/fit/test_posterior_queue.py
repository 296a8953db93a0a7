"""What is worth asking: values by their definition, and a queue that follows the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import open_session
from kbforge.contracts import Decision, Fragment, Subproblem
from kbforge.evaluation.scores import compare
from kbforge.fit.questions import (
    MOST,
    MOST_EACH,
    PairQuestion,
    PosteriorQueue,
    information,
    pairs_of,
    parts_of,
    values,
)
from tests.kb.posteriors import posterior, posteriors, subproblem
from tests.profile import examples


def labels(clusters, fragments):
    of = {f: number for number, cluster in enumerate(clusters) for f in cluster}
    return [of[f] for f in fragments]


def loss_of(estimate, truth, fragments):
    """In fragments, by the scores that everybody is measured by."""
    f1 = compare(labels(estimate, fragments), labels(truth, fragments)).bcubed_f1_item_mean
    return len(fragments) * (1 - f1)


def together(clusters, a, b):
    return any(a in cluster and b in cluster for cluster in clusters)


@examples(60)
@given(posteriors(), st.sampled_from([0.0, 0.02, 0.3]))
def test_the_value_is_what_the_answer_is_expected_to_set_right(found, error) -> None:
    for block in found.subproblems:
        weights = np.exp([p.log_weight for p in block.particles])
        asked = pairs_of(parts_of(block))
        got = values(asked, asked.reported, error)
        for k, (a, b) in enumerate(zip(asked.first.tolist(), asked.second.tolist(), strict=True)):
            joined = together(block.clusters, a, b)
            says = [together(p.clusters, a, b) for p in block.particles]
            assert asked.joined[k] == joined
            assert asked.reported[k] == pytest.approx(weights @ np.array(says))
            # the session's estimate after the answer that contradicts this one
            other = next(p for p, s in zip(block.particles, says, strict=True) if s != joined)
            expected = 0.0
            for truth, weight, say in zip(block.particles, weights, says, strict=True):
                answered = 1 - error if say != joined else error
                better = loss_of(block.clusters, truth.clusters, block.fragments) - loss_of(
                    other.clusters, truth.clusters, block.fragments
                )
                expected += weight * answered * better
            assert got[k] == pytest.approx(expected, abs=1e-9)


@examples(60)
@given(posteriors())
def test_every_pair_in_doubt_is_asked_about_by_its_parts(found) -> None:
    for block in found.subproblems:
        asked = pairs_of(parts_of(block))
        questions = {
            tuple(together(p.clusters, a, b) for p in block.particles)
            for a, b in zip(asked.first.tolist(), asked.second.tolist(), strict=True)
        }
        for n, a in enumerate(block.fragments):
            for b in block.fragments[:n]:
                says = tuple(together(p.clusters, a, b) for p in block.particles)
                assert len(set(says)) == 1 or says in questions


def test_information_is_that_of_a_noisy_answer() -> None:
    assert information(np.array([0.5]), 0.0)[0] == pytest.approx(np.log(2))
    assert information(np.array([0.0, 1.0]), 0.0).tolist() == [0.0, 0.0]
    p, e = 0.3, 0.1
    joint = np.array([[p * (1 - e), p * e], [(1 - p) * e, (1 - p) * (1 - e)]])
    apart = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    assert information(np.array([p]), e)[0] == pytest.approx((joint * np.log(joint / apart)).sum())


def test_large_parts_come_first() -> None:
    small = subproblem(range(2), (5, [(0, 1)]), (5.1, [(0,), (1,)]))
    large = subproblem(range(2, 12), (5, [range(2, 12)]), (6, [range(2, 7), range(7, 12)]))
    by_gain, by_information = PosteriorQueue(), PosteriorQueue(worth="information")
    for questions in (by_gain, by_information):
        questions.update([small, large])
    first = by_gain.next()
    assert (first.subproblem, first.first, first.second) == (2, 2, 7)
    assert by_information.next().subproblem == 0
    by_gain.pass_over(first)
    assert by_gain.next().subproblem == 0
    by_gain.pass_over(by_gain.next())
    assert by_gain.next() is None


def huge(n: int, particles: int) -> Subproblem:
    """Thousands of fragments, no two of which are on one side on all particles."""
    rng = np.random.default_rng(0)
    made = []
    for k in range(particles):
        side = rng.integers(0, 40, n)
        clusters = [np.flatnonzero(side == c).tolist() for c in np.unique(side)]
        made.append((1.0 + k / 100, clusters))
    return subproblem(range(n), *made)


def test_a_huge_subproblem_is_bounded() -> None:
    block = huge(3_000, 120)
    assert len(parts_of(block)) == MOST
    questions = PosteriorQueue()
    questions.update([block])
    asked = []
    while question := questions.next():
        asked.append((question.first, question.second))
        questions.pass_over(question)
    assert len(set(asked)) == len(asked) == MOST_EACH


def test_answers_teach_how_far_reports_can_be_believed() -> None:
    found = [
        subproblem([2 * k, 2 * k + 1], (3, [(2 * k,), (2 * k + 1,)]), (1, [(2 * k, 2 * k + 1)]))
        for k in range(12)
    ]
    questions = PosteriorQueue()
    questions.update(found)
    before = questions.next()
    for _ in range(6):
        question = questions.next()
        questions.add(question, True)
        questions.gone([question.subproblem])
    assert questions.next().believed > before.believed + 0.2
    assert questions.next().reported == pytest.approx(0.25)
    for _ in range(6):
        questions.undo()
    assert questions.next().believed == pytest.approx(before.believed)
    assert len(questions) == 6


def test_a_map_is_heard_too() -> None:
    def read(first, second, reported):
        return np.where(first == 0, 0.9, reported)

    found = [
        subproblem([2 * k, 2 * k + 1], (3, [(2 * k,), (2 * k + 1,)]), (1, [(2 * k, 2 * k + 1)]))
        for k in range(3)
    ]
    questions = PosteriorQueue(read)
    questions.update(reversed(found))
    assert questions.next().first == 0
    assert 0.25 < questions.next().believed < 0.9


def test_an_answerer_errs_less_than_half_the_time() -> None:
    with pytest.raises(ValueError, match=r"from 0 to below 0\.5, got 0\.5"):
        PosteriorQueue(error=0.5)


NAMES = ["ada lovelace", "ada lovelac", "a lovelace", "bo ek", "bo ekk", "bo eck", "cyd orr"]


def fresh(
    session, answers: list[tuple[PairQuestion, bool]], passed: list[PairQuestion]
) -> PosteriorQueue:
    questions = PosteriorQueue()
    for question, same in answers:
        questions.add(question, same)
    for question in passed:
        questions.pass_over(question)
    questions.update(session.posterior().subproblems)
    return questions


@examples(15)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=8, max_size=14),
    st.integers(0, 2**16),
)
def test_no_particle_ever_violates_an_answer_and_the_queue_follows(made, seed) -> None:
    """The queue that is kept up asks what one from scratch would."""
    fragments = [Fragment(f"p{n}", {"name": (NAMES[k],)}) for n, (k, _) in enumerate(made)]
    gold = [label for _, label in made]
    session = open_session(fragments, likelihood="bigram", alpha=3, seed=seed).session
    session.add(fragments)
    session.touched()
    questions = fresh(session, [], [])
    decided: list[tuple[int, int, bool]] = []
    answers: list[tuple[PairQuestion, bool]] = []
    passed: list[PairQuestion] = []
    while question := questions.next():
        other = fresh(session, answers, passed).next()
        assert other is not None
        assert other.value == pytest.approx(question.value)
        if question.first % 5 == 4:
            questions.pass_over(question)
            passed.append(question)
            continue
        same = gold[question.first] == gold[question.second]
        decided.append((question.first, question.second, same))
        answers.append((question, same))
        ids = (fragments[question.first].id, fragments[question.second].id)
        session.constrain([Decision(same, *ids)])
        questions.add(question, same)
        touched = session.touched()
        questions.gone(touched.gone)
        questions.update(map(session.subproblem, touched.changed))
        for block in session.posterior().subproblems:
            for particle in block.particles:
                of = dict(
                    zip(block.fragments, labels(particle.clusters, block.fragments), strict=True)
                )
                for a, b, one in decided:
                    if a in of or b in of:
                        assert (a in of and b in of and of[a] == of[b]) == one
    assert fresh(session, answers, passed).next() is None


def test_a_posterior_without_doubt_asks_nothing() -> None:
    questions = PosteriorQueue()
    questions.update(posterior(subproblem(range(3), (1, [(0, 1), (2,)]))).subproblems)
    assert questions.next() is None
