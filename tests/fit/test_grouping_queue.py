"""Cells are pairs with equal votes; the queue asks what decides, and finds the gold grouping."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.contracts import FloatArray, IntArray
from kbforge.evaluation.scores import compare
from kbforge.files.answers import AUDIT, INFORMATIVE
from kbforge.fit import questions
from kbforge.fit.questions import CandidatePair, GroupingQueue, count_votes, votes_on
from tests.fit.worlds import world

RNG = np.random.default_rng(0)


def test_every_joined_pair_is_listed_from_both_ends_with_its_votes() -> None:
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


def test_counts_and_sizes_belong_to_the_probes() -> None:
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


def test_more_candidates_than_bits_of_a_word() -> None:
    groupings = np.concatenate([world(seed)[0][:, :90] for seed in range(10)])
    assert len(groupings) > 128
    found = count_votes(groupings, RNG)
    assert np.array_equal(found.cells[found.cell], votes_on(groupings, found.probe, found.other))


def test_alone_everywhere_is_no_probe() -> None:
    found = count_votes(np.array([[0, 0, 1, 2], [0, 1, 2, 3]]), RNG)
    assert np.unique(found.probe).tolist() == [0, 1]
    assert found.share == 0.5


def test_nothing_is_joined() -> None:
    found = count_votes(np.arange(8).reshape(2, 4), RNG)
    assert (len(found.cells), len(found.cell), found.share) == (0, 0, 0.0)


def test_one_huge_cluster_is_listed_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_MOST_PAIRS", 1_000)
    found = count_votes(np.zeros((2, 400), np.int64), np.random.default_rng(0))
    assert len(found.cell) == 3 * 399
    assert found.share == 1.0


def queue_of(groupings: IntArray, gains: FloatArray | None = None, seed: int = 0) -> GroupingQueue:
    worth = np.zeros(len(groupings)) if gains is None else gains
    return GroupingQueue(groupings, worth, np.arange(groupings.shape[1]), seed)


def answered(queue: GroupingQueue, gold: IntArray, count: int) -> list[CandidatePair]:
    """Ask so many questions, answered by gold."""
    asked = []
    for _ in range(count):
        drawn = queue.next()
        if drawn is None:
            break
        queue.add(drawn, bool(gold[drawn.first] == gold[drawn.second]))
        asked.append(drawn)
    return asked


@pytest.mark.parametrize("seed", range(8))
def test_gold_among_the_candidates_is_found(seed: int) -> None:
    groupings, gold = world(seed)
    queue = queue_of(groupings, seed=seed)
    answered(queue, groupings[gold], 40)
    found = compare(groupings[queue.best()].tolist(), groupings[gold].tolist())
    assert found.bcubed_f1_item_mean > 0.97
    # the candidates beside it are another matter
    wrong = compare(groupings[0].tolist(), groupings[gold].tolist())
    assert wrong.bcubed_f1_item_mean < 0.9


def test_gold_is_found_against_a_wrong_prediction_and_some_wrong_answers() -> None:
    groupings, gold = world(3)
    gains = np.where(np.arange(len(groupings)) < 7, 0.1, 0.0)
    queue, rng = queue_of(groupings, gains), np.random.default_rng(0)
    assert queue.best() < 7
    for _ in range(60):
        drawn = queue.next()
        assert drawn is not None
        same = bool(groupings[gold, drawn.first] == groupings[gold, drawn.second])
        queue.add(drawn, same if rng.random() > 0.05 else not same)
    found = compare(groupings[queue.best()].tolist(), groupings[gold].tolist())
    assert found.bcubed_f1_item_mean > 0.95


def test_without_answers_the_prediction_decides() -> None:
    groupings, _ = world(0)
    gains = np.linspace(0, 0.1, len(groupings))
    queue = queue_of(groupings, gains)
    assert queue.best() == len(groupings) - 1
    worth = queue.scores()
    assert worth == pytest.approx(gains)
    # not to know is no answer
    drawn = queue.next()
    assert drawn is not None
    queue.add(drawn, None)
    assert queue.scores() == pytest.approx(gains)


def test_informative_questions_are_about_pairs_on_which_candidates_differ() -> None:
    groupings, gold = world(1)
    asked = answered(queue_of(groupings), groupings[gold], 30)
    assert [drawn.how for drawn in asked[:6]] == [INFORMATIVE, INFORMATIVE, AUDIT] * 2
    for drawn in asked:
        if drawn.how == INFORMATIVE:
            votes = groupings[:, drawn.first] == groupings[:, drawn.second]
            assert 0 < votes.mean() < 1
            assert drawn.joined == pytest.approx(votes.mean())  # equal gains are equal weights
        assert 0 < drawn.share <= 1


def test_no_two_questions_are_about_the_same() -> None:
    groupings, gold = world(2)
    alike = np.arange(groupings.shape[1]) // 2
    queue = GroupingQueue(groupings, np.zeros(len(groupings)), alike)
    asked = answered(queue, groupings[gold], 50)
    pairs = [frozenset((alike[d.first], alike[d.second])) for d in asked]
    assert len(set(pairs)) == len(pairs) == 50


def test_undo_brings_the_question_back() -> None:
    groupings, gold = world(4)
    queue = queue_of(groupings)
    answered(queue, groupings[gold], 4)
    question, worth = queue.next(), queue.scores()
    answered(queue, groupings[gold], 1)
    assert queue.next() != question
    queue.undo()
    assert queue.next() == question
    assert np.array_equal(queue.scores(), worth)


def test_same_seed_same_questions() -> None:
    groupings, gold = world(5)
    one, same, other = (
        answered(queue_of(groupings, seed=seed), groupings[gold], 12) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_nothing_to_ask() -> None:
    assert queue_of(np.arange(6).reshape(2, 3)).next() is None
    # all is asked after the only pair
    queue = queue_of(np.array([[0, 0, 1], [0, 1, 2]]))
    assert len(answered(queue, np.array([0, 0, 1]), 5)) == 1
    assert queue.best() == 0


def test_equal_fragments_without_end_are_asked_about_once() -> None:
    groupings = np.zeros((60, 3_000), np.int64)
    queue = GroupingQueue(groupings, np.zeros(60), np.zeros(3_000, np.int64))
    drawn = queue.next()
    assert drawn is not None
    assert drawn.joined == 1.0  # and no last bit more
    queue.add(drawn, True)
    assert queue.next() is None


def test_one_candidate_is_best_whatever_is_answered() -> None:
    queue = queue_of(np.array([[0, 0, 1, 1]]))
    answered(queue, np.array([0, 1, 2, 3]), 2)
    assert queue.best() == 0
