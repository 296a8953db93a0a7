"""A vocabulary that was taken up says what the one does that kept it, to the last bit."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Kept
from kbforge.errors import ModelError
from kbforge.testing.keeping import same, stored
from kbforge_plugins.likelihoods.attributes.distortion import components
from kbforge_plugins.likelihoods.attributes.kinds import KINDS, Kind
from kbforge_plugins.likelihoods.attributes.urn import Urns
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary
from tests.likelihoods.attributes.toys import LETTERS, random_rates, world
from tests.profile import examples

MANY = [" ".join(w) for n in (1, 2, 3) for w in itertools.permutations(["ab", "b2", "c", "dd"], n)]


def of_words(rng: random.Random, kind: Kind) -> tuple[Vocabulary, list[str]]:
    """A vocabulary of some of the values, and all of them."""
    values = [*MANY, *world(LETTERS[kind], 3)]
    seen = rng.sample(values, rng.randint(0, 40))
    return Vocabulary(kind, {value: rng.choice([0.02, 1, 2.5, 7]) for value in seen}), values


def taken_up(vocabulary: Vocabulary) -> Vocabulary:
    return Vocabulary.taken_up(vocabulary.kind, stored(vocabulary.kept()), "a test")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6))
@examples(25)
def test_values_have_the_same_probabilities_whoever_was_asked_for_before(
    kind: Kind, seed: int
) -> None:
    rng = random.Random(seed)
    one, values = of_words(rng, kind)
    other, rates = taken_up(one), random_rates(rng, kind)
    drawn, of_one, of_other = rng.sample(values, 12), Urns(one, rates), Urns(other, rates)
    for value in rng.sample(drawn, len(drawn)):
        one.number(value)
    for value in rng.sample(drawn, len(drawn)):
        other.number(value)
    for first, second in itertools.product(drawn[:6], drawn):
        u, v = one.number(first), one.number(second)
        x, y = other.number(first), other.number(second)
        assert one.counted(u) == other.counted(x)
        assert (u == x) or not one.counted(u)
        assert components(one, u, v) == components(other, x, y)
        urn, same_urn = of_one.single(u).grown(v), of_other.single(x).grown(y)
        assert urn.log_marginal == same_urn.log_marginal
        for third in drawn:
            assert urn.gain(one.number(third)) == same_urn.gain(other.number(third))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_is_of_the_values_counted(kind: Kind) -> None:
    rng = random.Random(3)
    vocabulary, values = of_words(rng, kind)
    before = stored(vocabulary.kept())
    other = taken_up(vocabulary)
    for value in values:
        vocabulary.number(value)
        other.number(value)
    assert same(vocabulary.kept(), before)
    assert same(other.kept(), before)
    again = taken_up(other)
    assert [again.base[again.number(v)] for v in values] == [
        vocabulary.base[vocabulary.number(v)] for v in values
    ]


@pytest.mark.parametrize("kind", ["text", "title"])
def test_the_same_values_counted_otherwise_are_as_if_counted_anew(kind: Kind) -> None:
    rng = random.Random(5)
    vocabulary, values = of_words(rng, kind)
    counts = {value: rng.choice([1.0, 3.5]) for value in vocabulary.counts}
    for value in values:
        vocabulary.number(value)  # what was met later is not counted
    one, other = vocabulary.recounted(counts), Vocabulary(kind, counts)
    assert (one.counts, one.base, one.features, one.mass) == (
        other.counts,
        other.base,
        other.features,
        other.mass,
    )
    assert same(one.kept(), other.kept())


@pytest.mark.parametrize("value", ["\ud800 lone", "x" * 400, "東京", "a\0b", ""])
def test_any_text_is_kept(value: str) -> None:
    vocabulary = Vocabulary("text", {value: 2, "ann": 1})
    other = taken_up(vocabulary)
    assert other.counted(other.number(value))
    assert other.base[other.number(value)] == vocabulary.base[vocabulary.number(value)]


@pytest.mark.parametrize(
    ("name", "spoilt"),
    [
        ("number", lambda array: array * 0),
        ("values", lambda array: array[::-1]),
        ("base", lambda array: array * 0),
        ("starts", lambda array: array + 1),
        ("holders", lambda array: array + 10**6),
        ("mass", lambda array: array[1:]),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(
    name: str, spoilt: Callable[[Any], Any]
) -> None:
    kept = Vocabulary("title", dict.fromkeys(MANY, 1)).kept()
    arrays = {**kept.arrays, name: spoilt(kept.arrays[name])}
    with pytest.raises(ModelError, match=f"^a test: what was kept is damaged: {name}: expected"):
        Vocabulary.taken_up("title", Kept(kept.values, arrays), "a test")
