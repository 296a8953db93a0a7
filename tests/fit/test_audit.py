"""Audits: the pool against all pairs, entities against all orders, and what answers lead to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.files.answers import SAMPLED, WHOLE, AnswerFile, decided, read_answers
from kbforge.fit.audit import AuditReport, AuditReview, Pool
from kbforge.fit.description import PairOdds
from kbforge.jobs.audit import odds_of
from tests.people import people
from tests.scripts import script

audits = script("audits")

PEOPLE = people(60, 5)
LABELS = [str(fragment.label) for fragment in PEOPLE]


def linked(row: Sequence[int], nats: dict[tuple[int, int], float]) -> PairOdds:
    """Odds of rows, both ways as a model lists them."""
    both = {**nats, **{(j, i): value for (i, j), value in nats.items()}}
    pairs = sorted(both)
    first, second = (np.array([pair[k] for pair in pairs], np.int64) for k in (0, 1))
    return PairOdds(np.array(row), first, second, np.array([both[p] for p in pairs]), -5.0)


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[list[int]], PairOdds]:
    """A grouping of up to eight fragments, rows that some share, and odds of some rows."""
    n = draw(st.integers(2, 8))
    entity = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    row = draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))
    pairs = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(sorted).map(tuple)
    nats = draw(st.dictionaries(pairs, st.floats(-6, 6), max_size=8))
    groups = [[i for i in range(n) if entity[i] == e] for e in sorted(set(entity))]
    return groups, linked(row, nats)


@given(pools(), st.integers(0, 3))
def test_every_pair_is_in_one_stratum_and_drawn_from_it(
    given: tuple[list[list[int]], PairOdds], seed: int
) -> None:
    entities, odds = given
    pool, n = Pool(entities, odds), len(odds.row)
    counts = Counter(pool.stratum(i, j) for i, j in combinations(range(n), 2))
    assert [counts[h] for h in range(len(pool.strata.sizes))] == pool.strata.sizes.tolist()
    rng = np.random.default_rng(seed)
    for h in np.flatnonzero(pool.strata.compared):
        drawn = pool.draw(int(h), rng)
        assert drawn is not None
        i, j = drawn
        assert i != j
        assert pool.stratum(i, j) == h
        assert pool.strata.joined[h] == any(i in e and j in e for e in entities)


def test_the_pairs_of_a_stratum_are_equally_probable() -> None:
    # one stratum of joined pairs that are not compared, and one across entities of two sizes
    entities, rng = [[0, 1, 2], [3, 4], [5]], np.random.default_rng(1)
    pool = Pool(entities, linked(range(6), {(0, 3): 1.0, (4, 5): 1.0}))
    for stratum, size in ((0, 4), (10, 8)):
        assert pool.strata.sizes[stratum] == size
        drawn = Counter(frozenset(pool.draw(stratum, rng) or ()) for _ in range(400 * size))
        assert len(drawn) == size
        assert all(abs(count - 400) < 5 * 20 for count in drawn.values())


def partitions(n: int) -> Iterator[list[list[int]]]:
    """All groupings of n fragments."""
    if not n:
        yield []
        return
    for smaller in partitions(n - 1):
        for at in range(len(smaller)):
            yield [e + [n - 1] * (k == at) for k, e in enumerate(smaller)]
        yield [*smaller, [n - 1]]


def test_over_all_orders_examined_entities_are_the_truth(tmp_path: Path) -> None:
    """All groupings of four fragments against all truths, with each fragment of an entity first.

    The mean over the fragments of |C| / |g| sums to the number of true entities, where all that it
    takes is asked: of a mixed entity of three or more two are compared with the first one, and of
    two entities only their most similar fragments, so they may share one true entity.
    """
    fragments = [Fragment(str(i), {"name": (str(i),)}) for i in range(4)]
    for truth in partitions(4):
        gold = {i: e for e, members in enumerate(truth) for i in members}
        nats = {(i, j): 4.0 if gold[i] == gold[j] else -1.0 for i, j in combinations(range(4), 2)}
        for entities in partitions(4):
            if any(len(e) > 2 and len({gold[i] for i in e}) > 1 for e in entities):
                continue
            if any(
                len({gold[i] for i in one} & {gold[i] for i in other}) > 1
                for one, other in combinations(entities, 2)
            ):
                continue
            with AnswerFile(str(tmp_path / "none.jsonl")) as file:
                review = AuditReview(fragments, entities, linked(range(4), nats), file, 9)
            right, parts = 0.0, 0.0
            orders = list(permutations(range(4)))
            for order in orders:
                review._draw = [bytes([place]) for place in order]
                for entity in range(len(entities)):
                    is_right, part = examined(review, entity, entities, gold)
                    right += is_right / len(orders)
                    parts += part / len(orders)
            exact = sum(sorted(e) in [sorted(t) for t in truth] for e in entities)
            assert right == pytest.approx(exact)
            assert parts == pytest.approx(len(truth))


def examined(
    review: AuditReview, entity: int, entities: list[list[int]], gold: dict[int, int]
) -> tuple[bool, float]:
    asking = review._tests(entity)
    try:
        how, a, b = next(asking)
        while True:
            asked = entities[entity] if how == WHOLE else [b]
            how, a, b = asking.send(all(gold[x] == gold[a] for x in asked))
    except StopIteration as ended:
        found: tuple[bool, float] = ended.value
        return found


@pytest.fixture(scope="module")
def odds() -> PairOdds:
    return odds_of(PEOPLE)


def grouped(by: int) -> list[list[int]]:
    """The truth with the last fragment of every `by`-th entity split off."""
    groups = audits.members_of(LABELS)
    parts = [g[:-1] for g in groups[::by] if len(g) > 1] + [g[-1:] for g in groups[::by]]
    return [*groups[1::by], *(g for k in range(2, by) for g in groups[k::by]), *parts]


def run(
    path: Path, odds: PairOdds, count: int, by: int = 3, seed: int = 0, most: int = 1000
) -> tuple[list[tuple[str, str]], AuditReport]:
    """The questions asked until there are `count` answers or `most` questions, and the report."""
    asked = []
    with AnswerFile(str(path)) as file:
        review = AuditReview(PEOPLE, grouped(by), odds, file, count, seed)
        while len(asked) < most and (question := review.question()) is not None:
            asked.append((question.first.fragment.id, question.second.fragment.id))
            review.answer(question, audits.by_labels(question))
        return asked, review.report()


def test_an_interrupted_audit_goes_on_where_it_ended(tmp_path: Path, odds: PairOdds) -> None:
    whole, report = run(tmp_path / "one.jsonl", odds, 24)
    parts = [run(tmp_path / "two.jsonl", odds, 24, most=most) for most in (7, 1, 24)]
    assert [len(asked) for asked, _ in parts] == [7, 1, 16]
    assert [pair for asked, _ in parts for pair in asked] == whole
    assert parts[-1][1] == report
    assert run(tmp_path / "three.jsonl", odds, 24, seed=1)[0] != whole


def test_the_answers_of_another_grouping_count(tmp_path: Path, odds: PairOdds) -> None:
    path = tmp_path / "answers.jsonl"
    before, _ = run(path, odds, 40, by=3)
    asked, report = run(path, odds, 60, by=4)
    assert len(before) == 40
    assert len(asked) == 20
    assert report.about_pairs + report.about_entities == 60
    assert report.examined > 20 // 4


def test_no_pair_is_asked_about_twice(tmp_path: Path) -> None:
    fragments = PEOPLE[:6]
    entities = [[0, 1], [2, 3], [4, 5]]
    nats = dict.fromkeys(combinations(range(6), 2), 1.0)
    with AnswerFile(str(tmp_path / "answers.jsonl")) as file:
        review = AuditReview(fragments, entities, linked(range(6), nats), file, 60)
        while (question := review.question()) is not None:
            review.answer(question, audits.by_labels(question))
        asked = [answer.said.pair for answer in file.answers if answer.asked.how == SAMPLED]
    assert len(asked) == len(set(asked)) > 1


def test_answers_can_be_unknown_and_taken_back(tmp_path: Path, odds: PairOdds) -> None:
    path = tmp_path / "answers.jsonl"
    with AnswerFile(str(path)) as file:
        review = AuditReview(PEOPLE, grouped(3), odds, file, 12)
        for k in range(12):
            question = review.question()
            assert question is not None
            if k == 6:
                review.answer(question, True)
                assert review.undo()
                assert review.question() == question
            review.answer(question, None if k % 2 else audits.by_labels(question))
        assert review.question() is None
        assert (report := review.report()).unknown == 6
    assert len(read_answers(str(path))) == 12
    assert report.pairs[0].low < report.pairs[0].high


def test_a_no_about_a_whole_entity_is_no_decision(tmp_path: Path, odds: PairOdds) -> None:
    path = tmp_path / "answers.jsonl"
    with AnswerFile(str(path)) as file:
        review = AuditReview(PEOPLE, [list(range(30)), list(range(30, len(PEOPLE)))], odds, file, 8)
        while (question := review.question()) is not None:
            review.answer(question, audits.by_labels(question))
    answers = read_answers(str(path))
    noes = [answer for answer in answers if answer.asked.how == WHOLE and answer.same is False]
    assert noes
    assert len(decided(answers)) == len(answers) - len(noes)


def test_the_intervals_of_people_hold_the_truth(tmp_path: Path, odds: PairOdds) -> None:
    entities = grouped(3)
    grouping = np.empty(len(PEOPLE), np.int64)
    for number, members in enumerate(entities):
        grouping[members] = number
    truth = audits.truth_of(grouping.tolist(), LABELS)
    held = []
    for seed in range(5):
        _, report = run(tmp_path / f"{seed}.jsonl", odds, 60, seed=seed)
        found = report.pairs, report.entities
        # of the wrong entities a share that nobody knows seems right
        for scores, exact, widest in zip(found, truth, (0.6, 0.8), strict=True):
            held += [s.low <= t <= s.high for s, t in zip(scores, exact, strict=True)]
            assert max(s.high - s.low for s in scores) < widest
    assert np.mean(held) >= 0.9


@pytest.mark.slow
def test_on_labelled_sets_the_intervals_hold_the_truth(data_dir: Path) -> None:
    held, widths = [], []
    for name in audits.SETS.values():
        for _, figures in audits.measured(data_dir / name, [60], 3):
            held.append(audits.coverage(figures))
            widths.append((figures[..., 3] - figures[..., 2]) / 2)
    covered = np.concatenate(held).mean(axis=(0, 1))
    assert covered[:3].mean() >= 0.93  # pairs
    assert covered[3:].mean() >= 0.85  # entities: parts that share nothing are not found
    assert np.mean(np.concatenate(widths)) <= 0.2
