"""Beliefs follow the answers; both queues ask what matters most."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from kbforge import open_session
from kbforge.contracts import Decision, Fragment, Subproblem
from kbforge.evaluation.scores import compare
from kbforge.files.answers import AUDIT, INFORMATIVE, NumberedAnswer
from kbforge.fit.questions import (
    ERROR,
    MOST,
    MOST_EACH,
    Belief,
    CandidatePair,
    PairQuestion,
    PosteriorQueue,
    TeachingQueue,
    design,
    information,
    outcomes,
    pairs_of,
    parts_of,
    said_same,
    update,
    values,
)
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.kb.posteriors import posteriors, subproblem
from tests.people import people
from tests.profile import examples

WEIGHTS = Belief(np.array([-3.0, 3.6, 1.8, 0.6]), np.diag([1.0, 4.0, 3.0, 2.0]))
ALL = np.ones((1, 3), np.bool_)


def test_answers_move_what_has_these_votes_and_what_is_near():
    before = WEIGHTS
    asked = np.array([[1, 0, 0]], np.bool_)
    after = update(before, np.repeat(asked, 8, axis=0), np.zeros(8, np.bool_))
    assert after.probability(asked)[0] < 0.15 < before.probability(asked)[0]
    near = np.array([[1, 1, 0]], np.bool_)
    assert after.probability(near)[0] < before.probability(near)[0]
    assert after.logit(asked)[1] < before.logit(asked)[1]
    assert update(before, np.zeros((0, 3), np.bool_), np.zeros(0, np.bool_)) is before


def test_the_mode_is_where_the_slope_is_nought():
    rng = np.random.default_rng(0)
    before = WEIGHTS
    votes, same = rng.random((40, 3)) < 0.5, rng.random(40) < 0.5
    mode = update(before, votes, same).mean
    x, precision = design(votes), np.linalg.inv(before.covariance)

    def log_posterior(w: np.ndarray) -> float:
        said = ERROR + (1 - 2 * ERROR) * expit(x @ w)
        off = w - before.mean
        return float(np.log(np.where(same, said, 1 - said)).sum() - off @ precision @ off / 2)

    best = log_posterior(mode)
    for k in range(4):
        for step in (-1e-3, 1e-3):
            assert log_posterior(mode + step * np.eye(4)[k]) < best


def test_no_answer_is_certain():
    """Forty answers one way leave the other possible by the error of people."""
    after = update(WEIGHTS, np.repeat(ALL, 40, axis=0), np.ones(40, np.bool_))
    assert 0.9 < after.probability(ALL)[0] < 0.99
    assert said_same(np.array([-1e3, 1e3])) == pytest.approx([ERROR, 1 - ERROR])


PEOPLE = people(30, 5)


@pytest.fixture(scope="module")
def model():
    model = Pairs()
    model.fit(PEOPLE)
    return model


def queue_of(model: Pairs, seed: int = 0) -> TeachingQueue:
    """Its entities are the fragments of two towns, which is wrong."""
    entities = {n: 1 if "town" in one.properties else 2 for n, one in enumerate(PEOPLE)}
    return TeachingQueue(model, PEOPLE, range(len(PEOPLE)), entities, seed)


def answered(queue: TeachingQueue, count: int) -> list[CandidatePair]:
    """Ask so many questions, answered by gold."""
    asked: list[CandidatePair] = []
    while len(asked) < count and (drawn := queue.next()) is not None:
        queue.add(drawn, PEOPLE[drawn.first].label == PEOPLE[drawn.second].label)
        asked.append(drawn)
    return asked


def test_every_sixth_question_audits_and_no_two_are_about_the_same(model):
    asked = answered(queue_of(model), 30)
    assert [drawn.how for drawn in asked] == [*[INFORMATIVE] * 5, AUDIT] * 5
    assert all(0 < drawn.joined < 1 and 0 < drawn.share <= 1 for drawn in asked)
    row = model.pair_odds(PEOPLE).row
    pairs = [frozenset((row[drawn.first], row[drawn.second])) for drawn in asked]
    assert len(set(pairs)) == len(pairs) == 30
    assert all(len(pair) == 2 for pair in pairs)
    # no fragment twice, unless an audit chose it
    informative = [
        n for drawn in asked if drawn.how == INFORMATIVE for n in (drawn.first, drawn.second)
    ]
    assert len(set(informative)) == len(informative)


def test_informative_questions_are_about_uncertain_pairs(model):
    odds = model.pair_odds(PEOPLE).nats
    uncertain = np.minimum(expit(odds), expit(-odds))
    first = answered(queue_of(model), 2)
    assert min(min(one.joined, 1 - one.joined) for one in first) > np.quantile(uncertain, 0.9)


def test_an_audit_asks_what_is_most_probably_wrong(model):
    queue = queue_of(model)
    answered(queue, 5)
    drawn = queue.next()
    assert drawn.how == AUDIT
    together = ("town" in PEOPLE[drawn.first].properties) == (
        "town" in PEOPLE[drawn.second].properties
    )
    assert (drawn.joined < 0.5) == together


def test_undo_brings_the_question_and_the_model_back(model):
    queue = queue_of(model)
    answered(queue, 4)
    question, layer = queue.next(), queue.taught.layer
    answered(queue, 1)
    assert (queue.next(), queue.taught.layer) != (question, layer)
    queue.undo()
    assert (queue.next(), queue.taught.layer) == (question, layer)


def test_same_seed_same_questions(model):
    one, same, other = (answered(queue_of(model, seed), 6) for seed in (1, 1, 2))
    assert one == same != other


def test_who_does_not_know_teaches_nothing(model):
    queue = queue_of(model)
    first = queue.next()
    queue.add(first, None)
    assert queue.taught is model
    assert queue.next() != first


def test_nothing_to_ask():
    fragments = [Fragment(f"f{k}", {"name": ("Ada Lovelace",)}) for k in range(4)]
    fragments.append(Fragment("g", {"name": ("Ada Lovelac",)}))
    model = Pairs()
    model.fit(fragments)
    queue = TeachingQueue(model, fragments, range(5), {})
    drawn = queue.next()
    assert (drawn.first, drawn.second) == (0, 4)  # of equal fragments the first
    queue.add(NumberedAnswer(4, 2, True, False), True)  # the same question by another fragment
    assert queue.next() is None


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
def test_the_value_is_what_the_answer_is_expected_to_set_right(found, error):
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
def test_every_pair_in_doubt_is_asked_about_by_its_parts(found):
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


def test_information_is_that_of_a_noisy_answer():
    assert information(np.array([0.5]), 0.0)[0] == pytest.approx(np.log(2))
    assert information(np.array([0.0, 1.0]), 0.0).tolist() == [0.0, 0.0]
    p, e = 0.3, 0.1
    joint = np.array([[p * (1 - e), p * e], [(1 - p) * e, (1 - p) * (1 - e)]])
    apart = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    assert information(np.array([p]), e)[0] == pytest.approx((joint * np.log(joint / apart)).sum())


def asking(*blocks: Subproblem) -> PosteriorQueue:
    queue = PosteriorQueue()
    queue.update(blocks)
    return queue


def uncertain_pairs(count: int) -> list[Subproblem]:
    """Each is together with probability 1/4."""
    pairs = ((2 * k, 2 * k + 1) for k in range(count))
    return [subproblem(pair, (3, [pair[:1], pair[1:]]), (1, [pair])) for pair in pairs]


def test_large_parts_come_first():
    small = subproblem(range(2), (5, [(0, 1)]), (5.1, [(0,), (1,)]))
    large = subproblem(range(2, 12), (5, [range(2, 12)]), (6, [range(2, 7), range(7, 12)]))
    by_gain = asking(small, large)
    first = by_gain.next()
    assert (first.subproblem, first.first, first.second) == (2, 2, 7)
    by_gain.pass_over(first)
    assert by_gain.next().subproblem == 0
    by_gain.pass_over(by_gain.next())
    assert by_gain.next() is None


def huge(n: int, particles: int) -> Subproblem:
    """Thousands of fragments, no two of which are on one side on all particles."""
    rng = np.random.default_rng(0)
    sides = [rng.integers(0, 40, n) for _ in range(particles)]
    clusters = [[np.flatnonzero(side == c).tolist() for c in np.unique(side)] for side in sides]
    return subproblem(range(n), *((1.0 + k / 100, made) for k, made in enumerate(clusters)))


def test_a_huge_subproblem_is_bounded():
    block = huge(3_000, 120)
    assert len(parts_of(block)) == MOST
    questions = asking(block)
    asked = []
    while question := questions.next():
        asked.append((question.first, question.second))
        questions.pass_over(question)
    assert len(set(asked)) == len(asked) == MOST_EACH


def test_answers_teach_how_far_reports_can_be_believed():
    questions = asking(*uncertain_pairs(12))
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


def pairs_in_one(weights: tuple[float, float]) -> Subproblem:
    """Two pairs of one subproblem; each is together on some particles, at the expense of others."""
    block = [(10, 11), (12, 13)]
    return subproblem(
        range(10, 14),
        (weights[0], block),
        (weights[1], [(10,), (11,), (12, 13)]),
        (weights[1], [(10, 11), (12,), (13,)]),
    )


@pytest.mark.parametrize(("nearly", "follows"), [(0.1, True), (1.5, False)])
def test_questions_about_one_subproblem_come_together_unless_worth_far_less(
    monkeypatch, nearly, follows
):
    monkeypatch.setattr("kbforge.fit.questions._NEARLY", nearly)
    questions = asking(pairs_in_one((1, 1.2)), *uncertain_pairs(3))
    first = questions.next()
    assert first.subproblem == 10
    questions.add(first, first.joined)
    left = subproblem((12, 13), (3, [(12, 13)]), (0.4, [(12,), (13,)]))  # what the answer left
    questions.gone([10])
    questions.update([left])
    assert (questions.next().subproblem == 12) == follows
    questions.undo()
    questions.gone([12])
    questions.update([pairs_in_one((1, 1.2))])
    assert questions.next() == first


def test_what_nobody_can_tell_is_left_until_it_is_taken_back():
    questions = asking(*uncertain_pairs(2))
    questions.leave([(1, 0)])
    assert questions.next().first == 2
    questions.leave([(0, 1), (2, 3)])
    assert questions.next() is None
    assert questions.left == 0
    questions.leave([])
    assert questions.next().first == 0


def test_a_bound_lowers_a_question_and_lasts_until_its_subproblem_changes():
    questions = asking(*uncertain_pairs(2))
    first = questions.next()
    assert questions.bound(first, 0.0)
    assert questions.next().first == 2
    assert not questions.bound(questions.next(), 1.0)
    questions.pass_over(questions.next())
    last = questions.next()
    assert (last.first, last.believed) == (0, 0.0)
    assert last.value < 0
    questions.update(uncertain_pairs(1))
    assert questions.next() == first


def test_the_answers_left_are_counted_down():
    questions = asking(*uncertain_pairs(5))
    assert questions.left == 5
    for left in range(4, -1, -1):
        question = questions.next()
        questions.add(question, False)
        questions.gone([question.subproblem])
        assert questions.left == left


@examples(60)
@given(posteriors())
def test_what_an_answer_settles_is_what_its_particles_agree_on(found):
    for block in found.subproblems:
        questions = asking(block)
        if (question := questions.next()) is None:
            continue
        a, b = question.first, question.second
        table = pairs_of(parts_of(block))
        for word, outcome in outcomes(block, question).items():
            agree = [p for p in block.particles if together(p.clusters, a, b) == (word == "same")]
            keeps = question.joined == (word == "same")
            after = block.clusters if keeps else agree[0].clusters
            assert outcome.sizes == [len(c) for c in after if a in c or b in c]
            pairs = zip(table.first.tolist(), table.second.tolist(), strict=True)
            settled = [
                (x, y)
                for x, y in pairs
                if len({together(p.clusters, x, y) for p in agree}) == 1 and (x, y) != (a, b)
            ]
            assert outcome.questions == len(settled)


NAMES = ["ada lovelace", "ada lovelac", "a lovelace", "bo ek", "bo ekk", "bo eck", "cyd orr"]


def fresh(session, answers=(), passed=()) -> PosteriorQueue:
    questions = PosteriorQueue()
    for question, same in answers:
        questions.add(question, same)
    for question in passed:
        questions.pass_over(question)
    questions.update(session.posterior().subproblems)
    return questions


@pytest.fixture
def by_value_alone(monkeypatch):
    """The order does not depend on the last answer, which a queue from scratch does not know."""
    monkeypatch.setattr("kbforge.fit.questions._NEARLY", np.inf)


@pytest.mark.usefixtures("by_value_alone")
@examples(15)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=8, max_size=14),
    st.integers(0, 2**16),
)
def test_no_particle_ever_violates_an_answer_and_the_queue_follows(made, seed):
    """The queue that is kept up asks what one from scratch would."""
    fragments = [Fragment(f"p{n}", {"name": (NAMES[k],)}) for n, (k, _) in enumerate(made)]
    gold = [label for _, label in made]
    session = open_session(fragments, likelihood="bigram", alpha=3, seed=seed).session
    session.add(fragments)
    session.touched()
    questions = fresh(session)
    answers: list[tuple[PairQuestion, bool]] = []
    passed: list[PairQuestion] = []
    while question := questions.next():
        other = fresh(session, answers, passed).next()
        assert other.value == pytest.approx(question.value)
        if question.first % 5 == 4:
            questions.pass_over(question)
            passed.append(question)
            continue
        same = gold[question.first] == gold[question.second]
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
                for told, one in answers:
                    a, b = told.first, told.second
                    if a in of or b in of:
                        assert (a in of and b in of and of[a] == of[b]) == one
    assert fresh(session, answers, passed).next() is None


def test_a_posterior_without_doubt_asks_nothing():
    assert asking(subproblem(range(3), (1, [(0, 1), (2,)]))).next() is None
