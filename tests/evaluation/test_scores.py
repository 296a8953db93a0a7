"""Every score against its definition, written out over items and pairs of items."""

import math
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Entity, Fragment
from kbforge.errors import UsageError
from kbforge.evaluation.scores import compare, score_entities
from tests.profile import examples

LABELS = st.integers(0, 5)
TWO_LABELLINGS = st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=25)


def clusters(labels):
    return {
        frozenset(i for i, other in enumerate(labels) if other == label) for label in set(labels)
    }


def own_cluster(labels, item):
    return {i for i, label in enumerate(labels) if label == labels[item]}


def harmonic(p, r):
    return 0.0 if p + r == 0 else 2 / (1 / p + 1 / r) if p and r else 0.0


def entropy(labels):
    n = len(labels)
    return -sum(len(c) / n * math.log(len(c) / n) for c in clusters(labels))


def brute_force(predicted, gold):
    n = len(gold)
    precision, recall, f1 = [], [], []
    for item in range(n):
        mine, true = own_cluster(predicted, item), own_cluster(gold, item)
        p, r = len(mine & true) / len(mine), len(mine & true) / len(true)
        precision.append(p)
        recall.append(r)
        f1.append(2 * p * r / (p + r))
    pairs = list(combinations(range(n), 2))
    in_predicted = {(i, j) for i, j in pairs if predicted[i] == predicted[j]}
    in_gold = {(i, j) for i, j in pairs if gold[i] == gold[j]}
    both = len(in_predicted & in_gold)
    pair_precision = both / len(in_predicted) if in_predicted else 1.0
    pair_recall = both / len(in_gold) if in_gold else 1.0
    agree = sum((pair in in_predicted) == (pair in in_gold) for pair in pairs)
    if in_predicted == in_gold:
        adjusted = 1.0
    else:
        expected = len(in_predicted) * len(in_gold) / len(pairs)
        mean = (len(in_predicted) + len(in_gold)) / 2
        adjusted = (both - expected) / (mean - expected)
    joint = entropy(list(zip(predicted, gold, strict=True)))
    vi = 2 * joint - entropy(predicted) - entropy(gold)
    bcubed_precision, bcubed_recall = sum(precision) / n, sum(recall) / n
    return {
        "items": n,
        "clusters": len(clusters(predicted)),
        "gold_clusters": len(clusters(gold)),
        "exact_clusters": len(clusters(predicted) & clusters(gold)),
        "bcubed_precision": bcubed_precision,
        "bcubed_recall": bcubed_recall,
        "bcubed_f1_item_mean": sum(f1) / n,
        "bcubed_f1_harmonic": harmonic(bcubed_precision, bcubed_recall),
        "pairwise_precision": pair_precision,
        "pairwise_recall": pair_recall,
        "pairwise_f1": harmonic(pair_precision, pair_recall),
        "rand": agree / len(pairs) if pairs else 1.0,
        "adjusted_rand": adjusted,
        "vi": vi,
        "normalised_vi": vi / math.log(n) if n > 1 else 0.0,
    }


@given(TWO_LABELLINGS)
def test_scores_equal_their_definitions(pairs):
    predicted, gold = map(list, zip(*pairs, strict=True))
    expected = brute_force(predicted, gold)
    scores = compare(predicted, gold).to_json()
    del scores["edit_distance"], scores["normalised_edit_score"]
    assert list(scores) == list(expected)
    assert scores == pytest.approx(expected, abs=1e-12)


def steps_from(grouping):
    """The groupings that one operation makes of another."""
    for one, other in combinations(grouping, 2):
        yield grouping - {one, other} | {one | other}
    for source in grouping:
        for item in source:
            left = grouping - {source} | ({source - {item}} if len(source) > 1 else set())
            yield left | {frozenset({item})}
            for target in left - {source - {item}}:
                yield left - {target} | {target | {item}}


@cache
def distances_from(grouping):
    """How many operations it takes to make each grouping of this one."""
    found, reached = {grouping: 0}, [grouping]
    for here in reached:
        for there in steps_from(here):
            if there not in found:
                found[there] = found[here] + 1
                reached.append(there)
    return found


@examples(400)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6))
def test_edit_distances_are_the_fewest_operations(pairs):
    predicted, gold = map(list, zip(*pairs, strict=True))
    one, other = frozenset(clusters(predicted)), frozenset(clusters(gold))
    there, back = distances_from(one)[other], distances_from(other)[one]
    scores = compare(predicted, gold)
    assert scores.edit_distance == there
    assert scores.normalised_edit_score == pytest.approx(1 - (there + back) / (2 * len(pairs)))


@given(TWO_LABELLINGS, st.randoms(use_true_random=False))
def test_names_of_labels_and_order_of_items_change_no_bit(pairs, rng):
    shuffled = rng.sample(pairs, len(pairs))
    before = compare([p for p, _ in pairs], [g for _, g in pairs])
    after = compare([f"cluster {p}" for p, _ in shuffled], [(g, "x") for _, g in shuffled])
    assert after == before


