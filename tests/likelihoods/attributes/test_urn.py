"""Urns and the components of G against their definitions."""

import itertools
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.texts.kinds import KINDS, feature_names
from kbforge_plugins.likelihoods.attributes.urn import (
    COPY,
    SLIPS,
    AttributeRates,
    component_names,
)
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary
from tests.likelihoods.attributes.components import (
    EDIT,
    SUBSTITUTION,
    TWO_EDITS,
    components,
    slip,
)
from tests.likelihoods.attributes.toys import (
    LETTERS,
    random_kind,
    random_rates,
    random_vocabulary,
    urn_written_out,
    world,
)
from tests.likelihoods.attributes.urns import Urn, Urns
from tests.profile import examples


def grow(urns: Urns, drawn: list[int]) -> Urn:
    urn = urns.single(drawn[0])
    for u in drawn[1:]:
        urn = urn.grown(u)
    return urn


def of_counts(urns: Urns, counts: Counter[int]) -> Urn:
    return urns.urn(*zip(*sorted(counts.items()), strict=True))


def toys(seed: int) -> tuple[random.Random, Vocabulary, AttributeRates, list[int]]:
    """Random rates, and values some of which the vocabulary has not seen."""
    rng = random.Random(seed)
    kind = random_kind(rng)
    strings = world(LETTERS[kind], 4)
    vocabulary = random_vocabulary(rng, kind, strings)
    seen = [*vocabulary.values]
    chosen = rng.sample(seen, min(3, len(seen))) + rng.sample(strings, 4)
    return rng, vocabulary, random_rates(rng, kind), [vocabulary.number(v) for v in chosen]


@given(seed=st.integers(0, 10**9), n=st.integers(1, 20))
@examples(250)
def test_the_marginal_is_the_urn_written_out_and_the_sum_of_gains(seed, n):
    rng, vocabulary, rates, values = toys(seed)
    drawn = [rng.choice(values) for _ in range(n)]
    expected = urn_written_out(vocabulary, rates, drawn)
    urn = Urns(vocabulary, rates).single(drawn[0])
    total = urn.log_marginal
    for u in drawn[1:]:
        total += urn.gain(u)
        urn = urn.grown(u)
    assert urn.log_marginal == pytest.approx(expected, abs=1e-9)
    assert total == pytest.approx(expected, abs=1e-8)


@given(seed=st.integers(0, 10**9), n=st.integers(1, 12))
@examples(150)
def test_the_marginal_is_of_the_multiset_to_the_last_bit(seed, n):
    """Whatever order, whatever was asked before, whichever unseen value got its number first."""
    rng, vocabulary, rates, values = toys(seed)
    drawn = [vocabulary.values[rng.choice(values)] for _ in range(n)]
    found = set()
    for _ in range(4):
        rng.shuffle(drawn)
        fresh = Vocabulary(vocabulary.kind, vocabulary.counts)
        urns = Urns(fresh, rates)
        numbers = [fresh.number(value) for value in drawn]
        for u in rng.sample(numbers, len(numbers)):
            urns.single(u).gain(rng.choice(numbers))
        found.add(grow(urns, numbers).log_marginal)
        # there and back: fragments that come and go leave no trace
        urn = grow(urns, [*numbers, *numbers])
        for u in rng.sample(numbers, len(numbers)):
            smaller = urn.shrunk(u)
            assert smaller is not None
            urn = smaller
        found.add(urn.log_marginal)
        found.add(of_counts(Urns(fresh, rates), Counter(numbers)).log_marginal)
    assert len(found) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_one_observation_has_its_base_probability(kind):
    rng = random.Random(5)
    for _ in range(30):
        vocabulary = random_vocabulary(rng, kind, world(LETTERS[kind], 4))  # type: ignore[index, arg-type]
        urns = Urns(vocabulary, random_rates(rng, kind))  # type: ignore[arg-type]
        for value in ["", *world(LETTERS[kind], 2)]:  # type: ignore[index]
            u = vocabulary.number(value)
            assert urns.single(u).log_marginal == pytest.approx(
                math.log(vocabulary.base[u]), abs=1e-10
            )


