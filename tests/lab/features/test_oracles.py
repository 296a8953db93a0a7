"""Features against what their definitions say, written out plainly."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge_lab.features import FEATURES, Feature

TEXTS = st.text("ab c.1é", max_size=8)


def made(name: str, **options: object) -> Feature:
    return FEATURES[name](**options)


def said(*values: str, attribute: str = "name") -> Fragment:
    return Fragment("x", {attribute: values})


def levenshtein(one: str, other: str) -> int:
    @cache
    def cost(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        change = cost(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        return min(change, cost(i - 1, j) + 1, cost(i, j - 1) + 1)

    return cost(len(one), len(other))


def common_subsequence(one: str, other: str) -> int:
    @cache
    def length(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return 0
        if one[i - 1] == other[j - 1]:
            return length(i - 1, j - 1) + 1
        return max(length(i - 1, j), length(i, j - 1))

    return length(len(one), len(other))


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(TEXTS, min_size=1, max_size=4))
def test_edit_distances_are_changes_by_the_longer_length(one, other):
    found = made("edit").distances(one, other)
    for i, x in enumerate(one):
        for j, y in enumerate(other):
            expected = levenshtein(x, y) / max(len(x), len(y), 1)
            assert found[i, j] == pytest.approx(expected, abs=1e-12)


@given(TEXTS, TEXTS)
def test_what_is_not_in_the_longest_common_subsequence(one, other):
    longer = max(len(one), len(other), 1)
    expected = 1 - common_subsequence(one, other) / longer if one or other else 0.0
    found = made("subsequence").distances([one], [other])[0, 0]
    assert found == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.sets(st.sampled_from("abcde"), min_size=1), min_size=2, max_size=6))
def test_rare_words_weigh_most(records):
    fragments = [said(" ".join(sorted(words))) for words in records]
    feature = made("rare-words")
    feature.fit(fragments)
    readings = [feature.reading(fragment) or "" for fragment in fragments]
    found = feature.distances(readings, readings)

    def weight(words: set[str]) -> float:
        often = [sum(word in record for record in records) for word in words]
        return sum(math.log1p(len(records) / n) for n in often)

    for i, x in enumerate(records):
        for j, y in enumerate(records):
            assert found[i, j] == pytest.approx(1 - weight(x & y) / weight(x | y), abs=1e-5)


def test_a_rare_word_in_common_brings_nearer_than_a_frequent_one():
    feature = made("rare-words")
    feature.fit([said("the cat"), said("the dog"), said("the cow"), said("the owl")])
    assert feature.distances(["the"], ["cat the"])[0, 0] > feature.distances(["cat"], ["cat the"])


@pytest.mark.parametrize(
    ("name", "value", "reading"),
    [
        ("edit", "George W. Bush", "george w. bush"),
        ("edit", "Bush, George", "george bush"),
        ("first-word", "George W. Bush", "george"),
        ("last-word", "George W. Bush", "bush"),
        ("initials", "George W. Bush", "gwb"),
        ("initials", "GWB", "gwb"),
        ("initials", "Cher", "cher"),
        ("initials", "Madonna", "m"),
        ("subsequence", "  A  b ", "a b"),
        ("rare-words", "the cat, the dog", "cat dog the"),
        ("years", "Proc. of 1991, pp. 1993-95", "1991"),
        ("years", "12345", None),
        ("years", "pp. 12-34", None),
        ("first-word", "...", None),
    ],
)
def test_what_is_read_of_a_value(name, value, reading):
    assert made(name, attribute="name").reading(said(value)) == reading


def test_years_are_counted_up_to_the_span():
    years = made("years", span=5)
    found = years.distances(["1990", "1992"], ["1990", "1993", "2020"])
    np.testing.assert_allclose(found, [[0, 0.6, 1], [0.4, 0.2, 1]])


@pytest.mark.parametrize("name", FEATURES)
def test_several_values_are_read_together_and_none_is_missing(name):
    feature = made(name, attribute="x")
    assert feature.reading(said("In 1990", "ab", attribute="x")) is not None
    assert feature.reading(said("In 1990")) is None
    whole = made(name, attribute="*")
    both = Fragment("x", {"b": ("In 1990 b",), "a": ("In 1980 a",)})
    turned = Fragment("y", dict(reversed(both.properties.items())))
    assert whole.reading(both) == whole.reading(turned) is not None


def test_options_that_mean_nothing_are_refused():
    with pytest.raises(UsageError, match="attribute: expected a name"):
        made("edit", attribute="")
    with pytest.raises(UsageError, match="span must be a number above 0"):
        made("years", span=0)
