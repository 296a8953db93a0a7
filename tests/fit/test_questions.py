"""Beliefs follow the answers; both queues ask what matters most, and find the gold grouping."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from kbforge import open_session
from kbforge.contracts import Decision, FloatArray, Fragment, IntArray, Subproblem
from kbforge.evaluation.scores import compare
from kbforge.files.answers import AUDIT, INFORMATIVE
from kbforge.fit.questions import (
    ERROR,
    MOST,
    MOST_EACH,
    CandidatePair,
    GroupingQueue,
    PairQuestion,
    PosteriorQueue,
    count_votes,
    design,
    information,
    pairs_of,
    parts_of,
    prior,
    said_same,
    update,
    values,
    votes_on,
)
from tests.kb.posteriors import posteriors, subproblem
from tests.profile import examples


def path_through(gold: IntArray, rng: np.random.Generator, splits: int, joins: int) -> IntArray:
    """Groupings from fine to coarse, gold in the middle, shape [splits + 1 + joins, n]."""
    finer = [gold]
    for _ in range(splits):
        parted = finer[0].copy()
        for cluster in np.unique(parted):
            members = np.flatnonzero(parted == cluster)
            if len(members) > 1 and rng.random() < 0.4:
                parted[members[: len(members) // 2]] = parted.max() + 1
        finer.insert(0, parted)
    coarser = [gold]
    for _ in range(joins):
        joined = coarser[-1].copy()
        clusters = rng.permutation(np.unique(joined))
        for one, other in zip(clusters[0::5], clusters[1::5], strict=False):
            joined[joined == other] = one
        coarser.append(joined)
    return np.stack([*finer, *coarser[1:]])


def world(seed: int) -> tuple[IntArray, int]:
    """Candidates of two paths, one of them wrong all along, and the number of gold's."""
    rng = np.random.default_rng(seed)
    gold = np.repeat(np.arange(60), rng.integers(1, 5, 60))
    rng.shuffle(gold)
    right = path_through(gold, rng, 4, 4)
    shaken = np.where(rng.random(len(gold)) < 0.25, rng.permutation(gold), gold)
    return np.concatenate([path_through(shaken, rng, 3, 3), right]), 7 + 4


WEIGHTS = np.array([0.5, 0.3, 0.2])
NONE, ALL = np.zeros((1, 3), np.bool_), np.ones((1, 3), np.bool_)


def test_before_any_answer_more_weight_is_more_probable():
    belief = prior(WEIGHTS)
    votes = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1]], np.bool_)
    probability = belief.probability(votes)
    assert (np.diff(probability) > 0).all()
    assert probability[0] < 0.1
    assert probability[-1] > 0.75


def test_answers_move_what_has_these_votes_and_what_is_near():
    before = prior(WEIGHTS)
    asked = np.array([[1, 0, 0]], np.bool_)
    after = update(before, np.repeat(asked, 8, axis=0), np.zeros(8, np.bool_))
    assert after.probability(asked)[0] < 0.15 < before.probability(asked)[0]
    near = np.array([[1, 1, 0]], np.bool_)
    assert after.probability(near)[0] < before.probability(near)[0]
    assert after.logit(asked)[1] < before.logit(asked)[1]
    assert update(before, np.zeros((0, 3), np.bool_), np.zeros(0, np.bool_)) is before


def test_the_mode_is_where_the_slope_is_nought():
    rng = np.random.default_rng(0)
    before = prior(WEIGHTS)
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
    after = update(prior(WEIGHTS), np.repeat(ALL, 40, axis=0), np.ones(40, np.bool_))
    assert 0.9 < after.probability(ALL)[0] < 0.99
    assert said_same(np.array([-1e3, 1e3])) == pytest.approx([ERROR, 1 - ERROR])


RNG = np.random.default_rng(0)


def test_every_joined_pair_is_listed_from_both_ends_with_its_votes():
    groupings, _ = world(0)
    found = count_votes(groupings, RNG)
    n = groupings.shape[1]
    together = groupings[:, :, None] == groupings[:, None, :]
    first, second = np.nonzero(together.any(axis=0) & ~np.eye(n, dtype=np.bool_))
    listed = sorted(zip(found.probe.tolist(), found.other.tolist(), strict=True))
    assert listed == list(zip(first.tolist(), second.tolist(), strict=True))
    expected = votes_on(groupings, found.probe, found.other)
    assert np.array_equal(found.cells[found.cell], expected)
    assert len(np.unique(found.cells, axis=0)) == len(found.cells)


def test_counts_and_sizes_belong_to_the_probes():
    groupings, _ = world(1)
    found = count_votes(groupings, RNG)
    probes = np.unique(found.probe)
    assert found.counts.shape == (len(probes), len(found.cells))
    for row, probe in enumerate(probes.tolist()):
        mine = found.cell[found.probe == probe]
        assert np.array_equal(
            found.counts.toarray()[row], np.bincount(mine, minlength=len(found.cells))
        )
        sizes = (groupings == groupings[:, [probe]]).sum(axis=1)
        assert np.array_equal(found.sizes[row], sizes)


def test_more_candidates_than_bits_of_a_word():
    groupings = np.concatenate([world(seed)[0][:, :90] for seed in range(10)])
    assert len(groupings) > 128
    found = count_votes(groupings, RNG)
    assert np.array_equal(found.cells[found.cell], votes_on(groupings, found.probe, found.other))


