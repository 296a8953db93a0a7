"""Geweke's joint test: a sampler of groupings given data, and a simulator of data given groupings.

Taken in turns they are a Markov chain over both, whose stationary distribution is the joint one if
both are right; drawing a grouping from the prior and then its data is a sample of the same. So the
means of any function must agree (Geweke, "Getting it right", 2004). It would notice a likelihood
that is not the density of the data that its model generates, which enumeration cannot.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from kbforge.contracts import ConjugateLikelihood, Fragment, ModelSpec
from kbforge_lab.batch.chain import MakeKernel
from kbforge_lab.clusterers.offline import Gibbs, Metropolis
from kbforge_lab.likelihoods.discrete import BetaBernoulli, DirichletMultinomial
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.lab.clustering.chains import chain_of

N, ALPHA, DRAWS, BATCHES = 4, 1.3, 800, 40
Simulator = Callable[[np.random.Generator, int], np.ndarray]
"""The data of one cluster of so many fragments, shape [n, dimensions]."""


def gaussian(rng: np.random.Generator, n: int) -> np.ndarray:
    variance = 1 / rng.gamma(3.0, 1 / 2.0, size=2)
    mean = rng.normal(0.5, np.sqrt(variance / 0.3))
    return rng.normal(mean, np.sqrt(variance), size=(n, 2))


def multinomial(rng: np.random.Generator, n: int) -> np.ndarray:
    # without a coefficient in L the draws are ordered, which their counts need not say: given how
    # many there are of each fragment, the order is independent of everything else
    return rng.multinomial(4, rng.dirichlet([2.0 / 3] * 3), size=n)


def bernoulli(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.random((n, 4)) < rng.beta(0.4, 0.9, size=4)


MODELS: dict[str, tuple[ConjugateLikelihood, Simulator]] = {
    "gaussian": (Gaussian(a=3.0, b=2.0, mu=0.5, lam=0.3), gaussian),
    "dirichlet-multinomial": (DirichletMultinomial(2.0, reads="vector"), multinomial),
    "beta-bernoulli": (BetaBernoulli(a=0.4, b=0.9, reads="vector"), bernoulli),
}


def simulate(
    rng: np.random.Generator, clusters: Sequence[Sequence[int]], simulator: Simulator
) -> np.ndarray:
    drawn = {tuple(c): simulator(rng, len(c)) for c in clusters}
    out = np.empty((N, next(iter(drawn.values())).shape[1]))
    for cluster, rows in drawn.items():
        out[list(cluster)] = rows
    return out


def from_prior(rng: np.random.Generator) -> list[list[int]]:
    clusters: list[list[int]] = []
    for i in range(N):
        weights = np.array([*map(len, clusters), ALPHA])
        chosen = rng.choice(len(weights), p=weights / weights.sum())
        if chosen == len(clusters):
            clusters.append([])
        clusters[chosen].append(i)
    return clusters


def functions(clusters: Sequence[Sequence[int]], data: np.ndarray) -> list[float]:
    bounded = np.tanh(data / 2)
    together = any(0 in c and 1 in c for c in clusters)
    return [
        len(clusters),
        len(clusters) ** 2,
        max(map(len, clusters)),
        together,
        bounded.mean(),
        (bounded**2).mean(),
        (bounded[0] * bounded[1]).mean(),
        together * abs(bounded[0] - bounded[1]).mean(),
    ]


def resampled(
    rng: np.random.Generator,
    clusters: Sequence[Sequence[int]],
    data: np.ndarray,
    make_kernel: MakeKernel,
    spec: ModelSpec,
) -> list[list[int]]:
    """One sweep from these clusters."""
    fragments = [Fragment(f"f{i}", {}, tuple(map(float, row))) for i, row in enumerate(data)]
    chain, _ = chain_of(make_kernel, fragments, spec, rng, [tuple(c) for c in clusters])
    for _ in chain.sweep():
        pass
    return [list(chain.grouping.cluster(slot)) for slot in chain.grouping.slots()]


def largest_z(make_kernel: MakeKernel, spec: ModelSpec, simulator: Simulator) -> float:
    """The most significant difference of means; batch means for the chain, which is correlated."""
    rng = np.random.default_rng(8)
    independent = []
    for _ in range(DRAWS):
        clusters = from_prior(rng)
        independent.append(functions(clusters, simulate(rng, clusters, simulator)))
    successive, clusters = [], from_prior(rng)
    for _ in range(DRAWS):
        data = simulate(rng, clusters, simulator)
        successive.append(functions(clusters, data))
        clusters = resampled(rng, clusters, data, make_kernel, spec)
    first, second = np.array(independent), np.array(successive)
    batches = second.reshape(BATCHES, -1, second.shape[1]).mean(axis=1)
    variance = first.var(axis=0) / DRAWS + batches.var(axis=0, ddof=1) / BATCHES
    z = (first.mean(axis=0) - second.mean(axis=0)) / np.sqrt(variance)
    return float(np.abs(z).max())


SURROGATES: dict[str, ConjugateLikelihood] = {
    "gaussian": Gaussian(a=2.0, b=3.0, mu=0.0, lam=0.5),
    "dirichlet-multinomial": DirichletMultinomial(4.0, reads="vector"),
    "beta-bernoulli": BetaBernoulli(a=1.0, b=1.0, reads="vector"),
}
SAMPLERS: dict[str, MakeKernel] = {
    "gibbs": Gibbs.make_kernel,
    "metropolis": Metropolis.make_kernel,
}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", MODELS)
def test_the_joint_distribution_is_the_same_both_ways(name, sampler):
    likelihood, simulator = MODELS[name]
    spec = ModelSpec(likelihood, ALPHA, SURROGATES[name])
    assert largest_z(SAMPLERS[sampler], spec, simulator) < 4


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_wrong_concentration_is_noticed(sampler):
    likelihood, simulator = MODELS["beta-bernoulli"]
    spec = ModelSpec(likelihood, 3 * ALPHA, SURROGATES["beta-bernoulli"])
    assert largest_z(SAMPLERS[sampler], spec, simulator) > 5


def test_a_likelihood_of_other_data_is_noticed():
    _, simulator = MODELS["gaussian"]
    other = Gaussian(a=3.0, b=5.0, mu=0.5, lam=0.3)
    assert largest_z(Gibbs.make_kernel, ModelSpec(other, ALPHA), simulator) > 5
