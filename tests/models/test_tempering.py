"""A tempered likelihood is a likelihood, and its posterior is that of the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kbforge import registry, testing
from kbforge.contracts import (
    CompiledClusters,
    ConjugateLikelihood,
    Fragment,
    Likelihood,
    LiveClusters,
    Problem,
    SetMarginals,
)
from kbforge.errors import UsageError
from kbforge.models import tempering
from kbforge.models.tempering import temper, tempered
from kbforge.testing import examples
from kbforge.testing.examples import BlackBox, Categorical
from kbforge.testing.likelihood import stored


def made(name, fragments=()):
    likelihood = registry.create("likelihoods", name, {})
    if fragments:
        likelihood.fit(fragments)
    return likelihood


class TestGaussian(testing.LikelihoodContract):
    def make(self):
        return temper(made("gaussian"), 3.0)

    def fragments(self):
        rng = np.random.default_rng(0)
        return [Fragment(f"p{i}", {}, tuple(rng.normal(size=2).tolist())) for i in range(12)]


class TestBigram(testing.LikelihoodContract):
    def make(self):
        return temper(made("bigram", self.fragments()), 0.5)


class TestAttributes(testing.LikelihoodContract):
    def make(self):
        return temper(made("attributes"), 2.0)


class TestBlackBox(testing.LikelihoodContract):
    def make(self):
        return temper(BlackBox(made("bigram", self.fragments())), 2.0)


def test_scores_are_divided():
    likelihood, points = made("gaussian"), TestGaussian().fragments()
    clusters = [points[:3], points[2:7], []]
    expected = likelihood.log_marginal(clusters) / 3
    assert temper(likelihood, 3.0).log_marginal(clusters) == pytest.approx(expected)
    likelihood, items = made("bigram", examples.fragments()), examples.fragments()
    sets = [np.array([0, 2, 3]), np.array([1])]
    found = temper(likelihood, 2.0).set_marginals(items).log_marginal(sets)
    assert found.tolist() == (likelihood.set_marginals(items).log_marginal(sets) / 2.0).tolist()


@pytest.mark.parametrize("name", ["attributes", "bigram", "gaussian"])
def test_tables_are_as_able_as_they_were(name):
    plain = made(name, examples.fragments())
    warm = temper(plain, 2.0)
    assert isinstance(warm, ConjugateLikelihood)
    assert warm.explains == plain.explains
    before, after = plain.live_clusters(), warm.live_clusters()
    assert (after.editable, after.mergeable) == (before.editable, before.mergeable)


_OF_CLASSES = {"from_bundle", "loads_bundles", "takes_device", "takes_link"}
"""What is asked of a class before a likelihood is made of it, and only that is tempered."""


@pytest.mark.parametrize(
    ("contract", "tempered_one"),
    [
        (Likelihood, temper(BlackBox(Categorical()), 2.0)),
        (ConjugateLikelihood, temper(Categorical(), 2.0)),
        (LiveClusters, temper(Categorical(), 2.0).live_clusters()),
        (CompiledClusters, tempering._TemperedCompiled),
        (SetMarginals, tempering._TemperedSets),
    ],
)
def test_every_ability_of_the_contract_is_treated(contract, tempered_one):
    """A new one is either forwarded, divided or refused with a sentence, in tempering.py."""
    abilities = {name for name in dir(contract) if not name.startswith("_")} - _OF_CLASSES
    classes = [each for each in type(tempered_one).__mro__ if each.__module__ == temper.__module__]
    treated = set(vars(tempered_one)).union(*(vars(each) for each in classes))
    assert sorted(abilities - treated) == []


@pytest.mark.parametrize("name", ["attributes", "bigram", "gaussian", "pairs"])
def test_what_is_not_a_probability_is_the_same(name):
    plain, items = made(name), examples.fragments()
    warm = temper(plain, 2.0)
    assert warm.fit(items) == made(name).fit(items)
    assert warm.index is plain.index
    assert warm.keeps == plain.keeps
    assert warm.alpha_from_file == plain.alpha_from_file
    assert warm.default_alpha == pytest.approx(math.sqrt(plain.default_alpha))
    assert repr(warm.features(items)) == repr(plain.features(items))


def test_what_was_kept_is_taken_up():
    items = examples.fragments()
    one, other = temper(made("pairs", items), 2.0), temper(made("pairs"), 2.0)
    other.take_up(stored(one.kept()))
    assert other.log_marginal([items]).tolist() == one.log_marginal([items]).tolist()
    assert [*other.index.keys(items[0])] == [*one.index.keys(items[0])]


def test_a_tempered_likelihood_without_an_exponential_family_has_none():
    assert temper(Categorical(), 2.0).exponential_family([]) is None


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["attributes", "bigram", "gaussian"])
@pytest.mark.parametrize("clusterer", ["split-smc", "smc"])
def test_at_temperature_one_a_run_is_the_run_without(likelihood, clusterer):
    items = examples.fragments(40)

    def found(wrap):
        fitted = made(likelihood, items)
        problem = Problem(wrap(fitted), 2.0, index=fitted.index)
        run = registry.create("clusterers", clusterer, {})
        return run.cluster(items, problem, np.random.default_rng(5))

    assert found(lambda plain: plain) == found(lambda plain: temper(plain, 1.0))


def test_a_table_that_scores_a_few_slots_still_does():
    class Selective(type(Categorical().live_clusters())):
        def log_predictive_of(self, x, slots):
            return self.log_predictive(x, int(slots.max()) + 1)[slots]

    class Model(Categorical):
        def live_clusters(self):
            return Selective(self)

    table = temper(Model(), 2.0).live_clusters()
    x = table.encode(Fragment("a", {"colour": ("red",)}))
    table.extend(x, np.array([-1, -1]), np.array([0, 1]))
    few = table.log_predictive_of(x, np.array([1]))
    assert few.tolist() == table.log_predictive(x, 2)[1:].tolist()


@pytest.mark.parametrize("clusterer", ["split-smc", "smc"])
@pytest.mark.parametrize("black_box", [False, True])
def test_the_posterior_is_tempered(clusterer, black_box):
    """Two fragments: together at odds exp(L(ab) / T - L(a) / T - L(b) / T) / alpha^(1 / T)."""
    plain = Categorical(values=4, beta=0.2)
    pair = [Fragment("a", {"colour": ("red",)}), Fragment("b", {"colour": ("blue",)})]
    together, one, other = plain.log_marginal([pair, pair[:1], pair[1:]])
    temperature, alpha = 2.5, 0.3
    model = BlackBox(plain) if black_box else plain
    problem = tempered(Problem(model, alpha), temperature)
    run = registry.create("clusterers", clusterer)
    posterior = run.cluster(pair, problem, np.random.default_rng(0))
    found = sum(
        math.exp(p.log_weight)
        for s in posterior.subproblems
        for p in s.particles
        if (0, 1) in p.clusters
    )
    odds = math.exp((together - one - other - math.log(alpha)) / temperature)
    assert found == pytest.approx(odds / (1 + odds), abs=1e-9)


def test_temperature_one_changes_nothing_and_bad_ones_are_refused():
    problem = Problem(Categorical(), 2.0, Categorical(), 7)
    assert tempered(problem, 1.0) is problem
    warm = tempered(problem, 4.0)
    assert warm.alpha == pytest.approx(2.0**0.25)
    assert warm.max_evals == 7
    assert warm.surrogate is not None
    fragments = [Fragment("a", {"colour": ("red",)})]
    assert warm.surrogate.log_marginal([fragments]) == pytest.approx(math.log(1 / 4) / 4)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(UsageError, match="--temperature: expected a number above 0"):
            tempered(problem, bad)


@pytest.mark.parametrize(
    ("alpha", "temperature"), [(2.0, 1e-4), (2.0, 1e-320), (0.5, 1e-4), (1.0, 1e-320)]
)
def test_an_alpha_out_of_the_range_of_numbers_is_refused(alpha, temperature):
    problem = Problem(Categorical(), alpha)
    with pytest.raises(UsageError, match=f"--temperature: alpha {alpha:g} at temperature "):
        tempered(problem, temperature)