def test_alone_everywhere_is_no_probe():
    found = count_votes(np.array([[0, 0, 1, 2], [0, 1, 2, 3]]), RNG)
    assert np.unique(found.probe).tolist() == [0, 1]
    assert found.share == 0.5
    none = count_votes(np.arange(8).reshape(2, 4), RNG)
    assert (len(none.cells), len(none.cell), none.share) == (0, 0, 0.0)


def test_one_huge_cluster_is_listed_in_part():
    found = count_votes(np.zeros((2, 80_001), np.int64), np.random.default_rng(0))
    assert len(found.cell) == 3 * 80_000
    assert found.share == 1.0


def queue_of(groupings: IntArray, gains: FloatArray | None = None, seed: int = 0) -> GroupingQueue:
    worth = np.zeros(len(groupings)) if gains is None else gains
    return GroupingQueue(groupings, worth, np.arange(groupings.shape[1]), seed)


def answered(
    queue: GroupingQueue, gold: IntArray, count: int, errors: float = 0.0
) -> list[CandidatePair]:
    """Ask so many questions, answered by gold but for a share of errors."""
    asked: list[CandidatePair] = []
    rng = np.random.default_rng(0)
    while len(asked) < count and (drawn := queue.next()) is not None:
        same = bool(gold[drawn.first] == gold[drawn.second])
        queue.add(drawn, same != (rng.random() < errors))
        asked.append(drawn)
    return asked


@pytest.mark.parametrize("seed", range(8))
def test_gold_among_the_candidates_is_found(seed):
    groupings, gold = world(seed)
    queue = queue_of(groupings, seed=seed)
    answered(queue, groupings[gold], 40)
    found = compare(groupings[queue.best()].tolist(), groupings[gold].tolist())
    assert found.bcubed_f1_item_mean > 0.97
    # the candidates beside it are another matter
    wrong = compare(groupings[0].tolist(), groupings[gold].tolist())
    assert wrong.bcubed_f1_item_mean < 0.9


def test_gold_is_found_against_a_wrong_prediction_and_some_wrong_answers():
    groupings, gold = world(3)
    gains = np.where(np.arange(len(groupings)) < 7, 0.1, 0.0)
    queue = queue_of(groupings, gains)
    assert queue.best() < 7
    assert len(answered(queue, groupings[gold], 60, errors=0.05)) == 60
    found = compare(groupings[queue.best()].tolist(), groupings[gold].tolist())
    assert found.bcubed_f1_item_mean > 0.95


def test_without_answers_the_prediction_decides():
    groupings, _ = world(0)
    gains = np.linspace(0, 0.1, len(groupings))
    queue = queue_of(groupings, gains)
    assert queue.best() == len(groupings) - 1
    assert queue.scores() == pytest.approx(gains)
    # not to know is no answer
    drawn = queue.next()
    queue.add(drawn, None)
    assert queue.scores() == pytest.approx(gains)


def test_informative_questions_are_about_pairs_on_which_candidates_differ():
    groupings, gold = world(1)
    asked = answered(queue_of(groupings), groupings[gold], 30)
    assert [drawn.how for drawn in asked[:6]] == [INFORMATIVE, INFORMATIVE, AUDIT] * 2
    for drawn in asked:
        if drawn.how == INFORMATIVE:
            votes = groupings[:, drawn.first] == groupings[:, drawn.second]
            assert 0 < votes.mean() < 1
            assert drawn.joined == pytest.approx(votes.mean())  # equal gains are equal weights
        assert 0 < drawn.share <= 1


def test_no_two_questions_are_about_the_same():
    groupings, gold = world(2)
    alike = np.arange(groupings.shape[1]) // 2
    queue = GroupingQueue(groupings, np.zeros(len(groupings)), alike)
    asked = answered(queue, groupings[gold], 50)
    pairs = [frozenset((alike[d.first], alike[d.second])) for d in asked]
    assert len(set(pairs)) == len(pairs) == 50


def test_undo_brings_the_question_back():
    groupings, gold = world(4)
    queue = queue_of(groupings)
    answered(queue, groupings[gold], 4)
    question, worth = queue.next(), queue.scores()
    answered(queue, groupings[gold], 1)
    assert queue.next() != question
    queue.undo()
    assert queue.next() == question
    assert np.array_equal(queue.scores(), worth)


def test_same_seed_same_questions():
    groupings, gold = world(5)
    one, same, other = (
        answered(queue_of(groupings, seed=seed), groupings[gold], 12) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_nothing_to_ask():
    assert queue_of(np.arange(6).reshape(2, 3)).next() is None
    # all is asked after the only pair
    queue = queue_of(np.array([[0, 0, 1], [0, 1, 2]]))
    assert len(answered(queue, np.array([0, 0, 1]), 5)) == 1
    assert queue.best() == 0
    # one candidate is best whatever is answered
    alone = queue_of(np.array([[0, 0, 1, 1]]))
    assert answered(alone, np.array([0, 1, 2, 3]), 2)
    assert alone.best() == 0


def test_equal_fragments_without_end_are_asked_about_once():
    groupings = np.zeros((60, 3_000), np.int64)
    queue = GroupingQueue(groupings, np.zeros(60), np.zeros(3_000, np.int64))
    drawn = queue.next()
    assert drawn.joined == 1.0  # and no last bit more
    queue.add(drawn, True)
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


NAMES = ["ada lovelace", "ada lovelac", "a lovelace", "bo ek", "bo ekk", "bo eck", "cyd orr"]


def fresh(session, answers=(), passed=()) -> PosteriorQueue:
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