@given(seed=st.integers(0, 10**9))
@examples(15)
def test_all_sequences_of_n_observations_have_at_most_probability_one(seed):
    """Every multiset of the values counted, as often as there are orders of it."""
    rng = random.Random(seed)
    kind = random_kind(rng)
    letters = LETTERS[kind][:2]
    vocabulary = random_vocabulary(rng, kind, world(letters, 3))
    numbers = list(range(len(vocabulary)))
    rates = random_rates(rng, kind)
    urns = Urns(vocabulary, rates)
    base = math.fsum(vocabulary.base)
    copy, c = rates.weights()[0], rates.concentration
    unseen = 1.0
    for n in (1, 2, 3):
        # of the true value, among n
        unseen *= ((1 - copy) * c + n - 1) / (c + n - 1)
        total = math.fsum(
            math.exp(of_counts(urns, Counter(chosen)).log_marginal)
            * math.factorial(n)
            / math.prod(map(math.factorial, Counter(chosen).values()))
            for chosen in itertools.combinations_with_replacement(numbers, n)
        )
        assert total <= 1 + 1e-9
        # not much less either: the true value is among them, which the world has
        assert total >= 0.3 * base**n * (1 - unseen)
        if n == 1:
            assert total == pytest.approx(base, abs=1e-9)


def test_more_values_than_the_sum_considers():
    """Those seen most often; a value that rises among them, or falls, changes which."""
    few = {"most_true": 5, "most_kept": 6}
    rng = random.Random(2)
    vocabulary = Vocabulary("text", dict.fromkeys(world("ab", 3)[:9], 2))
    rates = AttributeRates.prior("text")
    numbers = [vocabulary.number(value) for value in world("abc", 3)[:14]]
    entered = 0
    for _ in range(12):
        urns = Urns(vocabulary, rates, **few)
        drawn = [rng.choice(numbers) for _ in range(25)]
        urn = urns.single(drawn[0])
        for k, u in enumerate(drawn[1:], 2):
            gain, before = urn.gain(u), urn
            urn = urn.grown(u)
            entered += u in urn.true and u in before.values and u not in before.true
            assert gain == pytest.approx(urn.log_marginal - before.log_marginal, abs=1e-9)
            assert urn.log_marginal == of_counts(urns, Counter(drawn[:k])).log_marginal
            assert len(urn.true) == min(5, len(urn.values))
        left = Counter(drawn)
        for u in rng.sample(drawn, 20):
            smaller = urn.shrunk(u)
            assert smaller is not None
            urn = smaller
            left -= Counter([u])
            fresh = of_counts(Urns(vocabulary, rates, **few), left)
            assert (urn.true, urn.log_marginal) == (fresh.true, fresh.log_marginal)
    assert entered > 10


def test_equal_multisets_are_one_object():
    urns = Urns(Vocabulary("text", {"a": 1, "b": 1, "c": 2}), AttributeRates.prior("text"))
    urn = grow(urns, [0, 1, 2, 1])
    assert urn is grow(urns, [1, 1, 2, 0])
    assert urn.shrunk(1) is grow(urns, [2, 0, 1])
    assert urns.single(0).shrunk(0) is None


def test_forgetting_comparisons_changes_nothing():
    vocabulary = Vocabulary("text", dict.fromkeys(world("ab", 4), 1))
    drawn = [random.Random(1).randrange(30) for _ in range(60)]
    whole = grow(Urns(vocabulary, AttributeRates.prior("text")), drawn).log_marginal
    forgetful = Urns(vocabulary, AttributeRates.prior("text"), most_pairs=3)
    assert grow(forgetful, drawn).log_marginal == whole


def test_agreeing_on_a_rare_value_counts_for_more():
    urns = Urns(Vocabulary("text", {"smith": 500, "zwicky": 2}), AttributeRates.prior("text"))
    assert urns.single(1).gain(1) - urns.single(1).log_marginal > (
        urns.single(0).gain(0) - urns.single(0).log_marginal
    )


def test_comparisons_have_the_same_bits_whichever_way_round_they_are_asked():
    """Values that share many features, in different order."""
    words = ["ada", "king", "byron", "noel", "of", "love"]
    rng = random.Random(3)
    values = {" ".join(rng.sample(words, rng.randint(3, 6))): rng.randint(1, 9) for _ in range(40)}
    vocabulary = Vocabulary("text", values)
    rates = random_rates(rng, "text")
    for u, v in itertools.combinations(range(len(vocabulary)), 2):
        one, other = Urns(vocabulary, rates), Urns(vocabulary, rates)
        first = (one.draw(u, v), one.draw(v, u))
        assert (other.draw(v, u), other.draw(u, v)) == first[::-1]


