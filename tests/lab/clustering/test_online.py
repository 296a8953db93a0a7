"""The laboratory's likelihoods in the online methods: as the product's are tested."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kbforge_lab.likelihoods.discrete import DirichletMultinomial
from kbforge_lab.likelihoods.trigram import Trigram
from kbforge_plugins.clusterers.sequential import SplitSmc
from tests.clustering.test_exactness import check_exact_posterior
from tests.clustering.test_failures import RULES, STAGES, check_no_trace
from tests.clustering.test_remove import check_random_life
from tests.kernel.test_oracle import fitted, run
from tests.lab.families import OF_RECORDS, OF_VECTORS
from tests.people import people
from tests.profile import examples

ALL = {**OF_VECTORS, **OF_RECORDS}


@pytest.mark.parametrize("family", OF_VECTORS)
@examples(12)
@given(
    n=st.integers(1, 7),
    seed=st.integers(0, 10_000),
    alpha=st.sampled_from([0.05, 1.0, 20.0]),
    split=st.booleans(),
)
def test_enough_particles_give_the_exact_posterior(family, n, seed, alpha, split):
    check_exact_posterior(OF_VECTORS[family], n, seed, alpha, split)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ALL)
@examples(10, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    data=st.data(),
    rules=st.sampled_from(sorted(RULES)),
    seed=st.integers(0, 1000),
    nan=st.booleans(),
)
def test_a_failure_leaves_no_trace(name, stage, data, rules, seed, nan):
    check_no_trace(ALL[name], stage, data, rules, seed, nan)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ALL)
@examples(8)
@given(rules=st.sampled_from(sorted(RULES)), seed=st.integers(0, 1000), data=st.data())
def test_random_lives(name, stage, rules, seed, data):
    check_random_life(ALL[name], stage, rules, seed, data)


@pytest.mark.parametrize("model", [Trigram, DirichletMultinomial], ids=lambda m: str(m.__name__))
def test_the_steps_of_the_oracle(model):
    fragments = people(40, 5, error=0.3)
    run(fitted(model(), fragments, 20.0), fragments, SplitSmc(particles=20).rules)
