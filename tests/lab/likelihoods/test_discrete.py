"""Dirichlet-multinomial and beta-Bernoulli against urns written out, and trigrams."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln, gammaln

from kbforge.contracts import Fragment
from kbforge.errors import LikelihoodError, ModelError, UsageError
from kbforge_lab.likelihoods.discrete import BetaBernoulli, DirichletMultinomial
from kbforge_lab.likelihoods.trigram import Trigram
from kbforge_lm.likelihoods.ngram import Bigram
from tests.fit.people import made
from tests.fit.test_judge import judged
from tests.lab.likelihoods.test_live import small
from tests.lm.likelihoods.test_ngram import (
    check_strings,
    check_urn,
    clusters_of_texts,
    counted,
    folder,
)
from tests.lm.training.test_ngram import check_evidence
from tests.profile import examples

__all__ = ["folder"]


@given(clusters_of_texts)
@examples(60)
def test_the_marginal_of_trigrams_is_a_polya_urn(drawn):
    check_urn(Trigram, *drawn)


def test_strings_of_trigrams_have_probability_one():
    check_strings(Trigram)


def test_models_of_another_order_are_refused(folder):
    with pytest.raises(ModelError, match="order 2, but likelihood trigram needs 3"):
        Trigram.from_bundle(folder)
    trigrams = Trigram.trained(counted(3, ["a"]), ("name",))
    with pytest.raises(ModelError, match="ngrams_0: expected numbers of type int32 in the shape"):
        trigrams.load(Bigram.from_bundle(folder).dump())


def test_trigrams_of_no_attributes():
    with pytest.raises(UsageError, match="likelihood trigram: name at least one attribute"):
        Trigram(attributes=())


def test_the_tuned_scale_of_trigrams_maximises_the_evidence(tmp_path):
    check_evidence(tmp_path, 3, Trigram)


def test_trigrams_are_judged_as_bigrams():
    assert "trigram" in {h.likelihood for h in judged(made("people"), "trigram").found}


# Dirichlet-multinomial and beta-Bernoulli against urns written out.


VALUES = st.lists(st.sampled_from(["red", "green", "blue", "Red"]), min_size=1, max_size=3)


def coloured(*values: str) -> Fragment:
    return Fragment("f", {"colour": values})


def vector(*numbers: float) -> Fragment:
    return Fragment("v", {}, tuple(map(float, numbers)))


@given(st.lists(VALUES, min_size=1, max_size=5), st.sampled_from([0.1, 1.0, 5.0]))
def test_values_are_drawn_from_a_polya_urn(cluster, concentration):
    model = DirichletMultinomial(concentration)
    model.fit([coloured("red", "green")])
    drawn: Counter[str] = Counter()
    log_p = 0.0
    for value in (v for values in cluster for v in values):
        base = 1 / 3 if value in ("red", "green") else 1 / 3 / 2**32
        numerator = drawn[value] + concentration * base
        log_p += math.log(numerator / (drawn.total() + concentration))
        drawn[value] += 1
    got = model.log_marginal([[coloured(*values) for values in cluster]])[0]
    assert got == pytest.approx(log_p, abs=1e-8)


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=4),
    st.sampled_from([0.3, 2.0]),
)
def test_count_vectors_are_draws_in_turn(cluster, concentration):
    model = DirichletMultinomial(concentration, reads="vector")
    total = np.sum(cluster, axis=0)
    a = concentration / 3
    log_p = sum(math.lgamma(n + a) - math.lgamma(a) for n in total)
    log_p -= math.lgamma(total.sum() + concentration) - math.lgamma(concentration)
    got = model.log_marginal([[vector(*counts) for counts in cluster]])[0]
    assert got == pytest.approx(log_p, abs=1e-8)


@pytest.mark.parametrize(
    ("model", "outcomes", "n"),
    [
        # all orders of three draws from two categories
        (DirichletMultinomial(0.8, reads="vector"), [(1, 0), (0, 1)], 3),
        (BetaBernoulli(0.4, 1.7, reads="vector"), list(itertools.product((0, 1), repeat=2)), 2),
    ],
)
def test_all_outcomes_have_probability_one(model, outcomes, n):
    clusters = [[vector(*x) for x in drawn] for drawn in itertools.product(outcomes, repeat=n)]
    assert np.exp(model.log_marginal(clusters)).sum() == pytest.approx(1.0, abs=1e-8)


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from([(0.1, 1.0), (2.0, 0.5)]),
)
@examples(40)
def test_bernoulli_marginal(cluster, prior):
    a, b = prior
    model = BetaBernoulli(a, b, reads="vector")
    n, shown = len(cluster), np.sum(cluster, axis=0)
    expected = float((betaln(shown + a, n - shown + b) - betaln(a, b)).sum())
    fragments = [vector(*bits) for bits in cluster]
    assert model.log_marginal([fragments])[0] == pytest.approx(expected, rel=1e-12)


def test_bernoulli_ignores_values_nobody_fitted_and_repeats():
    model = BetaBernoulli()
    says = model.fit([coloured("red", "green")])
    assert says == "beta-bernoulli: fitted to the 2 different values of the input"
    plain, more = model.log_marginal([[coloured("red")], [coloured("red", "red", "mauve")]])
    assert plain == more


def test_absence_is_evidence():
    model = BetaBernoulli(reads="vector")
    full, empty = vector(1, 1, 1, 1), vector(0, 0, 0, 0)
    same, mixed = model.log_marginal([[full, full], [full, empty]])
    assert same > mixed


TWO = "vector of 3 numbers, expected 2"


@pytest.mark.parametrize(
    ("model", "fragments", "says"),
    [
        *(
            (DirichletMultinomial, [vector(*numbers)], 'fragment "v" has .* expected counts')
            for numbers in ((0.5, 1.0), (-1.0, 0.0), (1e12, 0.0))
        ),
        (DirichletMultinomial, [vector(2**31 - 1, 1)], "add up to 2,147,483,648, expected at most"),
        (DirichletMultinomial, [vector(0, 1), vector(0, 1, 1)], TWO),
        (BetaBernoulli, [vector(0, 1), vector(0, 1, 1)], TWO),
        (BetaBernoulli, [vector(0, 2)], '"v" has 2 in its vector, expected zeros and ones'),
        (BetaBernoulli, [coloured("red")], '"f" has no vector, which the beta-bernoulli'),
    ],
)
def test_vectors_that_cannot_be_read(model, fragments, says):
    likelihood = model(reads="vector")
    with pytest.raises(LikelihoodError, match=says):
        likelihood.log_marginal([fragments])
    table = likelihood.live_clusters()
    with pytest.raises(LikelihoodError, match=says):
        list(map(table.encode, fragments))


def test_a_cluster_counts_beyond_32_bits():
    model, fragment = DirichletMultinomial(reads="vector"), vector(2**31 - 1, 0)
    table = small(model)
    x = table.encode(fragment)
    table.extend(x, np.array([-1]), np.array([0]))
    for n in range(1, 8):  # rows turn dense on the way
        table.extend(x, np.array([n - 1]), np.array([n]))
        whole, more = model.log_marginal([[fragment] * (n + 1), [fragment] * (n + 2)])
        assert table.log_predictive(x, n + 1)[n] == pytest.approx(more - whole, abs=1e-4)


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_parameters_out_of_range(value):
    with pytest.raises(UsageError, match="concentration must be positive"):
        DirichletMultinomial(concentration=value)
    with pytest.raises(UsageError, match="b must be positive"):
        BetaBernoulli(b=value)


def test_texts_are_bags_of_their_words():
    """Marks, case and the order of words do not count; a value more does, by its words."""
    text = Fragment("t", {"text": ("The tide, the Harbour!", "tide"), "note": ("...",)})
    bag = Fragment("b", {"text": ("the", "tide", "the", "harbour", "tide")})
    by_words, by_values = DirichletMultinomial(reads="words"), DirichletMultinomial()
    by_words.fit([text])
    by_values.fit([bag])
    assert by_words.log_marginal([[text]]) == pytest.approx(by_values.log_marginal([[bag]]))
    assert by_words.log_marginal([[text]]) == by_words.log_marginal([[bag]])


def test_a_family_scores_as_the_likelihood_does():
    """Up to a constant for every fragment, which is 0 here."""
    fragments = [coloured("red", "red"), coloured("green"), Fragment("n", {"size": ("1",)})]
    model = DirichletMultinomial(2.0)
    model.fit(fragments)
    told = model.exponential_family(fragments)
    counts = np.zeros(len(told.signs))
    np.add.at(counts, told.rows, told.counts)
    terms = gammaln(counts + told.pseudo_counts) - gammaln(told.pseudo_counts)
    assert (told.signs * terms).sum() == pytest.approx(model.log_marginal([fragments])[0])
