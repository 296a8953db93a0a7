"""Dirichlet-multinomial and beta-Bernoulli against urns written out."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln, gammaln

from kbforge.contracts import Fragment
from kbforge.errors import LikelihoodError, UsageError
from kbforge_plugins.likelihoods.beta_bernoulli import BetaBernoulli
from kbforge_plugins.likelihoods.dirichlet_multinomial import DirichletMultinomial
from tests.profile import examples

VALUES = st.lists(st.sampled_from(["red", "green", "blue", "Red"]), min_size=1, max_size=3)


def coloured(*values: str) -> Fragment:
    return Fragment("f", {"colour": values})


def vector(*numbers: float) -> Fragment:
    return Fragment("v", {}, tuple(map(float, numbers)))


@given(st.lists(VALUES, min_size=1, max_size=5), st.sampled_from([0.1, 1.0, 5.0]))
def test_values_are_drawn_from_a_polya_urn(cluster: list[list[str]], concentration: float) -> None:
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
def test_count_vectors_are_draws_in_turn(cluster: list[list[int]], concentration: float) -> None:
    model = DirichletMultinomial(concentration, reads="vector")
    total = np.sum(cluster, axis=0)
    a = concentration / 3
    log_p = sum(math.lgamma(n + a) - math.lgamma(a) for n in total)
    log_p -= math.lgamma(total.sum() + concentration) - math.lgamma(concentration)
    got = model.log_marginal([[vector(*counts) for counts in cluster]])[0]
    assert got == pytest.approx(log_p, abs=1e-8)


def test_two_categories_are_normalised() -> None:
    model = DirichletMultinomial(0.8, reads="vector")
    # all orders of three draws from two categories
    draws = [[(1, 0), (0, 1)][bit] for bit in (0, 1)]
    clusters = [
        [vector(*draws[a]), vector(*draws[b]), vector(*draws[c])]
        for a in (0, 1)
        for b in (0, 1)
        for c in (0, 1)
    ]
    assert np.exp(model.log_marginal(clusters)).sum() == pytest.approx(1.0, abs=1e-8)


def test_bernoulli_features_are_normalised() -> None:
    model = BetaBernoulli(a=0.4, b=1.7, reads="vector")
    options = [(i, j) for i in (0, 1) for j in (0, 1)]
    pairs = [[vector(*x), vector(*y)] for x in options for y in options]
    assert np.exp(model.log_marginal(pairs)).sum() == pytest.approx(1.0, rel=1e-12)


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from([(0.1, 1.0), (2.0, 0.5)]),
)
@examples(40)
def test_bernoulli_marginal_and_predictives(
    cluster: list[list[int]], prior: tuple[float, float]
) -> None:
    a, b = prior
    model = BetaBernoulli(a, b, reads="vector")
    n, shown = len(cluster), np.sum(cluster, axis=0)
    expected = float((betaln(shown + a, n - shown + b) - betaln(a, b)).sum())
    fragments = [vector(*bits) for bits in cluster]
    assert model.log_marginal([fragments])[0] == pytest.approx(expected, rel=1e-12)
    table, total, slot = model.live_clusters(), 0.0, -1
    for fragment in fragments:
        x = table.encode(fragment)
        new = slot < 0
        total += table.log_predictive_new(x) if new else table.log_predictive(x, slot + 1)[slot]
        table.extend(x, np.array([slot]), np.array([slot + 1]))
        slot += 1
    assert total == pytest.approx(expected, rel=1e-10)


def test_bernoulli_ignores_values_nobody_fitted_and_repeats() -> None:
    model = BetaBernoulli()
    says = model.fit([coloured("red", "green")])
    assert says == "beta-bernoulli: fitted to the 2 different values of the input"
    plain, more = model.log_marginal([[coloured("red")], [coloured("red", "red", "mauve")]])
    assert plain == more


def test_absence_is_evidence() -> None:
    model = BetaBernoulli(reads="vector")
    full, empty = vector(1, 1, 1, 1), vector(0, 0, 0, 0)
    same, mixed = model.log_marginal([[full, full], [full, empty]])
    assert same > mixed


@pytest.mark.parametrize("numbers", [(0.5, 1.0), (-1.0, 0.0), (1e12, 0.0)])
def test_vectors_that_are_not_counts(numbers: tuple[float, ...]) -> None:
    model = DirichletMultinomial(reads="vector")
    with pytest.raises(LikelihoodError, match=r'fragment "v" has .* expected counts'):
        model.log_marginal([[vector(*numbers)]])


def test_vectors_that_are_not_bits() -> None:
    model = BetaBernoulli(reads="vector")
    with pytest.raises(LikelihoodError, match=r'"v" has 2 in its vector, expected zeros and ones'):
        model.live_clusters().encode(vector(0, 2))
    with pytest.raises(LikelihoodError, match='"f" has no vector, which the beta-bernoulli'):
        model.live_clusters().encode(coloured("red"))


@pytest.mark.parametrize("model", [DirichletMultinomial, BetaBernoulli])
def test_vectors_of_two_lengths(model: type[DirichletMultinomial] | type[BetaBernoulli]) -> None:
    with pytest.raises(LikelihoodError, match="vector of 3 numbers, expected 2"):
        model(reads="vector").log_marginal([[vector(0, 1), vector(0, 1, 1)]])


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_parameters_out_of_range(value: float) -> None:
    with pytest.raises(UsageError, match="concentration must be positive"):
        DirichletMultinomial(concentration=value)
    with pytest.raises(UsageError, match="b must be positive"):
        BetaBernoulli(b=value)


def test_texts_are_bags_of_their_words() -> None:
    """Marks, case and the order of words do not count; a value more does, by its words."""
    text = Fragment("t", {"text": ("The tide, the Harbour!", "tide"), "note": ("...",)})
    bag = Fragment("b", {"text": ("the", "tide", "the", "harbour", "tide")})
    by_words, by_values = DirichletMultinomial(reads="words"), DirichletMultinomial()
    by_words.fit([text])
    by_values.fit([bag])
    assert by_words.log_marginal([[text]]) == pytest.approx(by_values.log_marginal([[bag]]))
    assert by_words.log_marginal([[text]]) == by_words.log_marginal([[bag]])


def test_a_family_scores_as_the_likelihood_does() -> None:
    """Up to a constant for every fragment, which is 0 here."""
    fragments = [coloured("red", "red"), coloured("green"), Fragment("n", {"size": ("1",)})]
    model = DirichletMultinomial(2.0)
    model.fit(fragments)
    told = model.exponential_family(fragments)
    counts = np.zeros(len(told.signs))
    np.add.at(counts, told.rows, told.counts)
    terms = gammaln(counts + told.pseudo_counts) - gammaln(told.pseudo_counts)
    assert (told.signs * terms).sum() == pytest.approx(model.log_marginal([fragments])[0])
