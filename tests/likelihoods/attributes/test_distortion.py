"""The distortion models are distributions: summed over all strings of worlds small enough."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge_plugins.likelihoods.attributes.kinds import KINDS, Kind, feature_names
from kbforge_plugins.likelihoods.attributes.urn import (
    COPY,
    EDIT,
    SLIPS,
    SUBSTITUTION,
    TWO_EDITS,
    component_names,
    components,
    slip,
)
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary
from tests.likelihoods.attributes.toys import LETTERS, random_rates, random_vocabulary, world
from tests.profile import examples


def sums(vocabulary: Vocabulary, numbers: list[int], v: int) -> list[float]:
    """Of each component, over the world."""
    parts = [components(vocabulary, u, v) for u in numbers]
    return [sum(column) for column in zip(*parts, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), strange=st.sampled_from(["", "z", "9"]))
@examples(12)
def test_every_component_sums_to_at_most_one(kind: Kind, seed: int, strange: str) -> None:
    """Slips over values seen and never seen, others over those seen, for truths of all sorts."""
    rng = random.Random(seed)
    letters = LETTERS[kind]
    strings = world(letters, 4)
    vocabulary = random_vocabulary(rng, kind, strings)
    counted = list(range(len(vocabulary)))
    everything = world(letters + strange, 5 if not strange else 4)
    numbers = [vocabulary.number(value) for value in everything]
    weights = random_rates(rng, kind).weights()
    for v in [0, rng.choice(numbers), rng.choice(numbers)]:
        found = sums(vocabulary, counted, v)
        for name, total in zip(component_names(kind), found, strict=True):
            assert total <= 1 + 1e-9, name
        assert sum(w * total for w, total in zip(weights, found, strict=True)) <= 1 + 1e-9
        slips = sums(vocabulary, numbers, v)[: len(SLIPS)]
        assert all(total <= 1 + 1e-9 for total in slips)


@pytest.mark.parametrize("kind", ["date", "number"])
@pytest.mark.parametrize("true", ["1", "12", "1-2", "-", "12-", "x1"])
def test_slips_of_numbers_sum_to_at_most_one_over_a_large_alphabet(kind: Kind, true: str) -> None:
    vocabulary = Vocabulary(kind, {"1-2": 3, "12": 1, "21": 2})
    numbers = [vocabulary.number(value) for value in world("0123456789-,xyz", 3)]
    found = sums(vocabulary, numbers, vocabulary.number(true))
    assert all(total <= 1 + 1e-9 for total in found[: len(SLIPS)])


@given(seed=st.integers(0, 10**6), n=st.integers(1, 3))
@examples(25)
def test_slips_sum_to_nearly_one(seed: int, n: int) -> None:
    """A bound that is not reached would be no model: one letter more, fewer or other."""
    rng = random.Random(seed)
    vocabulary = Vocabulary("category", {"abc": 1})
    v = vocabulary.number("".join(rng.choice("abc") for _ in range(n)))
    numbers = [vocabulary.number(value) for value in ["", *world("abc", n + 1)]]
    found = sums(vocabulary, numbers, v)
    assert 0.6 < found[SUBSTITUTION] <= 1 + 1e-12
    assert 0.6 < found[EDIT] <= 1 + 1e-12
    assert found[COPY] == 1


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["text", "set", "code", "number"]))
@examples(40)
def test_a_feature_that_others_have_sums_to_its_share(seed: int, kind: Kind) -> None:
    """One for each feature that another value has, divided by how many of the name there are."""
    rng = random.Random(seed)
    vocabulary = random_vocabulary(rng, kind, world(LETTERS[kind], 5))
    known = range(len(vocabulary))
    for v in known:
        found = sums(vocabulary, list(known), v)
        for index in range(len(feature_names(kind))):
            own = [f for name, f in vocabulary.features[v] if name == index]
            held = [f for f in own if any(_has(vocabulary, u, f) for u in known if u != v)]
            expected = len(held) / len(own) if own else 0.0
            assert found[len(SLIPS) + index] == pytest.approx(expected, abs=1e-9)


def _has(vocabulary: Vocabulary, u: int, feature: int) -> bool:
    return any(feature == theirs for _, theirs in vocabulary.features[u])


def test_dates_in_several_notations_share_their_parts() -> None:
    values = ["1856-03-01", "1 march 1856", "01/03/1856", "1856", "1856-03", "1901-03-01"]
    vocabulary = Vocabulary("date", dict.fromkeys(values, 1))
    names = component_names("date")
    march = dict(zip(names, components(vocabulary, 0, 1), strict=True))
    assert {name for name, p in march.items() if p} >= {"year", "year and month", "month and day"}
    assert sum(sums(vocabulary, list(range(6)), 0)[len(SLIPS) :]) <= 5 + 1e-9


def test_a_copy_is_a_copy_and_nothing_else() -> None:
    vocabulary = Vocabulary("text", {"ann lee": 3, "ann": 2})
    assert components(vocabulary, 0, 0) == [1.0] + [0.0] * (len(component_names("text")) - 1)


@pytest.mark.parametrize(
    ("kind", "observed", "true", "component"),
    [
        ("text", "smiht", "smith", SUBSTITUTION),  # neighbours swapped
        ("text", "smyth", "smith", SUBSTITUTION),
        ("text", "smit", "smith", EDIT),
        ("text", "smitth", "smith", EDIT),
        ("text", "smythe", "smith", TWO_EDITS),
        ("text", "jones", "smith", None),
        ("text", "smit\u044c", "smith", None),  # a letter that no value has
        ("text", "smith", "smit\u044c", SUBSTITUTION),  # but it may have been meant
        ("date", "1856-03-07", "1856-03-01", SUBSTITUTION),
        ("date", "1856-30-01", "1856-03-01", SUBSTITUTION),
        ("date", "1856/03-01", "1856-03-01", None),
        ("date", "1856-03-0x", "1856-03-01", None),
        ("date", "1856-0301", "1856-03-01", EDIT),
        ("date", "1856503-01", "1856-03-01", None),  # a digit does not replace a dash
        ("number", "1,234", "1234", None),
        ("number", "1234", "1,234", EDIT),
        ("text", "a" * 121, "a" * 120 + "b", None),  # too long to compare
        ("text", "a", "", None),
    ],
)
def test_which_slip_it_is(kind: Kind, observed: str, true: str, component: int | None) -> None:
    letters = dict.fromkeys(["smith jonesy", "1856-03-07 1,234"], 1)
    vocabulary = Vocabulary(kind, letters)
    u, v = vocabulary.number(observed), vocabulary.number(true)
    found, probability = slip(vocabulary, u, v)
    assert (found if probability else None) == component
    assert 0 <= probability <= 1


def test_digits_of_other_scripts_are_digits() -> None:
    vocabulary = Vocabulary("number", {"\u0661\u0662\u0663": 2, "\u0661\u0662\u0664": 1})
    assert slip(vocabulary, 1, 0)[1] > 0


def test_a_value_outside_the_vocabulary_is_no_variant_of_a_common_feature() -> None:
    """It has no place in the normaliser; but it may be the true value of those that have."""
    vocabulary = Vocabulary("text", {"anna karenina": 1, "anna": 5})
    stranger = vocabulary.number("anna z")
    of_stranger = components(vocabulary, 1, stranger)
    assert sum(of_stranger[len(SLIPS) : -1]) > 0
    assert sum(components(vocabulary, stranger, 1)[len(SLIPS) : -1]) == 0
