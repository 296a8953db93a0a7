"""Entities and labels are joined by fragment id, and what is left out is counted or refused."""

from __future__ import annotations

import pytest

from kbforge.contracts import Entity, Fragment
from kbforge.errors import UsageError
from kbforge.evaluation.scores import compare, judge


def entities(*clusters):
    return [Entity(f"e{n}", "x", {}, tuple(cluster), 1.0, n) for n, cluster in enumerate(clusters)]


def gold(**labels):
    return [Fragment(key, {"name": ("x",)}, label=label) for key, label in labels.items()]


def test_scores_are_those_of_the_joined_labels():
    found = judge(entities("ab", "c", "d"), gold(d="2", b="1", a="1", c="2"))
    assert found.scores == compare([0, 0, 1, 2], ["1", "1", "2", "2"])
    assert (found.unlabelled, found.only_in_kb, found.only_in_gold) == (0, 0, 0)


def test_unlabelled_fragments_are_left_out_and_counted():
    found = judge(entities("ab", "cd"), gold(a="1", b=None, c="2", d=None))
    assert found.scores == compare([0, 1], ["1", "2"])
    assert found.unlabelled == 2


@pytest.mark.parametrize(
    ("clusters", "labels", "message"),
    [
        (["ab"], {"a": "1"}, 'the knowledge base has 1 fragment that the gold file lacks.*"b"'),
        (["a"], {"a": "1", "z": "2", "y": None}, "gold file has 2 fragments that the knowledge"),
        (["a"], {"a": None}, "no fragment of the knowledge base has a label"),
    ],
)
def test_what_cannot_be_judged_is_one_sentence(clusters, labels, message):
    with pytest.raises(UsageError, match=message):
        judge(entities(*clusters), gold(**labels))


def test_partial_evaluates_the_intersection():
    found = judge(entities("ab", "cq"), gold(a="1", b="1", c="1", z="2"), partial=True)
    assert found.scores == compare([0, 0, 1], ["1", "1", "1"])
    assert (found.only_in_kb, found.only_in_gold) == (1, 1)


def test_partial_needs_an_intersection():
    with pytest.raises(UsageError, match="no fragment id in common"):
        judge(entities("a"), gold(b="1"), partial=True)