@pytest.mark.parametrize("labels", [["a"], ["a", "a", "a"], ["a", "b", "c"], ["a", "b", "a"]])
def test_gold_itself_is_perfect(labels):
    scores = compare(labels, labels)
    assert scores.exact_clusters == scores.clusters == scores.gold_clusters
    assert scores.vi == scores.normalised_vi == 0
    perfect = scores.to_json()
    counts = ("items", "clusters", "gold_clusters", "exact_clusters", "edit_distance")
    for name in (*counts, "vi", "normalised_vi"):
        del perfect[name]
    assert set(perfect.values()) == {1.0}


def test_counts_of_pairs_outgrow_64_bits_without_harm():
    n = 200_000
    scores = compare([0] * n, [0] * (n - 1) + [1])
    assert scores.pairwise_precision == pytest.approx((n - 2) / n, rel=1e-12)
    assert scores.adjusted_rand == 0


@pytest.mark.parametrize(("predicted", "gold"), [([], []), ([1], [1, 2])])
def test_nothing_to_compare_is_an_error(predicted, gold):
    with pytest.raises(ValueError, match=r"no items|1 predicted labels for 2"):
        compare(predicted, gold)


# cluster sizes that give the printed figures of Daumé and Marcu (2005), table 1; others do,
# too, and all of them are of 665 items
DIGITS = [digit for digit, size in enumerate((183, 177, 158, 96, 51)) for _ in range(size)]
PRINTED = {
    "Coarse": (0.229, 0.229, 1.00, 0.372, 1.525, 0.765),
    "Fine": (0.771, 1.00, 0.000, 0.000, 4.975, 0.235),
}


@pytest.mark.parametrize("row", PRINTED)
def test_the_rows_of_the_papers_table_are_those_of_these_definitions(row):
    scores = compare([0] * 665 if row == "Coarse" else range(665), DIGITS)
    found = (
        scores.rand,
        scores.pairwise_precision,
        scores.pairwise_recall,
        scores.pairwise_f1,
        scores.vi,
        1 - scores.normalised_vi,
    )
    assert found == pytest.approx(PRINTED[row], abs=0.0007)  # F is .3726


def test_the_papers_edit_score_is_one_less_the_distance():
    coarse, fine = compare([0] * 665, DIGITS), compare(range(665), DIGITS)
    assert coarse.edit_distance / 665 == pytest.approx(0.725, abs=0.0005)  # as printed
    assert 1 - coarse.edit_distance / 665 == pytest.approx(0.275, abs=0.0005)  # its edit score
    assert coarse.normalised_edit_score == pytest.approx(0.635, abs=0.0005)  # by its definition
    assert fine.edit_distance / 665 == pytest.approx(0.992, abs=0.0005)  # printed: 1.00
    assert fine.normalised_edit_score == pytest.approx(0.008, abs=0.0005)  # as printed


# Entities and labels are joined by fragment id, and what is left out is counted or refused.


def entities(*clusters):
    return [Entity(f"e{n}", "x", {}, tuple(cluster), 1.0, n) for n, cluster in enumerate(clusters)]


def gold(**labels):
    return [Fragment(key, {"name": ("x",)}, label=label) for key, label in labels.items()]


@pytest.mark.parametrize(
    ("clusters", "labels", "partial", "joined", "left_out"),
    [
        (
            ("ab", "c", "d"),
            {"d": "2", "b": "1", "a": "1", "c": "2"},
            False,
            ((0, 0, 1, 2), "1122"),
            (0, 0, 0),
        ),
        (
            ("ab", "cd"),
            {"a": "1", "b": None, "c": "2", "d": None},
            False,
            ((0, 1), "12"),
            (2, 0, 0),
        ),
        (
            ("ab", "cq"),
            {"a": "1", "b": "1", "c": "1", "z": "2"},
            True,
            ((0, 0, 1), "111"),
            (0, 1, 1),
        ),
    ],
    ids=["all", "unlabelled", "partial"],
)
def test_scores_are_of_the_joined_labels_and_what_is_left_out_is_counted(
    clusters, labels, partial, joined, left_out
):
    found = score_entities(entities(*clusters), gold(**labels), partial=partial)
    assert found.scores == compare(*joined)
    assert (found.unlabelled, found.only_in_kb, found.only_in_gold) == left_out


@pytest.mark.parametrize(
    ("clusters", "labels", "message"),
    [
        (["a"], {"b": "1"}, "no fragment id in common"),
        (["ab"], {"a": "1"}, 'the knowledge base has 1 fragment that the gold file lacks.*"b"'),
        (["a"], {"a": "1", "z": "2", "y": None}, "gold file has 2 fragments that the knowledge"),
        (["a"], {"a": None}, "no fragment of the knowledge base has a label"),
    ],
)
def test_what_cannot_be_judged_is_one_sentence(clusters, labels, message):
    with pytest.raises(UsageError, match=message):
        score_entities(entities(*clusters), gold(**labels), partial="in common" in message)