def test_which_of_many_unseen_values_are_considered_does_not_depend_on_their_numbers():
    rates = AttributeRates.prior("text")
    values = [f"name {i}" for i in range(70)]
    found = set()
    for order in (values, values[::-1], values[30:] + values[:30]):
        vocabulary = Vocabulary("text", {"name 0": 2, "else": 1})
        numbers = [vocabulary.number(value) for value in order]
        urn = grow(Urns(vocabulary, rates), numbers)
        found.add((urn.log_marginal, frozenset(vocabulary.values[v] for v in urn.true)))
    assert len(found) == 1


# The distortion models are distributions: summed over all strings of worlds small enough.


def sums(vocabulary: Vocabulary, numbers: list[int], v: int) -> list[float]:
    """Of each component, over the world."""
    parts = [components(vocabulary, u, v) for u in numbers]
    return [sum(column) for column in zip(*parts, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), strange=st.sampled_from(["", "z", "9"]))
@examples(12)
def test_every_component_sums_to_at_most_one(kind, seed, strange):
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
def test_slips_of_numbers_sum_to_at_most_one_over_a_large_alphabet(kind, true):
    vocabulary = Vocabulary(kind, {"1-2": 3, "12": 1, "21": 2})
    numbers = [vocabulary.number(value) for value in world("0123456789-,xyz", 3)]
    found = sums(vocabulary, numbers, vocabulary.number(true))
    assert all(total <= 1 + 1e-9 for total in found[: len(SLIPS)])


@given(seed=st.integers(0, 10**6), n=st.integers(1, 3))
@examples(25)
def test_slips_sum_to_nearly_one(seed, n):
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
def test_a_feature_that_others_have_sums_to_its_share(seed, kind):
    """One for each feature that another value has, divided by how many of the name there are."""
    rng = random.Random(seed)
    vocabulary = random_vocabulary(rng, kind, world(LETTERS[kind], 5))
    known = range(len(vocabulary))
    for v in known:
        found = sums(vocabulary, list(known), v)
        for index in range(len(feature_names(kind))):
            own = [f for name, f in vocabulary.features(v) if name == index]
            held = [f for f in own if any(_has(vocabulary, u, f) for u in known if u != v)]
            expected = len(held) / len(own) if own else 0.0
            assert found[len(SLIPS) + index] == pytest.approx(expected, abs=1e-9)


def _has(vocabulary: Vocabulary, u: int, feature: int) -> bool:
    return any(feature == theirs for _, theirs in vocabulary.features(u))


def test_dates_in_several_notations_share_their_parts():
    values = ["1856-03-01", "1 march 1856", "01/03/1856", "1856", "1856-03", "1901-03-01"]
    vocabulary = Vocabulary("date", dict.fromkeys(values, 1))
    names = component_names("date")
    march = dict(zip(names, components(vocabulary, 0, 1), strict=True))
    assert {name for name, p in march.items() if p} >= {"year", "year and month", "month and day"}
    assert sum(sums(vocabulary, list(range(6)), 0)[len(SLIPS) :]) <= 5 + 1e-9


def test_a_copy_is_a_copy_and_nothing_else():
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
def test_which_slip_it_is(kind, observed, true, component):
    letters = dict.fromkeys(["smith jonesy", "1856-03-07 1,234"], 1)
    vocabulary = Vocabulary(kind, letters)
    u, v = vocabulary.number(observed), vocabulary.number(true)
    found, probability = slip(vocabulary, u, v)
    assert (found if probability else None) == component
    assert 0 <= probability <= 1


def test_digits_of_other_scripts_are_digits():
    vocabulary = Vocabulary("number", {"\u0661\u0662\u0663": 2, "\u0661\u0662\u0664": 1})
    assert slip(vocabulary, 1, 0)[1] > 0


def test_a_value_outside_the_vocabulary_is_no_variant_of_a_common_feature():
    """It has no place in the normaliser; but it may be the true value of those that have."""
    vocabulary = Vocabulary("text", {"anna karenina": 1, "anna": 5})
    stranger = vocabulary.number("anna z")
    of_stranger = components(vocabulary, 1, stranger)
    assert sum(of_stranger[len(SLIPS) : -1]) > 0
    assert sum(components(vocabulary, stranger, 1)[len(SLIPS) : -1]) == 0
