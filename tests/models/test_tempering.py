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


class TestGaussian(testing.LikelihoodContract):
    def make(self):
        return temper(registry.create("likelihoods", "gaussian", {}), 3.0)

    def fragments(self):
        rng = np.random.default_rng(0)
        return [Fragment(f"p{i}", {}, tuple(rng.normal(size=2).tolist())) for i in range(12)]


class TestBigram(testing.LikelihoodContract):
    def make(self):
        made = registry.create("likelihoods", "bigram", {})
        made.fit(self.fragments())
        return temper(made, 0.5)


class TestAttributes(testing.LikelihoodContract):
    def make(self):
        return temper(registry.create("likelihoods", "attributes", {}), 2.0)


class TestBlackBox(testing.LikelihoodContract):
    def make(self):
        made = registry.create("likelihoods", "bigram", {})
        made.fit(self.fragments())
        return temper(BlackBox(made), 2.0)


def test_scores_are_divided():
    likelihood = registry.create("likelihoods", "gaussian", {})
    points = TestGaussian().fragments()
    clusters = [points[:3], points[2:7], []]
    assert temper(likelihood, 3.0).log_marginal(clusters) == pytest.approx(
        likelihood.log_marginal(clusters) / 3
    )


@pytest.mark.parametrize(
    "name", ["attributes", "beta-bernoulli", "bigram", "dirichlet-multinomial", "gaussian"]
)
def test_tables_are_as_able_as_they_were(name):
    made = registry.create("likelihoods", name, {})
    made.fit(examples.fragments())
    assert isinstance(temper(made, 2.0), ConjugateLikelihood)
    assert temper(made, 2.0).explains == made.explains
    before, after = made.live_clusters(), temper(made, 2.0).live_clusters()
    assert (after.editable, after.mergeable) == (before.editable, before.mergeable)


_OF_CLASSES = {"from_bundle", "loads_bundles", "takes_device"}
"""What is asked of a class before a likelihood is made of it, and only that is tempered."""


@pytest.mark.parametrize(
    ("contract", "made"),
    [
        (Likelihood, temper(BlackBox(Categorical()), 2.0)),
        (ConjugateLikelihood, temper(Categorical(), 2.0)),
        (LiveClusters, temper(Categorical(), 2.0).live_clusters()),
    ],
)
def test_every_ability_of_the_contract_is_treated(contract, made):
    """A new one is either forwarded, divided or refused with a sentence, in tempering.py."""
    abilities = {name for name in dir(contract) if not name.startswith("_")} - _OF_CLASSES
    classes = [each for each in type(made).__mro__ if each.__module__ == temper.__module__]
    treated = set(vars(made)).union(*(vars(each) for each in classes))
    assert sorted(abilities - treated) == []


@pytest.mark.parametrize(
    ("contract", "made"),
    [(CompiledClusters, tempering._TemperedCompiled), (SetMarginals, tempering._TemperedSets)],
)
def test_every_ability_of_a_protocol_is_treated(contract, made):
    abilities = {name for name in dir(contract) if not name.startswith("_")}
    assert sorted(abilities - set(vars(made))) == []


@pytest.mark.parametrize("name", ["attributes", "bigram", "gaussian", "pairs"])
def test_what_is_not_a_probability_is_the_same(name):
    made = registry.create("likelihoods", name, {})
    items = examples.fragments()
    warm = temper(made, 2.0)
    assert warm.fit(items) == registry.create("likelihoods", name, {}).fit(items)
    assert warm.index is made.index
    assert warm.keeps == made.keeps
    assert warm.alpha_from_file == made.alpha_from_file
    assert warm.default_alpha == pytest.approx(math.sqrt(made.default_alpha))
    assert repr(warm.features(items)) == repr(made.features(items))


def test_what_was_kept_is_taken_up():
    items = examples.fragments()
    one, other = (temper(registry.create("likelihoods", "pairs", {}), 2.0) for _ in range(2))
    one.fit(items)
    other.take_up(stored(one.kept()))
    assert other.log_marginal([items]).tolist() == one.log_marginal([items]).tolist()
    assert [*other.index.keys(items[0])] == [*one.index.keys(items[0])]


def test_sets_are_divided():
    made, items = registry.create("likelihoods", "bigram", {}), examples.fragments()
    made.fit(items)
    sets = [np.array([0, 2, 3]), np.array([1])]
    found = temper(made, 2.0).set_marginals(items).log_marginal(sets)
    assert found.tolist() == (made.set_marginals(items).log_marginal(sets) / 2.0).tolist()


def test_a_tempered_likelihood_without_an_exponential_family_has_none():
    assert temper(Categorical(), 2.0).exponential_family([]) is None


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["attributes", "bigram", "gaussian"])
@pytest.mark.parametrize("clusterer", ["split-smc", "minsm", "metropolis", "agglomerative"])
def test_at_temperature_one_a_run_is_the_run_without(likelihood, clusterer):
    items = examples.fragments(40)
    found = []
    for wrap in (lambda made: made, lambda made: temper(made, 1.0)):
        made = registry.create("likelihoods", likelihood, {})
        made.fit(items)
        problem = Problem(wrap(made), 2.0, index=made.index)
        run = registry.create("clusterers", clusterer, {})
        found.append(run.cluster(items, problem, np.random.default_rng(5)))
    assert found[0] == found[1]


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


@pytest.mark.parametrize("clusterer", ["split-smc", "smc", "gibbs"])
@pytest.mark.parametrize("black_box", [False, True])
def test_the_posterior_is_tempered(clusterer, black_box):
    """Two fragments: together at odds exp(L(ab) / T - L(a) / T - L(b) / T) / alpha^(1 / T)."""
    plain = Categorical(values=4, beta=0.2)
    pair = [Fragment("a", {"colour": ("red",)}), Fragment("b", {"colour": ("blue",)})]
    together, one, other = plain.log_marginal([pair, pair[:1], pair[1:]])
    temperature, alpha = 2.5, 0.3
    model = BlackBox(plain) if black_box else plain
    problem = tempered(Problem(model, alpha), temperature)
    options = {"sweeps": 20_000} if clusterer == "gibbs" else {}
    made = registry.create("clusterers", clusterer, options)
    posterior = made.cluster(pair, problem, np.random.default_rng(0))
    found = sum(
        math.exp(p.log_weight)
        for s in posterior.subproblems
        for p in s.particles
        if (0, 1) in p.clusters
    )
    odds = math.exp((together - one - other - math.log(alpha)) / temperature)
    assert found == pytest.approx(odds / (1 + odds), abs=0.02 if clusterer == "gibbs" else 1e-9)


def test_temperature_one_changes_nothing_and_bad_ones_are_refused():
    problem = Problem(Categorical(), 2.0, Categorical(), 7)
    assert tempered(problem, 1.0) is problem
    made = tempered(problem, 4.0)
    assert made.alpha == pytest.approx(2.0**0.25)
    assert made.max_evals == 7
    assert made.surrogate is not None
    fragments = [Fragment("a", {"colour": ("red",)})]
    assert made.surrogate.log_marginal([fragments]) == pytest.approx(math.log(1 / 4) / 4)
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
