"""Base probabilities: a distribution over all strings."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbforge_plugins.models.attributes.kinds import KINDS, Kind
from kbforge_plugins.models.attributes.vocabulary import Vocabulary
from tests.models.attributes.toys import LETTERS, random_vocabulary, world


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_base_sums_to_at_most_one(kind: Kind, seed: int) -> None:
    """With letters that no value has among those summed over."""
    vocabulary = random_vocabulary(random.Random(seed), kind, world(LETTERS[kind], 3))
    numbers = [vocabulary.number(value) for value in ["", *world(LETTERS[kind] + "z", 5)]]
    total = math.fsum(vocabulary.base[number] for number in numbers)
    assert 0.3 < total <= 1 + 1e-9


@given(counts=st.dictionaries(st.text("ab", max_size=4), st.integers(1, 9), max_size=6))
@settings(max_examples=60, deadline=None)
def test_what_is_missing_from_one_is_what_goes_on_or_has_other_letters(
    counts: dict[str, int],
) -> None:
    """Letters are drawn until the end: over strings of up to 9 of the letters the sum is known."""
    vocabulary = Vocabulary("category", counts)
    letters = sorted(set("".join(counts)))
    strings = [""] + (world("".join(letters), 9) if letters else [])
    total = math.fsum(vocabulary.base[vocabulary.number(value)] for value in strings)
    n, observed = sum(map(len, counts)), sum(counts.values())
    ends = max(len(counts), 1)
    of_letters, end = n / (n + ends + 1), ends / (n + ends + 1)
    spelled = end * sum(of_letters**k for k in range(10))
    unseen = (0.6 * len(counts) + 1) / (observed + 1)
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


@pytest.mark.parametrize("value", ["x" * 400, "\U0001f9ed" * 400, "東京" * 200])
def test_a_value_as_long_as_a_page_is_possible(value: str) -> None:
    vocabulary = Vocabulary("text", {"ann": 1})
    assert 0 < vocabulary.base[vocabulary.number(value)] <= 1e-300


def test_no_values_at_all() -> None:
    vocabulary = Vocabulary("text", {})
    strings = [vocabulary.number(value) for value in ("", "a", "ab")]
    assert math.fsum(vocabulary.base[number] for number in strings) < 1
