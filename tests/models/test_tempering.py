"""A tempered likelihood is a likelihood, and its posterior is that of the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kbforge import registry, testing
from kbforge.contracts import ConjugateLikelihood, Fragment, Problem
from kbforge.errors import UsageError
from kbforge.models.tempering import temper, tempered
from kbforge.testing import examples
from kbforge.testing.fakes import BlackBox, Categorical


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
