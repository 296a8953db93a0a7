"""Base probabilities: a distribution over all strings."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge_plugins.likelihoods.attributes.kinds import KINDS, Kind
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary
from tests.likelihoods.attributes.toys import LETTERS, random_vocabulary, world
from tests.profile import examples


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6))
@examples(10)
def test_base_of_the_values_counted_sums_to_at_most_one(kind: Kind, seed: int) -> None:
    vocabulary = random_vocabulary(random.Random(seed), kind, world(LETTERS[kind], 3))
    assert 0.1 < math.fsum(vocabulary.base) <= 1 + 1e-9


@given(counts=st.dictionaries(st.text("ab", max_size=4), st.integers(1, 9), max_size=6))
@examples(60)
def test_what_the_values_counted_leave_is_what_spells_others(counts: dict[str, int]) -> None:
    """Letters are drawn until the end: what strings of up to 9 of the letters have is known."""
    vocabulary = Vocabulary("category", counts)
    letters = sorted(set("".join(counts)))
    strings = [""] + (world("".join(letters), 9) if letters else [])
    n, observed = sum(map(len, counts)), sum(counts.values())
    ends = max(len(counts), 1)
    letter, end = 1 / (n + ends + 1), ends / (n + ends + 1)
    share = {a: letter * sum(value.count(a) for value in counts) for a in letters}
    spelled = math.fsum(
        end * math.prod(share[a] for a in string) for string in strings if string in counts
    )
    unseen = (0.6 * len(counts) + 1) / (observed + 1)
    total = math.fsum(vocabulary.base)
    assert total == pytest.approx(1 - unseen * (1 - spelled), abs=1e-9)


def test_the_same_values_in_another_order_are_the_same_vocabulary() -> None:
    counts = {"b": 2, "a b": 1, "c": 5}
    one, two = Vocabulary("text", counts), Vocabulary("text", dict(reversed(counts.items())))
    assert (one.values, one.base, one.features, one.mass) == (
        two.values,
        two.base,
        two.features,
        two.mass,
    )


def test_values_that_come_later_change_nothing() -> None:
    vocabulary = Vocabulary("text", {"ann lee": 2, "bo": 1})
    base, mass, letters = [*vocabulary.base], [*vocabulary.mass], vocabulary.alphabet
    late = vocabulary.number("ann zöe")
    assert late == 2
    assert vocabulary.number("ann zöe") == late
    assert not vocabulary.counted(late)
    assert vocabulary.base[:2] == base
    assert vocabulary.mass[: len(mass)] == mass
    assert vocabulary.alphabet == letters
    assert all(vocabulary.shared_mass(feature) >= 0 for _, feature in vocabulary.features[late])


def test_a_frequent_value_is_more_probable_than_a_rare_one_than_an_unseen_one() -> None:
    vocabulary = Vocabulary("text", {"anna": 50, "anne": 1, "bert": 3})
    base = {value: vocabulary.base[vocabulary.number(value)] for value in ("anna", "anne", "ante")}
    assert base["anna"] > base["anne"] > base["ante"] > 0


def test_a_value_never_seen_counts_as_one_seen_once_however_it_is_spelled() -> None:
    vocabulary = Vocabulary("text", {"anna": 50, "anne": 1, "bert": 3})
    base = [vocabulary.base[vocabulary.number(value)] for value in ("an", "zażółć", "x" * 400)]
    assert base == [pytest.approx(0.4 / 55)] * 3


@pytest.mark.parametrize("value", ["x" * 400, "\U0001f9ed" * 400, "東京" * 200])
def test_a_value_as_long_as_a_page_is_possible(value: str) -> None:
    vocabulary = Vocabulary("text", {"ann": 1, value: 1})
    assert 0.1 < vocabulary.base[vocabulary.number(value)] < 0.2


def test_no_values_at_all() -> None:
    vocabulary = Vocabulary("text", {})
    assert all(0 < vocabulary.base[vocabulary.number(value)] < 1 for value in ("", "a", "ab"))
