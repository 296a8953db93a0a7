"""The n-gram likelihoods against a Polya urn written out, and as probabilities."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import ModelError, UsageError
from kbforge.models.bundle import Bundle, write_bundle
from kbforge.testing.likelihood import stored
from kbforge.texts import END, START, normalised
from kbforge_lm.likelihoods.ngram import (
    COUNTS_FILE,
    Bigram,
    NgramCounts,
    NgramLikelihood,
    NgramPrior,
    ngrams,
)
from tests.profile import examples


def named(*values: str, attribute: str = "name") -> Fragment:
    return Fragment("f", {attribute: values} if values else {})


def counted(order: int, texts: list[str], attribute: str = "name") -> NgramCounts:
    counts = NgramCounts.empty(order, (attribute,))
    for text in texts:
        counts.add([named(text, attribute=attribute)])
    return counts


def urn(model: NgramLikelihood, prior: NgramPrior, values: list[tuple[str, str]]) -> float:
    """log probability of (attribute, value)s in order, character after character."""
    drawn: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    log_p = 0.0
    for attribute, value in values:
        text = START * (model.order - 1) + normalised(value) + END
        for i in range(model.order - 1, len(text)):
            history, gram = text[i - model.order + 1 : i], text[i - model.order + 1 : i + 1]
            p = prior.probability(attribute, gram)
            seen, of = drawn[attribute, gram], total[attribute, history]
            log_p += math.log((seen + model.scale * p) / (of + model.scale))
            drawn[attribute, gram] += 1
            total[attribute, history] += 1
    return log_p


TEXTS = st.text(st.sampled_from("abAB -éж東"), max_size=8)


# what is trained, a cluster of names, and a scale
clusters_of_texts = st.tuples(
    st.lists(TEXTS, max_size=4),
    st.lists(st.lists(TEXTS, min_size=1, max_size=2), min_size=1, max_size=4),
    st.sampled_from([0.01, 0.4, 7.0]),
)


@given(clusters_of_texts)
@examples(60)
def test_the_marginal_is_a_polya_urn(drawn):
    check_urn(Bigram, *drawn)


def check_urn(
    plugin: type[NgramLikelihood], trained: list[str], cluster: list[list[str]], scale: float
) -> None:
    counts = counted(plugin.order, trained)
    model = plugin.trained(counts, ("name",), scale)
    fragments = [named(*values) for values in cluster]
    flat = [("name", value) for values in cluster for value in values]
    expected = urn(model, NgramPrior(counts), flat)
    assert model.log_marginal([fragments])[0] == pytest.approx(expected, abs=1e-8)


def test_histories_of_more_than_the_tabulated_counts():
    counts = counted(2, ["aab"])
    model = Bigram.trained(counts, ("name",), 0.5)
    values = ["a" * 150, "ab" * 40]
    expected = urn(model, NgramPrior(counts), [("name", v) for v in values])
    assert model.log_marginal([[named(*values)]])[0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_characters_after_a_history_have_probability_one(order):
    """With an alphabet of a, b and the end: the sum over it, for seen and unseen histories."""
    prior = NgramPrior(counted(order, ["ab", "aab", ""]), alphabet=3)
    for history in itertools.product(f"{START}ab", repeat=order - 1):
        total = sum(prior.probability("name", "".join(history) + c) for c in f"ab{END}")
        assert total == pytest.approx(1.0, abs=1e-12)


def test_unseen_characters_share_what_is_left():
    prior = NgramPrior(counted(2, ["ab"]))
    known = sum(prior.probability("name", f"a{c}") for c in f"ab{END}")
    unseen = prior.probability("name", "aж")
    assert unseen > 0
    assert known + (prior.alphabet - 3) * unseen == pytest.approx(1.0, abs=1e-9)
    assert prior.probability("other attribute", "ab") == 1 / prior.alphabet


def test_strings_have_probability_one():
    check_strings(Bigram)


def check_strings(plugin: type[NgramLikelihood]) -> None:
    """Over a, b and the end: strings up to length n, and the mass that is still going on."""
    longest = 7
    counts = counted(plugin.order, ["ab", "b"])
    rows = plugin.trained(counts, ("name",), 0.7)
    rows.rows._prior.alphabet = 3  # type: ignore[attr-defined]
    prior = NgramPrior(counts, alphabet=3)

    def finished(length: int) -> float:
        texts = ["".join(t) for t in itertools.product("ab", repeat=length)]
        return float(np.exp(rows.log_marginal([[named(t or "!")] for t in texts])).sum())

    def going_on(length: int) -> float:
        texts = ("".join(t) for t in itertools.product("ab", repeat=length))
        return sum(math.exp(_unfinished(rows, prior, text)) for text in texts)

    total = sum(finished(length) for length in range(longest)) + going_on(longest)
    assert total == pytest.approx(1.0, abs=1e-7)


def _unfinished(model: NgramLikelihood, prior: NgramPrior, text: str) -> float:
    """log probability that a string begins with `text`."""
    whole = urn(model, prior, [("name", text)])
    last = (START * model.order + text)[-(model.order - 1) :]
    of = sum(
        1
        for i in range(len(text))
        if (START * model.order + text[:i])[-(model.order - 1) :] == last
    )
    p_end = model.scale * prior.probability("name", last + END) / (of + model.scale)
    return whole - math.log(p_end)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=2), max_size=6), st.randoms())
def test_exchangeable_to_the_last_bit(cluster, random):
    model = Bigram()
    fragments = [named(*values) for values in cluster]
    model.fit(fragments)
    before = model.log_marginal([fragments])[0]
    random.shuffle(fragments)  # type: ignore[attr-defined]
    assert model.log_marginal([fragments])[0] == before


def test_attributes_are_independent_and_missing_ones_count_nothing():
    model = Bigram(attributes=("name", "town"))
    both = Fragment("f", {"name": ("ab",), "town": ("ab",), "colour": ("red",)})
    apart = [Fragment("f", {"name": ("ab",)}), Fragment("g", {"town": ("ab",)})]
    model.fit([both])
    joint, split, alone, nothing = model.log_marginal(
        [[both], apart, [apart[0]], [Fragment("h", {"colour": ("red",)})]]
    )
    assert joint == split == 2 * alone
    assert nothing == 0.0


def test_related_names_attract_and_others_do_not():
    fragments = [named(n) for n in ("Jonathan Smithers", "J. Smithers", "Maria Kowalska")]
    model = Bigram()
    model.fit(fragments)
    smith, short, other = fragments
    together, apart, wrong, a, b, c = model.log_marginal(
        [[smith, short], [smith, other], [short, other], [smith], [short], [other]]
    )
    assert together - a - b > 2
    assert apart - a - c < 0
    assert wrong - b - c < 0


def test_fit_says_what_it_did_and_counts_each_value_once():
    model = Bigram()
    says = model.fit([named("Ann"), named("ann"), named("Bob")])
    assert says is not None
    assert "fitted to the 2 different values of name" in says
    once = Bigram()
    once.fit([named("Ann"), named("Bob")])
    clusters = [[named("Anna"), named("Bo")]]
    assert model.log_marginal(clusters) == once.log_marginal(clusters)


def test_a_model_of_attributes_that_no_fragment_has_is_refused():
    others = [Fragment("a", {"title": ("Ann",)}), Fragment("b", {"brand": ("Bob",), "name": ()})]
    with pytest.raises(
        UsageError, match="reads name, of which no fragment has a value; they have "
    ):
        Bigram().fit(others)
    with pytest.raises(UsageError, match="they have no attributes"):
        Bigram().fit([Fragment("a", {}, (1.0, 2.0))])
    assert Bigram(attributes=("name", "title")).fit(others) is not None


def test_trained_models_are_not_refitted():
    model = Bigram.trained(counted(2, ["abc"]), ("name",))
    before = model.log_marginal([[named("abd")]])[0]
    assert model.fit([named("zzz")]) is None
    assert model.log_marginal([[named("abd")]])[0] == before


@pytest.fixture
def folder(tmp_path):
    counts = NgramCounts.empty(2, ("name", "alias"))
    counts.add([Fragment("f", {"name": ("Ann", "Łódź"), "alias": ("A",)})])
    files = {COUNTS_FILE: counts.to_bytes()}
    write_bundle(tmp_path / "m", Bundle("likelihoods", "bigram", files, {"scale": 2.5}, {}))
    return tmp_path / "m"


def test_bundle_round_trip(folder):
    model = Bigram.from_bundle(folder)
    assert (model.attributes, model.scale) == (("alias", "name"), 2.5)
    assert model.fit([named("x")]) is None
    counts = NgramCounts.empty(2, ("name", "alias"))
    counts.add([Fragment("f", {"name": ("Ann", "Łódź"), "alias": ("A",)})])
    same = Bigram.trained(counts, ("name", "alias"), 2.5)
    clusters = [[named("Anna Ł")], [named("A", attribute="alias")]]
    assert model.log_marginal(clusters).tolist() == same.log_marginal(clusters).tolist()
    chosen = Bigram.from_bundle(folder, attributes=("alias",), scale=1.0)
    assert (chosen.attributes, chosen.scale) == (("alias",), 1.0)


def test_trained_counts_are_kept_with_the_scale_that_they_came_with(folder):
    model, other = Bigram.from_bundle(folder), Bigram.from_bundle(folder, scale=9.0)
    other.load(stored(model.dump()))
    assert (other.scale, other.fit([named("zzz")])) == (2.5, None)
    clusters = [[named("Anna Ł")], [named("A", attribute="alias"), named("Łódź")]]
    assert other.log_marginal(clusters).tolist() == model.log_marginal(clusters).tolist()
    with pytest.raises(ModelError, match="trained: expected False, got True"):
        Bigram(("name", "alias")).load(model.dump())
    with pytest.raises(ModelError, match="attributes: expected town"):
        Bigram.trained(counted(2, ["a"]), ("town",)).load(model.dump())


def test_bundles_that_do_not_fit(folder):
    with pytest.raises(ModelError, match='not trained on the attribute "town"; it has alias, name'):
        Bigram.from_bundle(folder, attributes=("town",))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"order": 2}', "should hold an order and counts"),
        (b"[]", "should hold an order and counts"),
        (b'{"order": "2", "counts": {}}', "expected an order from 1 to 9"),
        (b'{"order": 2, "counts": []}', "expected counts by attribute"),
        (b'{"order": 2, "counts": {"name": 3}}', "name: expected counts of n-grams"),
        (b'{"order": 2, "counts": {"name": {"ab": 0}}}', 'got 0 of "ab"'),
        (b'{"order": 2, "counts": {"name": {"ab": -1}}}', "a positive count"),
        (b'{"order": 2, "counts": {"name": {"ab": 1e999}}}', ""),
        (b'{"order": 2, "counts": {"name": {"ab": 1.5}}}', 'got 1.5 of "ab"'),
        (b'{"order": 2, "counts": {"name": {"abc": 1}}}', 'got 1 of "abc"'),
    ],
)
def test_counts_are_read_strictly(content, says):
    with pytest.raises(ModelError, match="model: ") as caught:
        NgramCounts.from_bytes(content, "model")
    assert says in str(caught.value)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e9, float("nan")])
def test_scale_out_of_range(scale):
    with pytest.raises(UsageError, match="likelihood bigram: scale must be above 0"):
        Bigram(scale=scale)


def test_no_attributes():
    with pytest.raises(UsageError, match="likelihood bigram: name at least one attribute"):
        Bigram(attributes=())


@pytest.mark.parametrize("scale", ['"2"', "0", "true", "-1", "1e9"])
def test_a_bundle_with_a_bad_scale(folder, scale):
    import orjson

    recipe = {"scale": orjson.loads(scale)}
    files = {COUNTS_FILE: counted(2, ["a"]).to_bytes()}
    write_bundle(folder, Bundle("likelihoods", "bigram", files, recipe, {}))
    with pytest.raises(ModelError, match="its recipe has the scale"):
        Bigram.from_bundle(folder)


# What the n-gram models see of a text.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Ada  Lovelace ", "ada lovelace"),
        ("Łódź", "łodz"),  # the stroke is part of the letter, the accents are not
        ("STRASSE Straße", "strasse strasse"),
        ("O'Brien (Jr.)", "obrien jr"),
        ("Anne-Marie Anne–Marie", "anne-marie anne-marie"),
        ("ﬁne №7 ²", "fine no7 2"),
        ("東京 Αθήνα", "東京 αθηνα"),
        ("कि", "कि"),  # a vowel sign is no accent
        ("a\tb\u00a0c\u2003d\ne", "a b c d e"),
        ("İstanbul", "istanbul"),
        ("!?", ""),
        (f"{START}x{END}\x00", "x"),
    ],
)
def test_normalised(value, expected):
    assert normalised(value) == expected


@given(st.text(max_size=40))
def test_normalising_twice_changes_nothing_and_keeps_no_symbol_of_the_model(value):
    once = normalised(value)
    assert normalised(once) == once
    assert START not in once
    assert END not in once


@given(st.text(st.characters(max_codepoint=127), max_size=40))
def test_the_short_way_for_ascii_is_the_general_way(value):
    # one character beyond ASCII that vanishes sends the text the long way
    assert normalised(value) == normalised(value + "\u0301")


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@given(value=st.text(max_size=20))
def test_one_ngram_a_character_and_one_for_the_end(order, value):
    counts = ngrams(value, order)
    assert sum(counts.values()) == len(normalised(value)) + 1
    assert all(len(gram) == order for gram in counts)
    assert sum(n for gram, n in counts.items() if gram[-1] == END) == 1
    assert not any(gram[-1] == START for gram in counts)


def test_many_values_are_compared_by_the_attributes_that_are_read():
    assert Bigram(("name", "born")).index_of_many().attributes == ("born", "name")
