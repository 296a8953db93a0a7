"""A vocabulary that was taken up says what the one does that kept it, to the last bit."""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment, LearnedState
from kbforge.errors import ModelError
from kbforge.testing.likelihood import same, stored
from kbforge.texts.kinds import KINDS, Kind, feature_names, features_of
from kbforge.texts.statements import StatedValues
from kbforge_plugins.likelihoods.attributes.fitting import (
    discounted,
    keys_shared,
    vocabularies_of,
)
from kbforge_plugins.likelihoods.attributes.urn import (
    SLIPS,
    AttributeRates,
)
from kbforge_plugins.likelihoods.attributes.vocabulary import RETENTIONS, Encoder, Vocabulary
from tests.likelihoods.attributes.components import components, words_kept
from tests.likelihoods.attributes.toys import LETTERS, random_rates, random_vocabulary, world
from tests.likelihoods.attributes.urns import Urns
from tests.profile import examples

MANY = [" ".join(w) for n in (1, 2, 3) for w in itertools.permutations(["ab", "b2", "c", "dd"], n)]


def of_words(rng: random.Random, kind: Kind) -> tuple[Vocabulary, list[str]]:
    """A vocabulary of some of the values, and all of them."""
    values = [*MANY, *world(LETTERS[kind], 3)]
    seen = rng.sample(values, rng.randint(0, 40))
    return Vocabulary(kind, {value: rng.choice([0.02, 1, 2.5, 7]) for value in seen}), values


def loaded(vocabulary: Vocabulary) -> Vocabulary:
    return Vocabulary.load(vocabulary.kind, stored(vocabulary.dump()), "a test")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6))
@examples(25)
def test_values_have_the_same_probabilities_whoever_was_asked_for_before(kind, seed):
    rng = random.Random(seed)
    one, values = of_words(rng, kind)
    other, rates = loaded(one), random_rates(rng, kind)
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
def test_what_is_kept_is_of_the_values_counted(kind):
    rng = random.Random(3)
    vocabulary, values = of_words(rng, kind)
    before = stored(vocabulary.dump())
    other = loaded(vocabulary)
    for value in values:
        vocabulary.number(value)
        other.number(value)
    assert same(vocabulary.dump(), before)
    assert same(other.dump(), before)
    again = loaded(other)
    assert [again.base[again.number(v)] for v in values] == [
        vocabulary.base[vocabulary.number(v)] for v in values
    ]


@pytest.mark.parametrize("kind", ["text", "title"])
def test_the_same_values_counted_otherwise_are_as_if_counted_anew(kind):
    rng = random.Random(5)
    vocabulary, values = of_words(rng, kind)
    counts = {value: rng.choice([1.0, 3.5]) for value in vocabulary.counts}
    for value in values:
        vocabulary.number(value)  # what was met later is not counted
    one = vocabulary.recounted(np.array([*counts.values()]))
    other = Vocabulary(kind, counts)
    assert (one.counts, one.base, [*one.values], one.mass) == (
        other.counts,
        other.base,
        [*other.values],
        other.mass,
    )
    assert same(one.dump(), other.dump())


@pytest.mark.parametrize("value", ["\ud800 lone", "x" * 400, "東京", "a\0b", ""])
def test_any_text_is_kept(value):
    vocabulary = Vocabulary("text", {value: 2, "ann": 1})
    other = loaded(vocabulary)
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
def test_arrays_that_do_not_fit_each_other_are_refused(name, spoilt):
    kept = Vocabulary("title", dict.fromkeys(MANY, 1)).dump()
    arrays = {**kept.arrays, name: spoilt(kept.arrays[name])}
    with pytest.raises(ModelError, match=f"^a test: the saved state is damaged: {name}: expected"):
        Vocabulary.load("title", LearnedState(kept.values, arrays), "a test")


# Base probabilities: a distribution over all strings.


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6))
@examples(10)
def test_base_of_the_values_counted_sums_to_at_most_one(kind, seed):
    vocabulary = random_vocabulary(random.Random(seed), kind, world(LETTERS[kind], 3))
    assert 0.1 < math.fsum(vocabulary.base) <= 1 + 1e-9


@given(counts=st.dictionaries(st.text("ab", max_size=4), st.integers(1, 9), max_size=6))
@examples(60)
def test_what_the_values_counted_leave_is_what_spells_others(counts):
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


def test_the_same_values_in_another_order_are_the_same_vocabulary():
    counts = {"b": 2, "a b": 1, "c": 5}
    one, two = Vocabulary("text", counts), Vocabulary("text", dict(reversed(counts.items())))
    assert ([*one.values], one.base, one.mass) == ([*two.values], two.base, two.mass)
    assert [*map(one.features, range(3))] == [*map(two.features, range(3))]


def test_values_that_come_later_change_nothing():
    vocabulary = Vocabulary("text", {"ann lee": 2, "bo": 1})
    base, mass, letters = vocabulary.base[:], vocabulary.mass[:], vocabulary.alphabet
    late = vocabulary.number("ann zöe")
    assert late == 2
    assert vocabulary.number("ann zöe") == late
    assert not vocabulary.counted(late)
    assert vocabulary.base[:2] == base
    assert vocabulary.mass[: len(mass)] == mass
    assert vocabulary.alphabet == letters
    assert all(vocabulary.mass[feature] >= 0 for _, feature in vocabulary.features(late))


def test_a_frequent_value_is_more_probable_than_a_rare_one_than_an_unseen_one():
    vocabulary = Vocabulary("text", {"anna": 50, "anne": 1, "bert": 3})
    base = {value: vocabulary.base[vocabulary.number(value)] for value in ("anna", "anne", "ante")}
    assert base["anna"] > base["anne"] > base["ante"] > 0


def test_a_value_never_seen_counts_as_one_seen_once_however_it_is_spelled():
    vocabulary = Vocabulary("text", {"anna": 50, "anne": 1, "bert": 3})
    base = [vocabulary.base[vocabulary.number(value)] for value in ("an", "zażółć", "x" * 400)]
    assert base == [pytest.approx(0.4 / 55)] * 3


@pytest.mark.parametrize("value", ["x" * 400, "\U0001f9ed" * 400, "東京" * 200])
def test_a_value_as_long_as_a_page_is_possible(value):
    vocabulary = Vocabulary("text", {"ann": 1, value: 1})
    assert 0.1 < vocabulary.base[vocabulary.number(value)] < 0.2


def test_no_values_at_all():
    vocabulary = Vocabulary("text", {})
    assert all(0 < vocabulary.base[vocabulary.number(value)] < 1 for value in ("", "a", "ab"))


# Variants of titles: by words together, as a probability, and whichever way a code is written.


WORDS = ["red", "green", "blue", "x1", "x2"]
ALL = [" ".join(w) for n in range(1, 6) for w in itertools.combinations(WORDS, n)]


@pytest.mark.parametrize("true", [ALL[0], ALL[7], ALL[-1], "red yellow", "x1 x9 9"])
def test_each_retention_sums_to_at_most_one_and_to_no_less_than_it_should(true):
    """Over all sets of words, any of which may be seen with any count."""
    vocabulary = Vocabulary("title", {title: 1.0 + n % 3 for n, title in enumerate(ALL)})
    v = vocabulary.number(true)
    rows = [components(vocabulary, u, v)[len(SLIPS) : -1] for u in range(len(ALL))]
    for total in map(sum, zip(*rows, strict=True)):
        assert 0.005 < total <= 1 + 1e-9


def test_the_formula_of_the_docstring():
    vocabulary = Vocabulary("title", {"red x1 big": 1, "red x1 small": 1, "red pen": 1, "ink": 5})
    u, v = vocabulary.number("red x1 small"), vocabulary.number("red x1 big")
    base = vocabulary.base
    # of the texts with red and x1, other than v, there is but u
    expected = [r * (1 - r) * d / base[u] for _, r, d in RETENTIONS]
    assert words_kept(vocabulary, u, v) == pytest.approx(expected)
    pen = vocabulary.number("red pen")
    rest = base[u] + base[pen]
    expected = [r * (1 - r) * (1 - d) / rest for _, r, d in RETENTIONS]
    assert words_kept(vocabulary, pen, v) == pytest.approx(expected)
    assert words_kept(vocabulary, vocabulary.number("ink"), v) == (0.0,) * len(RETENTIONS)


def test_words_that_come_in_company_are_not_evidence_each():
    """Two titles with three words that always go together, and two with three that do not."""
    line = [f"acme turbo mixer m{i}" for i in range(30)]
    others = [f"{w} thing{i}" for i in range(10) for w in ("light", "fast", "green")]
    pair = ["light fast green n1", "light fast green n2"]
    vocabulary = Vocabulary("title", dict.fromkeys([*line, *others, *pair], 1))
    urns = Urns(vocabulary, AttributeRates.prior("title"))

    def evidence(one: str, other: str) -> float:
        first, second = urns.single(vocabulary.number(one)), vocabulary.number(other)
        return first.gain(second) - urns.single(second).log_marginal

    assert evidence(*pair) > evidence(line[0], line[1]) + 2


@pytest.mark.parametrize("spelled", ["router wrt-54g", "router wrt54g", "router wrt.54.g new"])
def test_a_code_is_a_word_whichever_way_it_is_written(spelled):
    assert "wrt54g" in features_of("title", spelled)["word"]
    assert "lapdesktop" not in features_of("title", "lap/desktop oem")["word"]


# What an agreement is worth where other attributes agree already.


BRANDS = ["acme", "bolt", "crux", "dyna", "etna", "fuji", "gorr", "hale", "iota", "jive"] * 4


def things(seed: int, records: int, tells: bool) -> tuple[list[Fragment], list[tuple[int, ...]]]:
    """Things of which a line may tell the maker; each line has five, each thing so many records."""
    rng = random.Random(seed)
    fragments: list[Fragment] = []
    clusters = []
    for thing in range(300):
        line = f"line{thing // 5 if tells else rng.randrange(60):02}"
        maker = f"{BRANDS[thing // 5 % 40]} {thing // 50}" if tells else f"maker{rng.randrange(60)}"
        said = {"line": (line,), "maker": (maker,), "model": (f"{rng.randrange(10**6)}x",)}
        clusters.append(tuple(range(len(fragments), len(fragments) + records)))
        fragments += [Fragment(f"{thing}-{k}", said) for k in range(records)]
    return fragments, clusters


def found_for(fragments: list[Fragment], clusters: list[tuple[int, ...]]) -> dict[str, float]:
    vocabularies = vocabularies_of(StatedValues.of(fragments))
    encoder = Encoder(vocabularies)
    records = encoder.encode_all(fragments)
    rates = {name: AttributeRates.prior(v.kind) for name, v in vocabularies.items()}
    sharing = keys_shared([*vocabularies.values()], records)
    made = discounted(vocabularies, rates, records, clusters, sharing)
    found = [one.discount for one in made.values()]
    return dict(zip(vocabularies, found, strict=True))


def test_an_attribute_that_another_tells_is_discounted():
    dependent = found_for(*things(1, 1, tells=True))
    assert dependent["maker"] < 0.5
    assert dependent["model"] == 1
    independent = found_for(*things(1, 1, tells=False))
    assert independent["maker"] > 0.9


def test_entities_that_were_split_are_hardly_taken_for_dependence():
    """The same records, whole or in single pieces: all attributes agree, and not some of them."""
    fragments, clusters = things(2, 2, tells=False)
    whole = found_for(fragments, clusters)
    split = found_for(fragments, [(i,) for cluster in clusters for i in cluster])
    assert min(whole.values()) > 0.9
    # where attributes do tell each other, a tenth is left
    assert min(split.values()) > 0.4
    dependent = found_for(*things(2, 1, tells=True))
    assert max(dependent["line"], dependent["maker"]) < 0.2


def test_one_attribute_has_nothing_to_depend_on():
    fragments = [Fragment(str(i), {"name": (f"name {i // 2}",)}) for i in range(200)]
    assert found_for(fragments, [(i,) for i in range(200)]) == {"name": 1.0}


@pytest.mark.parametrize("kind", ["text", "title", "category"])
def test_a_discount_takes_its_share_of_what_agreement_is_worth(kind):
    vocabulary = Vocabulary(kind, {"a b c d e": 2, "f g": 30, "h": 8})  # type: ignore[arg-type]
    rates = AttributeRates.prior(kind)  # type: ignore[arg-type]

    def worth(discount: float) -> float:
        urn = Urns(vocabulary, replace(rates, discount=discount)).single(0)
        return urn.gain(0) - urn.log_marginal

    assert worth(1.0) > 2
    assert 0 < worth(0.5) < 0.6 * worth(1.0)
    # what disagreement costs stays
    for discount in (1.0, 0.5):
        urns = Urns(vocabulary, replace(rates, discount=discount))
        assert urns.single(1).gain(2) - urns.single(2).log_marginal < -1


@pytest.mark.parametrize("kind", KINDS)
def test_bases_masses_and_features_are_those_of_the_definition(kind: Kind):
    rng = random.Random(11)
    vocabulary, values = of_words(rng, kind)
    counts = vocabulary.counts
    letters = Counter(letter for value in counts for letter in value)
    total = sum(letters.values()) + len(counts) + 1
    held = math.fsum(min(n, 1) * 0.6 for n in counts.values())
    of_feature: dict[tuple[str, str], float] = {}
    for u, (value, n) in enumerate(counts.items()):
        spelled = 0.0
        for letter in value:
            spelled += math.log(letters[letter] / total)
        spelling = math.exp(max(spelled + math.log(len(counts) / total), -700.0))
        observed = sum(counts.values()) + 1
        base = (n - min(n, 1) * 0.6) / observed + (held + 1) / observed * spelling
        assert vocabulary.base[u] == base
        for name, keys in features_of(kind, value).items():
            for key in keys:
                of_feature[name, key] = of_feature.get((name, key), 0.0) + base
    numbers = [vocabulary.number(value) for value in values]
    rows = vocabulary.rows(numbers)
    names, mass = feature_names(kind), [vocabulary.mass[f] for f in rows.features.tolist()]
    told = iter(zip(rows.names.tolist(), rows.features.tolist(), mass, strict=True))
    number_of: dict[tuple[str, str], int] = {}
    for number, value in zip(numbers, values, strict=True):
        of_value = []
        for name, keys in features_of(kind, value).items():
            for key in keys:
                of_name, feature, has = next(told)
                of_value.append((of_name, feature))
                assert (names[of_name], has) == (name, of_feature.get((name, key), 0.0))
                assert number_of.setdefault((name, key), feature) == feature
        assert vocabulary.features(number) == tuple(of_value)
    assert next(told, None) is None
    assert len(set(number_of.values())) == len(number_of)
